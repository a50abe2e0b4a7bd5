"""The limits for sent and unsettled items: the limit of one link, and the memory that all links of a node share.

Theory of operation. The receiver decides the credit; it may grant 2^31-1 and never settle anything. Therefore a sending
link has a limit of its own, in items and in bytes. It sends only as much as credit, items and bytes all allow:

    U  unsettled   items sent whose outcome has not come
    H  on hand     bytes of their messages

    items to send <= min(credit, max_unsettled - U),  their bytes <= max_unsettled_bytes - H,
    but never less than one delivery when U = 0: a message may be larger than the bound

Items that are sent settled do not count: they have no outcome to wait for.

Each of many links may keep its limit, and all together may take too much. Therefore the links of a connection use one
`Share` of the `Budget` of their node. A delivery costs the bytes of its message and `OVERHEAD_BYTES`. The engine keeps
the memory of a delivery for the next one until the connection ends. Therefore a share counts the most that it has ever
used:

    K  kept        the most that this connection's unsettled deliveries have cost at a time
    T  taken       the sum of K over all connections
    B  the budget  of the node
    G  guaranteed  to each connection, whatever the others do

    cost <= max(G, K + max(0, (B - T - K) / 2))

A delivery that begins below this limit may exceed it. One connection alone gets half of the budget, a second one a
quarter, and so on. A part is therefore always left, and no connection can take all of it. G is for connections that
come when almost nothing is left.

Links that find no room wait, and are woken in their order. As many are woken as find room if each sends as much as
others did. A link that has not been woken takes no room while others wait.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from rstreams._codec.data_sections import total_bytes

DEFAULT_MAX_UNSETTLED: Final = 10_000
DEFAULT_MAX_UNSETTLED_BYTES: Final = 16 * 1024 * 1024
DEFAULT_TOTAL_UNSETTLED_BYTES: Final = 64 * 1024 * 1024


class UnsettledLimits(NamedTuple):
    """The most that one sending link may have unsettled: items, and bytes of their messages."""

    items: int = DEFAULT_MAX_UNSETTLED
    size: int = DEFAULT_MAX_UNSETTLED_BYTES


OVERHEAD_BYTES: Final = 2048
"""The cost of an unsettled delivery besides its message, in bytes: the records of the engine and of this library."""

FIRST_GUESS_BYTES: Final = 16 * 1024
"""The assumed size of an item before one has come; limits the first request in case items are huge."""

GUARANTEED_BYTES: Final = 128 * 1024
"""The bytes that the unsettled deliveries of a connection may always cost."""


class Budget:
    """The memory that a node's unsettled deliveries may take together.

    Attributes:
        most: Its size in bytes.
        taken: The bytes of it that the connections keep.
        used: The bytes of it that are used by deliveries that are unsettled now.
    """

    __slots__ = ("_waiting", "most", "taken", "used")

    def __init__(self, most: int) -> None:
        """Start with all of it free."""
        self.most = most
        self.taken = 0
        self.used = 0
        self._waiting: dict[Share, None] = {}

    def wait(self, share: Share) -> None:
        """Call `share` when there is more room."""
        self._waiting[share] = None

    def forget(self, share: Share) -> None:
        """Do not call `share` any more."""
        self._waiting.pop(share, None)

    def give_back(self, size: int) -> None:
        """Take back the bytes that an ended connection has kept; shares that wait may go on."""
        self.taken -= size
        waiting, self._waiting = self._waiting, {}
        for share in waiting:
            share.pass_on()


class Share:
    """The part of a budget that the links of one connection use.

    Attributes:
        used: The cost of their unsettled deliveries now.
        kept: The highest cost that these ever had; it counts against the budget.
    """

    __slots__ = ("_budget", "_last_cost", "_served", "_waiting", "kept", "used")

    def __init__(self, budget: Budget) -> None:
        """Start without deliveries."""
        self._budget = budget
        self._waiting: dict[Callable[[], None], None] = {}
        self._served: set[Callable[[], None]] = set()  # links that were woken and have not worked since
        self._last_cost = 1  # of the deliveries that a link sent last
        self.used = 0
        self.kept = 0

    def room(self) -> int:
        """Return how much more the deliveries may cost; 0 or less: nothing."""
        free = self._budget.most - self._budget.taken - self.kept
        return max(GUARANTEED_BYTES, self.kept + max(0, free // 2)) - self.used

    def is_open(self, wake: Callable[[], None]) -> bool:
        """Return whether a link may take room: it was woken for this, or no other link waits."""
        return not self._waiting or wake in self._served

    def fits(self, cost: int, wake: Callable[[], None]) -> int:
        """Return how many deliveries of this cost a link may send; at least one if there is any room for it."""
        room = self.room() if not self._waiting or wake in self._served else 0
        return max(1, room // cost) if room > 0 else 0

    def take(self, cost: int) -> None:
        """Count deliveries that have been sent."""
        self._last_cost = max(cost, self._last_cost - self._last_cost // 8)
        self.used += cost
        self._budget.used += cost
        if self.used > self.kept:
            self._budget.taken += self.used - self.kept
            self.kept = self.used

    def give(self, cost: int) -> None:
        """Count deliveries that have been settled; a link that waits may go on."""
        self.used -= cost
        self._budget.used -= cost
        if self._waiting:
            self.pass_on()

    def wait(self, wake: Callable[[], None]) -> None:
        """Call `wake` when there is room; links that waited before come first."""
        self._waiting[wake] = None
        self._budget.wait(self)

    def leave(self, wake: Callable[[], None]) -> None:
        """Forget a link that waits: it has ended."""
        self._waiting.pop(wake, None)
        self.go_on(wake)

    def go_on(self, wake: Callable[[], None]) -> None:
        """Note that a link has taken the room that it needs; the next ones that wait have their turn."""
        self._served.discard(wake)
        if self._waiting:
            self.pass_on()

    def pass_on(self) -> None:
        """Wake the first links that wait, if there is room for what they and those woken before may send."""
        room = self.room() - len(self._served) * self._last_cost
        while room > 0 and self._waiting:
            first = next(iter(self._waiting))
            del self._waiting[first]
            self._served.add(first)
            first()
            room -= self._last_cost

    def end(self) -> None:
        """Give everything back: the connection has ended, and its memory in the engine is free."""
        self._waiting.clear()
        self._served.clear()
        self._budget.forget(self)
        self._budget.used -= self.used
        kept, self.kept, self.used = self.kept, 0, 0
        self._budget.give_back(kept)


class ItemSize:
    """The size that the next items of an address are expected to have; its links share it.

    Attributes:
        mean: The mean size of the items sent last, in bytes; an estimate before that.
    """

    __slots__ = ("mean",)

    def __init__(self) -> None:
        """Expect large items: this limits the first request."""
        self.mean = FIRST_GUESS_BYTES


class UnsettledBound:
    """The unsettled items of one sending link, and their limits; see the text of this module.

    Attributes:
        items: The items sent and not settled.
        size: The bytes of their messages.
        held_back: Whether the link has credit, and waits for settlement.
        share: The share of the connection; None: there is no budget. It changes only while nothing is unsettled.
    """

    __slots__ = ("_deliveries", "_max_items", "_max_size", "_wake", "held_back", "items", "share", "size")

    def __init__(self, limits: UnsettledLimits, share: Share | None, wake: Callable[[], None]) -> None:
        """Start without unsettled items.

        Args:
            limits: The most items and bytes of the link.
            share: The share of the connection; None: there is no budget.
            wake: Makes the link work soon.
        """
        self.items = 0
        self.size = 0
        self.held_back = False
        self._deliveries = 0
        self._max_items, self._max_size = limits
        self.share = share
        self._wake = wake

    def may_ask(self, most: int, waiting: int, item_bytes: int, pack: int, *, drains: bool) -> int:
        """Return how many items, up to `most`, the publisher may be asked for.

        Args:
            most: The most items.
            waiting: The items that are held, or have been requested: they go first.
            item_bytes: The bytes that an item is expected to have.
            pack: The number of items in a delivery.
            drains: Whether a drain is to be answered. The answer must be true: it says that there are no more items
                (2.6.7). Therefore the publisher is asked for one item beyond the limit, which waits for settlement. If
                none comes, there were no more.
        """
        allowed = min(self._max_items - self.items, (self._max_size - self.size) // item_bytes)
        if not self.items:
            allowed = max(allowed, 1)
        if self.share is not None:
            allowed = min(allowed, self.share.fits(item_bytes + OVERHEAD_BYTES // pack, self._wake))
        if allowed > waiting:
            return min(most, allowed - waiting)
        self.hold_back()
        return 1 if drains and not waiting else 0

    def fit(self, payloads: list[bytes], count: int, pack: int) -> int:
        """Return how many of the first `count` items may be sent, by the sizes of their messages."""
        most = min(count, self._max_items - self.items)
        room, overhead, share = self._max_size - self.size, OVERHEAD_BYTES // pack, self.share
        size = total_bytes(payloads if most == len(payloads) else payloads[:most])
        if size <= room and (share is None or size + overhead * most <= share.room()):
            return most
        fits = _first_within(payloads, most, room, 0)
        if not self.items:
            fits = max(fits, 1)
        if share is not None:
            left = share.room()
            fits = 0 if left <= 0 else min(fits, max(1, _first_within(payloads, fits, left, overhead)))
        return fits

    def fits_one(self, size: int) -> bool:
        """Tell whether one delivery of an item may be sent, whose message has this size."""
        if self.items >= self._max_items or self.size + size > self._max_size:
            return False
        share = self.share
        return share is None or size + OVERHEAD_BYTES <= share.room()

    def hold_back(self) -> None:
        """Note that the link waits for settlement: of its own deliveries, or of any on its connection."""
        self.held_back = True
        share = self.share
        if share is not None and (share.room() <= 0 or not share.is_open(self._wake)):
            share.wait(self._wake)

    def go_on(self) -> None:
        """Note that the link has sent as much as it may; the next link that waits gets its turn."""
        if self.share is not None:
            self.share.go_on(self._wake)

    def take(self, items: int, deliveries: int, size: int) -> None:
        """Count items that have been sent."""
        self.items += items
        self.size += size
        self._deliveries += deliveries
        if self.share is not None:
            self.share.take(size + OVERHEAD_BYTES * deliveries)

    def give(self, items: int, deliveries: int, size: int) -> None:
        """Count items that have been settled."""
        self.items -= items
        self.size -= size
        self._deliveries -= deliveries
        if self.share is not None:
            self.share.give(size + OVERHEAD_BYTES * deliveries)

    def clear(self) -> None:
        """Count no deliveries any more: the link has ended, or is lost."""
        self.held_back = False
        self.give(self.items, self._deliveries, self.size)
        if self.share is not None:
            self.share.leave(self._wake)


def _first_within(payloads: list[bytes], most: int, room: int, overhead: int) -> int:
    """Return how many of the first `most` items have at most `room` bytes together."""
    for at, payload in enumerate(payloads[:most]):
        room -= len(payload) + overhead
        if room < 0:
            return at
    return most
