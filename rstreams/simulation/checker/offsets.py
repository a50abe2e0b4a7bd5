"""What the checker knows of the offsets of a subscription."""

from __future__ import annotations

import heapq
from collections import defaultdict
from typing import Any

from rstreams.simulation.checker.accounts import (
    FAILED,
    KILLED,
    OVER,
    RETURNED,
    Arrival,
    Item,
    JudgedSubscription,
    Told,
)

Wrong = list[tuple[str, str]]
"""Kinds and texts of what is wrong."""


class Offsets:
    """The positions of a subscription, for each partition.

    Args:
        subscription: Which one.
    """

    def __init__(self, subscription: JudgedSubscription) -> None:
        self._subscription = subscription
        self._next: dict[tuple[str, Any], tuple[int, int]] = {}  # of a member: the next offset, and the place
        self._committed: dict[Any, int] = {}
        self._resumed: dict[Any, tuple[int, int]] = {}
        self._unsettled: dict[Any, list[tuple[int, int, Arrival]]] = defaultdict(list)  # heaps

    def begin(self, by: str) -> None:
        """Note that a member begins, wherever it wants."""
        for key in [key for key in self._next if key[0] == by]:
            del self._next[key]

    def is_again(self, event: Told, place: int) -> bool:
        """Return whether the subscription was resumed after a place, at or before the offset of an item."""
        offset, resumed = self._resumed.get(event.get("partition"), (0, -1))
        return resumed > place and event.get("offset", -1) >= offset

    def got(self, event: Told, item: Item, arrival: Arrival | None, place: int, cause: int) -> Wrong:
        """Judge the offset of an item that came; `arrival` is what was known of it before."""
        by, partition, offset = event["by"], event.get("partition"), event["offset"]
        address = self._subscription.address
        known = address.offsets[partition]
        wrong: Wrong = []
        if known.setdefault(offset, item.name) != item.name:
            wrong.append(("back", f"where item {known[offset]!r} was before"))
        if item.offset not in (None, (partition, offset)) and not item.may_be_twice(address.promise, cause):
            wrong.append(("doubled", f"and at offset {item.offset[1]} before"))
        item.offset = partition, offset
        position = self._next.get((by, partition))
        end = offset + 1
        if offset < self._committed.get(partition, 0):
            wrong.append(("back", f"though {self._committed[partition]} was committed"))
        elif position is not None:
            then, since = position
            given_back = arrival is not None and arrival.state in (RETURNED, KILLED, FAILED)
            if offset > then:
                wrong += self._skipped(known, then, offset)
            elif offset < then and cause < since:
                end = max(end, then)
                if not given_back:
                    wrong.append(("back", f"behind offset {then - 1}"))
        self._next[by, partition] = end, place
        if not wrong:
            return wrong
        text = f"{by!r} got item {item} of {self._subscription} at {event['at']:.15g}, at offset {offset}"
        return [(kind, f"{text}, {what}.") for kind, what in wrong]

    def _skipped(self, known: dict[int, Any], begin: int, end: int) -> Wrong:
        if self._subscription.address.drops or self._subscription.shared:
            return []
        between = range(begin, end) if end - begin < len(known) else sorted(known)
        skipped = [each for each in between if begin <= each < end and each in known]
        return [("lost", f"and not item {known[each]!r} at offset {each}") for each in skipped]

    def holds(self, event: Told, arrival: Arrival) -> None:
        """Note that an item has to be processed before a later offset is committed."""
        heapq.heappush(self._unsettled[event.get("partition")], (event["offset"], arrival.place, arrival))

    def commit(self, event: Told) -> Wrong:
        """Judge an offset that was committed."""
        offset, partition = event["offset"], event.get("partition")
        before = self._committed.get(partition, 0)
        if offset < before:
            return [("back", self._committed_text(event, f"behind {before}"))]
        self._committed[partition] = offset
        heap = self._unsettled[partition]
        while heap and (heap[0][1] != heap[0][2].place or heap[0][2].done or heap[0][2].state in (FAILED, OVER)):
            heapq.heappop(heap)
        if heap and heap[0][0] < offset:
            open_one = f"before item {heap[0][2].item} at offset {heap[0][0]} was processed"
            return [("early", self._committed_text(event, open_one))]
        return []

    def _committed_text(self, event: Told, why: str) -> str:
        return f"Offset {event['offset']} of {self._subscription} was committed at {event['at']:.15g}, {why}."

    def resume(self, event: Told, place: int) -> Wrong:
        """Judge the offset at which a member goes on."""
        offset, partition = event["offset"], event.get("partition")
        committed = self._committed.get(partition, 0)
        self._resumed[partition] = self._next[event["by"], partition] = offset, place
        if offset >= committed:
            return []
        text = f"{event['by']!r} resumed {self._subscription} at offset {offset} at {event['at']:.15g}"
        return [("back", f"{text}, though {committed} was committed.")]
