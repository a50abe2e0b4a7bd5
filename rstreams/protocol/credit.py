"""Credit: the one place where demand, counted in items, becomes credit, counted in deliveries.

Theory of operation. The receiver's ledger counts the demand of its subscriber and the items on hand. The credit on the
wire is a number of the engine, and is given to the ledger's methods. The grant rule:

    D  demand      items asked for and not yet handed to the subscriber
    B  buffered    items received and not yet handed over
    U  unsettled   items handed over and not yet settled
    W  window      the most items that this link may have on hand
    C  credit      deliveries the sender may still send
    P  pack        the most items a delivery carries: 1, unless both ends have agreed on more

    C * P <= min(D - B, W - B - U)

Therefore B + U + C * P <= W at the time of each grant, and always if the user has set W. Otherwise W follows the size
of the items (`fit`). When it becomes smaller, credit that has been granted is not taken back. A link that also has a
limit in bytes (`byte_bound`) has a second rule:

    H  on hand     bytes of the items buffered and unsettled
    E  expected    bytes of the next delivery, as expected by those before; V before the first one
    V  the bound   the most bytes that this link may have on hand

    C * E <= V - H,  but never less than one delivery when there is nothing on hand

A link never reads ahead of demand: a subscriber that wants read-ahead requests more. There is one exception. A delivery
may carry more items than are wanted. Then one delivery is granted if none is on its way and the window has room for all
of it. The items that are not wanted yet are kept, and handed over first.

To save flow frames, credit is topped up in two cases:

- It has fallen to half of the window, or to half of the deliveries that fit into V if that is less.
- There is none, and the rule allows some.

Where the window is the limit, it is renewed in whole halves, if it has `EVEN_ITEMS` items or more. All subscribers of
a multicast that have the same window then ask for more at the same items. Their sender waits for the slowest of them,
and can then send the same run to all of them.

E is an estimate; the rule in bytes holds at the time of the grant. A sender whose deliveries become larger is stopped
by the window of its session: the driver leaves its deliveries there while H is at V.

The sender's ledger counts requests, which cannot be taken back, apart from credit, which can:

    owed = items requested from the publisher - items received from it
    held = items received from it that wait for credit

    items to request for new credit c = max(0, c - owed - held)

Items that are still owed after a drain or a withdrawal therefore take the next credit first.

Spec: AMQP 1.0 section 2.6.7 (flow control); Reactive Streams 1.1, 3.8, 3.17.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from rstreams._checks.numbers import require_count
from rstreams._core.demand import UNBOUNDED, add_demand
from rstreams._core.windows import GROWN_WINDOW
from rstreams.protocol.byte_bound import ByteBound
from rstreams.protocol.frames import Flow

MAX_CREDIT: Final = 2**31 - 1
"""The most link credit that the engine can hold: it is a C int."""

EVEN_ITEMS: Final = 64
"""The smallest window that is renewed in whole halves, and the unit in which a sender asks for a part of its credit.
Smaller runs are short in any case."""

GROWN_BYTES: Final = 2 * 1024 * 1024
"""The bytes of messages, by their present mean, that fit into a window that has been made larger."""

MAX_PACK_ITEMS: Final = 1024
"""The most items of a packed delivery: more would gain nothing, and the first item would wait for the last one."""


def require_window(window: int) -> int:
    """Return `window` if a link can have it.

    Errors: `ConfigError` unless it is 1 to 2^31-1 items.
    """
    return require_count("", "window", window, 1, MAX_CREDIT)


def require_pack(pack_items: int, window: int = 2 * MAX_PACK_ITEMS) -> int:
    """Return `pack_items` if a delivery to a window of this size may carry that many items.

    Errors: `ConfigError` unless it is 1, or up to half of the window and up to 1,024 items.
    """
    most = max(1, min(MAX_PACK_ITEMS, window // 2))
    limit = f", at most half of the window, which is {window} (option window)" if most < MAX_PACK_ITEMS else ""
    return require_count("", "pack_items", pack_items, 1, most, unit=f" items{limit}")


class CreditLedger:
    """The receiver's side of a link's credit: when to grant, and how much.

    Attributes:
        demand: Items requested and not yet handed over; saturates at unbounded.
        buffered: Items received and not yet handed over.
        unsettled: Items handed over and not yet settled.
        window: The most items buffered, unsettled and granted together.
        grows: Whether `fit` makes the window larger while items are small.
        pack: The most items a delivery carries.
        bound: The bytes on hand, if they are limited.
        suspended: Whether no credit is granted, and unused credit is withdrawn.
        answers_drain: Whether the sender can give credit back.
    """

    __slots__ = (
        "_asked",
        "_draining",
        "_least",
        "_renews_evenly",
        "answers_drain",
        "bound",
        "buffered",
        "demand",
        "grows",
        "pack",
        "renews_at_zero",
        "suspended",
        "unsettled",
        "window",
    )

    def __init__(
        self,
        window: int,
        *,
        grows: bool = False,
        renews_at_zero: bool = False,
        window_bytes: int = 0,
        answers_drain: bool = True,
    ) -> None:
        """Start without demand.

        Args:
            window: See the attribute.
            grows: See the attribute.
            renews_at_zero: Whether no credit is granted while some is left; some peers would send too much otherwise.
            window_bytes: The most bytes buffered, unsettled and expected together; 0 for any number.
            answers_drain: See the attribute.

        Errors: `ConfigError` unless 1 <= window <= 2^31-1 items.
        """
        self.window = self._least = require_window(window)
        self.grows = grows
        self.bound = ByteBound(window_bytes) if window_bytes else None
        self.renews_at_zero = renews_at_zero
        self._renews_evenly = window >= EVEN_ITEMS and not window_bytes
        self.pack = 1
        self.demand = 0
        self.buffered = 0
        self.unsettled = 0
        self.suspended = False
        self.answers_drain = answers_drain
        self._asked: list[Callable[[], None]] = []  # drains that have not begun
        self._draining: list[Callable[[], None]] | None = None  # the drain in progress; empty for `suspended`

    def fit(self, size: int, items: int) -> None:
        """Make the window larger, or as it was at first, for items such as these `items`, of `size` bytes together."""
        window = self._least
        while 2 * window <= GROWN_WINDOW and 2 * window * size <= GROWN_BYTES * items:
            window *= 2
        self.window = window

    def request(self, items: int) -> None:
        """Count `items` more demand."""
        self.demand = min(self.demand + items, UNBOUNDED)

    def receive(self, items: int) -> None:
        """Count `items` as received; the engine has subtracted them from the credit."""
        self.buffered += items

    def deliver(self) -> int:
        """Count buffered items as handed over and unsettled, as far as there is demand; return how many."""
        items = min(self.buffered, self.demand)
        if self.demand != UNBOUNDED:
            self.demand -= items
        self.buffered -= items
        self.unsettled += items
        return items

    def take_back(self, items: int) -> None:
        """Undo `deliver` for the last `items`: the subscriber cancelled before them."""
        self.demand = add_demand(self.demand, items)
        self.buffered += items
        self.unsettled -= items

    def settle(self, items: int) -> None:
        """Count `items` of those handed over as settled."""
        self.unsettled -= items

    def give_back(self, items: int) -> None:
        """Count `items` of those buffered as given back, unseen by the subscriber."""
        self.buffered -= items

    def grant(self, credit: int) -> int:
        """Return how many deliveries to grant on top of `credit`, the engine's own number; often 0."""
        if credit > 0 and self.renews_at_zero:
            return 0
        pack = self.pack
        room = self.window - self.unsettled - self.buffered
        wanted = self.demand - self.buffered
        most = min(wanted, room) // pack
        half = self.window // 2
        if self.bound is not None:
            fits = self.bound.deliveries()
            if fits <= credit:
                return 0
            most = min(most, fits)
            half = min(half, self.bound.half * pack)
        if most <= credit or credit * pack > half:
            return int(credit == 0 < wanted < pack <= room)
        grant, step = most - credit, half // pack
        if self._renews_evenly and grant > step and room <= wanted and (credit or room < self.window):
            grant -= grant % step
        return grant

    def drain(self, on_drained: Callable[[], None]) -> None:
        """Drain the credit with the next flow."""
        self._asked.append(on_drained)

    @property
    def drains(self) -> bool:
        """Whether a drain is in progress."""
        return self._draining is not None

    @property
    def may_grant(self) -> bool:
        """Whether credit may be granted as soon as there is room."""
        return not self.suspended and self._draining is None

    def next_flow(self, credit: int) -> Flow | None:
        """Return the flow that grants or drains credit now, on top of `credit`; None: there is nothing to say."""
        if self._draining is not None:
            return None
        granted = 0 if self.suspended else self.grant(credit)
        if self._asked or (self.suspended and credit > 0 and self.answers_drain):
            self._draining, self._asked = self._asked, []
            return Flow(credit + granted, drain=True) if credit + granted > 0 else None
        return Flow(credit + granted) if granted else None

    def end_drain(self, credit: int) -> list[Callable[[], None]] | None:
        """End the drain in progress, if all its credit is used up or given back; return who is to be told, then."""
        if credit > 0 or self.buffered:
            return None
        calls, self._draining = self._draining, None
        return calls

    def forget_link(self) -> None:
        """Start a drain that was in progress again: the link is lost."""
        self._asked, self._draining = [*(self._draining or ()), *self._asked], None

    def starves(self, credit: int, at_most: int) -> bool:
        """Return whether more items are wanted than are on their way, and only the items in hand prevent a grant.

        Args:
            credit: The engine's own number.
            at_most: This number of items on their way, or fewer, is too few; room for more than this number is enough.
        """
        coming = credit * self.pack
        if self.demand - self.buffered <= coming or (credit > 0 and self.renews_at_zero):
            return False
        bound = self.bound
        if bound is not None and (bound.room() <= 0 or (credit <= 0 and not bound.deliveries())):
            return True
        room = self.window - self.unsettled - self.buffered - coming
        return coming <= at_most and room < max(self.pack, at_most)


class SenderLedger:
    """The sender's side of a link's credit: when to ask the publisher, and for how much.

    Attributes:
        owed: Items requested from the publisher that it has not sent yet.
        held: Items it has sent that wait for credit.
        pack: The most items a delivery carries.
    """

    __slots__ = ("held", "owed", "pack")

    def __init__(self) -> None:
        """Start without requests."""
        self.pack = 1
        self.owed = 0
        self.held = 0

    def request(self, credit: int, most: int) -> int:
        """Return how many items to request for `credit` deliveries, at most `most` at a time; count them as owed.

        A part of them that has `EVEN_ITEMS` items or more is a multiple of `EVEN_ITEMS`. Links with the same credit
        then request equal parts, although they have a little more or less room.
        """
        wanted = credit * self.pack - self.owed - self.held
        if wanted > most:
            wanted = most if most < EVEN_ITEMS else most - most % EVEN_ITEMS
        if wanted <= 0:
            return 0
        self.owed += wanted
        return wanted

    def may_request(self, credit: int) -> bool:
        """Tell whether `credit` deliveries may carry more items than those that are owed and held."""
        return credit * self.pack > self.owed + self.held

    def take_request_back(self, items: int) -> None:
        """Undo `request` for the last `items`: the publisher did not have them yet."""
        self.owed -= items

    def receive(self, items: int) -> None:
        """Count `items` that the publisher sent: no longer owed, and held until they can be sent on."""
        self.owed -= items
        self.held += items

    def send(self, items: int) -> None:
        """Count `items` of those held as sent."""
        self.held -= items

    def pass_on(self, items: int) -> None:
        """Count `items` that the publisher sent as sent at once: they were never held."""
        self.owed -= items

    def take_back(self, items: int) -> None:
        """Undo `send` for `items` whose link was lost: they will be sent again."""
        self.held += items
