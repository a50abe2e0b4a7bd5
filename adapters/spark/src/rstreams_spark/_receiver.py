"""The source's connection: a trio thread of the runner. Heartbeats go on there while Spark's code runs.

The runner is a child of the driver's JVM. When the JVM dies, the connection must end: only then the peer gives
unsettled messages to another consumer. A runner that waits for the JVM's next call sees its socket close. A runner that
works here might not see that; therefore the thread checks its parent process.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, TypeVar

import trio

import rstreams
from rstreams_spark._intake import RowIntake, decode
from rstreams_spark._options import SourceOptions, hide_credentials
from rstreams_spark._schema import Row, row_of
from rstreams_spark.errors import SourceFailed, UnparsableMessage

V = TypeVar("V")

CLOSE_WAIT_S: Final = 0.9
"""How long giving back and closing may take: Spark wants a runner gone soon after SIGTERM. A peer that has not answered
by then finds the connection broken."""

_LOOK_EVERY_S: Final = 0.25


class Receiver:
    """A link to one address, from its own thread: rows come out, commits go in.

    Context: One thread that is not the connection's, for every method; they block.
    """

    def __init__(self, options: SourceOptions, on_orphaned: Callable[[], None]) -> None:
        """Start the thread and connect.

        Args:
            options: The options of the source.
            on_orphaned: Called from the thread, after closing, when the parent process has died; it should not return.

        Errors: `SourceFailed` if there is no connection, or no link to the address.
        """
        self._options = options
        self._on_orphaned = on_orphaned
        self._parent = os.getppid()
        started: queue.SimpleQueue[trio.lowlevel.TrioToken] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, args=(started.put,), name="rstreams source", daemon=True)
        self._thread.start()
        self._token = started.get()
        self._call(self._intake.subscribed)

    def collect(self, committed: int, most: int) -> list[Row]:
        """Return the rows of the next batch; see `RowIntake.collect`."""
        return self._call(lambda: self._intake.collect(committed, most, self._options.max_trigger_delay_s))

    def collect_queued(self, committed: int, most: int) -> list[Row]:
        """Return the next rows of the messages queued now; see `RowIntake.collect_queued`."""
        return self._call(lambda: self._intake.collect_queued(committed, most))

    def close(self) -> None:
        """Give back unsettled messages and close the connection; wait at most `CLOSE_WAIT_S`."""
        with suppress(trio.RunFinishedError):
            self._token.run_sync_soon(self._stop.set)
        self._thread.join(CLOSE_WAIT_S)

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
        self._intake = RowIntake(
            options.max_messages_per_trigger,
            lambda message: row_of(message, options.address),
            reject_unparsable=options.on_unparsable == "reject",
        )
        started(trio.lowlevel.current_trio_token())
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._watch_parent)
            await self._connect()
            nursery.cancel_scope.cancel()

    async def _connect(self) -> None:
        options, intake = self._options, self._intake
        try:
            async with rstreams.connect(options.peer.url) as connection:
                window = options.max_messages_per_trigger
                connection.stream(options.address, window=window, decode=decode).subscribe(intake)
                await self._stop.wait()
                intake.give_back()
        except Exception as error:  # the query is told of every error
            intake.on_error(error)
        await self._stop.wait()

    async def _watch_parent(self) -> None:
        while os.getppid() == self._parent:  # noqa: ASYNC110 - a process is not told that its parent died
            await trio.sleep(_LOOK_EVERY_S)
        self._stop.set()
