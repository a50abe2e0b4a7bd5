"""What a durable queue or a log knows of numbered producers, kept in its part of the store.

Theory of operation. A message counts as stored when it goes to the store, so that one that comes again meanwhile is not
stored twice. If a commit fails, later appends to the partition may be on their way already. All of them are one
`Chain`: behind the failed one the store makes none of them. When the owner hears of the first failure it counts all
messages of the chain that were not safe as not stored.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple

from rstreams import _machine
from rstreams.errors import StoreError
from rstreams.net.links.effectively_once import Stamp
from rstreams.node.memory_partition import AnyPartition
from rstreams.node.seen_messages import Gaps, Seen
from rstreams.store import Chain

_PREFIX: Final = "producer/"
_LAST: Final = struct.Struct("<Qd")  # the highest number of a producer, and when it came


class RunNumbers:
    """The numbers of the new messages of one run in one partition: the lowest and the highest of each producer."""

    __slots__ = ("_highest", "_lowest")

    def __init__(self) -> None:
        self._lowest: list[Stamp] = []
        self._highest: dict[str, int] = {}

    def add(self, stamp: Stamp) -> bool:
        """Note a message; return False if it has come before in this run."""
        producer, sequence = stamp
        before = self._highest.get(producer)
        if before is None:
            self._lowest.append(stamp)
        elif sequence <= before:
            return False
        self._highest[producer] = sequence
        return True

    @property
    def stamps(self) -> list[Stamp]:
        """The lowest ones, and then the highest ones."""
        return [*self._lowest, *self._highest.items()]


class _Unsafe(NamedTuple):
    """A change on its way: the numbers of its messages, and the highest number of each producer before it."""

    stamps: Sequence[Stamp]
    before: dict[str, int]


class StoredProducers:
    """The highest number stored of each producer, in the records of a partition.

    Args:
        seen: Knows the numbers; it is filled from the records.
        partition: The partition.
        sync_s: As for `Partition.append`.
        gaps: Gets the messages whose commit has failed.
    """

    def __init__(self, seen: Seen, partition: AnyPartition, sync_s: float, gaps: Gaps) -> None:
        self._seen = seen
        self._partition = partition
        self._sync_s = sync_s
        self._gaps = gaps
        self._unsafe: deque[_Unsafe] = deque()  # the changes of the chain that are on their way
        self._chain = partition.chain
        records = partition.records
        known = [(_LAST.unpack(value), key) for key, value in records.items() if key.startswith(_PREFIX)]
        for (sequence, _), key in sorted(known, key=lambda each: each[0][1]):
            self._note((key.removeprefix(_PREFIX), sequence))

    def note(self, stamps: Sequence[Stamp]) -> dict[str, bytes]:
        """Count messages as stored; return the records that are to be set in the same commit as the messages.

        The next change must be one of the partition's chain, and `heard` must be called with its outcome. It may have
        no new message.
        """
        self._unsafe.append(_Unsafe(stamps, {producer: self._seen.highest(producer) for producer, _ in stamps}))
        now = _machine.today()
        for stamp in stamps:
            self._note(stamp)
        return {_PREFIX + producer: _LAST.pack(sequence, now) for producer, sequence in stamps}

    def heard(self, chain: Chain, error: StoreError | None) -> None:
        """Hear of the outcome of a change of a chain, in the order of the changes.

        It must also hear of appends without numbers that have failed: then all behind them have failed.
        """
        if chain is not self._chain:
            return  # an earlier change has failed: this one has too, and is not counted any more
        if error is None:
            self._unsafe.popleft()
            return
        stored: dict[str, int] = {}
        for change in self._unsafe:
            for stamp in change.stamps:
                self._gaps.open(stamp)
            stored = change.before | stored
        for producer, highest in stored.items():
            self._take_back(producer, highest)
        self._unsafe.clear()
        self._chain = self._partition.chain

    def _take_back(self, producer: str, highest: int) -> None:
        """Count the messages of a producer above a number as not stored."""
        self._seen.take_back((producer, highest + 1))
        if highest < 0:
            self._partition.records.pop(_PREFIX + producer, None)
        else:
            self._partition.records[_PREFIX + producer] = _LAST.pack(highest, _machine.today())  # what the store has

    def _note(self, stamp: Stamp) -> None:
        forgotten = self._seen.note(stamp)
        if forgotten is not None:
            self._partition.put(_PREFIX + forgotten, None, sync_s=self._sync_s)
