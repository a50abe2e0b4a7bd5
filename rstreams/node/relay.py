"""The relay: what comes on a link without an address says itself where it is to go.

Theory of operation. Each message goes to the address in its `to`, over a *way* that is there while messages wait for
it. An address gives room to a way as it does to a producer's link. What finds no room waits, unsettled. So that no full
address stops what is for others, only half of the link's window may wait; what would wait beyond that is refused.

What cannot go anywhere is rejected with the condition that an attach to the same address would be refused with. A
sender that has settled it already hears nothing by that, and loses its link.

Spec: Using the AMQP Anonymous Terminus for Message Routing 1.0.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol

from rstreams._codec.forwarding import address_of
from rstreams._core.demand import UNBOUNDED
from rstreams._core.holds import NO_HOLD
from rstreams._core.subscription import ENDED
from rstreams.abc import Hold, Subscriber, Subscription
from rstreams.errors import Condition, DeliveryFailed, ProtocolError
from rstreams.node._outlet import ProducerOutlet
from rstreams.protocol.receiver import LinkSubscription


class Routes(Protocol):
    """Where a relay asks for an address."""

    def route(self, name: str) -> Callable[[], Subscriber[bytes]]:
        """Return what makes a producer's end at the address `name`.

        Errors: `ProtocolError` with the condition that a link to it would be refused with.
        """
        ...


class Relayed:
    """The node's end of one link without an address: a subscriber of what comes on it.

    Args:
        routes: Knows the addresses.
        window: The most messages that can be on hand, of which half may wait for room.

    Demand: All that the link's window allows: each message holds its place there until its address has it.
    Errors: A message that is no message, names no address, or one that there is not or has no room, is rejected.
    Spec: As the module says.
    """

    def __init__(self, routes: Routes, window: int) -> None:
        self._routes = routes
        self._most_waiting = max(1, window // 2)
        self._subscription: Subscription = ENDED
        self._ways: dict[str, _Way] = {}
        self._ended = False

    @property
    def waiting(self) -> int:
        """How many messages wait for room."""
        return sum(way.waiting for way in self._ways.values())

    def on_subscribe(self, subscription: Subscription) -> None:
        """Ask for all that the link can have on hand; a second subscription is cancelled (2.5)."""
        if self._subscription is not ENDED:
            subscription.cancel()
            return
        self._subscription = subscription
        subscription.request(UNBOUNDED)

    def on_next(self, item: bytes) -> None:
        """Pass a message on, or refuse it."""
        if self._ended:
            return
        hold = self._subscription.hold()
        try:
            way = self._way_for(item)
        except ProtocolError as error:
            self._refuse(hold, error.condition, error.description)
            return
        way.put(item, hold)
        if self.waiting > self._most_waiting:
            text = f"the address {way.name!r} has no room, and as many messages as may wait for some do already"
            self._refuse(way.take_last(), Condition.RESOURCE_LIMIT_EXCEEDED.value, text)

    def _way_for(self, item: bytes) -> _Way:
        name = address_of(item)
        if name is None:
            text = "a message on a link without an address must say where it is to go, in its field to"
            raise ProtocolError(Condition.INVALID_FIELD.value, text)
        way = self._ways.get(name)
        if way is None:
            way = self._ways[name] = _Way(self, name, self._routes.route(name))
        return way

    def on_error(self, error: BaseException) -> None:  # noqa: ARG002 - why the sender left changes nothing here
        """The link is gone: the sender has back what waited, but for what it has settled."""
        self._ended = True
        for way in list(self._ways.values()):
            way.give_back()

    def on_complete(self) -> None:
        """The sender sends no more; what waits has its outcome before the link ends."""
        self._ended = True

    def address_gone(self, name: str) -> None:
        """Refuse what waits for an address that there is no more."""
        way = self._ways.pop(name, None)
        if way is not None:
            for hold in way.drop():
                self._refuse(hold, Condition.RESOURCE_DELETED.value, f"the address {name!r} is gone")

    def close(self, goes_on: Callable[[str], bool], why: str) -> None:
        """Refuse what waits for addresses that take no more: the node is closing."""
        for name in [name for name in self._ways if not goes_on(name)]:
            for hold in self._ways.pop(name).drop():
                self._refuse(hold, Condition.CONNECTION_FORCED.value, why)

    def over(self, name: str) -> None:
        """Nothing waits for an address any more."""
        self._ways.pop(name, None)

    def _refuse(self, hold: Hold, condition: str, text: str) -> None:
        if hold is not NO_HOLD:
            hold.fail(DeliveryFailed("rejected", condition, text))
        elif not self._ended:
            error = ProtocolError(condition, text)
            if isinstance(self._subscription, LinkSubscription):
                self._subscription.give_up(error)
            else:
                self._subscription.cancel()
                self.on_error(error)


class _Way(ProducerOutlet):
    """The way of one link's messages to one address, while some wait."""

    def __init__(self, relayed: Relayed, name: str, make: Callable[[], Subscriber[bytes]]) -> None:
        super().__init__(make)
        self._relayed = relayed
        self.name = name

    def take_last(self) -> Hold:
        """Take out the message that came last, which waits; return its hold."""
        hold = self._waiting.pop()[1]
        self._end_if_idle()
        return hold

    def give_back(self) -> None:
        """Let go of the waiting messages that are not settled; their sender has forgotten the others."""
        held = [hold for _, hold in self._waiting if hold is not NO_HOLD]
        self._waiting = deque(entry for entry in self._waiting if entry[1] is NO_HOLD)
        for hold in held:
            hold.release()
        self._end_if_idle()

    def drop(self) -> list[Hold]:
        """Forget the waiting messages; return the holds."""
        holds = [hold for _, hold in self._waiting]
        self._waiting.clear()
        self._end_if_idle()
        return holds

    def cancel(self) -> None:
        """The address takes no more of anybody."""
        super().cancel()
        self._relayed.address_gone(self.name)

    def _end_if_idle(self) -> None:
        if not self._waiting:
            self._idle()

    def _gone(self) -> None:
        self._relayed.over(self.name)
