"""The ways in which Spark hands in options: what works, and what the error says of what cannot."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pytest

from adapters.spark.tests.conftest import NodeProcess, running_node

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import DataStreamWriter

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore"),  # Spark's own, about the versions of others
]


class Ways:
    """A Spark with tables and a view of format rstreams, and what a test sends and reads over them."""

    def __init__(self, spark: SparkSession, url: str, checkpoint: Path) -> None:
        self.spark = spark
        self.given = {"url": url, "address": "out"}
        self.checkpoint = checkpoint
        self.rows = spark.createDataFrame([("x",)], "body string")
        (checkpoint / "rows").mkdir()
        (checkpoint / "rows" / "1.json").write_text('{"body": "x"}')

    def __enter__(self) -> Self:
        options = ", ".join(f"{name} '{value}'" for name, value in self.given.items())
        self.spark.sql(f"CREATE TEMPORARY VIEW the_view USING rstreams OPTIONS ({options})")
        self.spark.sql(
            f"CREATE TABLE the_table USING rstreams OPTIONS ({options}, columns 'body') COMMENT 'with options'"
        )
        self.spark.sql("CREATE TABLE bare_table (body string) USING rstreams")
        return self

    def __exit__(self, *_: object) -> None:
        self.spark.sql("DROP VIEW the_view")
        for name in ("the_table", "bare_table", "new_table", "saved_table"):
            self.spark.sql(f"DROP TABLE IF EXISTS {name}")

    def streaming(self, name: str) -> DataStreamWriter:
        """Return the writer of a query that has a name."""
        stream = self.spark.readStream.schema("body string").json(str(self.checkpoint / "rows"))
        writer = stream.writeStream.queryName(name).options(**self.given)
        return writer.option("checkpointLocation", str(self.checkpoint / name)).trigger(availableNow=True)

    @property
    def in_sql(self) -> str:
        return "WITH (" + ", ".join(f"`{name}` = '{value}'" for name, value in self.given.items()) + ")"


@pytest.fixture(scope="module")
def of_out() -> Iterator[NodeProcess]:
    with running_node("in", "out") as node:
        yield node


@pytest.fixture(scope="module")
def ways(spark: SparkSession, of_out: NodeProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ways]:
    with Ways(spark, of_out.url, tmp_path_factory.mktemp("ways")) as made:
        yield made


SENDS: dict[str, Callable[[Ways], Any]] = {
    "start() of a named query": lambda ways: ways.streaming("a").format("rstreams").start().awaitTermination(180),
    "start(queryName=...)": lambda ways: (
        ways.streaming("b").start(format="rstreams", queryName="c").awaitTermination(180)
    ),
    "toTable": lambda ways: ways.streaming("d").toTable("the_table").awaitTermination(180),
    "toTable of a new table": lambda ways: (
        ways.streaming("e").format("rstreams").toTable("new_table").awaitTermination(180)
    ),
    "INSERT INTO a view": lambda ways: ways.spark.sql("INSERT INTO the_view (body) VALUES (CAST('x' AS BINARY))"),
    "INSERT INTO a table WITH": lambda ways: ways.spark.sql(f"INSERT INTO bare_table {ways.in_sql} VALUES ('x')"),  # noqa: S608 - of the test's own
    "writeTo": lambda ways: ways.rows.writeTo("bare_table").options(**ways.given).append(),
    "save": lambda ways: ways.rows.write.format("rstreams").options(**ways.given).mode("append").save(),
    "saveAsTable": lambda ways: (
        ways.rows.write.format("rstreams").options(**ways.given).mode("append").saveAsTable("saved_table")
    ),
}


@pytest.mark.parametrize("way", SENDS)
def test_the_sink_takes_the_options(ways: Ways, of_out: NodeProcess, way: str) -> None:
    SENDS[way](ways)
    (message,) = of_out.take("out", 1)
    assert message.body in ("x", b"x")


def run_into_memory(frame: DataFrame, checkpoint: Path) -> list[Any]:
    query = (
        frame.writeStream.format("memory")
        .queryName("taken")
        .option("checkpointLocation", str(checkpoint / "taken"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(180)
    assert query.exception() is None
    return frame.sparkSession.table("taken").collect()


def test_the_source_takes_the_options_beside_a_table(ways: Ways, of_out: NodeProcess) -> None:
    of_out.publish("out", [b"x"])
    frame = ways.spark.readStream.options(**ways.given, columns="body").table("the_table")
    assert [bytes(row.body) for row in run_into_memory(frame, ways.checkpoint)] == [b"x"]


@pytest.mark.parametrize(
    "statement", ["SELECT * FROM the_table", "INSERT INTO bare_table VALUES ('x')", "SELECT * FROM the_view"]
)
def test_a_table_has_no_options_and_a_view_has(ways: Ways, statement: str) -> None:
    from pyspark.errors import AnalysisException

    with pytest.raises(AnalysisException) as caught:
        ways.spark.sql(statement).collect()
    text = str(caught.value)
    assert "Traceback" not in text
    if "the_view" in statement:
        assert "a queue has no spark.read, and 'out' is a queue" in text
    else:
        assert "option url is missing" in text
        assert "Spark hands the OPTIONS of a table to no source that is written in Python" in text
