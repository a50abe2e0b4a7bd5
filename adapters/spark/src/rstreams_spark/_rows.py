"""Rows on their way out: a publisher that is given messages bit by bit, and knows which one was not accepted."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple, overload

from rstreams.abc import DONE, Claims, Ending, Hold, Run, Settles, Subscriber, runs_of


class SentRow(NamedTuple):
    """A row of a task.

    Attributes:
        number: Its number in the task.
        message: It as an encoded message.
    """

    number: int
    message: bytes


class SentRows(Sequence[SentRow]):
    """Rows of a task.

    Attributes:
        numbers: The number of each in its task.
        messages: Each as an encoded message.
    """

    def __init__(self, numbers: Sequence[int], messages: list[bytes]) -> None:
        self.numbers = numbers
        self.messages = messages

    def __len__(self) -> int:
        return len(self.messages)

    @overload
    def __getitem__(self, at: int) -> SentRow: ...

    @overload
    def __getitem__(self, at: slice) -> SentRows: ...

    def __getitem__(self, at: int | slice) -> SentRow | SentRows:
        if isinstance(at, slice):
            return SentRows(self.numbers[at], self.messages[at])
        return SentRow(self.numbers[at], self.messages[at])


class RowPublisher(Settles):
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
        self._on_run: Callable[[Run[bytes]], None] | None = None

    def add(self, rows: SentRows) -> None:
        """Send these rows also."""
        count = len(rows)
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
        self._on_run = runs_of(subscriber)  # a link takes many rows in one call
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
        return Claims(self, 0, self._sending)

    def _emit(self) -> None:
        subscriber = self._subscriber
        if self._emitting or subscriber is None or self._ended:
            return
        sent = False
        self._emitting = True
        try:
            while self._waiting and self.demand > 0 and not self._ended:
                sent = True
                if self._on_run is None:
                    self._sending = self._take(1)
                    subscriber.on_next(self._sending.messages[0])
                else:
                    rows = self._take(self.demand)
                    run = Run(self, 0, rows, iter(rows.messages))
                    self._on_run(run)
                    run.close()
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
        last = min(first + most, len(rows))
        self._at = last
        if last == len(rows):
            self._waiting.popleft()
            self._at = 0
        self.demand -= last - first
        self.waiting -= last - first
        return rows if last - first == len(rows) else rows[first:last]

    def settle(self, epoch: int, places: Sequence[SentRow], how: Ending) -> None:
        """Note the outcome of rows."""
        if how is DONE:
            self.accepted += len(places)
        elif self.refused is None:
            self.refused = places[0]
