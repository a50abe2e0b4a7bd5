"""The links that peers have attached to a node: for each an end, over the address that it names."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final, Literal, TypeAlias
from weakref import WeakSet

from rstreams._codec.forwarding import without_delivery_annotations
from rstreams.abc import Hold, Publisher, Subscriber
from rstreams.errors import Condition, DeliveryFailed, ProtocolError
from rstreams.message import encode_item
from rstreams.net._proton import LinkDriver
from rstreams.net.connection import DEFAULT_PACK_ITEMS, DEFAULT_WINDOW
from rstreams.net.links.bodies import open_body
from rstreams.net.links.effectively_once import ONCE
from rstreams.net.request_reply.properties import REPLY_STREAM
from rstreams.node._leftovers import Leftovers
from rstreams.node.multicast import Multicast
from rstreams.node.queue import Queue
from rstreams.node.relay import Relayed
from rstreams.node.responding import Responding, Takes
from rstreams.node.served import Served
from rstreams.node.temporary import ReplyStream, Temporaries
from rstreams.protocol.delivery import Outcome
from rstreams.protocol.frames import COORDINATOR, Attach, Detach, Role
from rstreams.protocol.packing import PACK_ITEMS
from rstreams.protocol.receiver import LinkSubscription
from rstreams.protocol.refusal import refuse
from rstreams.protocol.sender import LinkSubscriber
from rstreams.protocol.unsettled import UnsettledLimits

STATISTICS: Final = "$statistics"
"""The address at which a node serves its own statistics, one snapshot for each item requested."""

CLOSING: Final = "the node is closing"

Address: TypeAlias = Served[Any] | Queue | Multicast | Responding | ReplyStream

logger = logging.getLogger("rstreams.node")


class Links:
    """What a node does when a peer attaches, and the links that have come of it.

    Args:
        addresses: Those that links may name.
        statistics: What `$statistics` serves.
        expose_errors: Whether the text of a served stream's exception goes to subscribers.
        pack_items: The most items that a producer may send in one delivery.
        window_bytes: The most bytes that one producer may have on its way here; 0 for any number.
        unsettled: What one consumer may have unsettled.

    Attributes:
        leftovers: What consumers that have gone had not settled.
        closing: Whether new links are refused, but for those that replies come on.
        producers: The ends that receive.
        repliers: The ends that receive replies, for addresses that were made for a link.
        consumers: The ends that send what is stored.
        served: The ends that send what is made for each.
    """

    def __init__(
        self,
        addresses: Mapping[str, Address],
        statistics: Publisher[Any],
        *,
        expose_errors: bool,
        pack_items: int,
        window_bytes: int,
        unsettled: UnsettledLimits,
    ) -> None:
        self._addresses = addresses
        self._temporaries = Temporaries()  # addresses that are made for one receiver each
        self._statistics = statistics
        self._expose_errors = expose_errors
        self._pack_items = pack_items
        self._window_bytes = window_bytes
        self._unsettled = unsettled
        self.leftovers = Leftovers()
        self.closing = False
        self.producers: WeakSet[LinkSubscription[bytes]] = WeakSet()
        self.repliers: WeakSet[LinkSubscription[bytes]] = WeakSet()
        self.consumers: WeakSet[LinkSubscriber[Any]] = WeakSet()
        self.served: WeakSet[LinkSubscriber[Any]] = WeakSet()
        self._relayed: WeakSet[Relayed] = WeakSet()

    def close(self) -> None:
        """Take nothing more on but replies: new links are refused, producers get no credit, and served streams end."""
        self.closing = True
        for producer in list(self.producers):
            producer.suspend()
        for relayed in list(self._relayed):
            relayed.close(lambda name: self._temporaries.get(name) is not None, CLOSING)
        goodbye = Detach(condition=Condition.CONNECTION_FORCED.value, description=CLOSING)
        for end in list(self.served):
            end.leave(goodbye)

    @property
    def at_rest(self) -> bool:
        """Whether all that was under way when `close` was called is through."""
        return (
            not self.leftovers
            and all(producer.at_rest for producer in self.producers)
            and not any(end.in_hand for end in (*self.producers, *self.repliers) if not end.ended)
            and all(end.at_rest for end in self.consumers)
            and not any(end.wants_link for end in self.served)
        )

    def find(self, name: str) -> Address | None:
        """Return the address of that name, if there is one."""
        return self._addresses.get(name) or self._temporaries.get(name)

    def attach(self, driver: LinkDriver, frame: Attach) -> None:
        """Answer a peer's attach, with an end over the address or with a refusal."""
        replies = frame.role is Role.SENDER and (
            not frame.target or self._temporaries.get(frame.target) is not None  # a relay, which then passes on no more
        )
        if self.closing and not replies:
            self._refuse(driver, frame, Condition.CONNECTION_FORCED, CLOSING)
        elif frame.role is Role.RECEIVER:
            self._attach_consumer(driver, frame)
        else:
            self._attach_producer(driver, frame)

    def _attach_consumer(self, driver: LinkDriver, frame: Attach) -> None:
        address: Address | None = self._addresses.get(frame.source or "")
        if frame.dynamic:
            address = self._temporaries.make(streamed=REPLY_STREAM in frame.capabilities)
            frame = replace(frame, source=address.name)
        if frame.source == STATISTICS:
            publisher: Publisher[Any] = self._statistics
        elif address is None:
            self._refuse(driver, frame, Condition.NOT_FOUND, f"no address {frame.source!r} here")
            return
        elif isinstance(address, Responding):
            text = f"{frame.source!r} takes requests: there is nothing to receive"
            self._refuse(driver, frame, Condition.NOT_ALLOWED, text)
            return
        elif isinstance(address, Queue):
            copies = frame.distribution == "copy" and not frame.dynamic
            publisher = _Browsed(address) if copies else _Consumed(address, _origin(driver, frame))
        else:
            publisher = address
        stored = isinstance(address, Queue | Multicast | ReplyStream)
        moves = isinstance(publisher, _Consumed)
        end = LinkSubscriber(
            publisher,
            encode=_as_is if stored else encode_item,
            encodes_body=not stored,
            settlement=frame.settlement,
            settle_before_detach=False,
            fail_on_refusal=False,
            expose_errors=self._expose_errors,
            on_finished=lambda error: self._on_consumer_gone(frame.source or "", error),
            pack_items=DEFAULT_PACK_ITEMS,
            open_body=None if stored else open_body,
            max_unsettled=self._unsettled.items,
            max_unsettled_bytes=self._unsettled.size,
            share=driver.share,
            finish_later=self.leftovers.add,
            refuse_too_large=_leave_to_others(frame) if moves else _end,
        )
        (self.consumers if stored and not isinstance(publisher, _Browsed) else self.served).add(end)
        link = end.bind(frame.name, driver)
        driver.bind(link)
        link.receive(frame)
        answer = _answer(frame, Role.SENDER, end.properties())
        ends = {REPLY_STREAM: True} if isinstance(address, ReplyStream) else {}
        distribution: Literal["move", "copy"] = "move" if moves or isinstance(address, ReplyStream) else "copy"
        link.send(
            replace(answer, dynamic=frame.dynamic, distribution=distribution, properties={**answer.properties, **ends})
        )
        end.start()

    def _attach_producer(self, driver: LinkDriver, frame: Attach) -> None:
        try:
            producer = self._producer_for(frame)
        except ProtocolError as error:
            driver.bind(refuse(driver, frame, error.condition, error.description))
            return
        end = LinkSubscription(
            producer,
            decode=without_delivery_annotations,
            window=DEFAULT_WINDOW,
            on_raised=_log_raised,
            pack_items=self._pack_items,
            window_bytes=self._window_bytes,
        )
        replies = isinstance(producer, Relayed) or self._temporaries.get(frame.target or "") is not None
        (self.repliers if replies else self.producers).add(end)
        self._temporaries.sends(frame.target or "", end)
        link = end.bind(frame.name, driver)
        driver.bind(link, end)
        link.receive(frame)
        link.send(_answer(replace(frame, target=frame.target or ""), Role.RECEIVER, end.properties()))
        end.start()

    def _producer_for(self, frame: Attach) -> Subscriber[bytes]:
        """Return who takes what a peer sends on the link that it attaches."""
        if frame.target == COORDINATOR:
            raise ProtocolError(Condition.NOT_IMPLEMENTED.value, "this node has no transactions")
        if frame.dynamic:
            text = "this node makes addresses for receivers only: attach to an address, or to none"
            raise ProtocolError(Condition.NOT_IMPLEMENTED.value, text)
        if not frame.target:
            relayed = Relayed(self, DEFAULT_WINDOW)
            self._relayed.add(relayed)
            return relayed
        return self._taker(frame.target).producer(once=ONCE in frame.properties)

    def _taker(self, name: str) -> Takes:
        """Return the address `name`, which takes messages."""
        address = self.find(name)
        if address is None:
            raise ProtocolError(Condition.NOT_FOUND.value, f"no address {name!r} here")
        if isinstance(address, Served):
            raise ProtocolError(Condition.NOT_ALLOWED.value, f"{name!r} is a served stream: it takes no items")
        return address

    def route(self, name: str) -> Callable[[], Subscriber[bytes]]:
        """Return what makes a producer's end at an address, for a relay; see `Routes`."""
        address = self._taker(name)
        if self.closing and self._temporaries.get(name) is None:
            raise ProtocolError(Condition.CONNECTION_FORCED.value, CLOSING)
        return address.producer

    def _on_consumer_gone(self, source: str, error: BaseException | None) -> None:
        """A consumer has gone: its address knows by the cancel, unless it was made for it."""
        if self._temporaries.delete(source):
            for relayed in list(self._relayed):
                relayed.address_gone(source)
        if error is not None:
            logger.debug("a consumer's link ended: %s", error)

    @staticmethod
    def _refuse(driver: LinkDriver, frame: Attach, condition: Condition, description: str) -> None:
        driver.bind(refuse(driver, frame, condition.value, description))


def _leave_to_others(frame: Attach) -> Callable[[Hold, Outcome], bool]:
    """Return what gives a message back to its queue, for other consumers: this one does not take it."""
    told = False

    def refuse(hold: Hold, outcome: Outcome) -> bool:
        nonlocal told
        if not told:
            text = "queue %r: %s; it waits for another consumer than link %r"
            logger.warning(text, frame.source, outcome.description, frame.name)
            told = True
        hold.fail(DeliveryFailed("modified", delivery_failed=False, undeliverable_here=True))
        return True

    return refuse


def _end(hold: Hold, outcome: Outcome) -> bool:
    """Refuse an item that nobody else would take: without it the stream would have a hole."""
    hold.fail(outcome.as_error())
    return False


class _Consumed:
    """A queue, for the one consumer that it is to know by name."""

    def __init__(self, queue: Queue, origin: str) -> None:
        self._queue = queue
        self._origin = origin

    def subscribe(self, subscriber: Subscriber[bytes]) -> None:
        self._queue.subscribe(subscriber, self._origin)


class _Browsed:
    """A queue, for one browser."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue

    def subscribe(self, subscriber: Subscriber[bytes]) -> None:
        self._queue.browse(subscriber)


def _origin(driver: LinkDriver, frame: Attach) -> str:
    """Return who attaches, as far as it says who it is."""
    return f"container {driver.peer_container!r:.120}, link {frame.name!r:.120}"


def _answer(frame: Attach, role: Role, properties: dict[str, Any]) -> Attach:
    """Return this side's half of a link: what the peer wants, as far as this side does that.

    What it says of packs it says only to a peer that knows them. A receiver that settles second is settled first, and
    then by its own word; this side does not wait for a sender to settle (2.7.3: the receiver decides).
    """
    knows = PACK_ITEMS in frame.properties
    return Attach(
        frame.name,
        role,
        frame.source,
        frame.target,
        frame.settlement,
        mixed=frame.mixed,
        settles_second=frame.settles_second and role is Role.SENDER,
        properties=properties if knows else {},
    )


def _as_is(encoded: bytes) -> bytes:
    return encoded


def _log_raised(error: BaseException) -> None:
    logger.error("an address of the node raised; the producer's link is ended", exc_info=error)
