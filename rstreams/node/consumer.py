"""A queue's consumers: their subscriptions, and the messages that they hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, overload

from rstreams._core.fast_paths import held_runs_of
from rstreams._core.holds import NO_HOLD, HoldRun, SharedHold
from rstreams.abc import Hold, Subscriber
from rstreams.node.handover import end_raised
from rstreams.node.stored_message import Lasting, Stored
from rstreams.node.subscription import AddressSubscription


class HandsOut(Protocol):
    """The queue behind a consumer."""

    name: str

    @property
    def comes_later(self) -> bool:
        """Whether messages that are here are not handed over yet, because they are being read from the disk."""
        ...

    def _request(self, consumer: Consumer, n: int) -> None: ...

    def _suspend(self, consumer: Consumer) -> None: ...

    def _resume(self, consumer: Consumer) -> None: ...

    def _cancel(self, consumer: Consumer) -> None: ...

    def _settle(self, held: HeldMessage, error: BaseException | None, *, released: bool) -> None: ...

    def _accept(self, consumer: Consumer, messages: Sequence[bytes | Lasting]) -> None: ...


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


class HeldRun(HoldRun):
    """The messages that a consumer took in one call, which it holds; see `TakesHeldRuns`.

    Args:
        consumer: The consumer.
        numbers: The sequence number of each message.
        messages: The messages: bytes, or a `Lasting` if it can be too old.
    """

    __slots__ = ("_consumer", "_messages", "_numbers")

    def __init__(self, consumer: Consumer, numbers: range, messages: Sequence[bytes | Lasting]) -> None:
        self._consumer = consumer
        self._numbers = numbers
        self._messages = messages

    def __len__(self) -> int:
        return len(self._messages)

    @overload
    def __getitem__(self, at: int) -> Hold: ...

    @overload
    def __getitem__(self, at: slice) -> HeldRun: ...

    def __getitem__(self, at: int | slice) -> Hold | HeldRun:
        if isinstance(at, slice):
            return HeldRun(self._consumer, self._numbers[at], self._messages[at])
        return self._hold(self._numbers[at], self._messages[at])

    def __iter__(self) -> Iterator[Hold]:
        return map(self._hold, self._numbers, self._messages)

    def done(self) -> None:
        """Accept all messages."""
        self._consumer.queue._accept(self._consumer, self._messages)  # noqa: SLF001 - a part of the queue

    def _hold(self, number: int, message: bytes | Lasting) -> Hold:
        return HeldMessage(self._consumer, Stored(number, message) if isinstance(message, bytes) else message)


class Consumer(AddressSubscription):
    """One subscription of a queue.

    Attributes:
        origin: The consumer's peer and link, for the dead letters of messages that failed there.
        asked: Whether it has been asked to settle a message, and has settled none since.
        message: The message that is being handed over to it.
        held: The same message, if the consumer has taken a hold on it.
        on_held_run: The subscriber's function that takes many messages; None if it takes them one by one.
    """

    __slots__ = (
        "asked",
        "demand",
        "held",
        "message",
        "on_held_run",
        "origin",
        "queue",
        "suspended",
    )

    operator = "queue"

    def __init__(self, queue: HandsOut, subscriber: Subscriber[bytes], origin: str) -> None:
        super().__init__(subscriber)
        self.queue = queue
        self.on_held_run = held_runs_of(subscriber)
        self.origin = origin
        self.demand = 0
        self.suspended = False
        self.asked = False
        self.message: Stored | None = None
        self.held: HeldMessage | None = None

    def _ask(self, n: int) -> None:
        self.queue._request(self, n)  # noqa: SLF001 - a part of the queue

    def _leave(self) -> None:
        self.queue._cancel(self)  # noqa: SLF001

    @property
    def comes_later(self) -> bool:
        """Whether more messages come without a further request; a drain is not answered before they have come."""
        return self.queue.comes_later

    def suspend(self) -> None:
        """Get no messages until `resume`."""
        if not self.ended:
            self.queue._suspend(self)  # noqa: SLF001

    def resume(self) -> None:
        """Get messages again."""
        if not self.ended:
            self.queue._resume(self)  # noqa: SLF001

    def take_run(self, encoded: list[Any], held: HeldRun) -> None:
        """Hand messages over, many at a time."""
        assert self.on_held_run is not None, "asked for before"
        try:
            self.on_held_run(encoded, held)
        except Exception as error:
            end_raised(self.subscriber, error, self.queue.name, self.cancel)
            for hold in held:
                hold.fail(error)

    def hold(self) -> Hold:
        """Take a hold on the message that is being handed over."""
        if self.held is None:
            if self.message is None:
                return NO_HOLD
            self.held = HeldMessage(self, self.message)
        return self.held.hold()


@dataclass(frozen=True, slots=True)
class Subscribing:
    """A publisher whose `subscribe` calls a function."""

    begin: Callable[[Subscriber[bytes]], None]

    def subscribe(self, subscriber: Subscriber[bytes]) -> None:
        """Subscribe `subscriber`."""
        self.begin(subscriber)
