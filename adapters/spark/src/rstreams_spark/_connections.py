"""The sink's connections: one for each peer in an executor process, kept from task to task.

Spark makes new writers for every batch but keeps its Python workers. Therefore connections live in this module. Spark
ends a worker that has been idle for a minute, and with it its connections.

Each connection lives in a trio thread of its own. A lost one is opened again; publishers wait meanwhile and go on.
A lost one that no task uses ends: its query may be over, and its peer too. The next task opens another one, which is
tried for as long as a lost one (`_losses`).
"""

from __future__ import annotations

import queue
import threading
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

import trio
from pyspark import TaskContext

import rstreams
from rstreams.errors import ConnectFailed, ConnectionLost
from rstreams_spark._losses import Losses
from rstreams_spark._send import QUERY_ID
from rstreams_spark._sink_report import SinkReport

if TYPE_CHECKING:
    from rstreams_spark._options import SinkOptions, SourceOptions

V = TypeVar("V")

_kept: dict[object, SendingConnection] = {}
_lock = threading.Lock()


class SendingConnection:
    """A connection in a trio thread of its own.

    Context: Any thread but that one.

    Attributes:
        connection: The connection; only for functions that `run` calls.
        nursery: Tasks that live as long as the connection; only for functions that `run` calls.
        report: Watches the rows of a sink; only for functions that `run` calls.
        reason: Why it has ended for good; None if it has not, or was closed from this side.
    """

    def __init__(self, options: SinkOptions | SourceOptions, end: str, user: str, **more: Any) -> None:  # noqa: ANN401
        """Open it.

        Args:
            options: The peer, and what to do at a loss.
            end: "sink" or "source", for messages.
            user: Names who has it opened, see `user_of`; for messages.
            **more: Further options of `rstreams.connect`.

        Errors: As `rstreams.connect`; `ConnectionLost` if there is no connection for as long as the options allow.
        """
        self._options = options
        self._end = end
        self.report = SinkReport(f"rstreams {end} at {options.peer}")
        self._more = more
        self.reason: BaseException | None = None
        self._over = False
        self._users = Counter([user])
        self._away = False
        self._use = threading.Lock()  # of these three
        self._begun = threading.Event()  # the thread has what this one needs to end it
        started: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._main, args=(started.put,), name=f"rstreams {end}", daemon=True)
        self._thread.start()
        try:
            error = started.get(timeout=options.dial_timeout_s)
        except queue.Empty:
            self._begun.wait()
            self.run_soon(self._losses.scope.cancel)
            error = started.get()
            why = self._losses.why or "the peer has not answered"
            error = error or ConnectFailed(
                f"no connection for {options.dial_timeout_s:g} s (option sendTimeout): {why}"
            )
        if error is not None:
            self._thread.join()
            raise error

    @property
    def is_open(self) -> bool:
        """Whether it can be used; it may be lost for a while."""
        if self._over or not self._thread.is_alive():
            return False
        return self._reconnects or self.connection.status.state == "connected"

    def run(self, function: Callable[[], Awaitable[V]]) -> V:
        """Call an async function in the thread of the connection, and return its result.

        Errors: `ConnectionLost` if the connection has ended for good; what `function` raises.
        """
        try:
            return trio.from_thread.run(function, trio_token=self._token)
        except (trio.RunFinishedError, trio.Cancelled):
            reason = self.reason or ConnectionLost("the connection was closed")
            raise reason.with_traceback(None) from None  # each call has a traceback of its own

    def run_soon(self, function: Callable[[], None]) -> None:
        """Have a function called in the thread of the connection, if it has not ended."""
        with suppress(trio.RunFinishedError):
            self._token.run_sync_soon(function)

    def hold(self, user: str) -> bool:
        """Count one more user, besides the one that has opened it; return False if it has ended."""
        with self._use:
            if not self.is_open:
                return False
            self._users[user] += 1
            return True

    def release(self, user: str = "") -> None:
        """Count one user less; a lost connection without users ends."""
        with self._use:
            self._users -= Counter([user])
            self._end_if_useless()

    def _where(self) -> str:
        users = "".join(f", {user}" for user in sorted(self._users) if user)
        return f"rstreams {self._end}{users} at {self._options.peer}"

    def _set_away(self, *, away: bool) -> None:
        with self._use:
            self._away = away
            self._end_if_useless()

    def _end_if_useless(self) -> None:
        if not self._users and (self._away or not self.is_open):
            self._over = True
            self.run_soon(self._close.set)

    def close(self) -> None:
        """Close it, and wait for that."""
        self.run_soon(self._close.set)
        self._thread.join()

    def _main(self, started: Callable[[BaseException | None], None]) -> None:
        trio.run(self._serve, started)

    async def _serve(self, started: Callable[[BaseException | None], None]) -> None:
        options = self._options
        self._token = trio.lowlevel.current_trio_token()
        self._close = trio.Event()
        self._losses = losses = Losses(
            options.max_reconnect_s if options.reconnect else 0.0,
            self._where,
            on_away=self._on_away,
            on_back=lambda: self._set_away(away=False),
            on_given_up=self._note_end,
        )
        self._reconnects = losses.policy is not None
        self._begun.set()
        opened = False
        try:
            async with trio.open_nursery() as self.nursery:
                self.nursery.start_soon(losses.watch)
                self.nursery.start_soon(self.report.watch)
                with losses.scope:
                    async with rstreams.connect(
                        options.peer.connect_url(),
                        reconnect=losses.policy,
                        **options.peer.connect_options(),
                        **self._more,
                    ) as self.connection:
                        opened = True
                        started(None)
                        await self._close.wait()
                self.nursery.cancel_scope.cancel()
        except BaseExceptionGroup as group:
            self.reason = self.reason or group.exceptions[0]
        self._over = True
        if not opened:
            started(self.reason)

    def _on_away(self) -> None:
        self.report.on_away()
        self._set_away(away=True)

    def _note_end(self, error: BaseException) -> None:
        self.reason = error
        self._over = True


def user_of(address: str | None) -> str:
    """Return how a task or a source is named as a user of a connection: by its query, if that is known, and address."""
    task = TaskContext.get()
    query = None if task is None else task.getLocalProperty(QUERY_ID)
    return ", ".join(
        [*([] if query is None else [f"query {query}"]), *([] if address is None else [f"address {address!r}"])]
    )


def connection_for(
    options: SinkOptions | SourceOptions,
    end: str = "sink",
    user: str = "",
    **more: Any,  # noqa: ANN401 - as for `SendingConnection`
) -> SendingConnection:
    """Return the connection to a peer; it is opened if there is none, or the one there was has ended.

    The caller calls `release` when it does not use the connection any more.

    Args:
        options: As for `SendingConnection`.
        end: As for `SendingConnection`: a source does not share its connection with a sink.
        user: As for `SendingConnection`; the caller names itself to `release` in the same way.
        **more: As for `SendingConnection`.

    Errors: As `rstreams.connect`.
    """
    key = options.peer, options.reconnect, options.max_reconnect_s, end
    with _lock:
        kept = _kept.get(key)
        if kept is None or not kept.hold(user):
            kept = _kept[key] = SendingConnection(options, end, user, **more)
        return kept
