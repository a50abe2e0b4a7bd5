"""The sink: the rows of a task as messages, each settled by the receiver before the task says that it is done.

At least once: Spark runs a failed task again, which then sends all its rows again. Rows without a message id of their
own get `queryId-batchId-partition-row`. The id is the same when the batch is run again, as long as the rows come in the
same order. Therefore a receiver may recognize the messages that it has.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from rstreams.errors import ConfigError, DeliveryFailed, RStreamsError
from rstreams_spark._options import SinkOptions, hide_credentials
from rstreams_spark._schema import check_sink_schema, message_of
from rstreams_spark.errors import SinkFailed

if TYPE_CHECKING:
    import pyarrow as pa

    from rstreams.message import Message

_BATCH_ID: Final = "streaming.sql.batchId"
_QUERY_ID: Final = "sql.streaming.queryId"


@dataclass(frozen=True)
class RowsAccepted(WriterCommitMessage):
    """The message of a task to the driver: all its rows were accepted."""

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

        Errors: `SinkFailed` naming the row that was not accepted, or the rows whose outcome is unknown.
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


@dataclass
class _Addressed:
    """The rows of a record batch for one address, and the number of each in its task."""

    messages: list[Message] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)


def _send_all(
    options: SinkOptions, record_batches: Iterator[pa.RecordBatch], task: str, id_prefix: str | None
) -> RowsAccepted:
    from rstreams_spark._connections import publish
    from rstreams_spark._rows import RowPublisher

    sent = 0
    for record_batch in record_batches:
        for address, rows in _by_address(options, record_batch.to_pylist(), sent, task, id_prefix).items():
            publisher = RowPublisher(rows.messages)
            try:
                publish(options.peer, address, publisher)
            except RStreamsError as error:
                where = f"rstreams sink, address {address!r} at {options.peer}, {task}"
                raise SinkFailed(hide_credentials(f"{where}: {_what_failed(error, rows, publisher.refused)}")) from None
        sent += record_batch.num_rows
    return RowsAccepted(sent)


def _by_address(
    options: SinkOptions, rows: list[dict[str, Any]], first: int, task: str, id_prefix: str | None
) -> dict[str, _Addressed]:
    """Make messages of rows, in their order, with one list for each address."""
    lists: dict[str, _Addressed] = {}
    for number, row in enumerate(rows, first):
        address = options.address or row.get("address")
        if not address:
            msg = f"rstreams sink at {options.peer}, {task}: row {number} has no address: column address is {address!r}"
            raise SinkFailed(msg)
        to = lists.setdefault(address, _Addressed())
        to.messages.append(message_of(row, None if id_prefix is None else f"{id_prefix}-{number}"))
        to.numbers.append(number)
    return lists


def _what_failed(error: RStreamsError, rows: _Addressed, refused: int | None) -> str:
    told = f"{type(error).__name__}: {error}"
    if refused is not None and isinstance(error, DeliveryFailed | ConfigError):
        return f"row {rows.numbers[refused]} (message_id {rows.messages[refused].id!r}) was not accepted: {told}"
    return (
        f"{told}; of the {len(rows.messages)} rows from row {rows.numbers[0]} on {error.outcome_unknown} may or may "
        "not have arrived; all are sent again when the batch is run again"
    )


def _task() -> TaskContext:
    task = TaskContext.get()
    assert task is not None, "Spark writes in tasks"
    return task
