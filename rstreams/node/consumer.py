"""A queue's consumers: their subscriptions, and the messages that they hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, overload

from rstreams._core.claims import DONE, NO_HOLD, Claims, Ending, Settles
from rstreams._core.run import Run, runs_of
from rstreams._core.spell import Spell
from rstreams.abc import Hold, Subscriber
from rstreams.node.raising_subscriber import hand_over_run
from rstreams.node.stored_message import Lasting, Stored
from rstreams.node.subscription import AddressSubscription


class HandsOut(Protocol):
    """The policy of a queue that hands messages to consumers, such as `Competing`."""

    name: str
    unserved: Spell

    @property
    def comes_later(self) -> bool:
        """Whether messages that are here are not handed over yet, because they are being read from the disk."""
        ...

    def request(self, consumer: Consumer, n: int) -> None:
        """Add to the demand of a consumer."""
        ...

    def suspend(self, consumer: Consumer) -> None:
        """Pass over a consumer until `resume`."""
        ...

    def resume(self, consumer: Consumer) -> None:
        """Let a consumer take its turns again."""
        ...

    def cancel(self, consumer: Consumer) -> None:
        """Hand nothing more to a consumer, which may still settle what it has."""
        ...

    def accept(self, consumer: Consumer, messages: Sequence[bytes | Stored]) -> None:
        """Let go of messages that a consumer has accepted."""
        ...

    def refuse(self, consumer: Consumer, message: Stored, how: Ending) -> None:
        """Take back a message that a consumer has not accepted."""
        ...


class HandedRun(Sequence[Stored]):
    """Messages that a consumer got in one call; a message is made when it is asked for.

    Attributes:
        messages: The messages: bytes, or a `Lasting` if it can be too old.
    """

    __slots__ = ("_numbers", "messages")

    def __init__(self, numbers: range, messages: Sequence[bytes | Lasting]) -> None:
        """Have these messages, with these sequence numbers."""
        self._numbers = numbers
        self.messages = messages

    def __len__(self) -> int:
        return len(self.messages)

    @overload
    def __getitem__(self, at: int) -> Stored: ...

    @overload
    def __getitem__(self, at: slice) -> HandedRun: ...

    def __getitem__(self, at: int | slice) -> Stored | HandedRun:
        if isinstance(at, slice):
            return HandedRun(self._numbers[at], self.messages[at])
        message = self.messages[at]
        return Stored(self._numbers[at], message) if isinstance(message, bytes) else message


class Consumer(AddressSubscription, Settles):
    """One subscription of a queue.

    Attributes:
        origin: The consumer's peer and link, for the dead letters of messages that failed there.
        asked: Whether it has been asked to settle a message, and has settled none since.
        message: The message that is being handed over to it.
        held: The claim on that message, if the subscriber has taken a hold on it.
        ended_with: How this claim has ended, if that was while the message was handed over; it counts behind that.
        run: The messages that are being handed over to it, if they are many.
        on_run: The subscriber's function that takes many messages; None if it takes them one by one.
        purges: Whether it takes messages only to delete them; they count as purged, and not as accepted.
    """

    __slots__ = (
        "asked",
        "demand",
        "ended_with",
        "held",
        "message",
        "on_run",
        "origin",
        "purges",
        "queue",
        "run",
        "suspended",
    )

    operator = "queue"

    def __init__(self, queue: HandsOut, subscriber: Subscriber[bytes], origin: str) -> None:
        super().__init__(subscriber)
        self.queue = queue
        self.on_run = runs_of(subscriber)
        self.origin = origin
        self.purges = getattr(subscriber, "purges", False) is True
        self.demand = 0
        self.suspended = False
        self.asked = False
        self.message: Stored | None = None
        self.held: Claims | None = None
        self.ended_with: Ending | None = None
        self.run: Run[bytes] | None = None

    def _ask(self, n: int) -> None:
        self.queue.request(self, n)

    def _leave(self) -> None:
        self.queue.cancel(self)

    @property
    def comes_later(self) -> bool:
        """Whether more messages come without a further request; a drain is not answered before they have come."""
        return self.queue.comes_later

    def suspend(self) -> None:
        """Get no messages until `resume`."""
        if not self.ended:
            self.queue.suspend(self)

    def resume(self) -> None:
        """Get messages again."""
        if not self.ended:
            self.queue.resume(self)

    def take_run(self, encoded: list[Any], claims: Claims) -> None:
        """Hand messages over, many at a time."""
        assert self.on_run is not None, "asked for before"
        run = self.run = Run(claims.source, claims.epoch, claims.places, iter(encoded))
        try:
            hand_over_run(self.on_run, run, self.subscriber, self.queue.name, self.cancel)
        finally:
            self.run = None

    def hold(self) -> Hold:
        """Take a hold on the message that is being handed over."""
        if self.run is not None:
            return self.run.hold()
        if self.held is not None:
            return self.held.hold()
        if self.message is None:
            return NO_HOLD
        self.held = Claims(self, 0, (self.message,))
        return self.held

    @property
    def unasked(self) -> Spell:
        """While messages are ready and no consumer asks for one."""
        return self.queue.unserved

    def settle(self, epoch: int, places: Sequence[Any], how: Ending) -> None:  # noqa: ARG002 - there are none
        """Have the queue settle messages that the consumer has had."""
        if self.message is not None and places[0] is self.message:
            self.held, self.ended_with = Claims(self, 0, places), how  # `on_next` goes on, and may hold it again
        elif how is DONE:
            self.queue.accept(self, places.messages if type(places) is HandedRun else places)
        else:
            for message in places:
                self.queue.refuse(self, message, how)


@dataclass(frozen=True, slots=True)
class Subscribing:
    """A publisher whose `subscribe` calls a function."""

    begin: Callable[[Subscriber[bytes]], None]

    def subscribe(self, subscriber: Subscriber[bytes]) -> None:
        """Subscribe `subscriber`."""
        self.begin(subscriber)
