"""The sink: the rows of a task as messages, each settled by the receiver before the task says that it is done.

At least once: Spark runs a failed task again, which then sends all its rows again. Rows without a message id of their
own get `queryId-batchId-partition-row`. The id is the same when the batch is run again, as long as the rows come in the
same order. Therefore a receiver may recognize the messages that it has.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from rstreams.errors import ConfigError
from rstreams_spark._options import SinkOptions
from rstreams_spark._schema import check_sink_schema
from rstreams_spark._send import QUERY_ID
from rstreams_spark.errors import SinkFailed

if TYPE_CHECKING:
    import pyarrow as pa

    from rstreams_spark._outbox import RowNumbering
    from rstreams_spark._rows import SentRows

_BATCH_ID: Final = "streaming.sql.batchId"
_ROWS_BITS: Final = 32
"""A batch has fewer rows than 2 to this power."""


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
        query, batch = task.getLocalProperty(QUERY_ID), task.getLocalProperty(_BATCH_ID)
        partition = task.partitionId()
        producer = _numbering(task) if self._options.effectively_once else None
        name = f"batch {batch}, partition {partition}"
        prefix = self._options.message_id_prefix or query
        return _send_all(self._options, iterator, name, f"{prefix}-{batch}-{partition}", producer)


class BatchWriter(DataSourceArrowWriter):
    """Sends the rows of a batch DataFrame; rows without a message id are sent without one."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        """Keep the options.

        Errors: `ConfigError` for a column that cannot be sent.
        """
        check_sink_schema(schema, address_given=options.address is not None)
        if options.effectively_once and options.message_id_prefix is None:
            msg = (
                "option effectivelyOnce: only the batches of a streaming query have numbers; leave it out here, or use "
                "rstreams_spark.send() in foreachBatch"
            )
            raise ConfigError(msg)
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> RowsAccepted:
        """Send the rows of one task; see `StreamWriter.write`."""
        task, options = _task(), self._options
        partition = task.partitionId()
        prefix = options.message_id_prefix
        ids = None if prefix is None else f"{prefix}-{partition}"
        producer = _numbering(task) if options.effectively_once else None
        return _send_all(options, iterator, f"partition {partition}", ids, producer)


def _send_all(
    options: SinkOptions,
    record_batches: Iterator[pa.RecordBatch],
    task: str,
    id_prefix: str | None,
    producer: RowNumbering | None = None,
) -> RowsAccepted:
    from rstreams_spark._dead_letters import DeadLetterOutbox
    from rstreams_spark._first_line import reason_first
    from rstreams_spark._garbage import no_garbage_collection
    from rstreams_spark._outbox import Outbox

    sent = 0
    dead = options.dead_letter_address
    outbox = Outbox(options, task, producer) if dead is None else DeadLetterOutbox(options, task, dead)
    with reason_first(), no_garbage_collection(), outbox:
        for record_batch in record_batches:
            if record_batch.num_rows:
                outbox.put(_by_address(options, record_batch, sent, task, id_prefix))
            sent += record_batch.num_rows
        outbox.finish()
    return RowsAccepted(sent)


def _by_address(
    options: SinkOptions, record_batch: pa.RecordBatch, first: int, task: str, id_prefix: str | None
) -> dict[str, SentRows]:
    """Encode rows, in their order, for each address."""
    from rstreams_spark._messages import BadRow, encoded_messages
    from rstreams_spark._rows import SentRows

    where = f"rstreams sink at {options.peer}, {task}"
    try:
        messages = encoded_messages(record_batch, id_prefix, first, durable=options.durable)
    except BadRow as error:
        msg = f"{where}: row {first + error.row}: {error}"
        raise SinkFailed(msg) from None
    if options.address is not None:
        return {options.address: SentRows(range(first, first + len(messages)), messages)}
    rows: dict[str, tuple[list[int], list[bytes]]] = {}
    addresses = record_batch.column("address").to_pylist()
    for number, (address, message) in enumerate(zip(addresses, messages, strict=True), first):
        if not address:
            msg = f"{where}: row {number} has no address: column address is {address!r}"
            raise SinkFailed(msg)
        of_address = rows.setdefault(address, ([], []))
        of_address[0].append(number)
        of_address[1].append(message)
    return {address: SentRows(*of_address) for address, of_address in rows.items()}


def _numbering(task: TaskContext) -> RowNumbering:
    """Return the numbers of the rows of a task, which are the same in each run of its batch."""
    from rstreams_spark._outbox import RowNumbering

    query, batch = task.getLocalProperty(QUERY_ID), task.getLocalProperty(_BATCH_ID)
    if query is None or batch is None:
        msg = "option effectivelyOnce: Spark tells no query and no batch here; leave the option out"
        raise ConfigError(msg)
    return RowNumbering(f"{query}-{task.partitionId()}", int(batch) << _ROWS_BITS)


def _task() -> TaskContext:
    task = TaskContext.get()
    assert task is not None, "Spark writes in tasks"
    return task
