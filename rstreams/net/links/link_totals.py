"""The numbers of all links of a connection to one address together; they never fall when a link ends."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from rstreams.protocol.receiver import LinkSubscription
from rstreams.protocol.sender import LinkSubscriber
from rstreams.protocol.tally import TallySum

Does: TypeAlias = Literal["publish", "subscribe"]

_LinkEnd: TypeAlias = LinkSubscription[Any] | LinkSubscriber[Any]


@dataclass(frozen=True, slots=True)
class LinkTotals:
    """The links of one connection to one address, in one direction, at one moment.

    Attributes:
        address: The name of the address; "" if the peer chooses it, and for those above the first 1,000.
        does: What this side does there.
        links: Links that are there.
        credit: The deliveries that may be sent now.
        waiting: Items here that wait: for credit, or to be handed over.
        unsettled: Items that are sent, or handed over, and not settled.
        oldest_s: How long the oldest delivery that was sent waits for its outcome, in seconds; 0 if none does.
        items: Items sent, or handed over. This and the following numbers only grow: links that have ended count.
        accepted: Items that were accepted.
        rejected: Items that were rejected.
        released: Items that were given back unchanged.
        modified: Items that were given back with a mark, such as failed.
        blocked_s: How long links were blocked, in seconds: an item could not be sent, or no credit was granted.
    """

    address: str
    does: Does
    links: int
    credit: int
    waiting: int
    unsettled: int
    oldest_s: float
    items: int
    accepted: int
    rejected: int
    released: int
    modified: int
    blocked_s: float


def totals_of(address: str, does: Does, gone: TallySum, ends: Iterable[_LinkEnd]) -> LinkTotals:
    """Return the numbers of links.

    Args:
        address: The address.
        does: What this side does there.
        gone: The numbers of ends that are gone.
        ends: The others, those included that have ended.
    """
    links = credit = waiting = unsettled = 0
    oldest_s, sums = 0.0, gone.copy()
    for end in ends:
        tally = end.tally()
        sums.add(tally, end.blocked_spell.total_s)
        links += end.wants_link
        credit += end.credit
        waiting += tally.waiting
        unsettled += tally.unsettled
        if isinstance(end, LinkSubscriber):
            oldest_s = max(oldest_s, end.oldest_s)
    return LinkTotals(
        *(address, does, links, credit, waiting, unsettled, oldest_s),
        *(sums.items, sums.accepted, sums.rejected, sums.released, sums.modified, sums.blocked_s),
    )
