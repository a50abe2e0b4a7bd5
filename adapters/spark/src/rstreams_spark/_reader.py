"""The source for Spark's calls: offsets, batches, commits.

Theory of operation. An offset is the number of messages that batches have taken since the query first started:
`{"messages": 1200}`. It does not name messages: only the spool file of a batch has them.

    latestOffset(start)    Spark has committed everything up to start: settle it, collect, spool, answer start + rows
    partitions(start, end) the spool file of that batch, in parts
    read(part)             in an executor: the file's record batches

`commit(end)` comes too late for settling, and never for the last batch; `latestOffset(start)` comes after each batch.

Spark makes a reader in three places: in the runner, one process for each query, which makes all calls but `read`; in
the planner, which pickles it; and therefore in every task. The reader itself has only its options; the runner connects.

A runner that starts from a checkpoint may be asked for a batch that an earlier runner planned, and that it does not
have. That batch stays empty: its messages were never settled, and come again in a later batch.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from rstreams.errors import ConfigError
from rstreams_spark._options import SourceOptions
from rstreams_spark.errors import SourceFailed

if TYPE_CHECKING:
    import pyarrow as pa

    from rstreams_spark._receiver import Receiver
    from rstreams_spark._spool import Spool, SpooledRange

_MESSAGES: Final = "messages"


class QueueReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads one address, `maxMessagesPerTrigger` messages at a time; see the module's text.

    Context: The main thread of Spark's runner process; `read` in the executors. Every call blocks.
    """

    def __init__(self, options: SourceOptions) -> None:
        """Keep the options; nothing is connected or written."""
        self._options = options
        self._runner: _Runner | None = None

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        """Return the offset of a query that starts anew."""
        return {_MESSAGES: 0}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Return the batch limit, which is also the link's credit."""
        return ReadMaxRows(self._options.max_messages_per_trigger)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """From now on read only queued messages, and end when a drain has found the queue empty."""
        self._in_runner().queued_only = True

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, int]:  # noqa: N802 - Spark's name
        """Settle committed messages, and return the offset of the next batch; `start` if there are no new messages.

        Errors: `SourceFailed` if the connection or the link is gone; `UnparsableMessage`; `ConfigError` with trigger
            once, which would never settle its batch: Spark does not tell a source that it was committed.
        """
        if isinstance(limit, ReadAllAvailable):
            msg = (
                "trigger(once=True) cannot work: Spark never tells the source that its batch was committed, and "
                "every run would get the same messages. Use trigger(availableNow=True)"
            )
            raise ConfigError(msg)
        most = min(limit.max_rows, self._options.max_messages_per_trigger) if isinstance(limit, ReadMaxRows) else 0
        return {_MESSAGES: self._in_runner().advance(_position(start), most or self._options.max_messages_per_trigger)}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the parts of a batch; none if an earlier runner had it."""
        return self._in_runner().partitions(_position(start), _position(end))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the record batches of a part of a batch."""
        from rstreams_spark._spool import SpooledRange, read_range

        assert isinstance(partition, SpooledRange)
        return read_range(partition)

    def stop(self) -> None:
        """Give back messages that are not settled, close the connection, delete the spool: within a second."""
        runner, self._runner = self._runner, None
        if runner is not None:
            runner.close()

    def _in_runner(self) -> _Runner:
        if self._runner is None:
            self._runner = _Runner(self._options)
            if threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGTERM, _end_process)
        return self._runner


class _Runner:
    """The part of a reader that only the runner has: the connection, the spool, and the places of the batches."""

    def __init__(self, options: SourceOptions) -> None:
        from rstreams_spark._spool import Spool

        self._options = options
        self._spool: Spool = Spool(options.spool_dir, options.num_partitions)
        self._receiver: Receiver | None = None
        self._begun = False
        self.queued_only = False

    def advance(self, start: int, most: int) -> int:
        self._begun = True
        committed = self._spool.drop(start)
        if self._spool.end is not None:
            return self._spool.end  # asked again about a batch that was handed out
        if self._receiver is None:
            from rstreams_spark._receiver import Receiver

            self._receiver = Receiver(self._options, self._die)
        collect = self._receiver.collect_queued if self.queued_only else self._receiver.collect
        rows = collect(committed, most)
        return self._spool.write(start, rows) if rows else start

    def partitions(self, start: int, end: int) -> list[SpooledRange]:
        if start == end:
            return []
        parts = self._spool.partitions(start, end)
        if parts is not None:
            return parts
        if self._begun:
            msg = f"the batch of messages {start} to {end} is not in the spool of the runner that planned it"
            raise SourceFailed(msg)
        _say(
            f"the batch of messages {start} to {end} was planned before this restart and never committed: it stays "
            "empty, and its messages, which were never settled, come again in a later batch"
        )
        return []

    def close(self) -> None:
        if self._receiver is not None:
            self._receiver.close()
        self._spool.close()

    def _die(self) -> None:
        """End the process: the driver's JVM is dead, and the link is closed."""
        self._spool.close()
        os._exit(1)


def _position(offset: dict[str, Any]) -> int:
    messages = offset.get(_MESSAGES)
    if isinstance(messages, int) and messages >= 0 and len(offset) == 1:
        return messages
    msg = (
        f"the checkpoint has the offset {offset!r}, which is not one of the rstreams source ({{{_MESSAGES!r}: n}}): it "
        "belongs to a query with another source"
    )
    raise ConfigError(msg)


def _end_process(_signal: int, _frame: object) -> None:
    """End the runner in the way of Spark's own code: its `finally` calls `QueueReader.stop`."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # Spark sends it more than once
    sys.exit(0)


def _say(text: str) -> None:
    """Write a line to the driver's log."""
    sys.stderr.write(f"rstreams source: {text}\n")
    sys.stderr.flush()
