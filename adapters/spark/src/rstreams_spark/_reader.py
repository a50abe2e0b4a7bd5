"""The source for Spark's calls: offsets, batches, commits.

Theory of operation. An offset is the number of messages that batches have taken since the query first started, and the
address: `{"messages": 1200, "address": "temperature"}`. It names no message. Only the spool file of a batch says which
messages the batch has.

    latestOffset(start)    Spark has committed everything up to start: settle it, collect, spool, answer start + rows
    partitions(start, end) the spool file of that batch, in parts
    rows_with_plan(part)   the rows of a small batch, see `_short_way`
    read(part)             in an executor: the file's record batches

`commit(end)` comes too late to settle by, and for the last batch never. `latestOffset(start)` comes after every batch,
but with a trigger of 15 seconds it comes 15 seconds later. With option checkpointLocation the commit log says it at
once.

Spark makes a reader in three places: in the runner, one process for each query, which makes all calls but `read`; in
the planner, which pickles it; and therefore in every task. The reader itself has only its options; the runner connects.

A runner that starts from a checkpoint may be asked for a batch that an earlier runner planned, and that it does not
have. That batch stays empty: its messages were never settled, and come again in a later batch.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from rstreams.errors import ConfigError
from rstreams_spark._ahead import Ahead
from rstreams_spark._first_line import reason_first
from rstreams_spark._last_words import Witness, take_witness
from rstreams_spark._log import BATCH_STAYS_EMPTY, say
from rstreams_spark._logs.plan import of_another_source
from rstreams_spark._options import SourceOptions
from rstreams_spark._short_way import MOST_BYTES
from rstreams_spark.errors import SourceFailed

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from rstreams_spark._receiver import Receiver
    from rstreams_spark._spool import Spool, SpooledRange

_MESSAGES: Final = "messages"
_ADDRESS: Final = "address"
_WAL: Final = "wal"


class QueueReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads one address, `maxMessagesPerTrigger` messages at a time; see the module's text.

    Context: The main thread of Spark's runner process; `read` in the executors. Every call blocks.
    """

    def __init__(self, options: SourceOptions, schema: StructType | None = None) -> None:
        """Keep the options; nothing is connected or written.

        Args:
            options: The options of the source.
            schema: The columns that Spark wants; None: all, with the bodies as bytes.
        """
        self._options = options if schema is None else replace(options, columns=tuple(schema.fieldNames()))
        self._schema = schema
        self._runner: _Runner | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Return the state of a copy, which only reads the spool: without passwords."""
        return {"_options": self._options.without_secrets(), "_schema": self._schema, "_runner": None}

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return the offset of a query that starts anew."""
        with reason_first():
            if self._options.wal_dir is not None:
                self._in_runner().begin()
            return self._offset(0)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Return the batch limit, which is also the link's credit."""
        return ReadMaxRows(self._options.max_messages_per_trigger)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """From now on read only queued messages, and end when a drain has found the queue empty."""
        with reason_first():
            self._in_runner().queued_only = True

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Settle committed messages, and return the offset of the next batch; `start` if there are no new messages.

        Errors: `SourceFailed` if the connection or the link is gone; `UnparsableMessage`; `ConfigError` with trigger
            once, which would never settle its batch: Spark does not tell a source that it was committed.
        """
        with reason_first():
            if isinstance(limit, ReadAllAvailable):
                msg = (
                    "trigger(once=True) cannot work: Spark never tells the source that its batch was committed, and "
                    "every run would get the same messages. Use trigger(availableNow=True)"
                )
                raise ConfigError(msg)
            most = min(limit.max_rows, self._options.max_messages_per_trigger) if isinstance(limit, ReadMaxRows) else 0
            most = most or self._options.max_messages_per_trigger
            return self._offset(self._in_runner().advance(self._position(start), most))

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the parts of a batch; none if an earlier runner had it."""
        with reason_first():
            first, last = self._position(start), self._position(end)
            return self._in_runner().partitions(first, last, logged=_WAL in end)

    def rows_with_plan(self, part: InputPartition) -> Iterator[pa.RecordBatch] | None:
        """Return the rows of a batch with one part that goes the short way; None if a task reads it.

        A batch in a write-ahead log goes the usual way: it is settled when executors are known to see the log.
        """
        from rstreams_spark._spool import SpooledRange

        assert isinstance(part, SpooledRange)
        if self._options.wal_dir is not None or Path(part.path).stat().st_size > MOST_BYTES:
            return None
        return self.read(part)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the record batches of a part of a batch."""
        from rstreams_spark._shape import RowShape
        from rstreams_spark._spool import SpooledRange, read_range

        assert isinstance(partition, SpooledRange)
        with reason_first():
            if self._schema is None:
                yield from read_range(partition)
            else:
                shape = RowShape(self._schema, self._options.body, self._options.address)
                yield from map(shape.rows_of, read_range(partition))

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802 - Spark's name
        """Return the `latestOffset` in Spark's progress: the peer, the backlog and the counters of the source."""
        return None if self._runner is None else self._runner.latest()

    def stop(self) -> None:
        """Give back messages that are not settled, close the connection, delete the spool: within a second."""
        runner, self._runner = self._runner, None
        if runner is not None:
            runner.close()

    def _offset(self, messages: int) -> dict[str, Any]:
        if self._options.wal_dir is None:
            return _offset_at(messages, self._options)
        return self._in_runner().offset(messages)

    def _position(self, offset: dict[str, Any]) -> int:
        if not is_queue_offset(offset):
            raise of_another_source(offset, f"a queue ({{{_MESSAGES!r}: n, {_ADDRESS!r}: ...}})")
        messages: int = offset[_MESSAGES]
        address = offset.get(_ADDRESS, self._options.address)
        if address != self._options.address:
            msg = (
                f"the checkpoint belongs to a query that reads address {address!r}, and option "
                f"address={self._options.address!r}: use the checkpoint of this address, or a new one"
            )
            raise ConfigError(msg)
        if _WAL in offset and self._options.wal_dir is None:
            msg = (
                "option walDir is missing: the checkpoint belongs to a query with a walDir, which may have messages "
                "that were settled and not processed"
            )
            raise ConfigError(msg)
        if self._options.wal_dir is not None:
            self._in_runner().check_wal(offset.get(_WAL), messages)
        return messages

    def _in_runner(self) -> _Runner:
        if self._runner is None:
            self._runner = _Runner(self._options)
            self._runner.take_witness()
        return self._runner


class RefusedReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A reader for options or a schema that cannot work: every call raises the error."""

    def __init__(self, error: ConfigError) -> None:
        """Keep the error."""
        self._error = error

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Raise the error."""
        self._raise()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Raise the error."""
        self._raise()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Raise the error."""
        self._raise()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Raise the error."""
        self._raise()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Raise the error."""
        self._raise()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Raise the error."""
        self._raise()

    def _raise(self) -> NoReturn:
        with reason_first():
            raise self._error.with_traceback(None)  # each call has a traceback of its own


class _Runner:
    """The part of a reader that only the runner has: the connection, the spool, and the places of the batches."""

    def __init__(self, options: SourceOptions) -> None:
        from rstreams_spark._spool import Spool
        from rstreams_spark._wal import Wal

        self._options = options
        self._wal: Wal | None = None
        if options.wal_dir is not None:
            self._wal = Wal(options.wal_dir, options.num_partitions, options.address, options.credit)
        self._spool: Spool = self._wal or Spool(options.spool_dir, options.num_partitions, options.address)
        self._checked = False
        self._receiver: Receiver | None = None
        self._losses = 0  # after how many losses of the connection ids were written down
        self._begun = False
        self._witness: Witness | None = None
        self._ahead: Ahead | None = None  # the next batch, which comes before Spark asks for it
        self._base = 0  # the position of the first message of the receiver
        self.queued_only = False

    def take_witness(self) -> None:
        """Have Spark told the reason if this process is killed."""
        self._witness = take_witness(
            f"rstreams source, address {self._options.address!r} at {self._options.peer}",
            "messages that Spark has not committed are delivered again when the query is started again",
        )

    def begin(self) -> None:
        if self._wal is not None:
            self._wal.begin()

    def check_wal(self, wal: object, start: int) -> None:
        if self._wal is not None and not self._checked:
            self._wal.check(wal, start)
            self._checked = True

    def offset(self, messages: int) -> dict[str, Any]:
        offset = _offset_at(messages, self._options)
        return offset if self._wal is None else offset | {_WAL: self._wal.id}

    def advance(self, start: int, most: int) -> int:
        self._begun = True
        self._keep_ids()
        self._spool.drop(start)
        self._spool.touch()
        if self._spool.end is not None:
            return self._spool.end  # asked again about a batch that was handed out
        receiver = self._receiving(start)
        ahead, self._ahead = self._ahead, None
        if ahead is not None:
            receiver.settle(start - self._base)
            receiver.ask()
            end = ahead.result()
        else:
            collect = receiver.collect_queued if self.queued_only else receiver.collect
            end = self._write(start, lambda: collect(start - self._base, most))
        if end > start and self._wal is not None:
            self._settle_logged()
        elif end > start:
            receiver.settle_when_committed(self.offset(end), end - self._base)
        if end > start and self._options.prefetch:
            receiver.plan_ahead()
            self._ahead = Ahead(lambda: self._write(end, lambda: receiver.collect_ahead(most, queued=self.queued_only)))
        return end

    def _write(self, start: int, collect: Callable[[], Iterator[pa.RecordBatch]]) -> int:
        """Write a batch, again if its messages have been lost before it was complete; return where it ends."""
        from rstreams_spark._intake import BatchLost

        while True:
            try:
                return self._spool.write(start, collect())
            except BatchLost:
                continue

    def _keep_ids(self) -> None:
        """After a loss of the connection write down which messages may come again, before a batch is deleted."""
        if self._wal is not None and self._receiver is not None and self._receiver.losses != self._losses:
            self._losses = self._receiver.losses
            self._wal.keep_ids()

    def _settle_logged(self) -> None:
        """Settle the messages that are in the log, if executors are known to see it.

        The first batch of a folder is settled when it is committed, or its runner stops.
        """
        assert self._wal is not None
        if self._receiver is not None and self._spool.end is not None and self._wal.is_seen():
            self._receiver.settle(self._spool.end - self._base)

    def _receiving(self, start: int) -> Receiver:
        """Return the receiver; the first time it connects, and counts the messages that `availableNow` means."""
        if self._receiver is None:
            from rstreams_spark._receiver import Receiver

            known = self._wal.message_ids() if self._wal is not None else None
            self._receiver = Receiver(self._options, self._die, known)
            self._base = start
            if self.queued_only:
                self._receiver.count_queued()
        return self._receiver

    def partitions(self, start: int, end: int, *, logged: bool) -> list[SpooledRange]:
        if start == end:
            return []
        parts = self._spool.partitions(start, end)
        if parts is not None:
            return parts
        if logged:
            msg = (
                f"option walDir={self._options.wal_dir!r}: the batch of messages {start} to {end} is not there, and "
                "its messages were settled"
            )
            raise SourceFailed(msg)
        if self._begun:
            msg = f"the batch of messages {start} to {end} is not in the spool of the runner that planned it"
            raise SourceFailed(msg)
        say(
            BATCH_STAYS_EMPTY,
            "rstreams source",
            f"the batch of messages {start} to {end} was planned before this restart and never "
            "committed: it stays empty, and its messages, which were never settled, come again in a later batch",
        )
        return []

    def latest(self) -> dict[str, Any] | None:
        receiver = self._receiver
        state = None if receiver is None else receiver.progress(self._base)
        return None if state is None else state | {_ADDRESS: self._options.address}

    def close(self) -> None:
        if self._wal is not None:
            self._settle_logged()
        if self._receiver is not None:
            self._receiver.close()
        if self._ahead is not None:
            self._ahead.wait()
        self._spool.close()
        if self._witness is not None:
            self._witness.dismiss()

    def _die(self) -> None:
        """End the process: the driver's JVM is dead, and the link is closed."""
        self._spool.close()
        os._exit(1)


def _offset_at(messages: int, options: SourceOptions) -> dict[str, Any]:
    return {_MESSAGES: messages, _ADDRESS: options.address}


def is_queue_offset(offset: object) -> bool:
    """Return whether an offset of a checkpoint is one of queue mode."""
    if not isinstance(offset, dict) or not offset.keys() <= {_MESSAGES, _ADDRESS, _WAL}:
        return False
    messages = offset.get(_MESSAGES)
    return (
        type(messages) is int and messages >= 0 and all(type(offset.get(name, "")) is str for name in (_ADDRESS, _WAL))
    )
