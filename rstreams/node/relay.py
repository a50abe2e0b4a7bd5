"""The relay: on a link without an address each message names the address that it goes to.

Theory of operation. A message goes to the address in its `to`, over a *way* that exists while messages wait for that
address. An address gives room to a way as it does to a producer's link. A message that finds no room waits, unsettled.
A full address must not stop messages for others: only half of the link's window may wait, and a message beyond that is
refused.

A message that no address takes is rejected, with the condition of a refused attach to the same address. If its sender
has settled it already, a rejection would not reach the sender: its link is ended instead.

Spec: Using the AMQP Anonymous Terminus for Message Routing 1.0.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol
from weakref import WeakSet

from rstreams._codec.forwarding import address_of
from rstreams._core.claims import NO_HOLD, Claims, claims_on
from rstreams._core.demand import UNBOUNDED
from rstreams._core.subscription import ENDED
from rstreams.abc import Hold, Subscriber, Subscription
from rstreams.errors import Condition, DeliveryFailed, ProtocolError
from rstreams.net.transport.accounts import Client
from rstreams.node.access import Access, Action
from rstreams.node.address import Address, LinkRequest, Supply
from rstreams.node.producer_outlet import ProducerOutlet
from rstreams.node.rates import Metered
from rstreams.node.wishes import Wishes
from rstreams.protocol.receiver import LinkSubscription


class Routes(Protocol):
    """The node's table of addresses, as a relay uses it."""

    def route(self, name: str, client: Client) -> tuple[Subscriber[bytes], Wishes]:
        """Return a producer's end at the address `name`, for messages of a client, and what is ignored there.

        Errors: `ProtocolError` with the condition for a refused link to it.
        """
        ...


class Relay(Address):
    """The address without a name: senders that attach to it send to any other address.

    Args:
        routes: Finds the addresses.
        window: The most messages of one link that can be on hand; half of them may wait for room.
    """

    kind = "relay"
    open_while_draining = True  # it then passes on replies alone

    def __init__(self, routes: Routes, window: int) -> None:
        self.name = ""
        self._routes = routes
        self._window = window
        self.links: WeakSet[Relayed] = WeakSet()

    def producer(self, *, once: bool = False) -> Subscriber[bytes]:  # noqa: ARG002 - all are refused
        """Refuse a message without an address: only links come here."""
        raise ProtocolError(Condition.NOT_FOUND.value, f"no address {self.name!r} here")

    def check_access(self, access: Access, client: Client, action: Action) -> None:
        """Let in everyone: each message is checked."""

    def producer_for(self, link: LinkRequest) -> Subscriber[bytes]:
        """Return the subscriber of one link's messages."""
        relayed = Relayed(self._routes, self._window, link)
        self.links.add(relayed)
        return relayed

    def supply(self, link: LinkRequest) -> Supply:  # noqa: ARG002 - all are refused
        """Refuse the link: a receiver must name an address."""
        raise ProtocolError(Condition.NOT_FOUND.value, f"no address {self.name!r} here")

    def explain(self) -> str:
        """Return an empty line: the other addresses tell their states."""
        return ""

    def address_gone(self, name: str) -> None:
        """Refuse the messages that wait for an address that does not exist any more."""
        for relayed in list(self.links):
            relayed.address_gone(name)

    def drain(self, goes_on: Callable[[str], bool], why: str) -> None:
        """Refuse the messages that wait for addresses that take no more: the node is closing."""
        for relayed in list(self.links):
            relayed.drain(goes_on, why)


class Relayed:
    """The node's end of one link without an address: a subscriber of its messages.

    Args:
        routes: Finds the addresses.
        window: The most messages that can be on hand; half of them may wait for room.
        link: The client's wish to attach it.

    Demand: As much as the link's window allows: each message keeps its place there until its address has it.
    Errors: A message is rejected if it is malformed, names no address, or its address does not exist or has no room.
    Spec: As the module says.
    """

    def __init__(self, routes: Routes, window: int, link: LinkRequest) -> None:
        self._routes = routes
        self._client, self._origin = link.client, link.origin
        self._most_waiting = max(1, window // 2)
        self._subscription: Subscription = ENDED
        self._ways: dict[str, _RelayWay] = {}
        self._ended = False

    @property
    def waiting(self) -> int:
        """How many messages wait for room."""
        return sum(way.waiting for way in self._ways.values())

    def on_subscribe(self, subscription: Subscription) -> None:
        """Request all messages that the link can have on hand; a second subscription is cancelled (2.5)."""
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
        way.wishes.look(item, self._origin)
        way.put(item, claims_on(hold))
        if self.waiting > self._most_waiting:
            text = f"the address {way.name!r} has no room, and no more messages may wait for room"
            self._refuse(way.take_last(), Condition.RESOURCE_LIMIT_EXCEEDED.value, text)

    def _way_for(self, item: bytes) -> _RelayWay:
        name = address_of(item)
        if name is None:
            text = "a message on a link without an address must name its address in its field to"
            raise ProtocolError(Condition.INVALID_FIELD.value, text)
        way = self._ways.get(name)
        if way is None:
            producer, wishes = self._routes.route(name, self._client)
            way = self._ways[name] = _RelayWay(self, name, lambda: producer, wishes)
        return way

    def on_error(self, error: BaseException) -> None:  # noqa: ARG002 - the reason changes nothing here
        """Give back the messages that wait, except those that the sender has settled: the link is gone."""
        self._ended = True
        for way in list(self._ways.values()):
            way.give_back()

    def on_complete(self) -> None:
        """Note that the sender sends no more; the messages that wait get their outcomes before the link ends."""
        self._ended = True

    def address_gone(self, name: str) -> None:
        """Refuse the messages that wait for an address that does not exist any more."""
        way = self._ways.pop(name, None)
        if way is not None:
            for hold in way.drop():
                self._refuse(hold, Condition.RESOURCE_DELETED.value, f"the address {name!r} is gone")

    def drain(self, goes_on: Callable[[str], bool], why: str) -> None:
        """Refuse the messages that wait for addresses that take no more."""
        for name in [name for name in self._ways if not goes_on(name)]:
            for hold in self._ways.pop(name).drop():
                self._refuse(hold, Condition.CONNECTION_FORCED.value, why)

    def over(self, name: str) -> None:
        """Forget the way to an address: no message waits for it any more."""
        self._ways.pop(name, None)

    def _refuse(self, hold: Hold, condition: str, text: str) -> None:
        if hold is not NO_HOLD:
            hold.fail(DeliveryFailed("rejected", condition, text))
        elif not self._ended:
            error = ProtocolError(condition, text)
            if isinstance(self._subscription, LinkSubscription | Metered):
                self._subscription.give_up(error)
            else:
                self._subscription.cancel()
                self.on_error(error)


class _RelayWay(ProducerOutlet):
    """The way of one link's messages to one address, while some wait."""

    def __init__(self, relayed: Relayed, name: str, make: Callable[[], Subscriber[bytes]], wishes: Wishes) -> None:
        super().__init__(make)
        self.wishes = wishes
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

    def drop(self) -> list[Claims]:
        """Forget the waiting messages; return the holds."""
        holds = [hold for _, hold in self._waiting]
        self._waiting.clear()
        self._end_if_idle()
        return holds

    def cancel(self) -> None:
        """Refuse the messages that wait: the address takes no more messages."""
        super().cancel()
        self._relayed.address_gone(self.name)

    def _end_if_idle(self) -> None:
        if not self._waiting:
            self._idle()

    def _gone(self) -> None:
        self._relayed.over(self.name)
