"""Rows on their way out: a publisher that is given messages bit by bit, and knows which one was not accepted."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple, overload

from rstreams.abc import Hold, HoldRun, Subscriber


class SentRows(NamedTuple):
    """Rows of a task.

    Attributes:
        numbers: The number of each in its task.
        messages: Each as an encoded message.
    """

    numbers: Sequence[int]
    messages: list[bytes]

    def slice(self, first: int, last: int) -> SentRows:
        """Return some of the rows."""
        return SentRows(self.numbers[first:last], self.messages[first:last])


class RowPublisher:
    """Publishes rows once, in order, and notes the first that the receiver did not accept.

    Demand: Answered from the rows that wait, at once and without recursion.
    Context: The trio thread of the connection that publishes it.

    Attributes:
        accepted: How many rows were accepted.
        refused: The first row that was failed or given back, or None, with its number. If `publish` raises
            `DeliveryFailed` this is the one it is about. A row that was given back after it was not tried, or its
            outcome is unknown.
        first: The number of the first row; None without a row.
        added: How many rows were added.
        waiting: How many of them have not been sent.
        demand: How many more rows the subscriber takes: the credit of its link.
    """

    def __init__(self, on_room: Callable[[], None] = lambda: None) -> None:
        """Make a publisher for one subscriber.

        Args:
            on_room: Called when all rows that were added have been sent.
        """
        self.accepted = 0
        self.refused: tuple[int, bytes] | None = None
        self.first: int | None = None
        self.added = 0
        self.waiting = 0
        self.demand = 0
        self._on_room = on_room
        self._waiting: deque[SentRows] = deque()
        self._at = 0  # how many rows of the first of these have been sent
        self._sending: SentRows | None = None
        self._emitting = False
        self._finished = False
        self._ended = False
        self._subscriber: Subscriber[bytes] | None = None
        self._on_held_run: Callable[[list[bytes], HoldRun], None] | None = None

    def add(self, rows: SentRows) -> None:
        """Send these rows also."""
        count = len(rows.messages)
        if not count:
            return
        if self.first is None:
            self.first = rows.numbers[0]
        self._waiting.append(rows)
        self.waiting += count
        self.added += count
        self._emit()

    def finish(self) -> None:
        """Complete when all rows are sent."""
        self._finished = True
        self._emit()

    def subscribe(self, subscriber: Subscriber[bytes]) -> None:
        """Begin the one subscription."""
        self._subscriber = subscriber
        self._on_held_run = getattr(subscriber, "on_held_run", None)  # a link takes many rows in one call
        subscriber.on_subscribe(self)
        self._emit()

    def request(self, n: int) -> None:
        """Send up to `n` more messages."""
        self.demand += n
        self._emit()

    def cancel(self) -> None:
        """Send no more."""
        self._ended = True

    def hold(self) -> Hold:
        """Return a hold that notes the outcome of the message being sent."""
        assert self._sending is not None, "a message is being sent"
        return _RowHold(self, self._sending)

    def _emit(self) -> None:
        subscriber = self._subscriber
        if self._emitting or subscriber is None or self._ended:
            return
        sent = False
        self._emitting = True
        try:
            while self._waiting and self.demand > 0 and not self._ended:
                sent = True
                if self._on_held_run is None:
                    self._sending = self._take(1)
                    subscriber.on_next(self._sending.messages[0])
                else:
                    rows = self._take(self.demand)
                    self._on_held_run(rows.messages, _RowRun(self, rows))
        finally:
            self._emitting = False
        if sent and not self._waiting:
            self._on_room()
        if self._finished and not self._waiting and not self._ended:
            self._ended = True
            subscriber.on_complete()

    def _take(self, most: int) -> SentRows:
        """Take the next rows, at most so many; there are some."""
        rows, first = self._waiting[0], self._at
        last = min(first + most, len(rows.messages))
        self._at = last
        if last == len(rows.messages):
            self._waiting.popleft()
            self._at = 0
        self.demand -= last - first
        self.waiting -= last - first
        return rows if last - first == len(rows.messages) else rows.slice(first, last)

    def refuse(self, row: SentRows) -> None:
        """Note a message that was not accepted."""
        if self.refused is None:
            self.refused = row.numbers[0], row.messages[0]


class _RowHold:
    __slots__ = ("_publisher", "_row")

    def __init__(self, publisher: RowPublisher, row: SentRows) -> None:
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

    def __init__(self, publisher: RowPublisher, rows: SentRows) -> None:
        self._publisher = publisher
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows.messages)

    @overload
    def __getitem__(self, at: int) -> Hold: ...

    @overload
    def __getitem__(self, at: slice) -> _RowRun: ...

    def __getitem__(self, at: int | slice) -> Hold | _RowRun:
        if isinstance(at, slice):
            return _RowRun(self._publisher, SentRows(self._rows.numbers[at], self._rows.messages[at]))
        if not -len(self) <= at < len(self):
            raise IndexError(at)
        return _RowHold(self._publisher, SentRows((self._rows.numbers[at],), [self._rows.messages[at]]))

    def done(self) -> None:
        self._publisher.accepted += len(self)
