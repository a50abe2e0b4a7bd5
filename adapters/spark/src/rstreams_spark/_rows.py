"""Rows on their way out: a publisher that is given messages bit by bit, and knows which one was not accepted."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias, overload

from rstreams.abc import Hold, HoldRun, Subscriber
from rstreams.message import Message

SentRow: TypeAlias = tuple[int, Message]
"""The number of a row in its task, and the row as a message."""


class RowPublisher:
    """Publishes rows once, in order, and notes the first that the receiver did not accept.

    Demand: Answered from the rows that wait, at once and without recursion.
    Context: The trio thread of the connection that publishes it.

    Attributes:
        accepted: How many rows were accepted.
        refused: The first row that was failed or given back, or None. If `publish` raises `DeliveryFailed` this is the
            one it is about. A row that was given back after it was not tried, or its outcome is unknown.
        first: The number of the first row; None without a row.
        added: How many rows were added.
    """

    def __init__(self, on_room: Callable[[], None] = lambda: None) -> None:
        """Make a publisher for one subscriber.

        Args:
            on_room: Called when all rows that were added have been sent.
        """
        self.accepted = 0
        self.refused: SentRow | None = None
        self.first: int | None = None
        self.added = 0
        self._on_room = on_room
        self._waiting: deque[SentRow] = deque()
        self._sending: SentRow | None = None
        self._demand = 0
        self._emitting = False
        self._finished = False
        self._ended = False
        self._subscriber: Subscriber[Message] | None = None
        self._on_held_run: Callable[[list[Message], HoldRun], None] | None = None

    @property
    def waiting(self) -> int:
        """How many rows have not been sent."""
        return len(self._waiting)

    def add(self, rows: Iterable[SentRow]) -> None:
        """Send these rows, too."""
        before = len(self._waiting)
        self._waiting.extend(rows)
        added = len(self._waiting) - before
        if added and self.first is None:
            self.first = self._waiting[before][0]
        self.added += added
        self._emit()

    def finish(self) -> None:
        """Complete when all rows are sent."""
        self._finished = True
        self._emit()

    def subscribe(self, subscriber: Subscriber[Message]) -> None:
        """Begin the one subscription."""
        self._subscriber = subscriber
        self._on_held_run = getattr(subscriber, "on_held_run", None)  # a link takes many rows in one call
        subscriber.on_subscribe(self)
        self._emit()

    def request(self, n: int) -> None:
        """Send up to `n` more messages."""
        self._demand += n
        self._emit()

    def cancel(self) -> None:
        """Send no more."""
        self._ended = True

    def hold(self) -> Hold:
        """Return a hold that notes the outcome of the message being sent."""
        assert self._sending is not None, "a message is being sent"
        return _RowHold(self, self._sending)

    def _emit(self) -> None:
        subscriber, waiting = self._subscriber, self._waiting
        if self._emitting or subscriber is None or self._ended:
            return
        sent = False
        self._emitting = True
        try:
            while waiting and self._demand > 0 and not self._ended:
                sent = True
                if self._on_held_run is None:
                    self._demand -= 1
                    self._sending = waiting.popleft()
                    subscriber.on_next(self._sending[1])
                else:
                    count = min(self._demand, len(waiting))
                    self._demand -= count
                    rows = [waiting.popleft() for _ in range(count)]
                    self._on_held_run([message for _, message in rows], _RowRun(self, rows))
        finally:
            self._emitting = False
        if sent and not waiting:
            self._on_room()
        if self._finished and not waiting and not self._ended:
            self._ended = True
            subscriber.on_complete()

    def refuse(self, row: SentRow) -> None:
        """Note a message that was not accepted."""
        if self.refused is None:
            self.refused = row


class _RowHold:
    __slots__ = ("_publisher", "_row")

    def __init__(self, publisher: RowPublisher, row: SentRow) -> None:
        self._publisher = publisher
        self._row = row

    def done(self) -> None:
        self._publisher.accepted += 1

    def fail(self, error: BaseException) -> None:  # publish() raises it
        self._publisher.refuse(self._row)

    def release(self) -> None:
        self._publisher.refuse(self._row)


class _RowRun(HoldRun):
    """The holds of rows that were sent in one call."""

    __slots__ = ("_publisher", "_rows")

    def __init__(self, publisher: RowPublisher, rows: Sequence[SentRow]) -> None:
        self._publisher = publisher
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, at: int) -> Hold: ...

    @overload
    def __getitem__(self, at: slice) -> _RowRun: ...

    def __getitem__(self, at: int | slice) -> Hold | _RowRun:
        rows: Any = self._rows[at]
        return _RowRun(self._publisher, rows) if isinstance(at, slice) else _RowHold(self._publisher, rows)

    def done(self) -> None:
        self._publisher.accepted += len(self._rows)
