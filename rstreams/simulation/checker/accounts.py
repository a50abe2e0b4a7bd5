"""What the checker knows of addresses, their subscriptions, and the items that came to these.

Each event of a history has a place: its number. Places are compared instead of times.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

Told = Mapping[str, Any]
"""An event."""

PROMISES: Final = ("at_least_once", "at_most_once", "effectively_once")
ORDERS: Final = ("producer", "all", "none")
ACCEPTED: Final = ("stored", "processed")
DROPS: Final = ("oldest", "newest", "expired", "superseded", "retention")

HELD, DONE, FAILED, OVER = "has it", "was done with it", "failed it", "does not need it"
RETURNED, KILLED = "gave it back", "was killed with it"
PENDING: Final = "pending"


class Finding(NamedTuple):
    """What is wrong with a history.

    Attributes:
        kind: Its kind, such as "lost".
        text: What happened, in one sentence.
    """

    kind: str
    text: str


class HistoryError(ValueError):
    """A history cannot be judged, because an event of it is not as it must be."""


def one_of(event: Told, field: str, allowed: tuple[str, ...]) -> str:
    """Return the value of a field, the first one that is allowed if it has none.

    Errors: `HistoryError` if it is not allowed.
    """
    value = event.get(field, allowed[0])
    if value not in allowed:
        msg = f"{field} is {value!r}; it must be one of {', '.join(allowed)}"
        raise HistoryError(msg)
    return str(value)


class Item:
    """An item that was sent to an address."""

    __slots__ = (
        "accepted", "at", "by", "due", "expires", "first", "key", "last", "name", "offset", "outcome", "over", "risky"
    )  # fmt: skip

    def __init__(self, name: Any, by: str, place: int, at: float) -> None:  # noqa: ANN401 - text or number
        self.name = name
        self.by = by
        self.first = self.last = place  # where it was sent for the first, and for the last time
        self.at = at
        self.outcome = PENDING
        self.accepted = -1  # the place
        self.risky = False  # whether it may be stored twice
        self.over = False  # whether it has left the address
        self.key: Any = None
        self.expires = math.inf
        self.due = at
        self.offset: Any = None  # the partition and offset

    def may_be_twice(self, promise: str, cause: int = -1) -> bool:
        """Return whether the item may be stored twice, if there is a cause up to a place."""
        return promise == "at_least_once" and (self.risky or (self.outcome is PENDING and cause >= self.first))

    def __str__(self) -> str:
        return f"{self.name!r} (sent by {self.by!r} at {self.at:.15g}, {self.outcome})"


class Arrival:
    """What became of an item at a subscription."""

    __slots__ = (
        "at",
        "by",
        "done",
        "failed",
        "final",
        "item",
        "others",
        "place",
        "processed",
        "state",
        "sure",
        "sure_failures",
    )

    def __init__(self, item: Item) -> None:
        self.item = item
        self.state = RETURNED
        self.by = ""
        self.others: set[str] | tuple[()] = ()  # who has it besides, from times before a cause
        self.place = -1
        self.at = 0.0
        self.failed = self.sure_failures = 0
        self.final = self.sure = self.processed = self.done = False

    def tell(self, what: str, *, final: bool) -> None:
        """Note what the one who has it has told of it: `done`, `failed` or `released`."""
        self.state = {"done": DONE, "failed": FAILED, "released": RETURNED}[what]
        self.processed |= what != "released"
        self.done |= what == "done"
        if what == "failed":
            self.failed += 1
            self.final = final


class JudgedSubscription:
    """Who gets the items of an address, alone or with others who share them.

    Args:
        name: Its name; "" if the address has only one.
        address: The address.
        since: The place from which on items are owed to it; -1: all of them are.
    """

    def __init__(self, name: str, address: JudgedAddress, since: int) -> None:
        self.name = name
        self.address = address
        self.promise = address.promise
        self.since = since
        self.start: int | None = None  # items are owed from this offset on, too
        self.again = -1  # the place where it began to read again, as it wanted
        self.again_from = 0  # and from which offset on
        self.ended = False
        self.arrivals: dict[Any, Arrival] = {}
        self.members: set[str] = set()
        self.shared = False  # whether it has had more than one member
        self.gone: dict[str, int] = {}  # the place where a member left, or was killed
        self.killed = self.returned = -1  # the last place where a member was killed, or gave something back
        self.order: dict[Any, Item] = {}  # for each producer the item that was sent last, of those that came
        self.highest = -1
        self.wants: dict[str, int] = {}
        self.moved_at = -math.inf  # when somebody began to wait, or the last item came
        self.offsets: Any = None  # `Offsets`, when it has any
        self.dropped = self.unsettled = 0
        self.ready: int | None = None

    def join(self, by: str) -> None:
        """Note that a member is there."""
        self.shared = self.shared or bool(self.members or self.gone.keys() - {by})
        self.members.add(by)

    def leave(self, by: str, place: int) -> None:
        """Note that a member is gone."""
        self.members.discard(by)
        self.wants.pop(by, None)
        self.gone[by] = self.returned = place

    def may_come_late(self, item: Item, event: Told, last_fault: int, cause: int) -> bool:
        """Return whether somebody else may have had an item before, and given it back without having looked at it.

        To one who began behind the first copy of an item, the second copy is the first one; likewise if the address
        has dropped the first copy. Who was killed gets items until the address notices; each is an attempt.
        """
        may_lack_one = self.start is not None or item.first <= self.since or bool(self.address.drops)
        if may_lack_one and item.may_be_twice(self.address.promise, cause):
            return True
        if self.address.copies and not self.shared:
            return False
        if self.killed >= 0 and event.get("attempt", 1) > 1:
            return True
        causes = max(last_fault, self.killed)
        if self.shared:
            causes = max(causes, self.address.killed, self.returned)
        return causes >= item.first

    def __str__(self) -> str:
        return str(self.address) if not self.name else f"{self.name!r} of {self.address}"


class JudgedAddress:
    """An address, and what it promises."""

    def __init__(self, event: Told) -> None:
        self.name = event["address"]
        self.promise = one_of(event, "promise", PROMISES)
        self.order = one_of(event, "order", ORDERS)
        self.processed = one_of(event, "accepted", ACCEPTED) == "processed"
        self.copies = event.get("copies", False)
        self.drops = [one_of({"drops": reason}, "drops", DROPS) for reason in event.get("drops", ())]
        self.durable = event.get("durable", True)
        self.part = event.get("part")
        self.dead_letters = event.get("dead_letters")
        self.attempts = event.get("attempts", math.inf)
        self.letters: JudgedAddress | None = None  # where its dead letters go
        self.sources: list[JudgedAddress] = []  # those whose dead letters come here
        self.items: dict[Any, Item] = {}
        self.subscriptions: dict[str, JudgedSubscription] = {}
        self.killed = -1
        self.down = False
        self.offsets: dict[Any, dict[int, Any]] = defaultdict(dict)  # by partition, the item at each offset
        self.dropped = self.unsettled = 0
        self.ready: int | None = None

    def __str__(self) -> str:
        return repr(self.name)
