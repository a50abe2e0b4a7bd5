"""What a durable queue or a log knows of numbered producers, kept in its part of the store."""

from __future__ import annotations

import struct
import time
from collections.abc import Sequence
from typing import Final

from rstreams.net.links.effectively_once import Stamp
from rstreams.node.memory_partition import AnyPartition
from rstreams.node.seen_messages import Seen

_PREFIX: Final = "producer/"
_LAST: Final = struct.Struct("<Qd")  # the highest number of a producer, and when it came


class StoredProducers:
    """The highest number stored of each producer, in the records of a partition.

    Args:
        seen: Knows the numbers; it is filled from the records.
        partition: The partition.
        sync_s: As for `Partition.append`.
    """

    def __init__(self, seen: Seen, partition: AnyPartition, sync_s: float) -> None:
        self._seen = seen
        self._partition = partition
        self._sync_s = sync_s
        records = partition.records
        known = [(_LAST.unpack(value), key) for key, value in records.items() if key.startswith(_PREFIX)]
        for (sequence, _), key in sorted(known, key=lambda each: each[0][1]):
            self._note((key.removeprefix(_PREFIX), sequence))

    def note(self, stamps: Sequence[Stamp]) -> dict[str, bytes]:
        """Count messages as stored; return the records that are to be set in the same commit as the messages."""
        now = time.time()
        for stamp in stamps:
            self._note(stamp)
        return {_PREFIX + producer: _LAST.pack(sequence, now) for producer, sequence in stamps}

    def take_back(self, stamps: Sequence[Stamp]) -> None:
        """Count messages as not stored: their commit has failed."""
        for stamp in stamps:
            self._seen.take_back(stamp)

    def _note(self, stamp: Stamp) -> None:
        forgotten = self._seen.note(stamp)
        if forgotten is not None:
            self._partition.put(_PREFIX + forgotten, None, sync_s=self._sync_s)
