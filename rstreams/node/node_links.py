"""The links that peers have attached to a node: an end for each, over the address that it names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final
from weakref import WeakKeyDictionary

from rstreams import _machine
from rstreams._codec import Described
from rstreams._core.windows import WINDOW
from rstreams._events.table import (
    ATTACH_FAILED,
    ATTACH_REFUSED,
    CONSUMER_ENDED,
    CONSUMER_TOO_SMALL,
    ITEM_NOT_SENT,
    PRODUCER_FAILED,
)
from rstreams.abc import Hold, Subscriber
from rstreams.errors import (
    Condition,
    ConnectionClosed,
    ConnectionLost,
    DeliveryFailed,
    ProtocolError,
    RemoteProtocolError,
)
from rstreams.message import as_is, encode_item
from rstreams.net._proton import LinkDriver
from rstreams.net.connection import DEFAULT_PACK_ITEMS
from rstreams.net.dialects.stream_offsets import START_AT
from rstreams.net.links.bodies import open_body
from rstreams.net.links.effectively_once import ONCE, RESUMES, Stamper
from rstreams.net.links.offsets import GROUP, INCARNATION, TO_END
from rstreams.net.request_reply.properties import REPLY_STREAM
from rstreams.net.transport.accounts import Client
from rstreams.node.access import Access, Action
from rstreams.node.address import Address, LinkRequest, Supply
from rstreams.node.attached_links import AttachedLinks, end_attached
from rstreams.node.gone_consumers import GoneConsumers
from rstreams.node.kept import KeptSubscriber, KeptSubscriptions, SubscriptionName
from rstreams.node.rates import Rates
from rstreams.node.relay import Relay
from rstreams.node.stealable import BeginningSubscriber, NamedSubscriber
from rstreams.node.stored_bytes import StoredBytes
from rstreams.node.temporary import Temporaries
from rstreams.node.wishes import Wishes
from rstreams.protocol.delivery import Outcome
from rstreams.protocol.frames import COORDINATOR, Attach, Detach, Role
from rstreams.protocol.options import ReceivingOptions, SendingOptions
from rstreams.protocol.receiver import LinkSubscription
from rstreams.protocol.refusal import refuse
from rstreams.protocol.sender import LinkSubscriber
from rstreams.protocol.unsettled import Budget, UnsettledLimits

CLOSING: Final = "the node is closing"

LAST_OUTCOMES_S: Final = 5.0
"""How long a stream that has ended waits for the outcomes of its last items before it detaches, in seconds.

Some clients, such as uamqp, forget items behind the detach that they have received and not handed over.
"""

_GONE: Final = (
    "the subscription is not kept any more: it was away for too long, or the node was started again; "
    "a new one would begin with the first item"
)

_OPTIONS_OF_LOGS: Final = {
    START_AT: ("start", "a log or a stream that is served with from_offset"),
    GROUP: ("group", "a log"),
    TO_END: ("to_end", "a log"),
    INCARNATION: ("incarnation", "a partition of a log, or a stream that is served with an incarnation"),
}
"""The filters of logs: the option of `Connection.stream` that each stands for, and the addresses that have it."""

_LOGGED_REFUSALS: Final = {Condition.UNAUTHORIZED_ACCESS, Condition.RESOURCE_LIMIT_EXCEEDED}
"""Why links are refused that leave a line in the log: their users may not have them, or there are too many."""

_OF_CONNECTIONS: Final = (ConnectionClosed, ConnectionLost, RemoteProtocolError)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLinkOptions:
    """The options of the links of a node; `Node` says more of each.

    Attributes:
        expose_errors: Whether subscribers are told the text of a served stream's exception.
        pack_items: The most items that a producer may send in one delivery.
        window_bytes: The most bytes of one producer that may be on the way here; 0 for any number.
        unsettled: The most that one consumer may have unsettled.
        total_links: The most links of all connections together.
    """

    expose_errors: bool
    pack_items: int
    window_bytes: int
    unsettled: UnsettledLimits
    total_links: int


class NodeLinks:
    """Answers the attaches of peers, and keeps the links that were made.

    Args:
        addresses: The node's addresses by name; the relay joins them.
        options: The options of all links.
        budget: The memory for the unsettled deliveries of all consumers.
        access: Decides what clients may do.
        rates: How fast users may send.
        stored: Counts the bytes of replies that wait in the memory of the node.
        own: The container id of the node.

    Attributes:
        attached: The links that have not ended.
        kept: The subscriptions that outlive their connections.
        gone_consumers: The unsettled messages of consumers that have gone.
        closing: Whether new links are refused, except those that carry replies.
        producers: The ends that receive.
        repliers: The ends that receive, for addresses that are open while the node is drained.
        consumers: The ends that send, and that a node which is drained waits for.
        served: The other ends that send.
    """

    def __init__(
        self,
        addresses: MutableMapping[str, Address],
        options: NodeLinkOptions,
        budget: Budget,
        access: Access,
        rates: Rates,
        *,
        stored: StoredBytes,
        own: str = "",
    ) -> None:
        self.attached = AttachedLinks(addresses, own)
        self._options = options
        self._access = access
        self._rates = rates
        self._addresses = addresses
        self._temporaries = Temporaries(stored)
        self._relay = Relay(self, WINDOW)
        addresses[self._relay.name] = self._relay
        self.gone_consumers = GoneConsumers()
        self.kept = KeptSubscriptions(budget)
        self.closing = False
        self.producers: WeakKeyDictionary[LinkSubscription[bytes], None] = WeakKeyDictionary()
        self.repliers: WeakKeyDictionary[LinkSubscription[bytes], None] = WeakKeyDictionary()
        self.consumers: WeakKeyDictionary[LinkSubscriber[Any], None] = WeakKeyDictionary()
        self.served: WeakKeyDictionary[LinkSubscriber[Any], None] = WeakKeyDictionary()

    def drain(self) -> None:
        """Refuse new links except those for replies, withdraw the producers' credit, and end served streams."""
        self.closing = True
        for producer in list(self.producers):
            producer.suspend()
        for address in self._addresses.values():
            address.on_drain()
        self._relay.drain(lambda name: self._temporaries.get(name) is not None, CLOSING)
        goodbye = Detach(condition=Condition.CONNECTION_FORCED.value, description=CLOSING)
        self.kept.end_all(ConnectionLost(CLOSING))
        for end in list(self.served):
            end.leave(goodbye)

    @property
    def at_rest(self) -> bool:
        """Whether all deliveries that were under way when `drain` was called are through."""
        return (
            not self.gone_consumers
            and all(producer.at_rest for producer in self.producers)
            and not any(end.in_hand for end in (*self.producers, *self.repliers) if not end.ended)
            and all(end.at_rest for end in self.consumers)
            and not any(end.wants_link for end in self.served)
        )

    def find(self, name: str) -> Address | None:
        """Return the address that messages for `name` go to, or None."""
        address = self._addresses.get(name)
        return self._temporaries.get(name) if address is None else address

    def end_forbidden(self) -> None:
        """End the links that would not be let in now, because permissions have changed.

        The links of a user that is gone end with its connections.
        """
        for end, link in self.attached:
            if not self._access.lets_in(link.client.user):
                continue
            address = self.find(link.address)
            try:
                if address is not None:
                    address.check_access(self._access, link.client, link.does)
            except ProtocolError as error:
                end_attached(end, error.condition, error.description)

    def end_all(self, address: str, condition: Condition, description: str) -> None:
        """End all links to an address."""
        for end, link in self.attached:
            if link.address == address:
                end_attached(end, condition, description)
        self._relay.address_gone(address)

    def route(self, name: str, client: Client) -> tuple[Subscriber[bytes], Wishes]:
        """Return a producer's end at the address `name`, for a relay; see `Routes`."""
        address = self._permitted(name, self.find(name), client, "publish")
        producer = address.producer_of(client)
        if self.closing and not address.open_while_draining:
            raise _closing()
        return producer, address.wishes

    def may_publish(self, client: Client, address: Address) -> bool:
        """Tell whether a client may send to an address."""
        try:
            address.check_access(self._access, client, "publish")
        except ProtocolError:
            return False
        return True

    def _refuse_beyond(self, client: Client) -> None:
        """Refuse a link beyond the limit of the node, or of its user."""
        why = client.account.why_no_link()
        if why is None and self.attached.are(self._options.total_links):
            why = f"the node has its total_links={self._options.total_links}"
        if why is not None:
            raise ProtocolError(Condition.RESOURCE_LIMIT_EXCEEDED.value, why)

    def _permitted(self, name: str, address: Address | None, client: Client, action: Action) -> Address:
        """Return the address, if there is one and the client may do this there.

        A client that may not do it is not told whether there is such an address.
        """
        if address is None:
            self._access.require(client, action, name)
            raise _not_found(name)
        address.check_access(self._access, client, action)
        return address

    def attach(self, client: Client, driver: LinkDriver, frame: Attach) -> None:
        """Answer a peer's attach: with an end over the address, or with a refusal."""
        origin = client.peer.rpartition(":")[0]
        try:
            if frame.role is Role.RECEIVER:
                answer = self._answer_receiver(client, driver, frame)
            else:
                answer = self._answer_sender(client, driver, frame)
        except ProtocolError as error:
            if error.condition in _LOGGED_REFUSALS:
                ATTACH_REFUSED.tell(origin, link=frame.name, user=client.user, peer=client.peer, why=error)
            driver.bind(refuse(driver, frame, error.condition, error.description))
        except Exception as error:
            ATTACH_FAILED.tell(origin, raised=error, link=frame.name, source=frame.source, target=frame.target)
            driver.bind(refuse(driver, frame, Condition.INTERNAL_ERROR.value, "the address failed"))
        else:
            answer()

    def _answer_receiver(self, client: Client, driver: LinkDriver, frame: Attach) -> Callable[[], None]:
        """Return the function that attaches the link of a peer that receives.

        Errors: `ProtocolError` if it is refused.
        """
        if self.closing:
            raise _closing()
        if frame.dynamic:
            address = self._temporaries.make(streamed=REPLY_STREAM in frame.capabilities)
            frame = replace(frame, source=address.name)
        else:
            if frame.source is None:
                frame = self._looked_up(client, driver, frame)
            name = frame.source or ""
            address = self._permitted(name, self._addresses.get(name), client, "subscribe")
            self._refuse_second_place(client, driver, frame, address)
            end = self.kept.take(_name_of(client, driver, frame), frame)
            if end is not None:
                return partial(self._attach_end, client, driver, frame, end, end.supply)
        self._refuse_beyond(client)
        supply = address.supply(LinkRequest(frame, driver.peer_container, client))
        if not isinstance(supply, Supply):
            msg = f"{type(address).__name__}.supply() must return a Supply, not {supply!r:.80}"
            raise TypeError(msg)
        _refuse_unless_log(address, frame.filters, supply.filters)
        if supply.keep_s and RESUMES in frame.properties and START_AT not in supply.filters:
            raise ProtocolError(Condition.NOT_FOUND.value, _GONE)
        if address.metered:
            supply = self._rates.metered_supply(supply, client.account)
        return partial(self._attach_consumer, client, driver, frame, supply)

    def _looked_up(self, client: Client, driver: LinkDriver, frame: Attach) -> Attach:
        """Return the attach of a peer that looks for its named subscription, with the source that it has.

        Errors: `ProtocolError` if there is none.
        """
        owner = LinkRequest(frame, driver.peer_container, client).owner
        for address in self._addresses.values():
            if address.has_subscription(owner):
                return replace(frame, source=address.name, expiry="never")
        text = f"there is no subscription {frame.name!r:.80} of container {driver.peer_container!r:.80} here"
        raise ProtocolError(Condition.NOT_FOUND.value, text)

    def _refuse_second_place(self, client: Client, driver: LinkDriver, frame: Attach, address: Address) -> None:
        """Refuse a named subscription whose name the same owner uses at another address: a link has one name."""
        if frame.expiry != "never" or not address.names_subscriptions:
            return
        owner = LinkRequest(frame, driver.peer_container, client).owner
        for other in self._addresses.values():
            if other is not address and other.has_subscription(owner):
                text = f"this container has a subscription {owner.name!r:.80} at {other.name!r:.80}: end that one first"
                raise ProtocolError(Condition.NOT_ALLOWED.value, text)

    def _answer_sender(self, client: Client, driver: LinkDriver, frame: Attach) -> Callable[[], None]:
        """Return the function that attaches the link of a peer that sends.

        Errors: `ProtocolError` if it is refused.
        """
        target = frame.target or ""
        address = self.find(target)
        if self.closing and (address is None or not address.open_while_draining):
            raise _closing()
        if frame.target == COORDINATOR:
            raise ProtocolError(Condition.NOT_IMPLEMENTED.value, "this node has no transactions")
        if frame.dynamic:
            text = "this node makes addresses for receivers only: attach to an address, or to none"
            raise ProtocolError(Condition.NOT_IMPLEMENTED.value, text)
        self._refuse_beyond(client)
        address = self._permitted(target, address, client, "publish")
        producer = address.producer_for(LinkRequest(frame, driver.peer_container, client))
        if not callable(getattr(producer, "on_next", None)):
            msg = f"{type(address).__name__}.producer_for() must return a Subscriber, not {producer!r:.80}"
            raise TypeError(msg)
        producer = self._rates.metered(producer, client.account)
        return partial(self._attach_producer, client, driver, replace(frame, target=target), address, producer)

    def _attach_consumer(self, client: Client, driver: LinkDriver, frame: Attach, supply: Supply) -> None:
        name = _name_of(client, driver, frame)
        begins = LinkSubscriber[Any] if supply.begun is None else BeginningSubscriber
        make = KeptSubscriber[Any] if supply.keep_s else NamedSubscriber if supply.named else begins
        stamps = bool(supply.keep_s) and ONCE in frame.properties
        encode: Callable[[Any], bytes] = as_is if supply.encoded else encode_item
        options = SendingOptions(
            encode=Stamper(str(_machine.fresh_uuid())).stamping(encode) if stamps else encode,
            settlement=frame.settlement,
            expose_errors=self._options.expose_errors,
            resends=supply.keep_s > 0,
            pack_items=DEFAULT_PACK_ITEMS,
            open_body=None if supply.encoded else open_body,
            unsettled=self._options.unsettled,
            share=driver.share,
            size=supply.size,
            # A receiver of rstreams settles behind the detach, too, and may wait for that: it may gather all items.
            last_outcomes_s=0.0 if driver.peer_is_rstreams else LAST_OUTCOMES_S,
            finish_later=self.gone_consumers.add,
            made_on_demand=supply.made_on_demand,
            refuse_too_large=supply.refuse_too_large or (_leave_to_others(frame) if supply.shared else _end),
        )
        end: LinkSubscriber[Any] = make(
            supply.publisher, options, lambda error: self._on_consumer_gone(end, name, supply, error)
        )
        (self.consumers if supply.sees_through else self.served)[end] = None
        if isinstance(end, KeptSubscriber):
            self.kept.keep(name, end, frame, supply)
        if supply.named is not None:
            assert isinstance(end, NamedSubscriber), "made above"
            supply.named.taken_by(end)
        self._attach_end(client, driver, frame, end, supply)

    def _attach_end(
        self, client: Client, driver: LinkDriver, frame: Attach, end: LinkSubscriber[Any], supply: Supply
    ) -> None:
        """Attach the link of an end, which is new or goes on."""
        self.attached.add(end, frame.source or "", client, frame.name, driver)
        link = end.bind(frame.name, driver)
        driver.bind(link)
        link.receive(frame)
        answer = _answer(frame, Role.SENDER, end.properties(frame))
        answer = replace(
            answer,
            dynamic=frame.dynamic,
            distribution="move" if supply.moves else "copy",
            own_durable=supply.named is not None and supply.named.durable,
            own_expiry="session-end" if supply.named is None else "never",
            filters=supply.filters,
            properties={**answer.properties, **supply.properties},
        )
        if supply.begun is None:
            link.send(answer)
            end.start()
        else:
            assert isinstance(end, BeginningSubscriber), "made for it"
            end.attach_when(supply.begun, answer)

    def _attach_producer(
        self, client: Client, driver: LinkDriver, frame: Attach, address: Address, producer: Subscriber[bytes]
    ) -> None:
        options = ReceivingOptions(
            decode=address.wishes.taking(LinkRequest(frame, driver.peer_container, client).origin),
            window=WINDOW,
            pack_items=self._options.pack_items,
            window_bytes=self._options.window_bytes,
            asks_for_room=True,
        )
        end = LinkSubscription(producer, options, _log_raised)
        (self.repliers if address.open_while_draining else self.producers)[end] = None
        self.attached.add(end, address.name, client, frame.name, driver)
        self._temporaries.sends(address.name, end)
        link = end.bind(frame.name, driver)
        driver.bind(link, end.intake)
        link.receive(frame)
        link.send(_answer(frame, Role.RECEIVER, end.properties(frame)))
        end.start()

    def _on_consumer_gone(
        self, end: LinkSubscriber[Any], name: SubscriptionName, supply: Supply, error: BaseException | None
    ) -> None:
        """Delete the address if it was made for the link; others know by the cancel of the subscription."""
        source = name.address
        self.kept.forget(name, end)
        of_replies = self._temporaries.delete(source)
        if of_replies:
            self._relay.address_gone(source)
        if end.unencodable:
            ITEM_NOT_SENT.tell(source, number=end.sent, address=source, why=error)
        # Who failed to reply has left a line, and so has a connection that is over, for all of its links.
        elif error is not None and not (of_replies or isinstance(error, _OF_CONNECTIONS)):
            CONSUMER_ENDED.tell(source, link=name.link, container=name.container, address=source, why=error)
        if supply.on_ended is not None:
            supply.on_ended(error)
        if supply.named is not None:
            assert isinstance(end, NamedSubscriber), "made for it"
            supply.named.left_by(end, for_good=end.closed_by_peer)


def _name_of(client: Client, driver: LinkDriver, frame: Attach) -> SubscriptionName:
    return SubscriptionName(driver.peer_container, frame.source or "", frame.name, client.user)


def _not_found(name: str | None) -> ProtocolError:
    return ProtocolError(Condition.NOT_FOUND.value, f"no address {name!r} here")


def _refuse_unless_log(address: Address, wanted: Mapping[str, Any], used: Mapping[str, Any]) -> None:
    """Refuse a link that wants an option of a log at an address that has no such option.

    Without the option, a consumer would take the messages of a queue from the others.
    """
    for name, (option, where) in _OPTIONS_OF_LOGS.items():
        if name in wanted and name not in used:
            value = wanted[name]
            value = value.value if isinstance(value, Described) else value
            text = f"{option}={value!r:.80}: only for {where}, and {address.name!r:.80} is a {address.kind}"
            raise ProtocolError(Condition.NOT_ALLOWED.value, text)


def _closing() -> ProtocolError:
    return ProtocolError(Condition.CONNECTION_FORCED.value, CLOSING)


def _leave_to_others(frame: Attach) -> Callable[[Hold, Outcome, bytes], bool]:
    """Return the function that gives a message back to its address: this receiver does not take it, but others may."""
    told = False

    def give_back(hold: Hold, outcome: Outcome, _message: bytes) -> bool:
        nonlocal told
        if not told:
            source = frame.source or ""
            CONSUMER_TOO_SMALL.tell(source, address=source, why=outcome.description, link=frame.name)
            told = True
        hold.fail(DeliveryFailed("modified", delivery_failed=False, undeliverable_here=True))
        return True

    return give_back


def _end(hold: Hold, outcome: Outcome, _message: bytes) -> bool:
    """Refuse an item that no other receiver would take: without this item the stream would have a gap."""
    hold.fail(outcome.as_error())
    return False


def _answer(frame: Attach, role: Role, properties: Mapping[str, Any]) -> Attach:
    """Return this side's half of a link: the peer's wishes, as far as this side fulfils them.

    A receiver that settles second is settled first, and then by its own disposition; this side does not wait for a
    sender to settle (2.7.3: the receiver decides).
    """
    return Attach(
        frame.name,
        role,
        frame.source,
        frame.target,
        frame.settlement,
        mixed=frame.mixed,
        settles_second=frame.settles_second and role is Role.SENDER,
        properties=properties,
    )


def _log_raised(error: BaseException) -> None:
    PRODUCER_FAILED.tell(raised=error)
