"""The performatives of a link, without the engine's numbers.

Handles, delivery-counts, delivery-ids and session windows belong to the engine, or to the local driver. The frames here
have everything else that one side tells the other. A frame stands for a whole run of deliveries, where AMQP would send
one frame for each.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Final, Literal, TypeAlias

from rstreams.errors import Condition, PeerClosed, RStreamsError, error_for
from rstreams.message import encode_item
from rstreams.protocol.delivery import Outcome

COORDINATOR: Final = "$coordinator"
"""The place of a target's address in an attach to a coordinator of transactions (section 4.5.1)."""

EXPLAINS: Final = "rstreams:explain"
"""The capability of a peer that answers at `$explain`; also the property of such a link, with the question."""

ANONYMOUS_RELAY: Final = "ANONYMOUS-RELAY"
"""The capability of a peer that takes messages for any address over one link, whose target has no address.

Spec: Using the AMQP Anonymous Terminus for Message Routing 1.0, section 2.1.
"""

Expiry: TypeAlias = Literal["link-detach", "session-end", "connection-close", "never"]
"""The event after which a terminus may be forgotten (AMQP 1.0 section 3.5.6, terminus-expiry-policy)."""


class Role(Enum):
    """The end of a link that this side is (AMQP 1.0 section 2.8.1)."""

    SENDER = "sender"
    RECEIVER = "receiver"


class Settlement(Enum):
    """The settlement of deliveries on a link (AMQP 1.0 section 2.8.2, snd-settle-mode)."""

    AT_MOST_ONCE = "at_most_once"
    """Sent settled: there is no acknowledgement, and items on their way are lost when the link ends."""
    AT_LEAST_ONCE = "at_least_once"
    """Settled by the receiver's disposition, when every hold on the item has ended."""


@dataclass(frozen=True, slots=True)
class Attach:
    """One side's half of attaching a link (section 2.7.3).

    A source or target is an address, or None for a null terminus. A reply with a null terminus at its own side is a
    refusal: a detach with the reason follows.

    Attributes:
        name: The link's name, unique between the two containers and the role.
        role: The end that sends the attach.
        source: The address that the items come from; "" for a terminus without an address.
        target: The address that they go to.
        settlement: The settlement of deliveries.
        mixed: Whether the sender may also send settled deliveries on a link where others wait for their outcome.
        settles_second: Whether the receiver settles a delivery only after the sender has (rcv-settle-mode second).
        distribution: Whether the source gives its messages away, "move", or keeps them, "copy"; "" if this is not
            stated.
        dynamic: Whether the peer should make an address of its own at its end; its reply has the address (3.5.3). In a
            reply: whether the address at this end has been made for the link.
        durable: Whether the state of the peer's end should outlive the link and the connection (3.5.5).
        expiry: The event after which the peer's end may forget the link (3.5.6).
        expiry_timeout_s: How long after that event it keeps the link's state, in seconds.
        own_durable: Whether the state of this side's own end outlives the link and the connection (3.5.3, 3.5.4).
        own_expiry: The event after which this side's own end forgets the link.
        filters: The filters of the source, by their names (3.5.8).
        capabilities: The capabilities that the peer's end must have, such as "queue" (3.5.3, 3.5.4).
        properties: The link's own properties.
        max_message_bytes: The largest message this side takes; 0 for no limit.
    """

    name: str
    role: Role
    source: str | None
    target: str | None
    settlement: Settlement = Settlement.AT_LEAST_ONCE
    mixed: bool = False
    settles_second: bool = False
    distribution: Literal["", "move", "copy"] = ""
    dynamic: bool = False
    durable: bool = False
    expiry: Expiry = "session-end"
    expiry_timeout_s: int = 0
    own_durable: bool = False
    own_expiry: Expiry = "session-end"
    filters: Mapping[str, Any] = field(default_factory=dict)
    capabilities: tuple[str, ...] = ()
    properties: Mapping[str, Any] = field(default_factory=dict)
    max_message_bytes: int = 0

    @property
    def refuses(self) -> bool:
        """Whether this is a reply that refuses the link (section 2.6.3)."""
        return (self.source if self.role is Role.SENDER else self.target) is None


@dataclass(slots=True, unsafe_hash=True)  # nothing changes one; a frozen one takes three times as long to make
class Flow:
    """The present credit, in deliveries (section 2.7.4).

    From the receiver: the deliveries that the sender may send from here on; with `drain` the sender must send them now,
    or give the credit back. From the sender, in answer to a drain: the credit that is left, which is 0.

    With `starved`, from the sender: it has no room for further messages before the receiver settles some. AMQP has no
    frame for this. Therefore the engine's driver sends a disposition of the latest unsettled delivery with the state
    "received", which decides nothing (section 3.4.1).
    """

    credit: int
    drain: bool = False
    starved: bool = False


@dataclass(slots=True, unsafe_hash=True)  # nothing changes one; a frozen one takes three times as long to make
class Transfer:
    """A run of deliveries, each one encoded message (section 2.7.5).

    Attributes:
        deliveries: The driver's names for them on this side: the sender's tags, the receiver's handles.
        payloads: The encoded messages, in the same order.
        settled: Whether they are sent settled; no disposition comes for them.
        more: Whether the payload is only a part of one delivery, which the next transfer of the link continues.
        aborted: Whether the one delivery is given up: no more of it comes, and its parts must be dropped.
        are_bodies: Whether the payloads are not encoded yet: each is the body of its message.
        overdrawn: At the receiver: whether more deliveries have come than the sender had credit for.
    """

    deliveries: Sequence[Hashable]
    payloads: Sequence[bytes]
    settled: bool = False
    more: bool = False
    aborted: bool = False
    are_bodies: bool = False
    overdrawn: bool = False

    def encoded(self) -> Transfer:
        """Return the frame with encoded payloads."""
        if not self.are_bodies:
            return self
        return replace(self, payloads=list(map(encode_item, self.payloads)), are_bodies=False)


@dataclass(slots=True, unsafe_hash=True)  # nothing changes one; a frozen one takes three times as long to make
class Disposition:
    """The outcome of a run of deliveries, which it settles (section 2.7.6)."""

    deliveries: Sequence[Hashable]
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Detach:
    """One side's half of ending a link (section 2.7.7).

    Attributes:
        closed: Whether it ends the subscription; False only detaches the link, which will be attached again.
        condition: The reason, if it is an error; None for a successful end.
        description: Text for people.
        info: A map with the sender's own entries.
    """

    closed: bool = True
    condition: str | None = None
    description: str = ""
    info: Mapping[str, Any] = field(default_factory=dict)

    @property
    def error(self) -> PeerClosed | None:
        """The error in it, or None for a successful end."""
        return None if self.condition is None else error_for(self.condition, self.description, self.info)

    @property
    def announces_close(self) -> bool:
        """Whether the peer is about to close the connection; the client may retry later (2.8.16)."""
        return self.condition == Condition.CONNECTION_FORCED


@dataclass(frozen=True, slots=True)
class Lost:
    """The loss of the session or the connection under the link: not a frame, but the last event of a link.

    Attributes:
        error: The reason. Each link has a copy, which its task raises; what is noted in it is about this link.
        returns: Whether the connection will return; the end then waits for a new link (`bind`).
        final: Whether nobody attaches the end again, whatever the reason.
    """

    error: RStreamsError
    returns: bool = False
    final: bool = False

    def __post_init__(self) -> None:
        """Take a copy of the error: all links of a connection are lost for the same reason."""
        object.__setattr__(self, "error", copy(self.error))


Frame: TypeAlias = Attach | Flow | Transfer | Disposition | Detach
