"""The subscriptions of a queue's consumers, and the messages that they hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from rstreams._core.demand import demand_error
from rstreams._core.holds import NO_HOLD, SharedHold
from rstreams._core.sight import Scannable
from rstreams.abc import Hold, Subscriber

if TYPE_CHECKING:
    from rstreams.node._stored import Stored


class HandsOut(Protocol):
    """The queue behind a consumer."""

    def _request(self, consumer: Consumer, n: int) -> None: ...

    def _suspend(self, consumer: Consumer) -> None: ...

    def _resume(self, consumer: Consumer) -> None: ...

    def _cancel(self, consumer: Consumer) -> None: ...

    def _settle(self, delivery: Delivery, error: BaseException | None, *, released: bool) -> None: ...


class Delivery(SharedHold):
    """A message in the hands of a consumer that took a hold on it; the last to let go settles it."""

    __slots__ = ("consumer", "message")

    def __init__(self, consumer: Consumer, message: Stored) -> None:
        super().__init__(())
        self.consumer = consumer
        self.message = message

    def cut(self, error: BaseException) -> None:
        """Fail it at once: a consumer that raised may never say what became of it."""
        self._keepers = 1
        self.fail(error)

    def _settle(self) -> None:
        self.consumer.queue._settle(self, self._error, released=self._released)  # noqa: SLF001 - a part of the queue


class Consumer(Scannable):
    """One subscription of a queue.

    Attributes:
        origin: Who it is, for the dead letters of what it fails at.
        asked: Whether it has been asked to settle something, and has settled nothing since.
    """

    __slots__ = ("asked", "delivery", "demand", "ended", "message", "origin", "queue", "subscriber", "suspended")

    operator = "queue"

    def __init__(self, queue: HandsOut, subscriber: Subscriber[bytes], origin: str) -> None:
        self.queue = queue
        self.subscriber = subscriber
        self.origin = origin
        self.demand = 0
        self.ended = False
        self.suspended = False
        self.asked = False
        self.message: Stored | None = None  # in `on_next` now
        self.delivery: Delivery | None = None  # and held there

    def request(self, n: int) -> None:
        if self.ended:
            return
        error = demand_error(n)
        if error is None:
            self.queue._request(self, n)  # noqa: SLF001 - a part of the queue
        else:
            self.cancel()
            self.subscriber.on_error(error)

    def cancel(self) -> None:
        if not self.ended:
            self.ended = True
            self.queue._cancel(self)  # noqa: SLF001

    def suspend(self) -> None:
        if not self.ended:
            self.queue._suspend(self)  # noqa: SLF001

    def resume(self) -> None:
        if not self.ended:
            self.queue._resume(self)  # noqa: SLF001

    def hold(self) -> Hold:
        if self.delivery is None:
            if self.message is None:
                return NO_HOLD
            self.delivery = Delivery(self, self.message)
        return self.delivery.hold()
