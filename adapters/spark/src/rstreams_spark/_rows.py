"""Rows on their way out: a publisher of the messages of rows, which notes the first one that was not accepted."""

from __future__ import annotations

from collections.abc import Sequence

from rstreams.abc import Hold, Subscriber
from rstreams.message import Message


class RowPublisher:
    """Publishes messages once, in order, and notes the first that the receiver did not accept.

    Demand: Answered from the sequence at once, without recursion.
    Context: The trio thread of the connection that publishes it; the attributes are valid afterwards.

    Attributes:
        refused: The index of the first message that was failed or given back, or None. If `publish` raises
            `DeliveryFailed` it is the message of that error; messages given back after it were not tried, or are
            unknown.
        accepted: How many were accepted.
    """

    def __init__(self, messages: Sequence[Message]) -> None:
        """Make a publisher for one subscriber."""
        self.refused: int | None = None
        self.accepted = 0
        self._messages = messages
        self._next = 0
        self._demand = 0
        self._emitting = False
        self._ended = False
        self._subscriber: Subscriber[Message] | None = None

    def subscribe(self, subscriber: Subscriber[Message]) -> None:
        """Begin the one subscription."""
        self._subscriber = subscriber
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
        return _RowHold(self, self._next - 1)

    @property
    def begun(self) -> bool:
        """Tell whether a link has subscribed, that is, whether rows may have been sent."""
        return self._subscriber is not None

    def _emit(self) -> None:
        subscriber, messages = self._subscriber, self._messages
        if self._emitting or subscriber is None:
            return
        self._emitting = True
        try:
            while not self._ended and self._next < len(messages) and self._demand > 0:
                self._demand -= 1
                self._next += 1
                subscriber.on_next(messages[self._next - 1])
        finally:
            self._emitting = False
        if not self._ended and self._next == len(messages):
            self._ended = True
            subscriber.on_complete()

    def refuse(self, index: int) -> None:
        """Note a message that was not accepted."""
        if self.refused is None:
            self.refused = index


class _RowHold:
    __slots__ = ("_index", "_publisher")

    def __init__(self, publisher: RowPublisher, index: int) -> None:
        self._publisher = publisher
        self._index = index

    def done(self) -> None:
        self._publisher.accepted += 1

    def fail(self, error: BaseException) -> None:  # publish() raises it
        self._publisher.refuse(self._index)

    def release(self) -> None:
        self._publisher.refuse(self._index)
