"""The deliveries that a link has sent, and whose outcome has not come.

Theory of operation. Each delivery has a tag. The tag finds its hold when the outcome comes. Most deliveries are
accepted in the order in which they were sent. Therefore deliveries of one item each are known by runs, and are accepted
in runs: no work is done for a single one. If one has another outcome, or is not accepted in the order, all of them are
known by their tags from then on. So are packs, and messages sent in parts.

A lost link may be replaced, and unsettled items are then sent again. Their messages are therefore kept until then: in
the hold of their pack if they are packed, else beside the hold. Messages sent in parts are not kept; they can be sent
only once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import repeat
from typing import Any, TypeAlias

from rstreams._core.claims import NO_HOLD, Claims
from rstreams.abc import Hold
from rstreams.protocol.packer import SentPack
from rstreams.protocol.unsettled import UnsettledBound

SentRun: TypeAlias = tuple[range, Sequence[bytes], list[int], Claims | Hold]
"""Deliveries that were sent together: their tags, their messages if these are kept, their sizes and the claims.

A single delivery may have any hold."""


class UnsettledDeliveries:
    """The unsettled deliveries of a `LinkSubscriber`; see the text of this module.

    Attributes:
        bound: Counts their items and bytes.
        by_tag: The hold, or the pack, of each delivery that is not known by its run.
        streamed: The deliveries that were begun in parts: they cannot be sent again.
    """

    __slots__ = ("_begin", "_kept", "_resends", "_runs", "_sizes", "bound", "by_tag", "streamed")

    def __init__(self, bound: UnsettledBound, *, resends: bool) -> None:
        """Have none; `resends`: they may have to be sent again."""
        self.bound = bound
        self.by_tag: dict[Hashable, Hold | SentPack] = {}
        self.streamed: set[Hashable] = set()
        self._resends = resends
        self._runs: deque[SentRun] = deque()  # all of these were sent after all of `by_tag`
        self._begin = 0  # how many deliveries of the first run are settled
        self._sizes: dict[Hashable, int] = {}  # of each of `by_tag`
        self._kept: dict[Hashable, bytes] = {}  # messages of `by_tag` that are not packs

    def __bool__(self) -> bool:
        return bool(self.by_tag or self._runs)

    # how they are sent

    def put_one(self, tag: int, payload: bytes, hold: Hold) -> None:
        """Await the outcome of one item."""
        size = len(payload)
        self.bound.take(1, 1, size)
        self._runs.append((range(tag, tag + 1), (payload,) if self._resends else (), [size], hold))

    def put_runs(self, tags: range, payloads: list[bytes], claims: list[Claims]) -> None:
        """Await the outcomes of deliveries of one item each, with the claims on their runs."""
        sizes = list(map(len, payloads))
        self.bound.take(len(sizes), len(sizes), sum(sizes))
        kept = payloads if self._resends else ()
        if len(claims) == 1:
            self._runs.append((tags, kept, sizes, claims[0]))
            return
        begin = 0
        for run in claims:
            end = begin + len(run)
            self._runs.append((tags[begin:end], kept[begin:end], sizes[begin:end], run))
            begin = end

    def put_packs(self, tags: range, payloads: list[bytes], packs: list[Hold | SentPack], items: int) -> None:
        """Await the outcomes of packs, and of items that were sent by themselves between them."""
        self.know_each()
        sizes = list(map(len, payloads))
        self.bound.take(items, len(sizes), sum(sizes))
        self._put_each(tags, payloads, packs, sizes)

    def put_streamed(self, tag: int, hold: Hold, size: int) -> None:
        """Await the outcome of a message that is sent in parts, and whose first part has this size."""
        self.bound.take(1, 1, size)
        self.by_tag[tag] = hold
        self._sizes[tag] = size
        self.streamed.add(tag)

    def grow(self, tag: Hashable, size: int) -> None:
        """Count a delivery in parts as large as its largest part: the other parts have left."""
        more = size - self._sizes.get(tag, size)
        if more > 0:
            self._sizes[tag] += more
            self.bound.take(0, 0, more)

    def know_each(self) -> None:
        """Know each delivery by its tag."""
        runs, begin = self._runs, self._begin
        self._runs, self._begin = deque(), 0
        for tags, payloads, sizes, claims in runs:
            holds: Iterable[Hold] = (claims,)  # on one item, whatever it is; else there is a place for each item
            if isinstance(claims, Claims) and len(claims) == len(sizes) - begin:
                holds = claims.each()
            self._put_each(tags[begin:], payloads[begin:], holds, sizes[begin:])
            begin = 0

    def _put_each(
        self, tags: range, payloads: Sequence[bytes], holds: Iterable[Hold | SentPack], sizes: list[int]
    ) -> None:
        """Keep each delivery's hold, and messages that may have to be sent again; a pack keeps its items itself."""
        self.by_tag.update(zip(tags, holds, strict=False))
        self._sizes.update(zip(tags, sizes, strict=True))
        if self._resends:
            sent = zip(tags, payloads, strict=True)
            self._kept.update((tag, payload) for tag, payload in sent if not isinstance(self.by_tag[tag], SentPack))

    # how they are settled

    @property
    def first(self) -> int | None:
        """The tag of the first delivery that is known by its run; None if there is none."""
        return self._runs[0][0][self._begin] if self._runs else None

    def take_first(self, most: int) -> tuple[int, Hold]:
        """Take out up to `most` deliveries of the first run; return how many they are, and the claims on them."""
        (_, _, sizes, claims), begin = self._runs[0], self._begin
        end = begin + most
        if end < len(sizes):
            assert isinstance(claims, Claims), "they are several"
            self._begin = end
            claims = claims.cut(most)
        else:
            end = len(sizes)
            del self._runs[0]
            self._begin = 0
        self.bound.give(end - begin, end - begin, sum(sizes[begin:end]))
        return end - begin, claims

    def take_each(self, tags: Sequence[Hashable]) -> list[Hold | SentPack | None]:
        """Take out deliveries; None stands for one that is not waited for."""
        self.know_each()
        holds = list(map(self.by_tag.pop, tags, repeat(None)))
        if self._kept:
            for tag in tags:
                self._kept.pop(tag, None)
        if self.streamed:
            self.streamed.difference_update(tags)
        sizes = [size for size in map(self._sizes.pop, tags, repeat(-1)) if size >= 0]
        items = len(sizes) + sum(len(pack.claims) - 1 for pack in holds if type(pack) is SentPack)
        self.bound.give(items, len(sizes), sum(sizes))
        return holds

    # how they are lost

    def oldest(self, next_tag: int) -> int:
        """Return the tag of the oldest delivery, or that of the next one to be sent."""
        oldest: Any = next(iter(self.by_tag), None)
        first = self.first if oldest is None else oldest
        return next_tag if first is None else first

    def take_back(self, number_of: Callable[[int], int]) -> tuple[list[bytes], list[Hold], list[int]]:
        """Take all items back, to send them again on another link, in the order in which they were sent."""
        self.know_each()
        payloads: list[bytes] = []
        holds: list[Hold] = []
        numbers: list[int] = []
        tag: Any
        for tag, hold in self.by_tag.items():
            if isinstance(hold, SentPack):
                payloads += hold.items
                holds += hold.claims.each()
                numbers += hold.numbers
            else:
                payloads.append(self._kept[tag])
                holds.append(hold)
                numbers.append(number_of(tag))
        self._clear()
        return payloads, holds, numbers

    def take_holds(self) -> list[Hold]:
        """Forget all deliveries; return the holds, if there are any."""
        self.know_each()
        holds = [kept.claims if isinstance(kept, SentPack) else kept for kept in self.by_tag.values()]
        self._clear()
        return [hold for hold in holds if hold is not NO_HOLD]

    def _clear(self) -> None:
        self.by_tag.clear()
        self._kept.clear()
        self.streamed.clear()
        self._sizes.clear()
        self.bound.clear()
