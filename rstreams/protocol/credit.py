"""Credit: the one place where demand, counted in items, meets credit, counted in deliveries.

Theory of operation. The receiver's ledger knows what its subscriber asked for and what is on its hands; the credit on
the wire is the engine's number and is handed in. The grant rule:

    D  demand      items asked for and not yet handed to the subscriber
    B  buffered    items received and not yet handed over
    U  unsettled   items handed over and not yet settled
    W  window      the most this link may have on its hands
    C  credit      deliveries the sender may still send
    P  pack        the most items a delivery carries: 1, unless both ends have agreed on more

    C * P <= min(D - B, W - B - U)    so  buffered + unsettled + granted <= W, always

and where a link is bounded in bytes, too (`byte_bound`):

    H  on hand     bytes of the items buffered and unsettled
    E  expected    bytes of the next delivery, by what came before; all of V before anything has
    V  the bound   the most bytes this link may have on its hands

    C * E <= V - H,  but never less than one delivery when there is nothing on hand

It never reads ahead of demand: whoever wants read-ahead requests it. (Only where a delivery may carry more items than
are wanted, one is granted when nothing is on its way and the window has room for all of it; what is not wanted yet is
kept, and handed over first.) To save flow frames credit is topped up when it has fallen to half the window, or to half
of what V has room for if that is less, and at once when there is none and the rule allows one.

E is a guess, so the rule in bytes holds as the credit is granted; who sends larger ones than before is stopped by the
window of its session, behind which the driver leaves what comes while H is at V.

The sender's ledger keeps apart what cannot be taken back (what its publisher was asked for) from what can (credit):

    owed = requested from the publisher - received from it
    held = received from it, with no credit yet to send it on

New credit c asks the publisher only for max(0, c - owed - held), so what is still owed after a drain or a withdrawal
takes the next credit first.

Spec: AMQP 1.0 section 2.6.7 (flow control); Reactive Streams 1.1, 3.8, 3.17.
"""

from __future__ import annotations

from typing import Final

from rstreams._checks.numbers import require_count
from rstreams._core.demand import add_demand, take_demand
from rstreams.protocol.byte_bound import ByteBound

MAX_CREDIT: Final = 2**31 - 1
"""The most link credit the engine can hold: it is a C int."""


MAX_PACK_ITEMS: Final = 1024
"""The most items of a packed delivery: more would gain nothing, and keep the first waiting for the last."""


def require_window(window: int) -> int:
    """Return `window` if a link can have it.

    Errors: `ConfigError` unless it is 1 to 2^31-1 items.
    """
    return require_count("", "window", window, 1, MAX_CREDIT)


def require_pack(pack_items: int, window: int = 2 * MAX_PACK_ITEMS) -> int:
    """Return `pack_items` if a delivery may carry so many items to a window.

    Errors: `ConfigError` unless it is 1, or up to half of the window and up to 1,024 items.
    """
    most = max(1, min(MAX_PACK_ITEMS, window // 2))
    limit = f", at most half of window={window}" if most < MAX_PACK_ITEMS else ""
    return require_count("", "pack_items", pack_items, 1, most, unit=f" items{limit}")


class CreditLedger:
    """The receiver's side of a link's credit: when to grant how much.

    Attributes:
        demand: Items asked for and not yet handed over; saturates at unbounded.
        buffered: Items received and not yet handed over.
        unsettled: Items handed over and not yet settled.
        window: The most items buffered, unsettled and granted together.
        pack: The most items a delivery carries.
        bound: The bytes on hand, if they are bounded.
    """

    __slots__ = ("bound", "buffered", "demand", "pack", "renews_at_zero", "unsettled", "window")

    def __init__(self, window: int, *, renews_at_zero: bool = False, window_bytes: int = 0) -> None:
        """Start with no demand.

        Args:
            window: See the attribute.
            renews_at_zero: Grant nothing while credit is left: some peers send too much if it is raised meanwhile.
            window_bytes: The most bytes buffered, unsettled and expected together; 0 for any number.

        Errors: `ConfigError` unless 1 <= window <= 2^31-1 items.
        """
        self.window = require_window(window)
        self.bound = ByteBound(window_bytes) if window_bytes else None
        self.renews_at_zero = renews_at_zero
        self.pack = 1
        self.demand = 0
        self.buffered = 0
        self.unsettled = 0

    def request(self, items: int) -> None:
        """Count `items` more demand."""
        self.demand = add_demand(self.demand, items)

    def receive(self, items: int) -> None:
        """Count `items` received; the engine has taken them off the credit."""
        self.buffered += items

    def deliver(self) -> int:
        """Hand over what is buffered, as far as there is demand: unsettled from now on; return how many items."""
        items = min(self.buffered, self.demand)
        self.demand = take_demand(self.demand, items)
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
        return most - credit

    def starves(self, credit: int, at_most: int) -> bool:
        """Return whether more is wanted than is on its way, and what is in hand alone keeps it from being granted.

        Args:
            credit: The engine's own number.
            at_most: Up to so many items on their way are too few; with as many room all is well.
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
    """The sender's side of a link's credit: when to ask the publisher for how much.

    Attributes:
        owed: Items requested from the publisher that it has not sent yet.
        held: Items it has sent that wait for credit.
        pack: The most items a delivery carries.
    """

    __slots__ = ("held", "owed", "pack")

    def __init__(self) -> None:
        """Start with nothing requested."""
        self.pack = 1
        self.owed = 0
        self.held = 0

    def request(self, credit: int, most: int) -> int:
        """Return how many items to request for `credit` deliveries, at most `most` at a time; count them as owed."""
        wanted = min(credit * self.pack - self.owed - self.held, most)
        if wanted <= 0:
            return 0
        self.owed += wanted
        return wanted

    def take_request_back(self, items: int) -> None:
        """Undo `request` for the last `items`: they were not to be had yet."""
        self.owed -= items

    def receive(self, items: int) -> None:
        """Count `items` the publisher sent: no longer owed, held until they can be sent on."""
        self.owed -= items
        self.held += items

    def send(self, items: int) -> None:
        """Count `items` of those held as sent."""
        self.held -= items

    def take_back(self, items: int) -> None:
        """Undo `send` for `items` whose link was lost: they are to be sent again."""
        self.held += items
