"""Limits of the items and bytes that a user sends or receives in a second.

Theory of operation. A `Rate` is a bucket that fills with time, up to one second's worth. The links of one user share
it. A `Metered` stage is between a link and its address. The address asks for items, and the stage asks the link for
only as many as the bucket allows. The rest of the demand waits for the bucket. Nothing is dropped, because an item is
never sent without credit.

    items    taken from the bucket when they are asked for
    bytes    taken when an item has come, because its size is not known before; meanwhile its expected size is reserved

For a link on which a user receives, the same stage asks the address for items on behalf of the link. The size of an
item that is not encoded yet is that of the address's latest items.

Items that have been asked for may come much later, or never. Therefore a link asks for at most a tenth of a second's
worth at a time, but at least for one item. Links that wait are served in turns.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from rstreams._core.demand import add_demand, demand_error, take_demand
from rstreams._core.sight import Asked, Scannable
from rstreams._core.spell import Spell
from rstreams._core.subscription import ENDED
from rstreams._stages.stage import resume, suspend
from rstreams.abc import Hold, Publisher, Subscriber, Subscription
from rstreams.culprits import Culprit
from rstreams.net.transport.accounts import Account
from rstreams.node.address import Supply
from rstreams.protocol.receiver import LinkSubscription
from rstreams.protocol.unsettled import ItemSize

FIRST_GUESS_BYTES: Final = 16 * 1024
"""The expected size of a link's first item."""

PART: Final = 0.1
"""The part of a second's worth that one link may have granted and unused."""


class Rate:
    """What the links of one user may still ask for.

    Args:
        account: Has the limits, which may change.
        now: Returns the time, in seconds that only go on.
        call_later: Calls a function after a number of seconds.
        held: Counts the time in which a link waits.
    """

    def __init__(
        self,
        account: Account,
        now: Callable[[], float],
        call_later: Callable[[float, Callable[[], None]], None],
        held: Spell,
    ) -> None:
        self._held = held
        self._account = account
        self._now = now
        self._call_later = call_later
        self._waiting: deque[Metered] = deque()
        self._looks_again = False
        self._filled_at = now()
        self._items = max(1.0, self._items_per_s)
        self._bytes = self._bytes_per_s

    def ask(self, link: Metered) -> None:
        """Grant `link` a part of its demand, now or when there is something to grant."""
        if link not in self._waiting:
            self._waiting.append(link)
            self._serve()

    def blame(self, link: Metered, asked: Asked) -> Culprit | None:
        """Return that the limit of the user holds a link back, if it is so."""
        if link not in self._waiting:
            return None
        allowed = [(self._items_per_s, "items"), (self._bytes_per_s, "bytes")]
        limits = " and ".join(f"{rate:g} {unit}" for rate, unit in allowed if math.isfinite(rate))
        who = self._account.user or "a client without a user"
        return asked.blame("rate_limit", f"rate limit: {who!r:.80} {self.does} {limits} a second", who)

    does = "may send"

    def forget(self, link: Metered) -> None:
        """Grant a link nothing more; what it had and did not use is the others'."""
        if link in self._waiting:
            self._waiting.remove(link)
        self._items += link.outstanding
        self._bytes += link.reserved
        link.outstanding = link.reserved = 0
        self._serve()

    def came(self, link: Metered, size: int) -> None:
        """Take the bytes of an item that has come; give back what was reserved for it."""
        reserved = link.reserved // link.outstanding if link.outstanding else 0
        link.reserved -= reserved
        link.outstanding = max(0, link.outstanding - 1)
        self._bytes += reserved - size

    def _serve(self) -> None:
        self._fill()
        while self._waiting and self._items >= 1 and self._bytes > 0:
            link = self._waiting.popleft()
            at_once = max(1.0, self._items_per_s * PART)
            fits = max(1.0, self._bytes_per_s * PART / link.expected)
            items = int(min(link.demand, at_once, fits, self._items))
            self._items -= items
            if math.isfinite(self._bytes_per_s):
                self._bytes -= items * link.expected
                link.reserved += items * link.expected
            link.grant(items)
        if self._held.lasts is not bool(self._waiting):
            self._held.note(lasts=not self._held.lasts)
        if self._waiting and not self._looks_again:
            self._looks_again = True
            self._call_later(self._delay(), self._look_again)

    def _look_again(self) -> None:
        self._looks_again = False
        self._serve()

    def _delay(self) -> float:
        """Return the time until there is enough for a useful grant."""
        items, size = self._items_per_s, self._bytes_per_s
        for_items = max(1.0, items * PART / 2) / items - self._items / items if math.isfinite(items) else 0.0
        for_bytes = size * PART / 2 / size - self._bytes / size if math.isfinite(size) else 0.0
        return max(for_items, for_bytes, 0.001)

    def _fill(self) -> None:
        now = self._now()
        passed, self._filled_at = now - self._filled_at, now
        self._items = _filled(self._items, passed, self._items_per_s, max(1.0, self._items_per_s))
        self._bytes = _filled(self._bytes, passed, self._bytes_per_s, self._bytes_per_s)

    @property
    def _items_per_s(self) -> float:
        return self._account.limits.items_per_s or math.inf

    @property
    def _bytes_per_s(self) -> float:
        return self._account.limits.bytes_per_s or math.inf


class ReceivedRate(Rate):
    """What the links on which a user receives may still ask for."""

    does = "may receive"

    @property
    def _items_per_s(self) -> float:
        return self._account.limits.received_items_per_s or math.inf

    @property
    def _bytes_per_s(self) -> float:
        return self._account.limits.received_bytes_per_s or math.inf


def _filled(now: float, passed_s: float, rate: float, most: float) -> float:
    """Return what is in a bucket after some time."""
    return min(now + rate * passed_s, most) if math.isfinite(rate) else math.inf


class Metered(Scannable):
    """Between a link on which a user sends and the address: asks for no more than the user's rate allows.

    Demand: The address's, as far as the rate allows.
    Errors: Passed on.
    Cancels: Passed on.

    Attributes:
        demand: Items that the address has asked for, and that have not been asked for here.
        outstanding: Items asked for that have not come.
        reserved: The bytes that these are expected to have.
        expected: The bytes that the next item is expected to have.
    """

    __slots__ = ("_downstream", "_granted", "_rate", "_upstream", "demand", "expected", "outstanding", "reserved")

    def __init__(self, downstream: Subscriber[bytes], rate: Rate) -> None:
        self._downstream = downstream
        self._rate = rate
        self._upstream: Subscription = ENDED
        self._granted = 0
        self.demand = 0
        self.outstanding = 0
        self.reserved = 0
        self.expected = FIRST_GUESS_BYTES

    def on_subscribe(self, subscription: Subscription) -> None:
        """Pass the subscription on; a second one is cancelled (2.5)."""
        if self._upstream is not ENDED:
            subscription.cancel()
            return
        self._upstream = subscription
        self._downstream.on_subscribe(self)

    def on_next(self, item: bytes) -> None:
        """Pass an item on, and ask for more when half of the last grant is used."""
        size = self._size_of(item)
        self._rate.came(self, size)
        self.expected = max(1, size, self.expected - max(1, (self.expected - size) // 8))
        self._downstream.on_next(item)
        self._ask()

    def on_error(self, error: BaseException) -> None:
        """Pass the end on."""
        self._leave()
        self._downstream.on_error(error)

    def on_complete(self) -> None:
        """Pass the end on."""
        self._leave()
        self._downstream.on_complete()

    def request(self, n: int) -> None:
        """Ask for `n` more items, when the rate allows it."""
        if demand_error(n) is not None:
            self._upstream.request(n)  # which refuses it
            return
        self.demand = add_demand(self.demand, n)
        self._ask()

    def cancel(self) -> None:
        """End the link."""
        self._leave()
        self._upstream.cancel()

    def hold(self) -> Hold:
        """Take a hold on the item that is being handed over."""
        return self._upstream.hold()

    def suspend(self) -> None:
        """Withdraw credit."""
        suspend(self._upstream)

    def resume(self) -> None:
        """Grant credit again."""
        resume(self._upstream)

    def give_up(self, error: BaseException) -> None:
        """End the link with an error."""
        if isinstance(self._upstream, LinkSubscription):
            self._upstream.give_up(error)

    def grant(self, items: int) -> None:
        """Ask the link for items; the rate allows them."""
        self.demand = take_demand(self.demand, items)
        self.outstanding += items
        self._granted = self.outstanding
        self._upstream.request(items)

    def blame(self, asked: Asked) -> Culprit | None:
        """Return that the limit of the user holds the link back, if it is so."""
        return self._rate.blame(self, asked) if self.demand else None

    @property
    def label(self) -> str:
        """Its name in `explain`."""
        return "rate limit"

    @property
    def downstream(self) -> object:
        """The address, or the link."""
        return self._downstream

    def upstreams(self) -> Sequence[Subscription]:
        """Return the link, or the address."""
        return () if self._upstream is ENDED else (self._upstream,)

    def _size_of(self, item: bytes) -> int:
        return len(item)

    def _ask(self) -> None:
        if self.demand and 2 * self.outstanding <= self._granted:
            self._rate.ask(self)

    def _leave(self) -> None:
        self.demand = 0
        self._rate.forget(self)


class MeteredReceiver(Metered):
    """Between an address and a link on which a user receives: asks for no more than the user's rate allows.

    Args:
        link: The link's end.
        rate: The rate of the user.
        size: The size of the latest items of the address, for items that are not encoded; None: they are encoded.
    """

    __slots__ = ("_size",)

    def __init__(self, link: Subscriber[Any], rate: Rate, size: ItemSize | None) -> None:
        super().__init__(link, rate)
        self._size = size

    @property
    def comes_later(self) -> bool:
        """Whether items may come without a further request; a drain is not answered before."""
        if self.demand and not self.outstanding:
            return True  # the rate holds them back; if some are outstanding, the address has no more
        later: bool = getattr(self._upstream, "comes_later", False)
        return later

    @property
    def unasked(self) -> Spell | None:
        """While the address has a message and nobody asks for it, as far as the address knows."""
        unasked: Spell | None = getattr(self._upstream, "unasked", None)
        return unasked

    def grant(self, items: int) -> None:
        """Ask the address for items; if it has none, the link may have to answer a drain."""
        super().grant(items)
        if self.outstanding:
            self.look_again()

    def look_again(self) -> None:
        """Tell the link that what it was waiting for may not come."""
        self._tell("look_again")

    def starve(self) -> None:
        """Tell the link that the address has no more items before some are settled."""
        self._tell("starve")

    def _tell(self, what: str) -> None:
        tell = getattr(self._downstream, what, None)
        if tell is not None:
            tell()

    def _size_of(self, item: bytes) -> int:
        return len(item) if self._size is None else int(self._size.mean)


class Rates:
    """The rates of all users of a node.

    Args:
        now: Returns the time, in seconds that only go on.
        call_later: Calls a function after a number of seconds.
    """

    def __init__(self, now: Callable[[], float], call_later: Callable[[float, Callable[[], None]], None]) -> None:
        self._now = now
        self._call_later = call_later
        self._held: dict[tuple[str, str], Spell] = {}  # they outlive the connections of the users

    @property
    def held_s(self) -> dict[str, float]:
        """For each user that has a rate, and "" for clients without a user: how long its links have waited for it."""
        seconds: dict[str, float] = {}
        for (user, _), held in self._held.items():
            seconds[user] = seconds.get(user, 0.0) + held.total_s
        return seconds

    def _held_of(self, account: Account, does: str) -> Spell:
        return self._held.setdefault((account.user or "", does), Spell())

    def metered(self, producer: Subscriber[bytes], account: Account) -> Subscriber[bytes]:
        """Return the subscriber for a link of a user, which asks for no more than the user's rate allows."""
        if account.limits.items_per_s is None and account.limits.bytes_per_s is None:
            return producer
        rate = account.rate
        if not isinstance(rate, Rate):
            held = self._held_of(account, Rate.does)
            rate = account.rate = Rate(account, self._now, self._call_later, held)
        return Metered(producer, rate)

    def metered_supply(self, supply: Supply, account: Account) -> Supply:
        """Return the supply of a link of a user, whose publisher is asked for no more than the user's rate allows."""
        if account.limits.received_items_per_s is None and account.limits.received_bytes_per_s is None:
            return supply
        rate = account.received_rate
        if not isinstance(rate, ReceivedRate):
            held = self._held_of(account, ReceivedRate.does)
            rate = account.received_rate = ReceivedRate(account, self._now, self._call_later, held)
        size = None if supply.encoded else supply.size or ItemSize()
        return replace(supply, publisher=_MeteredPublisher(supply.publisher, rate, size), size=size or supply.size)


@dataclass(frozen=True, slots=True)
class _MeteredPublisher:
    """A publisher whose subscribers are asked for no more than a rate allows."""

    publisher: Publisher[Any]
    rate: Rate
    size: ItemSize | None

    def subscribe(self, subscriber: Subscriber[Any]) -> None:
        """Subscribe `subscriber`."""
        self.publisher.subscribe(MeteredReceiver(subscriber, self.rate, self.size))
