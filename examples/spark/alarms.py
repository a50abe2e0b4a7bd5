"""State for each sensor, by `transformWithState`: an alarm after three hot readings one after the other.

    python -m examples.spark.alarms

It needs the package protobuf besides PySpark. The state is in RocksDB, and in the checkpoint of the query.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from examples.spark.running import main, publish, read_json
from examples.spark.sensors import READING, readings

HOT: Final = 25.0
IN_A_ROW: Final = 3
ROCKSDB: Final = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


class Alarms(StatefulProcessor):
    """Counts the hot readings of a sensor in a row."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Name the state, which Spark keeps for each key."""
        self._hot = handle.getValueState("hot", "count int")

    def handleInputRows(  # noqa: N802 - Spark's name
        self,
        key: Any,  # noqa: ANN401 - the columns of groupBy
        rows: Iterator[Any],
        timerValues: Any,  # noqa: ANN401, ARG002, N803 - Spark's name; not used here
    ) -> Iterator[Row]:
        """Yield an alarm for each reading that is the third hot one in a row."""
        state = self._hot.get()
        count: int = 0 if state is None else state[0]
        for row in sorted(rows, key=lambda row: row.at):
            count = count + 1 if row.celsius is not None and row.celsius > HOT else 0
            if count == IN_A_ROW:
                yield Row(sensor=key[0], at=row.at, celsius=row.celsius)
        self._hot.update((count,))

    def close(self) -> None:
        """Have nothing to close."""


def alarms(spark: SparkSession, url: str) -> DataFrame:
    """Return the alarms."""
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", ROCKSDB)
    values = read_json(spark, url, "readings", READING, maxMessagesPerTrigger="50")
    return values.groupBy("sensor").transformWithState(Alarms(), READING, "append", "none")


def run(spark: SparkSession, url: str, folder: str) -> None:
    """Publish readings, and show the alarms."""
    publish(url, "readings", readings())
    query = alarms(spark, url).writeStream.format("parquet").option("path", f"{folder}/alarms")
    query.option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True).start().awaitTermination()
    spark.read.parquet(f"{folder}/alarms").show()


if __name__ == "__main__":
    main(run)
