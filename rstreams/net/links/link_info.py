"""What one end of a link tells of it: its numbers, and how long it was blocked."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Final, Literal

from rstreams import _machine
from rstreams._core.spell import Spell
from rstreams.net.links.link_name import LinkName
from rstreams.protocol.receiver import LinkSubscription
from rstreams.protocol.sender import LinkSubscriber
from rstreams.protocol.states import State

Role = Literal["sender", "receiver"]


@dataclass(frozen=True, slots=True)
class LinkInfo:
    """One end of a link at one moment.

    The first five attributes name the link. Its other end has the same ones; see `rstreams.net.links.link_name`.

    Attributes:
        container: The container id of the client.
        address: The name of the address; "" if the client has left it to the node.
        does: What the client does there.
        user: The user of the client; "" for none.
        link: The name of the link on the wire.
        number: The number of the link in its container; its name, if the client gives names of its own.
        peer: The host and port of the other end.
        role: What this end does.
        state: "attached", or "away" while it waits to be attached.
        window: The most items that a receiver may have in hand; 0 for a sender.
        credit: The deliveries that the sender may send now.
        waiting: Items at this end that wait: for credit, or to be handed over.
        unsettled: Items that are sent, or handed over, and not settled.
        items: Items sent, or handed over, since the link was attached for the first time.
        accepted: Items that the receiver has accepted; all of them, if they are sent settled.
        rejected: Items that it has rejected.
        released: Items that it has given back unchanged.
        modified: Items that it has given back with a mark, such as failed.
        items_per_s: Items in a second, since somebody looked at this end before; 0 the first time.
        blocked_s: How long this end was blocked, in seconds. A sender: it had an item and could not send it. A
            receiver: it granted no credit because of the items in hand, or because there was no room behind it.
        blocked_for_s: How long it is blocked now, in seconds; 0 if it is not.
        blocked_since: When that began, in seconds since 1970; 0 if it is not blocked.
        blocked_by: What it waits for. A sender: "credit", "session window", "settlement" or "connection". A receiver:
            "items in hand" or "no room behind it". "" if it is not blocked.
        oldest_s: How long the oldest delivery that a sender has sent waits for its outcome, in seconds; 0 if none does.
            It may be half a second too short.
    """

    container: str
    address: str
    does: Literal["publish", "subscribe"]
    user: str
    link: str
    number: str
    peer: str
    role: Role
    state: Literal["attached", "away"]
    window: int
    credit: int
    waiting: int
    unsettled: int
    items: int
    accepted: int
    rejected: int
    released: int
    modified: int
    items_per_s: float
    blocked_s: float
    blocked_for_s: float
    blocked_since: float
    blocked_by: str
    oldest_s: float

    def as_dict(self) -> dict[str, Any]:
        """Return the numbers as a plain dict; `dataclasses.asdict` takes ten times as long."""
        return {name: getattr(self, name) for name in _NAMES}

    @property
    def name(self) -> LinkName:
        """The name of the link."""
        return LinkName(self.container, self.address, self.does, self.user, self.link)


_NAMES: Final = tuple(each.name for each in fields(LinkInfo))


class ItemRates:
    """The rate of the items of one end, between two looks at it.

    Attributes:
        items_per_s: The rate.
    """

    __slots__ = ("_at_s", "_items", "items_per_s")

    def __init__(self) -> None:
        """Have seen nothing."""
        self.items_per_s = 0.0
        self._at_s: float | None = None
        self._items = 0

    def look(self, items: int) -> float:
        """Return the rate since the last look that is at least half a second ago."""
        now = _machine.monotonic()
        if self._at_s is None:
            self._at_s, self._items = now, items
        elif now - self._at_s >= 0.5:
            self.items_per_s = (items - self._items) / (now - self._at_s)
            self._at_s, self._items = now, items
        return self.items_per_s


def spell_of(end: LinkSubscription[Any] | LinkSubscriber[Any]) -> Spell:
    """Return the time in which an end was blocked."""
    return end.full if isinstance(end, LinkSubscription) else end.blocked


def info_of(name: LinkName, end: LinkSubscription[Any] | LinkSubscriber[Any], peer: str, rates: ItemRates) -> LinkInfo:
    """Return what an end tells of its link.

    Args:
        name: The name of the link.
        end: This side's end.
        peer: The host and port of the other end.
        rates: Those of the end.
    """
    is_receiver = isinstance(end, LinkSubscription)
    if isinstance(end, LinkSubscriber):
        end.look_at_window()
    blocked_by = end.full_of if isinstance(end, LinkSubscription) else end.blocked_by
    spell = spell_of(end)
    for_s = spell.present_s
    tally = end.tally()
    return LinkInfo(
        *(name.container, name.address, name.does, name.user, name.link, name.number),
        peer=peer,
        role="receiver" if is_receiver else "sender",
        state="attached" if end.state is State.ATTACHED else "away",
        window=end.ledger.window if isinstance(end, LinkSubscription) else 0,
        credit=end.credit,
        waiting=tally.waiting,
        unsettled=tally.unsettled,
        items=tally.items,
        accepted=tally.accepted,
        rejected=tally.rejected,
        released=tally.released,
        modified=tally.modified,
        items_per_s=rates.look(tally.items),
        blocked_s=spell.total_s,
        blocked_for_s=for_s,
        blocked_since=_machine.today() - for_s if for_s else 0.0,
        blocked_by=blocked_by,
        oldest_s=0.0 if isinstance(end, LinkSubscription) else end.oldest_s,
    )
