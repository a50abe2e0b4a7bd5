"""The sink: the rows of a task as messages, each settled by the receiver before the task says that it is done.

At least once: a task that fails is run again by Spark, and then sends all its rows again. Rows without a message id of
their own get `queryId-batchId-partition-row`, which is the same when the batch is run again as long as the rows come in
the same order; a receiver may then recognise what it has.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from rstreams.errors import ConfigError
from rstreams_spark._options import SinkOptions
from rstreams_spark._schema import check_sink_schema, message_of
from rstreams_spark.errors import SinkFailed

if TYPE_CHECKING:
    import pyarrow as pa

    from rstreams_spark._rows import SentRow

_BATCH_ID: Final = "streaming.sql.batchId"
_QUERY_ID: Final = "sql.streaming.queryId"


@dataclass(frozen=True)
class RowsAccepted(WriterCommitMessage):
    """What a task tells the driver: all its rows were accepted."""

    rows: int


class StreamWriter(DataSourceStreamArrowWriter):
    """Sends the rows of a micro-batch."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        """Keep the options.

        Errors: `ConfigError` for a column that cannot be sent.
        """
        check_sink_schema(schema, address_given=options.address is not None)
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> RowsAccepted:
        """Send the rows of one task.

        Errors: `SinkFailed` naming the row that was not accepted, or what is unknown.
        """
        task = _task()
        query, batch = task.getLocalProperty(_QUERY_ID), task.getLocalProperty(_BATCH_ID)
        partition = task.partitionId()
        return _send_all(
            self._options, iterator, f"batch {batch}, partition {partition}", f"{query}-{batch}-{partition}"
        )


class BatchWriter(DataSourceArrowWriter):
    """Sends the rows of a batch DataFrame; rows without a message id are sent without one."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        """Keep the options.

        Errors: `ConfigError` for a column that cannot be sent.
        """
        check_sink_schema(schema, address_given=options.address is not None)
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> RowsAccepted:
        """Send the rows of one task; see `StreamWriter.write`."""
        return _send_all(self._options, iterator, f"partition {_task().partitionId()}", None)


def _send_all(
    options: SinkOptions, record_batches: Iterator[pa.RecordBatch], task: str, id_prefix: str | None
) -> RowsAccepted:
    from rstreams_spark._outbox import Outbox

    sent = 0
    with Outbox(options, task) as outbox:
        for record_batch in record_batches:
            if record_batch.num_rows:
                outbox.put(_by_address(options, record_batch.to_pylist(), sent, task, id_prefix))
            sent += record_batch.num_rows
        outbox.finish()
    return RowsAccepted(sent)


def _by_address(
    options: SinkOptions, rows: list[dict[str, Any]], first: int, task: str, id_prefix: str | None
) -> dict[str, Sequence[SentRow]]:
    """Make messages of rows, in their order, one list an address."""
    from rstreams_spark._rows import SentRow

    lists: dict[str, list[SentRow]] = {}
    for number, row in enumerate(rows, first):
        address = options.address or row.get("address")
        if not address:
            msg = f"rstreams sink at {options.peer}, {task}: row {number} has no address: column address is {address!r}"
            raise SinkFailed(msg)
        message_id = None if id_prefix is None else f"{id_prefix}-{number}"
        try:
            message = message_of(row, message_id, durable=options.durable)
        except ConfigError as error:
            msg = f"rstreams sink at {options.peer}, {task}: row {number}: {error}"
            raise SinkFailed(msg) from None
        lists.setdefault(address, []).append(SentRow(number, message))
    return dict(lists)


def _task() -> TaskContext:
    task = TaskContext.get()
    assert task is not None, "Spark writes in tasks"
    return task
