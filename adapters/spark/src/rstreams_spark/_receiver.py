"""The source's connection: a trio thread of the runner. Heartbeats go on there while Spark's code runs.

The runner is a child of the driver's JVM. When the JVM dies, the connection must end: only then the peer gives
unsettled messages to another consumer. A runner that waits for the JVM's next call sees its socket close. A runner that
works here might not see that; therefore the thread checks its parent process.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, Final, TypeVar

import pyarrow as pa
import trio

import rstreams
from rstreams_spark._backlog import ask_every_s, count_queued
from rstreams_spark._commits import CommitLog
from rstreams_spark._intake import BatchPart, RowIntake
from rstreams_spark._log import BATCH_NOT_COMMITTED, say
from rstreams_spark._losses import Losses
from rstreams_spark._one_reader import OneReader
from rstreams_spark._options import SourceOptions, hide_credentials
from rstreams_spark._record_batches import RecordBatches
from rstreams_spark._report import Report
from rstreams_spark._schema import spooled_columns
from rstreams_spark.errors import SourceFailed, UnparsableMessage

V = TypeVar("V")

CLOSE_WAIT_S: Final = 0.9
"""How long giving back and closing may take: Spark wants a runner gone soon after SIGTERM. A peer that has not answered
by then finds the connection broken."""

_LOOK_EVERY_S: Final = 0.25
_LOOK_FOR_COMMIT_EVERY_S: Final = 0.05


class Receiver:
    """A link to one address, from its own thread: rows come out, commits go in.

    Context: One thread that is not the connection's, for every method; they block.
    """

    def __init__(
        self, options: SourceOptions, on_orphaned: Callable[[], None], known: Iterable[str] | None = None
    ) -> None:
        """Start the thread and connect.

        Args:
            options: The options of the source.
            on_orphaned: Called from the thread, after closing, when the parent process has died; it should not return.
            known: The ids of messages that are in a batch already: one that comes is accepted and not handed out. None:
                message ids need not be unique.

        Errors: `SourceFailed` if there is no connection, or no link to the address.
        """
        self._options = options
        self._known = known
        self._on_orphaned = on_orphaned
        self._parent = os.getppid()
        self._log = CommitLog(options.checkpoint) if options.checkpoint is not None else None
        self._awaited = 0  # how many messages are committed when the commit log has the batch
        self._connection: rstreams.Connection | None = None
        self._warned = False
        self._reader = OneReader(self._where, f"{options.peer} {options.address}")
        started: queue.SimpleQueue[trio.lowlevel.TrioToken] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, args=(started.put,), name="rstreams source", daemon=True)
        self._thread.start()
        self._token = started.get()
        try:
            self._call(self._dialled)
            self._call(self._intake.subscribed)
        except BaseException:
            self.close()
            raise

    def collect(self, committed: int, most: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the next batch as they come; see `RowIntake.collect`."""
        return self._parts(partial(self._intake.collect, committed), most)

    def collect_queued(self, committed: int, most: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the next batch of the queued messages; see `RowIntake.collect_queued`."""
        return self._parts(partial(self._intake.collect_queued, committed), most)

    def plan_ahead(self) -> None:
        """Let the batch of `collect_ahead` wait for `ask`."""
        with suppress(trio.RunFinishedError):
            self._token.run_sync_soon(self._intake.plan_ahead)

    def collect_ahead(self, most: int, *, queued: bool) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a batch that Spark has not asked for, as `collect` or `collect_queued` does.

        The last rows come after `ask`.
        """
        intake = self._intake
        return self._parts(intake.collect_queued_ahead if queued else intake.collect_ahead, most)

    def ask(self) -> None:
        """Have the batch of `collect_ahead` end as soon as one of `collect` would."""
        with suppress(trio.RunFinishedError):
            self._token.run_sync_soon(self._intake.ask)

    def count_queued(self) -> int | None:
        """Let `collect_queued` return only as many rows as there are messages now, if the peer can count them.

        Returns: The number of messages; None if the peer does not tell it.
        """
        return self._call(self._count_queued)

    @property
    def losses(self) -> int:
        """How often the connection or its link was lost."""
        return self._intake.losses

    def settle(self, taken: int) -> None:
        """Settle the first `taken` messages now."""
        with suppress(trio.RunFinishedError):
            self._token.run_sync_soon(self._intake.settle, taken)

    def settle_when_committed(self, end: dict[str, object], taken: int) -> None:
        """Settle the first `taken` messages when the commit log has the batch that ends at `end`."""
        if self._log is not None:
            if self._awaited and not self._warned and not self._log.has_batch():
                self._warned = True
                say(
                    BATCH_NOT_COMMITTED,
                    self._where,
                    f"option checkpointLocation={self._options.checkpoint!r}: a batch that Spark has committed is not "
                    "in this folder. Is it the checkpointLocation of the query? Batches are settled late now",
                )
            self._log.plan(end)
            self._token.run_sync_soon(self._await_commit, taken)

    def progress(self, base: int) -> dict[str, Any] | None:
        """Return the state of the source, see `Report.progress`; None if the connection has been closed."""
        with suppress(trio.RunFinishedError, trio.Cancelled):
            return trio.from_thread.run_sync(self._report.progress, base, trio_token=self._token)
        return None

    def close(self) -> None:
        """Give back unsettled messages and close the connection; wait at most `CLOSE_WAIT_S`."""
        with suppress(trio.RunFinishedError):
            self._token.run_sync_soon(self._stop.set)
        self._thread.join(CLOSE_WAIT_S)
        self._reader.close()

    def _parts(self, collect: Callable[..., Awaitable[BatchPart]], most: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a batch until its last part.

        Errors: As `RowIntake.collect`.
        """
        part, goes_on = BatchPart([], ends=False), False
        while not part.ends:
            part = self._call(partial(collect, most, self._options.max_trigger_delay_s, goes_on=goes_on))
            yield from part.record_batches
            most -= sum(batch.num_rows for batch in part.record_batches)
            goes_on = True

    def _call(self, function: Callable[[], Awaitable[V]]) -> V:
        try:
            return trio.from_thread.run(function, trio_token=self._token)
        except (trio.RunFinishedError, trio.Cancelled):
            msg = f"{self._where}: the connection was closed from this side"
            raise SourceFailed(msg) from None
        except (SourceFailed, UnparsableMessage) as error:
            msg = f"{self._where}: {error}"
            raise type(error)(hide_credentials(msg)) from None

    @property
    def _where(self) -> str:
        return f"rstreams source, address {self._options.address!r} at {self._options.peer}"

    # the connection's thread

    def _run(self, started: Callable[[trio.lowlevel.TrioToken], None]) -> None:
        try:
            trio.run(self._main, started)
        finally:
            if os.getppid() != self._parent:
                self._on_orphaned()

    async def _main(self, started: Callable[[trio.lowlevel.TrioToken], None]) -> None:
        options = self._options
        self._stop = trio.Event()
        self._dial_is_over = trio.Event()
        self._planned = trio.Event()
        self._intake = RowIntake(
            options.credit,
            RecordBatches(options.address, spooled_columns(options.columns)),
            largest=options.max_message_bytes,
            reject_unparsable=options.on_unparsable == "reject",
            enough=options.min_messages_per_trigger,
            most_bytes=options.max_bytes_per_trigger,
        )
        if self._known is not None:
            self._intake.know(self._known)
        self._report = Report(self._where, str(options.peer), self._intake.counts, self._ask_queued, self._ask_every_s)
        checkpoint = "" if options.checkpoint is None else f", checkpointLocation {options.checkpoint!r}"
        losses = Losses(
            options.max_reconnect_s if options.reconnect else 0.0,
            lambda: self._where + checkpoint,  # Spark does not tell this process which query it is of
            on_away=self._on_away,
            on_back=self._on_back,
            on_detached=self._intake.on_away,
            on_given_up=self._intake.on_error,
        )
        started(trio.lowlevel.current_trio_token())
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._watch_parent)
            nursery.start_soon(self._watch_state)
            nursery.start_soon(losses.watch)
            nursery.start_soon(self._stop_dialling, losses)
            if self._log is not None:
                nursery.start_soon(self._watch_commits, self._log)
            await self._connect(losses)
            nursery.cancel_scope.cancel()

    async def _connect(self, losses: Losses) -> None:
        try:
            with losses.scope:
                await self._receive(losses)
        except Exception as error:  # the query is told of every error
            self._intake.on_error(error)
        self._dial_is_over.set()
        await self._stop.wait()

    async def _dialled(self) -> None:
        """Wait until there is a connection, or none is to come."""
        await self._dial_is_over.wait()

    async def _stop_dialling(self, losses: Losses) -> None:
        """End the dial when the source is to end: a stopped query waits for no peer."""
        await self._stop.wait()
        if not self._dial_is_over.is_set():
            losses.scope.cancel()

    async def _receive(self, losses: Losses) -> None:
        options, intake = self._options, self._intake
        async with rstreams.connect(
            options.peer.connect_url(),
            reconnect=losses.policy,
            max_message_bytes=None,  # with a limit, peers reject or drop larger messages
            **options.peer.connect_options(),
        ) as self._connection:
            self._dial_is_over.set()
            pack_items = options.pack_items if self._connection.peer_properties.get("product") == "rstreams" else 1
            intake.expect_packs(pack_items)
            # The intake decodes: `bytes` returns the encoded message as it is.
            self._connection.stream(
                options.address, window=options.credit, decode=bytes, pack_items=pack_items
            ).subscribe(intake)
            await self._stop.wait()
            self._settle_if_committed()
            intake.give_back()

    async def _watch_state(self) -> None:
        await self._intake.attached()
        await self._report.watch()

    def _on_away(self) -> None:
        self._report.on_away()
        self._intake.on_away()

    def _on_back(self) -> None:
        self._report.on_back()
        self._intake.on_back()

    # commits

    def _await_commit(self, taken: int) -> None:
        self._awaited = taken
        self._planned.set()

    async def _watch_commits(self, log: CommitLog) -> None:
        """Settle each batch soon after its commit, and not only when Spark asks for the next one."""
        while True:
            await self._planned.wait()
            self._planned = trio.Event()
            awaited = self._awaited
            while awaited == self._awaited:
                if await trio.to_thread.run_sync(log.has_batch, abandon_on_cancel=True):
                    self._intake.settle(awaited)
                    break
                await trio.sleep(_LOOK_FOR_COMMIT_EVERY_S)

    def _settle_if_committed(self) -> None:
        """Settle the last batch if Spark has committed it: the runner stops, and is not asked for another one."""
        if self._log is not None and self._awaited and self._log.has_batch():
            self._intake.settle(self._awaited)

    async def _ask_queued(self) -> int | None:
        assert self._connection is not None, "the link is attached"
        return await count_queued(self._connection, self._options.address)

    def _ask_every_s(self) -> float:
        assert self._connection is not None, "the link is attached"
        return ask_every_s(self._connection)

    async def _count_queued(self) -> int | None:
        count = await self._ask_queued()
        if count is not None:
            self._intake.take_only(count)
        return count

    async def _watch_parent(self) -> None:
        while os.getppid() == self._parent:  # noqa: ASYNC110 - a process is not told that its parent died
            await trio.sleep(_LOOK_EVERY_S)
        self._stop.set()
