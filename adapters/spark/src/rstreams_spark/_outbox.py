"""The rows of one task on their way: one link for each address, and one wait for all outcomes at the end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, Self

import trio

from rstreams.errors import ConfigError, DeliveryFailed, RStreamsError
from rstreams.message import decode_message
from rstreams_spark._connections import connection_for, user_of
from rstreams_spark._log import ROWS_NOT_ACCEPTED, say
from rstreams_spark._options import SinkOptions, hide_credentials
from rstreams_spark._rows import RowPublisher, SentRows
from rstreams_spark.errors import SinkFailed

if TYPE_CHECKING:
    from rstreams_spark._connections import SendingConnection

SILENCE_S: Final = 30.0
"""After how long without an accepted row a line goes to the log."""


@dataclass(frozen=True)
class RowNumbering:
    """The numbers of the rows of a task, by which a node knows rows that it has stored.

    Attributes:
        producer_id: The same in each run of a batch.
        first_sequence: The number of the first row at each address; higher than those of all earlier batches.
    """

    producer_id: str
    first_sequence: int


@dataclass(frozen=True)
class _Failure:
    address: str
    rows: RowPublisher
    error: BaseException


class Outbox:
    """Sends the rows of one task, in a `with` block; at an error of the block the links are detached at once.

    Context: The task's thread, every method; they block for room, credit and outcomes.
    """

    def __init__(self, options: SinkOptions, task: str, producer: RowNumbering | None = None) -> None:
        """Open no link yet.

        Args:
            options: Where to send.
            task: The name of the task, for messages.
            producer: Numbers the rows, for a peer that stores each number once; None: they have no numbers.
        """
        self._options = options
        self._task = task
        self._user = user_of(options.address)
        self._numbering: dict[str, Any] = {}
        if producer is not None:
            self._numbering = {"settlement": "effectively_once", **asdict(producer)}
        self._connection: SendingConnection | None = None
        self._lanes: dict[str, RowPublisher] = {}
        self._scopes: list[trio.CancelScope] = []  # of the links that have not ended
        self._failure: _Failure | None = None
        self._silent_since = 0.0
        self._told_at = 0.0
        self._accepted = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._connection is None:
            return
        if kind is not None:
            self._connection.run_soon(self._abort)
        self._connection.release(self._user)

    def put(self, rows: Mapping[str, SentRows]) -> None:
        """Send rows, by their address; returns when all rows that were put before are on their way.

        Errors: `SinkFailed` naming the first row that was not accepted, or saying what is unknown.
        """
        self._run(lambda: self._put(rows))

    def finish(self) -> None:
        """Wait until all rows are accepted.

        Errors: As `put`.
        """
        if self._lanes:
            self._run(self._finish)

    def _run(self, function: Callable[[], object]) -> None:
        where = f"rstreams sink at {self._options.peer}, {self._task}"
        try:
            if self._connection is None:
                self._connection = connection_for(self._options, user=self._user)
            self._connection.run(function)  # type: ignore[arg-type]
        except SinkFailed:
            raise
        except RStreamsError as error:
            raise SinkFailed(hide_credentials(f"{where}: {type(error).__name__}: {error}")) from None

    # in the thread of the connection

    async def _put(self, rows: Mapping[str, SentRows]) -> None:
        await self._until(lambda: not any(lane.waiting for lane in self._lanes.values()))
        for address, each in rows.items():
            self._lane(address).add(each)

    def _lane(self, address: str) -> RowPublisher:
        """Return the publisher of the rows for an address; the first time it begins to send."""
        lane = self._lanes.get(address)
        if lane is None:
            lane = self._lanes[address] = RowPublisher(self._ring)
            scope = trio.CancelScope()
            self._scopes.append(scope)
            self._connected.report.begin(lane)
            self._connected.nursery.start_soon(self._publish, address, lane, scope)
        return lane

    async def _finish(self) -> None:
        for lane in self._lanes.values():
            lane.finish()
        await self._until(lambda: not self._scopes)

    async def _publish(self, address: str, lane: RowPublisher, scope: trio.CancelScope) -> None:
        try:
            with scope:
                await self._send(address, lane)
        except RStreamsError as error:
            self._note_failure(address, error)
        self._connected.report.end(lane)
        self._scopes.remove(scope)
        self._ring()

    async def _send(self, address: str, lane: RowPublisher) -> None:
        """Send the rows of a lane; return when all are accepted."""
        await self._connected.connection.publish(address, lane, encoded=True, **self._numbering)

    def _note_failure(self, address: str, error: BaseException) -> None:
        if self._failure is None:
            self._failure = _Failure(address, self._lanes[address], self._connected.reason or error)

    def _abort(self) -> None:
        for scope in self._scopes:
            scope.cancel()

    @property
    def _connected(self) -> SendingConnection:
        assert self._connection is not None, "it is opened first"
        return self._connection

    def _ring(self) -> None:
        self._news.set()

    async def _until(self, is_done: Callable[[], bool]) -> None:
        """Wait, and tell the log when nothing moves.

        Errors: `SinkFailed` for the first failure, or when nothing has moved for the time of option sendTimeout.
        """
        limit_s = self._options.send_timeout_s
        look_s = min(SILENCE_S, SILENCE_S if limit_s is None else limit_s / 4)
        self._silent_since = self._told_at = trio.current_time()
        while True:
            self._news = trio.Event()
            if self._failure is not None:
                self._fail(self._failure)
            if is_done():
                return
            with trio.move_on_after(look_s):
                await self._news.wait()
            self._look_at_silence(limit_s)

    def _look_at_silence(self, limit_s: float | None) -> None:
        now = trio.current_time()
        accepted = sum(lane.accepted for lane in self._lanes.values())
        if accepted > self._accepted:
            self._accepted = accepted
            self._silent_since = self._told_at = now
            return
        silent_s = now - self._silent_since
        late = limit_s is not None and silent_s >= limit_s
        if not late and now - self._told_at < SILENCE_S:
            return
        self._told_at = now
        where = f"rstreams sink at {self._options.peer}, {self._task}"
        text = self._how_it_stands(silent_s)
        if not late:
            say(ROWS_NOT_ACCEPTED, where, text)
            return
        allowed = f"Option sendTimeout allows {limit_s:g} s; all rows are sent again when the batch is run again"
        msg = f"{where}: {text}. {allowed}"
        raise SinkFailed(msg)

    def _how_it_stands(self, silent_s: float) -> str:
        stuck = [
            f"address {address!r} (waiting to be sent: {lane.waiting}, sent and not accepted: "
            f"{lane.added - lane.waiting - lane.accepted})"
            for address, lane in self._lanes.items()
            if lane.added > lane.accepted
        ]
        return (
            f"no row was accepted for {silent_s:.0f} s; the peer gives no credit or settles nothing: {', '.join(stuck)}"
        )

    def _fail(self, failure: _Failure) -> None:
        where = f"rstreams sink, address {failure.address!r} at {self._options.peer}, {self._task}"
        raise SinkFailed(hide_credentials(f"{where}: {_what_failed(failure.rows, failure.error)}"))


def _what_failed(rows: RowPublisher, error: BaseException) -> str:
    told = f"{type(error).__name__}: {error}"
    refused = rows.refused
    if refused is not None and isinstance(error, DeliveryFailed | ConfigError):
        return f"row {refused[0]} (message_id {decode_message(refused[1]).id!r}) was not accepted: {told}"
    unknown = getattr(error, "outcome_unknown", 0)
    return (
        f"{told}; {unknown} of the {rows.added} rows from row {rows.first} on may or may not have arrived; all are "
        "sent again when the batch is run again"
    )
