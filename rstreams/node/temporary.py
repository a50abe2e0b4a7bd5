"""Addresses that a node makes for the link of one receiver; they exist until that link has ended."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rstreams import _machine
from rstreams._checks.publishers import require_subscriber, require_subscription
from rstreams._core.claims import NO_HOLD
from rstreams._core.demand import add_demand, demand_error, take_demand
from rstreams._core.subscription import ENDED, subscribe_failed
from rstreams._events.table import REPLY_FAILED
from rstreams._stages.stage import resume, suspend
from rstreams.abc import Hold, Subscriber, Subscription
from rstreams.errors import Condition, LinkDetached, ProtocolError, RemoteProtocolError
from rstreams.message import decode_message, encode_item
from rstreams.net.request_reply.properties import REPLY_STREAM, failure_instead
from rstreams.net.transport.accounts import Client
from rstreams.node.access import Access, Action
from rstreams.node.address import Address, LinkRequest, Supply
from rstreams.node.memory_storage import MemoryStorage
from rstreams.node.queue import Queue
from rstreams.node.stored_bytes import StoredBytes
from rstreams.protocol.delivery import Outcome
from rstreams.protocol.receiver import LinkSubscription

CAPACITY = 1024
"""The most replies that are stored for one requester, and granted to their senders."""


class ReplyQueue(Queue):
    """The queue of one requester's replies."""

    kind = "queue of replies"
    open_while_draining = True

    def __init__(self, name: str, stored: StoredBytes) -> None:
        self._replies = MemoryStorage(CAPACITY)
        super().__init__(name, self._replies)
        self.ignores = {}  # its requester is there, and waits for each reply
        self._room.join_node(stored)

    def check_access(self, access: Access, client: Client, action: Action) -> None:
        """Let in everyone who knows the name: it is random, and the requester gives it to its responder."""

    def supply(self, link: LinkRequest) -> Supply:
        """Return the replies, for the one receiver: it cannot leave copies, or what is too large for it, to others."""
        return replace(self.supply_consumer(link), shared=False, refuse_too_large=self._fail_request)

    def _fail_request(self, hold: Hold, outcome: Outcome, encoded: bytes) -> bool:
        """Tell the requester that it does not take a reply because of its size."""
        REPLY_FAILED.tell(self.name, address=self.name, why=outcome.description)
        hold.done()
        try:
            failure = failure_instead(decode_message(encoded), outcome.as_error())
        except RemoteProtocolError:  # nobody knows which request it answers
            failure = None
        if failure is not None:
            self._put(encode_item(failure))
        return True

    def store_now(self, encoded: bytes) -> bool:
        """Store a reply of the node itself, if a place is free."""
        if self._room.free_places <= 0:
            return False
        self._put(encoded)
        return True

    def _put(self, encoded: bytes) -> None:
        self._room.put(1, len(encoded))
        self._replies.come((encoded,))


class ReplyStream(Address):
    """The replies to one request: messages from one sender to one receiver, whose demand is the sender's credit.

    Nothing is stored here. Only the first sender gets credit. When it ends, the receiver's stream ends: it completes,
    or fails with the sender's error.

    Demand: Passed up unchanged.
    Errors: Passed on.
    Cancels: Every sender.
    """

    kind = "stream of replies"
    open_while_draining = True

    def __init__(self, name: str) -> None:
        self.name = name
        self._subscriber: Subscriber[bytes] | None = None
        self._senders: list[_Sender] = []
        self._demand = 0
        self._ended = False

    def check_access(self, access: Access, client: Client, action: Action) -> None:
        """Let in everyone who knows the name: it is random, and the requester gives it to its responder."""

    def subscribe(self, subscriber: Subscriber[bytes]) -> None:
        """Hand the replies over to `subscriber`; a second one is refused."""
        require_subscriber(subscriber)
        if self._subscriber is not None:
            text = f"{self.name!r} has a receiver already"
            subscribe_failed(subscriber, LinkDetached(Condition.RESOURCE_LOCKED.value, text))
            return
        self._subscriber = subscriber
        subscriber.on_subscribe(self)

    def producer(self, *, once: bool = False) -> Subscriber[bytes]:  # noqa: ARG002 - replies are not numbered
        """Return the subscriber for one sender's link."""
        return _Sender(self)

    def supply(self, link: LinkRequest) -> Supply:  # noqa: ARG002 - there is one link
        """Return the replies."""
        return Supply(self, encoded=True, moves=True, sees_through=True, properties={REPLY_STREAM: True})

    # as the receiver's subscription

    def request(self, n: int) -> None:
        """Ask the sender, now or when it has come."""
        error = demand_error(n)
        if error is not None:
            self.end(error)
            return
        self._demand = add_demand(self._demand, n)
        if self._senders:
            self._source.request(n)

    def cancel(self) -> None:
        """End every sender."""
        self._ended = True
        senders, self._senders = self._senders, []
        for sender in senders:
            sender.subscription.cancel()

    def hold(self) -> Hold:
        """Take a hold on the reply that is being handed over; the sender gave it."""
        return self._source.hold() if self._senders else NO_HOLD

    def suspend(self) -> None:
        """Withdraw credit of the sender."""
        suspend(self._source)

    def resume(self) -> None:
        """Grant credit to the sender again."""
        resume(self._source)

    # senders call these

    def join(self, sender: _Sender) -> None:
        """Note a sender; the first one gets the demand."""
        if self._ended:
            sender.subscription.cancel()
            return
        self._senders.append(sender)
        if len(self._senders) == 1 and self._demand:
            sender.subscription.request(self._demand)

    def take(self, encoded: bytes) -> None:
        """Hand a reply over."""
        if not self._ended and self._subscriber is not None:
            self._demand = take_demand(self._demand, 1)
            self._subscriber.on_next(encoded)

    def leave(self, sender: _Sender, error: BaseException | None) -> None:
        """Note that a sender has ended; the first one ends the stream."""
        if sender in self._senders:
            first = self._senders[0] is sender
            self._senders.remove(sender)
            if first:
                self.end(error)

    def end(self, error: BaseException | None) -> None:
        """End the receiver's stream and all senders."""
        if self._ended:
            return
        self.cancel()
        if self._subscriber is not None:
            if error is None:
                self._subscriber.on_complete()
            else:
                self._subscriber.on_error(error)

    @property
    def _source(self) -> Subscription:
        return self._senders[0].subscription if self._senders else ENDED


class _Sender:
    """One sender's end of a `ReplyStream`."""

    __slots__ = ("_address", "subscription")

    def __init__(self, address: ReplyStream) -> None:
        self._address = address
        self.subscription: Subscription = ENDED

    def on_subscribe(self, subscription: Subscription) -> None:
        require_subscription(subscription)
        if self.subscription is not ENDED:
            subscription.cancel()
            return
        self.subscription = subscription
        self._address.join(self)

    def on_next(self, item: bytes) -> None:
        self._address.take(item)

    def on_error(self, error: BaseException) -> None:
        self._address.leave(self, error)

    def on_complete(self) -> None:
        self._address.leave(self, None)


class Temporaries:
    """The temporary addresses of a node; `stored` counts the bytes of the messages in its memory."""

    def __init__(self, stored: StoredBytes) -> None:
        self._stored = stored
        self._made: dict[str, tuple[Address, list[LinkSubscription[Any]]]] = {}

    def make(self, *, streamed: bool) -> Address:
        """Make an address: a queue, or a stream of the replies to a single request."""
        name = f"temporary/{_machine.fresh_uuid()}"
        address = ReplyStream(name) if streamed else ReplyQueue(name, self._stored)
        self._made[name] = (address, [])
        return address

    def get(self, name: str) -> Address | None:
        """Return the address of that name, or None."""
        made = self._made.get(name)
        return None if made is None else made[0]

    def sends(self, name: str, end: LinkSubscription[Any]) -> None:
        """Remember a link that sends to an address, if the address is one of these."""
        if name in self._made:
            ends = self._made[name][1]
            ends[:] = [each for each in ends if not each.ended]
            ends.append(end)

    def delete(self, name: str) -> bool:
        """Delete an address, and end the links that send there; return whether there was one."""
        made = self._made.pop(name, None)
        if made is not None:
            text = f"the address {name!r} was made for a link, which has ended"
            for end in made[1]:
                end.give_up(ProtocolError(Condition.RESOURCE_DELETED.value, text))
            made[0].forget()
        return made is not None
