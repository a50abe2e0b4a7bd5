"""Kept subscriptions: those whose connection was lost, and whose peer may attach the same link again.

Theory of operation. A subscription is more than its link: it is known by the peer's container and user, the address and
the name of the link. When the connection is lost, the sending end stays, with its publisher, its demand and what is
unsettled:

    attached  -- connection lost, or detached without `closed` -->  away
    away      -- the same link is attached again -->                attached: unsettled items first, then the next one
    away      -- keep_s is over, or there is no room -->            ended: the publisher is cancelled

While it is away, nothing more is asked of the publisher. The bytes that it holds count against the node's budget for
unsettled deliveries. One owner, which is a user or the container of a client without a user, has a part of the places.
Beyond its part, its own subscription that has been away longest is ended. If all places are taken, or there is no room
in bytes, the one that has been away longest is ended of the owner that has the most. Therefore a stranger who leaves
many subscriptions pushes out its own. A subscription that has no room even without the others is ended alone.

If the same link is attached while the old one seems to live, the node has not noticed yet that the old connection is
lost. The new link gets the subscription, and the old one is ended with `amqp:link:stolen` (AMQP 1.0 section 2.6.1).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

import trio

from rstreams._codec.data_sections import total_bytes
from rstreams._events.table import CONSUMER_FORGOTTEN
from rstreams.errors import Condition, LinkDetached, RemoteProtocolError, RStreamsError
from rstreams.node.address import Supply
from rstreams.node.stealable import StealableSubscriber, stolen
from rstreams.protocol.driver import Driver
from rstreams.protocol.frames import Attach, Detach, Lost
from rstreams.protocol.link import Link
from rstreams.protocol.sender import LinkSubscriber
from rstreams.protocol.states import State
from rstreams.protocol.unsettled import GUARANTEED_BYTES, OVERHEAD_BYTES, Budget, Share

T = TypeVar("T")

Owner: TypeAlias = tuple[str, str]

MAX_AWAY: Final = 1024
"""The most subscriptions of a node that are away at a time."""

MAX_AWAY_OF_ONE: Final = 256
"""The most of them of one user, or of one container of clients without a user."""


class SubscriptionName(NamedTuple):
    """The identity of a subscription; no user goes on with that of another one."""

    container: str
    address: str
    link: str
    user: str | None = None

    @property
    def owner(self) -> Owner:
        """The user; without a user, the container."""
        return ("container", self.container) if self.user is None else ("user", self.user)


class KeptSubscriber(StealableSubscriber[T]):
    """A sending end that stays when its connection is lost, until it is attached again or given up.

    Attributes:
        frame: The attach that it began with.
        supply: The supply of its subscription; it says how long the end stays.
        on_away: Called each time that its link is lost.
    """

    frame: Attach
    supply: Supply
    on_away: Callable[[], None]

    def bind(self, name: str, driver: Driver) -> Link:
        """Make the link of this end, and count what is unsettled with its connection."""
        link = super().bind(name, driver)
        self._bound.share = self._carrier.share
        return link

    @property
    def held(self) -> tuple[int, int]:
        """Items that wait to be sent, or to be sent again, and the bytes of their messages."""
        return len(self._items.payloads), total_bytes(self._items.payloads)

    def on_lost(self, frame: Lost) -> None:
        """Stay without a link, unless the peer has broken the protocol."""
        keeps = not isinstance(frame.error, RemoteProtocolError)
        super().on_lost(Lost(frame.error, returns=keeps))
        if keeps and self.wants_link:
            self.on_away()

    def on_detach(self, frame: Detach) -> None:
        """End as the peer says; a detach without `closed` and without an error leaves the subscription (2.6.5)."""
        if frame.closed or frame.error is not None:
            super().on_detach(frame)
            return
        if self.state is State.DETACH_RECEIVED:
            self._send(Detach(closed=False))
        text = "the peer detached the link, and did not close it"
        self.on_lost(Lost(LinkDetached(Condition.LINK_DETACH_FORCED.value, text)))

    def steal(self) -> None:
        """End the link that it has, because the peer has attached the same one elsewhere; the end stays (2.6.1)."""
        self.take_away(stolen())

    @property
    def connection_bytes(self) -> int:
        """The bytes that the connection of its last link keeps of the budget; it gives them back when it has ended."""
        share = self._bound.share
        return 0 if share is None else share.kept

    @property
    def is_away(self) -> bool:
        """Whether it has no link."""
        return self.state is State.DETACHED

    def give_up(self, error: RStreamsError) -> None:
        """End for good: the publisher is cancelled, and items that were sent and not settled count as failed."""
        super().on_lost(Lost(error))

    _ends_at_loss = False  # it stays also when only the answer to the last detach is missing: the peer may not have it


class _Away(NamedTuple):
    until: float
    share: Share
    cost: int
    told: Callable[[int], None] | None


def _most(numbers: Counter[Owner]) -> Owner:
    """Return the owner with the highest number."""
    return numbers.most_common(1)[0][0]


class KeptSubscriptions:
    """The kept subscriptions of a node, attached or away.

    Args:
        budget: The node's memory for unsettled deliveries.

    Context: The trio run of the node, which runs `run` as a task.
    """

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._ends: dict[SubscriptionName, KeptSubscriber[Any]] = {}
        self._away: dict[SubscriptionName, _Away] = {}  # the one that has been away longest first
        self._bell = trio.Event()
        self._over: RStreamsError | None = None

    def keep(self, name: SubscriptionName, end: KeptSubscriber[Any], frame: Attach, supply: Supply) -> None:
        """Keep an end for `supply.keep_s` seconds after each loss of its link, which `frame` attaches."""
        end.frame, end.supply = frame, supply
        end.on_away = lambda: self._leave(name)
        self._ends[name] = end

    def forget(self, name: SubscriptionName, end: LinkSubscriber[Any]) -> None:
        """Forget an end, which has ended."""
        if self._ends.get(name) is end:
            del self._ends[name]
            self._return(name)

    def take(self, name: SubscriptionName, frame: Attach) -> KeptSubscriber[Any] | None:
        """Return the end that goes on with the link that `frame` attaches, without a link; None if there is none."""
        end = self._ends.get(name)
        if end is None:
            return None
        end.steal()
        self._return(name)
        if frame.settlement is not end.frame.settlement or frame.filters != end.frame.filters:
            text = "the link was attached again with another settlement, or other filters"
            end.give_up(LinkDetached(Condition.LINK_DETACH_FORCED.value, text))
        return end if end.wants_link else None

    def end_all(self, error: RStreamsError) -> None:
        """End each subscription that is away, or that loses its link from now on: the node is drained, or closes."""
        self._over = error
        for name in list(self._away):
            self._ends[name].give_up(error)

    def end_users(self, are_gone: Callable[[str | None], bool], error: RStreamsError) -> None:
        """End the subscriptions that are away of users that are not let in any more."""
        for name in [name for name in self._away if are_gone(name.user)]:
            self._ends[name].give_up(error)

    async def run(self) -> None:
        """End subscriptions that have been away too long, until cancelled."""
        while True:
            self._bell = trio.Event()
            due = min((away.until for away in self._away.values()), default=math.inf)
            with trio.move_on_at(due):
                await self._bell.wait()
            now = trio.current_time()
            for name in [name for name, away in self._away.items() if away.until <= now]:
                self._end(name, f"it was away for longer than keep_s={self._ends[name].supply.keep_s:g}")

    def _leave(self, name: SubscriptionName) -> None:
        """Note that a subscription is away; where there is no room for it, end those that have been away longest."""
        end = self._ends[name]
        if self._over is not None:
            end.give_up(self._over)
            return
        self._return(name)
        items, size = end.held
        cost = size + OVERHEAD_BYTES * items
        if cost > self._largest(end):
            self._end(name, "there was no room to keep it")
            return
        if sum(each.owner == name.owner for each in self._away) >= MAX_AWAY_OF_ONE:
            self._end_oldest_of(name.owner)
        if len(self._away) >= MAX_AWAY:
            self._end_oldest_of(_most(Counter(each.owner for each in self._away)))
        self._make_room(cost, end)
        share = Share(self._budget)
        share.take(cost)
        told = end.supply.on_away
        self._away[name] = _Away(trio.current_time() + end.supply.keep_s, share, cost, told)
        if told is not None:
            told(1)
        self._bell.set()

    def _free(self, end: KeptSubscriber[Any]) -> int:
        """Return the bytes of the budget that are free for `end`, when its connection has given its own back."""
        return self._budget.most - self._budget.taken + end.connection_bytes

    def _largest(self, end: KeptSubscriber[Any]) -> int:
        """Return the highest cost at which `end` can be kept, if all others that are away are ended."""
        return max(GUARANTEED_BYTES, self._free(end) + sum(away.cost for away in self._away.values()))

    def _make_room(self, cost: int, end: KeptSubscriber[Any]) -> None:
        """End others until `end` takes at most half of what is free, or, if that cannot be, until it fits."""
        needed = 2 * cost if 2 * cost <= self._largest(end) else cost
        while self._away and cost > GUARANTEED_BYTES and self._free(end) < needed:
            costs: Counter[Owner] = Counter()
            for each, away in self._away.items():
                costs[each.owner] += away.cost
            self._end_oldest_of(_most(costs))

    def _end_oldest_of(self, owner: Owner) -> None:
        name = next(each for each in self._away if each.owner == owner)
        self._end(name, "there was no room to keep it, and it had been away longest")

    def _return(self, name: SubscriptionName) -> None:
        away = self._away.pop(name, None)
        if away is not None:
            away.share.end()
            if away.told is not None:
                away.told(-1)

    def _end(self, name: SubscriptionName, why: str) -> None:
        text = f"the subscription of link {name.link!r:.80} to {name.address!r:.80} was ended: {why}"
        CONSUMER_FORGOTTEN.tell(name.container, why=text, container=name.container)
        self._ends[name].give_up(LinkDetached(Condition.LINK_DETACH_FORCED.value, text))
