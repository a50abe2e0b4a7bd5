"""An address of a node: what happens to the links that peers attach to its name.

Theory of operation. A node has a table of addresses by name and asks the same few questions of each. It knows no kind
of address by its class. Therefore a program can write a kind of its own and add it with `Node.add`:

    producer_for    the subscriber of the messages of a link on which a peer sends
    supply          the publisher for a link on which a peer receives
    statistics      the counters
    explain         the state in one line
    at_rest, left   whether a node that is drained waits for it, and how many messages it would lose
    begin, close    the begin and the end of its life
    next_deadline, expire   when it is to be woken, and its work then

To an address, a link on which a peer sends is a `Publisher[bytes]`, and a link on which a peer receives is a
`Subscriber`. Demand is the link's credit. A hold is a delivery that is not settled.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, Protocol

from rstreams._checks.names import require_name
from rstreams._checks.numbers import require_count
from rstreams._checks.refusals import refuse_value
from rstreams._codec.asking import Wish
from rstreams._core.sight import Asked, Want
from rstreams.abc import Hold, Publisher, Subscriber, Subscription
from rstreams.culprits import WaitTree
from rstreams.errors import Condition, LinkDetached, ProtocolError, StoreError
from rstreams.net.links.effectively_once import ONCE
from rstreams.net.transport.accounts import Client
from rstreams.node.access import Access, Action
from rstreams.node.address_waits import Standing
from rstreams.node.statistics import AddressStatistics, AddressTotals
from rstreams.node.stored_bytes import StoredBytes
from rstreams.node.wishes import Wishes
from rstreams.node.written import Begun
from rstreams.protocol.delivery import Outcome
from rstreams.protocol.frames import Attach
from rstreams.protocol.unsettled import ItemSize
from rstreams.store import Store


class SubscriptionOwner(NamedTuple):
    """The identity of a named subscription; no user has that of another one.

    Attributes:
        container: The container id of the subscriber.
        name: The name of the subscription, which is the name of its link.
        user: The subscriber's user; None for a client without a user.
    """

    container: str
    name: str
    user: str | None = None


@dataclass(frozen=True, slots=True)
class LinkRequest:
    """A peer's wish to attach a link to an address.

    Attributes:
        attach: The peer's attach: its filters, capabilities, properties, settlement, distribution mode, and how long
            the peer wants its end of the link to be kept (`durable`, `expiry`, `expiry_timeout_s`).
        container: The peer's own name, its container id. With the link's name it identifies a durable subscription.
        client: The client, with its user.
    """

    attach: Attach
    container: str = ""
    client: Client = field(default_factory=Client)

    @property
    def origin(self) -> str:
        """The peer and its link, as text for logs and for dead letters."""
        return f"container {self.container!r:.120}, link {self.attach.name!r:.120}"

    @property
    def owner(self) -> SubscriptionOwner:
        """The owner and the name that the link has as a named subscription."""
        return SubscriptionOwner(self.container, self.attach.name, self.client.user)

    @property
    def sends_once(self) -> bool:
        """Whether the peer numbers its messages, so that those sent again can be dropped."""
        return ONCE in self.attach.properties


class SubscribedEnd(Protocol):
    """The node's end of the link that has a named subscription."""

    def take_away(self, error: LinkDetached) -> None:
        """Lose the link at once; the peer gets the error."""
        ...

    def answer(self, error: StoreError | None) -> None:
        """Answer a peer that has ended the subscription: it is safe that it has ended, or the store failed."""
        ...


class Named(Protocol):
    """A named subscription: it goes on without a link, and one link at a time has it.

    Attributes:
        durable: Whether it is in the node's store.
    """

    durable: bool

    def taken_by(self, end: SubscribedEnd) -> None:
        """Have a link; the link that had it before loses it."""
        ...

    def left_by(self, end: SubscribedEnd, *, for_good: bool) -> None:
        """Hear that a link has gone, and whether its peer has ended the subscription."""
        ...


@dataclass(frozen=True, slots=True)
class Supply:
    """The publisher for a link on which a peer receives, and how the link is served.

    Attributes:
        publisher: Each link subscribes to it once; the link's credit is the demand.
        encoded: Whether the items are encoded messages (`bytes`) and are sent as they are. Otherwise an item is a
            `Message`, or a value that becomes the body of one.
        moves: Whether an item is the receiver's alone (distribution mode "move"). Otherwise it is a copy.
        shared: Whether others get the items that this receiver does not take. A message that is larger than the
            receiver allows is then left to them. Otherwise it ends the link.
        refuse_too_large: Does something else with such a message, as for `SendingOptions`; None: nothing else.
        sees_through: Whether a node that is drained waits until the link is at rest. Otherwise it ends the link.
        filters: The filters in force, by name; the node's attach tells them to the peer (AMQP 1.0 section 3.5.8).
        properties: Properties of the link in the node's attach.
        on_ended: Called once when the link has ended, with the error or None.
        size: The expected size of the items, if the links of the address share what they know of it.
        keep_s: How long the subscription is kept after the loss of its connection, in seconds; 0: it ends.
        on_away: Called with 1 when a kept subscription has lost its connection, and with -1 when it is attached again
            or has ended.
        named: The named subscription that the link gets; None: the subscription ends with its link.
        made_on_demand: Whether items are made only when they are asked for: a link without demand is not blocked then.
        begun: What the attach has begun in the node's store; the attach is answered when it is safe. None: nothing.
    """

    publisher: Publisher[Any]
    encoded: bool = False
    moves: bool = False
    shared: bool = False
    refuse_too_large: Callable[[Hold, Outcome, bytes], bool] | None = None
    sees_through: bool = False
    filters: Mapping[str, Any] = field(default_factory=dict)
    properties: Mapping[str, Any] = field(default_factory=dict)
    on_ended: Callable[[BaseException | None], None] | None = None
    size: ItemSize | None = None
    keep_s: float = 0.0
    on_away: Callable[[int], None] | None = None
    named: Named | None = None
    made_on_demand: bool = False
    begun: Begun | None = None


class StartSoon(Protocol):
    """A function that starts a task."""

    def __call__(self, function: Callable[..., Awaitable[object]], *arguments: Any) -> None:  # noqa: ANN401
        """Start `function(*arguments)`."""
        ...


@dataclass(frozen=True, slots=True)
class NodeServices:
    """The functions that a node offers its addresses.

    Attributes:
        now: Returns the time, in seconds that only go on.
        wake_at: Has `Address.expire` called at a time by `now`, at the latest.
        start_soon: Starts a task in the node's scope: at once, or when the node's block begins.
        find: Returns the address of a name, or None.
        store: The node's store, for addresses that remember; None if it has none.
        may_publish: Tells whether a client may send to an address.
        stored: Counts the bytes of messages in the memory of addresses.
    """

    now: Callable[[], float]
    wake_at: Callable[[float], None]
    start_soon: StartSoon
    find: Callable[[str], Address | None]
    store: Store | None = None
    may_publish: Callable[[Client, Address], bool] = lambda _client, _address: True
    stored: StoredBytes = field(default_factory=StoredBytes)

    def find_for(self, client: Client, name: str) -> Address | None:
        """Return the address of a name, or None if there is none, or the client may not send to it."""
        address = self.find(name)
        return address if address is not None and self.may_publish(client, address) else None


class Address:
    """Base of every kind of address; it refuses all links.

    A kind overrides `producer` or `producer_for` if peers may send to it, and `supply` if they may receive from it.
    Every other method has a default that fits an address without a state of its own.

    Attributes:
        name: The name that peers attach to. The kind's constructor sets it.
        kind: The name of the kind, in errors and in `explain`.
        table: The name of the kind's table in a config file, and of its paths in `$management`.
        takes_dead_letters: Whether a queue may send its dead letters here.
        open_while_draining: Whether links that send here are let in, and go on, while the node is drained.
        metered: Whether the limits of a user's rate hold for links that receive from here.
        parts: The names of addresses that are removed with it.
        names_subscriptions: Whether a peer may have named subscriptions here; `has_subscription` then tells which.
        sends_to: The addresses of the node that it sends messages to. They cannot be removed before it.
        ignores: What messages, or links, may ask for and do not get here, with the reason of each. When the first of
            them asks, the log tells the reason; the message is taken.
        declared: The options that a config file or a client has declared it with; None: the program has made it.

    Context: All methods are called in the node's trio run. Only `close` may wait.
    """

    kind: str = "address"
    table: str = "others"
    takes_dead_letters: ClassVar[bool] = False
    open_while_draining: ClassVar[bool] = False
    names_subscriptions: ClassVar[bool] = False
    metered: ClassVar[bool] = True

    name: str
    ignores: Mapping[Wish, str] = MappingProxyType({})
    sends_to: Sequence[Address] = ()
    parts: Sequence[str] = ()
    declared: Mapping[str, Any] | None = None

    def begin(self, services: NodeServices) -> None:
        """Begin to live in a node; called once, by `Node.add`."""

    def forget(self) -> None:
        """Delete what the address has in the node's store: it is removed, and its links have ended."""

    async def close(self) -> None:
        """End; called once at the end of the node's block, when its connections have been closed."""

    @cached_property
    def wishes(self) -> Wishes:
        """Tells the log of wishes that are ignored."""
        return Wishes(self)

    # links

    def check_access(self, access: Access, client: Client, action: Action) -> None:
        """Check that a client may have a link to send ("publish") or to receive ("subscribe").

        Errors: `ProtocolError` with `amqp:unauthorized-access`; the peer gets its condition and text.
        """
        access.require(client, action, self.name)

    def producer(self, *, once: bool = False) -> Subscriber[bytes]:  # noqa: ARG002 - for those that take messages
        """Return the subscriber of the messages that one sender sends.

        Args:
            once: Whether the sender numbers its messages, so that those sent again can be dropped.

        Credit: The subscriber's demand is the sender's credit. A message is accepted when `on_next` returns, or when
            the last hold on it is done.
        Errors: `ProtocolError` if nothing can be sent here; the peer gets its condition and text.
        """
        text = f"{self.name!r} is a {self.kind}: it takes no items"
        raise ProtocolError(Condition.NOT_ALLOWED.value, text)

    def producer_for(self, link: LinkRequest) -> Subscriber[bytes]:
        """Return the subscriber of the messages that come on a link; by default `producer`.

        Errors: As `producer`.
        """
        return self.producer(once=link.sends_once)

    def producer_of(self, client: Client) -> Subscriber[bytes]:  # noqa: ARG002 - for those that reply to clients
        """Return the subscriber of messages that a client sends over a relay; by default `producer`.

        Errors: As `producer`.
        """
        return self.producer()

    def store_now(self, encoded: bytes) -> bool:  # noqa: ARG002 - for queues of replies
        """Store a message of the node itself without a producer; return False if that is not possible now."""
        return False

    def supply(self, link: LinkRequest) -> Supply:  # noqa: ARG002 - for those that send messages
        """Return the supply of a link on which a peer receives.

        Errors: `ProtocolError` if the peer cannot have the link; the peer gets its condition and text.
        """
        text = f"{self.name!r} is a {self.kind}: there is nothing to receive"
        raise ProtocolError(Condition.NOT_ALLOWED.value, text)

    def has_subscription(self, owner: SubscriptionOwner) -> bool:  # noqa: ARG002 - for those that name them
        """Tell whether there is a named subscription of this owner and name."""
        return False

    def moving(self, subscription: Subscription) -> AbstractContextManager[None]:  # noqa: ARG002 - for those with a store
        """Have a message that a subscriber is handed now leave the address as another one stores it.

        If that address has the same store, and stores the message in the block, both are one commit. The outcome of the
        message is told as ever.
        """
        return nullcontext()

    async def written(self) -> None:
        """Wait until all changes so far are as safe as the address promises; management answers then.

        Errors: `StoreError` if they cannot be written now.
        """

    async def purge(self) -> int:
        """Delete all messages that wait here; return how many there were. `written` waits until they cannot come back.

        Errors: `ProtocolError` if the kind of address does not allow it.
        """
        raise ProtocolError(Condition.NOT_ALLOWED.value, f"{self.name!r} is a {self.kind}: it cannot be purged")

    # sight

    def statistics(self) -> AddressStatistics | None:
        """Return the counters as they are now, or None for an address without counters."""
        return None

    def tally(self) -> AddressTotals | None:
        """Return the totals as they are now, quickly; None for an address without counters."""
        return None

    def explain(self) -> str:
        """Return one line for `Node.explain`; "" for none."""
        return f"{self.kind} {self.name!r:.80}"

    def standing(self, asked: Asked) -> Standing:  # noqa: ARG002 - for those at which somebody may wait
        """Return its state, as far as somebody may wait because of it."""
        return Standing(self.kind, self.name, self.explain())

    def waits(self, want: Want | None, asked: Asked) -> WaitTree:
        """Return what it waits for; see `rstreams.node.address_waits`."""
        return self.standing(asked).waits(want, asked)

    # drain

    @property
    def at_rest(self) -> bool:
        """Whether a node that is drained does not have to wait for this address."""
        return True

    @property
    def left(self) -> int:
        """How many messages would be lost with the node."""
        return 0

    @property
    def kept(self) -> int:
        """How many messages are in the node's store, and are there again when it starts again."""
        return 0

    def on_drain(self) -> None:
        """Hear that the node is drained: no further consumer comes."""

    # time

    @property
    def next_deadline(self) -> float:
        """When `expire` is to be called next, by the services' `now`; infinity for never.

        An address that sets an earlier deadline tells the services' `wake_at`.
        """
        return math.inf

    def expire(self) -> None:
        """Do the work that is due now."""


def require_address_name(kind: str, name: str) -> str:
    """Return `name` if it can be the name of an address.

    Errors: `ConfigError` if it is empty, not a string, or begins with "$": such names are reserved for the node.
    """
    if isinstance(name, str) and name.startswith("$"):
        refuse_value(kind, "name", name, 'a string that does not begin with "$"')
    return require_name(kind, "name", name)


def require_capacity(kind: str, name: str, capacity: int) -> int:
    """Return `capacity` if it is a positive integer.

    Errors: `ConfigError` if not.
    """
    return require_count(f"{kind} {name!r}", "capacity", capacity, 1, unit=" messages")
