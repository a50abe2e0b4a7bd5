"""A queue's consumers: their subscriptions, and the messages that they hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from rstreams._core.demand import demand_error
from rstreams._core.holds import NO_HOLD, SharedHold
from rstreams._core.sight import Scannable
from rstreams.abc import Hold, Subscriber

if TYPE_CHECKING:
    from rstreams.node.stored_message import Stored


class HandsOut(Protocol):
    """The queue behind a consumer."""

    def _request(self, consumer: Consumer, n: int) -> None: ...

    def _suspend(self, consumer: Consumer) -> None: ...

    def _resume(self, consumer: Consumer) -> None: ...

    def _cancel(self, consumer: Consumer) -> None: ...

    def _settle(self, held: HeldMessage, error: BaseException | None, *, released: bool) -> None: ...


class HeldMessage(SharedHold):
    """A message that a consumer has taken a hold on; the end of the last hold settles it."""

    __slots__ = ("consumer", "message")

    def __init__(self, consumer: Consumer, message: Stored) -> None:
        super().__init__(())
        self.consumer = consumer
        self.message = message

    def cut(self, error: BaseException) -> None:
        """Fail it at once: a consumer that raised may never let go of its holds."""
        self._keepers = 1
        self.fail(error)

    def _settle(self) -> None:
        self.consumer.queue._settle(self, self._error, released=self._released)  # noqa: SLF001 - a part of the queue


class Consumer(Scannable):
    """One subscription of a queue.

    Attributes:
        origin: The consumer's peer and link, for the dead letters of messages that failed there.
        asked: Whether it has been asked to settle a message, and has settled none since.
        message: The message that is being handed over to it.
        held: The same message, if the consumer has taken a hold on it.
    """

    __slots__ = ("asked", "demand", "ended", "held", "message", "origin", "queue", "subscriber", "suspended")

    operator = "queue"

    def __init__(self, queue: HandsOut, subscriber: Subscriber[bytes], origin: str) -> None:
        self.queue = queue
        self.subscriber = subscriber
        self.origin = origin
        self.demand = 0
        self.ended = False
        self.suspended = False
        self.asked = False
        self.message: Stored | None = None
        self.held: HeldMessage | None = None

    def request(self, n: int) -> None:
        """Ask for `n` more messages."""
        if self.ended:
            return
        error = demand_error(n)
        if error is None:
            self.queue._request(self, n)  # noqa: SLF001 - a part of the queue
        else:
            self.cancel()
            self.subscriber.on_error(error)

    def cancel(self) -> None:
        """Get no more messages; the holds outlive this."""
        if not self.ended:
            self.ended = True
            self.queue._cancel(self)  # noqa: SLF001

    def suspend(self) -> None:
        """Get no messages until `resume`."""
        if not self.ended:
            self.queue._suspend(self)  # noqa: SLF001

    def resume(self) -> None:
        """Get messages again."""
        if not self.ended:
            self.queue._resume(self)  # noqa: SLF001

    def hold(self) -> Hold:
        """Take a hold on the message that is being handed over."""
        if self.held is None:
            if self.message is None:
                return NO_HOLD
            self.held = HeldMessage(self, self.message)
        return self.held.hold()
