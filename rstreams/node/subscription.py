"""Bases of the subscriptions at an address: requests, cancels, and demand that no other subscription waits for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from rstreams._core.claims import NO_HOLD, Claims
from rstreams._core.demand import add_demand, demand_error, take_demand
from rstreams._core.run import Run, runs_of
from rstreams._core.sight import Asked, Scannable, Want
from rstreams._core.spell import Spell
from rstreams.abc import Hold, Subscriber
from rstreams.culprits import WaitTree
from rstreams.node.address_waits import Waits
from rstreams.node.raising_subscriber import hand_over, hand_over_run


class AddressSubscription(Scannable, ABC):
    """One subscription at an address, which ends once.

    Attributes:
        subscriber: The receiver of the messages.
        ended: Whether it gets no more messages.
        waits: Returns what the address waits for; None: nobody has set it.
    """

    __slots__ = ("ended", "subscriber", "waits")

    def __init__(self, subscriber: Subscriber[bytes]) -> None:
        self.subscriber = subscriber
        self.ended = False
        self.waits: Waits | None = None

    def part(self, want: Want, asked: Asked) -> WaitTree | None:
        """Return the address, with what it waits for."""
        return None if self.waits is None else self.waits(want, asked)

    def request(self, n: int) -> None:
        """Ask for `n` more messages."""
        if self.ended:
            return
        error = demand_error(n)
        if error is None:
            self._ask(n)
        else:
            self.fail(error)

    def cancel(self) -> None:
        """Get no more messages; the holds outlive this."""
        if not self.ended:
            self.ended = True
            self._leave()

    def fail(self, error: BaseException) -> None:
        """End with an error."""
        if not self.ended:
            self.cancel()
            self.subscriber.on_error(error)

    def complete(self) -> None:
        """End: no more messages are to come."""
        if not self.ended:
            self.cancel()
            self.subscriber.on_complete()

    def look_again(self) -> None:
        """Tell the subscriber that no more messages come without a further request, if it wants to know that."""
        look_again = getattr(self.subscriber, "look_again", None)
        if look_again is not None:
            look_again()

    @property
    @abstractmethod
    def unasked(self) -> Spell:
        """While the address has a message for it, and it asks for none; perhaps nobody else does."""

    @abstractmethod
    def _ask(self, n: int) -> None:
        """Add a valid request to the demand."""

    @abstractmethod
    def _leave(self) -> None:
        """Leave the address: the subscription has ended."""


class OwnDemand(AddressSubscription):
    """A subscription that gets each message of its address, whatever the other subscriptions get.

    Demand: Its own; no other subscription waits for it.

    Args:
        address: The name of the address, for the log.
        subscriber: Gets the messages.

    Attributes:
        demand: How many messages it has asked for and not received.
        delivered: How many messages it has received.
    """

    __slots__ = ("_address", "_emitting", "_on_run", "_run", "_suspended", "_unasked", "delivered", "demand")

    def __init__(self, address: str, subscriber: Subscriber[bytes]) -> None:
        super().__init__(subscriber)
        self._address = address
        self._on_run = runs_of(subscriber)
        self._run: Run[bytes] | None = None  # the messages that are being handed over
        self._suspended = False
        self._emitting = False
        self._unasked = Spell()
        self.demand = 0
        self.delivered = 0

    @property
    def comes_later(self) -> bool:
        """Whether messages are being read from the disk, which come without a further request."""
        return False

    @property
    def wants(self) -> bool:
        """Whether a message may be handed over now."""
        return self.demand > 0 and not self.ended and not self._suspended

    def suspend(self) -> None:
        """Get no messages until `resume`."""
        self._suspended = True
        self._note_unasked()

    def resume(self) -> None:
        """Get messages again."""
        self._suspended = False
        self.emit()

    def hold(self) -> Hold:
        """Take a hold on the message that is being handed over, if it needs an outcome."""
        return NO_HOLD if self._run is None else self._run.hold()

    def emit(self) -> None:
        """Hand over messages as far as there is demand; a nested call does nothing."""
        if self._emitting:
            return
        self._emitting = True
        try:
            while self.demand and not self.ended and not self._suspended:
                if not self._emit_some():
                    break
        finally:
            self._emitting = False
        if not self.demand or self._suspended or self._unasked.lasts:
            self._note_unasked()

    @property
    def unasked(self) -> Spell:
        """While a message is here for it, and it asks for none."""
        return self._unasked

    def _note_unasked(self) -> None:
        """Note whether a message is here that it does not ask for."""
        if (not self.wants and not self.ended and self._has_more()) is not self._unasked.lasts:
            self._unasked.note(lasts=not self._unasked.lasts)

    @abstractmethod
    def _has_more(self) -> bool:
        """Tell whether a message is here for it; called while it asks for none."""

    def on_ready(self) -> None:
        """Hand over messages that have come; if no more come now, the subscriber hears of it."""
        self.emit()
        if not self.ended and not self.comes_later:
            self.look_again()

    def _ask(self, n: int) -> None:
        self.demand = add_demand(self.demand, n)
        self.emit()

    def _hand_over(self, encoded: bytes) -> Exception | None:
        """Hand over one message; return the exception that the subscriber raised, if any."""
        self.demand = take_demand(self.demand, 1)
        self.delivered += 1
        return hand_over(self.subscriber, encoded, self._address, self.cancel)

    def _hand_over_run(self, messages: list[bytes], claims: Claims) -> None:
        """Hand over messages that have been asked for; those that the subscriber does not take are given back."""
        run = self._run = Run(claims.source, claims.epoch, claims.places, iter(messages))
        take: Callable[[Run[bytes]], None] = self._hand_over_each
        if self._on_run is not None and len(messages) > 1:
            take = self._on_run
            self.demand = take_demand(self.demand, len(messages))
            self.delivered += len(messages)
        try:
            hand_over_run(take, run, self.subscriber, self._address, self.cancel)
        finally:
            self._run = None

    def _hand_over_each(self, run: Run[bytes]) -> None:
        for message in run.items():
            error = self._hand_over(message)
            if error is not None:
                run.fail(error)
            if self.ended:
                break

    @abstractmethod
    def _emit_some(self) -> bool:
        """Hand over some of the messages asked for; return whether there may be more."""
