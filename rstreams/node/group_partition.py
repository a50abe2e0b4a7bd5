"""One partition of a log, as a consumer group reads it; `log_group` tells how it works."""

from __future__ import annotations

import math
import struct
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final, Protocol

from rstreams._core.claims import DONE, RELEASED, Ending, Settles
from rstreams._events.table import GROUP_LOST_MESSAGES
from rstreams.errors import Condition, DeliveryFailed, ProtocolError, StoreError
from rstreams.net.dialects import Offset
from rstreams.node.address import SubscriptionOwner
from rstreams.node.lag import Lag
from rstreams.node.lifetime import QueueClock
from rstreams.node.log_partition import LogCursor, LogPartition
from rstreams.node.log_reader import position_of
from rstreams.node.statistics import GroupPartitionStatistics, WaitsFor
from rstreams.store import Done

_RECORD: Final = "group/"
_OFFSET: Final = struct.Struct("<Q")

FIRST_PAUSE_S: Final = 0.01
"""How long a partition pauses when a message has failed, in seconds; twice as long each time it fails again."""

MOST_PAUSE_S: Final = 1.0
"""The longest such pause, in seconds."""

MOST_AHEAD: Final = 16 * 1024
"""The most messages of a partition from the first one that is not settled to the last one that was handed out."""


class PartitionOwner(Protocol):
    """A member of a group.

    Attributes:
        ended: Whether it takes no more messages.
        left: Whether it has left before it completed.
        goes_on: Whether it passes over messages that were deleted before they were settled.
        who: The container, the link and the user of the subscriber.
    """

    ended: bool
    left: bool
    goes_on: bool
    who: SubscriptionOwner

    @property
    def wants(self) -> bool:
        """Whether a message may be handed over now."""
        ...

    def on_ready(self) -> None:
        """Hand over messages that have come."""
        ...


class GroupPartition(Settles):
    """One partition of a log, as a group reads it.

    Args:
        partition: The partition.
        group: The name of the group.
        start: Where a new group begins.
        begun: Called when the place where it begins is in the store.
        clock: The time of pauses; None: there are none.

    Attributes:
        owner: The member that gets its messages; None if there is none.
        heir: The member that gets it when the owner has settled all; None if it stays.
        owning: The number of times that it began to be handed out, to tell late outcomes from others.
        lost: Messages that were deleted before they were settled, and were passed over.
        due: When a pause ends; infinity if there is none.
    """

    def __init__(
        self, partition: LogPartition, group: str, start: Offset, begun: Done, clock: QueueClock | None = None
    ) -> None:
        self.due = math.inf
        self._clock = clock
        self._has_failed = False  # a message that has been given back, since all were handed out again
        self._stuck_at = self._failures = 0  # the committed offset at the last pause, and how many pauses it has seen
        self.partition = partition
        self._lag = Lag(partition.kept, partition.times)
        self._begun: Done | None = begun
        self.owner: PartitionOwner | None = None
        self.heir: PartitionOwner | None = None
        self._key = _RECORD + group
        self._putting = False
        self._put_again = False
        self._forgotten = False
        self._finding = False  # the place of a time is looked up
        record = partition.kept.records.get(self._key)
        known = None if record is None else _OFFSET.unpack(record)[0]
        begin = known if known is not None else position_of(partition, start)
        self.committed = partition.kept.first if begin is None else begin
        self.moved = known is not None  # it has settled messages, or its place has been kept over a restart
        self._floats = known is None and start == "first"  # it begins with the oldest message, whichever that is then
        self.lost = 0
        self._settled: set[int] = set()
        self._out: dict[int, None] = {}  # offsets at the owner, in rising order
        self._lowest_back: int | None = None  # the lowest offset that it has given back
        self.owning = 0
        self.cursor = self._open()
        self.cursor.close()  # until there is an owner
        if begin is None:
            assert isinstance(start, datetime), "only a time is looked up"
            self._finding = True
            partition.kept.seek(start.timestamp(), self._on_found)
        elif record is None:
            self._keep()
        else:
            self._on_kept(None)

    def _open(self) -> LogCursor:
        return LogCursor(self.partition, self.committed, self._wake, self._lose)

    def _on_found(self, answer: int | StoreError) -> None:
        """Begin at the place of a time; if the store cannot find it, with the first message."""
        if not self._finding:  # the group has been forgotten
            return
        self._finding = False
        if not isinstance(answer, StoreError):
            self.committed = max(self.committed, answer)
            self.cursor.go_back(self.committed)
        self._keep()
        self._wake()

    @property
    def comes_later(self) -> bool:
        """Whether messages are being read from the disk."""
        return self._finding or self.cursor.comes_later

    @property
    def lag_s(self) -> float:
        """The age of the first message that is not settled, in seconds; 0 if there is none."""
        return self._lag.seconds(max(self.committed, self.partition.kept.first)) if self.lag else 0.0

    @property
    def waits_for(self) -> WaitsFor:
        """What it waits for, if it hands out no messages."""
        owner = self.owner
        if owner is None:
            return "member" if self.lag else ""
        if self.heir is not None or owner.ended:
            return "outcomes"
        if self.due < math.inf:
            return "pause"
        return "demand" if self.lag > self.unsettled and not owner.wants else ""

    def statistics(self) -> GroupPartitionStatistics:
        """Return the partition at this moment."""
        who = SubscriptionOwner("", "") if self.owner is None else self.owner.who
        return GroupPartitionStatistics(
            container=who.container,
            user=who.user or "",
            link=who.name,
            gone=self.owner is not None and self.owner.ended,
            lag=self.lag,
            lag_s=self.lag_s,
            unsettled=self.unsettled,
            waits_for=self.waits_for,
        )

    @property
    def unsettled(self) -> int:
        """How many messages the owner has not settled."""
        return len(self._out)

    @property
    def lag(self) -> int:
        """How many messages are not settled: those from the committed offset to the end; in a compacted log at most."""
        kept = self.partition.kept
        return min(self.partition.safe_end - max(self.committed, kept.first), kept.count)

    @property
    def attempts(self) -> int:
        """How often the first message that is not settled has failed."""
        return self._failures if self._failures and self.committed == self._stuck_at else 0

    def _wake(self) -> None:
        if self.owner is not None:
            self.owner.on_ready()

    def _lose(self) -> ProtocolError | None:
        """Return the error for messages that were deleted before they were settled; None to pass over them."""
        first, position = self.partition.kept.first, self.cursor.position
        if self._floats:
            return None
        group, log = self._key.removeprefix(_RECORD), self.partition.name
        text = f"the messages from offset {position} to {first - 1} were deleted before they were settled"
        if self.owner is not None and self.owner.goes_on:
            self.lost += first - position - sum(position <= offset < first for offset in self._settled)
            GROUP_LOST_MESSAGES.tell(f"{group} {log}", group=group, address=log, first=position, last=first - 1)
            return None
        choice = 'start="first" goes on with the oldest one that is there'
        return ProtocolError(Condition.NOT_FOUND.value, f"group {group!r} of log {log!r:.80}: {text}; {choice}")

    def has_handed_out(self, end: int) -> bool:
        """Tell whether all messages before an offset are settled, or at an owner that has not left."""
        at = self.committed if self.owner is None or self.owner.left else self.cursor.position
        return at >= end and self._lowest_back is None and not self._finding

    def take(self, most: int, end: float = math.inf) -> tuple[Sequence[int], list[bytes]]:
        """Take messages for the owner; none while some wait to be handed out again, or the partition changes hands.

        Args:
            most: The most messages.
            end: The offset before which the owner takes messages.
        """
        if self.heir is not None or self._lowest_back is not None or self._finding or self.due < math.inf:
            return (), []
        while True:
            room = self.committed + MOST_AHEAD - self.cursor.position
            if room <= 0 or self.cursor.position >= end:
                return (), []
            offsets, messages = self.cursor.take(min(most, room))
            if offsets and offsets[-1] >= end:
                count = bisect_left(offsets, end)
                offsets, messages = offsets[:count], messages[:count]
                self.cursor.go_back(int(end))
            if not offsets:
                self._commit()  # it may have passed over settled or deleted messages
                return (), []
            if self._settled:
                fresh = [each for each in zip(offsets, messages, strict=True) if each[0] not in self._settled]
                if not fresh:
                    self._commit()
                    continue
                offsets, messages = [each[0] for each in fresh], [each[1] for each in fresh]
            self._floats = False
            self._out.update(dict.fromkeys(offsets))
            return offsets, messages

    def settle(self, epoch: int, places: Sequence[int], how: Ending) -> None:
        """Note that the owner has settled messages, or has given them back; an earlier owner is not listened to.

        Messages that are rejected count as settled.
        """
        if epoch != self.owning:
            return
        rejected = isinstance(how, DeliveryFailed) and how.outcome == "rejected"
        accepted = how is DONE or rejected
        self._has_failed = self._has_failed or not (accepted or how is RELEASED)
        for offset in places:
            if offset in self._out:
                del self._out[offset]
                if accepted:
                    self._settled.add(offset)
                else:
                    self._lowest_back = offset if self._lowest_back is None else min(offset, self._lowest_back)
        held_back = self.cursor.position - self.committed >= MOST_AHEAD
        self._commit()
        owner = self.owner
        stays = owner is not None and not owner.ended
        if not self._out and (self._lowest_back is not None or self.heir is not None or not stays):
            if self._has_failed:
                self._pause()
            self.hand_on(self.heir or (owner if stays else None))
        elif not held_back:
            return
        for member in dict.fromkeys((owner, self.owner)):
            if member is not None:
                member.on_ready()

    def _pause(self) -> None:
        """Hand out nothing for some time, because a message has failed."""
        self._has_failed = False
        if self._clock is not None:
            self._failures = min(self._failures + 1, 64) if self.committed == self._stuck_at else 1
            self._stuck_at = self.committed
            self.due = self._clock.now() + min(MOST_PAUSE_S, FIRST_PAUSE_S * 2 ** (self._failures - 1))
            self._clock.wake_at(self.due)

    def go_on(self, now: float) -> None:
        """End the pause if its time is over."""
        if self.due <= now:
            self.due = math.inf
            self._wake()

    def _commit(self) -> None:
        """Move the committed offset up to the first message that is not settled."""
        unsettled = [] if self._lowest_back is None else [self._lowest_back]
        unsettled += [next(iter(self._out))] if self._out else []
        end = min(unsettled, default=self.cursor.position)
        if end > self.committed:
            self._settled.difference_update(range(self.committed, end))
            self.committed = end
            self.moved = True
            self._keep()

    def _keep(self) -> None:
        """Have the store keep the committed offset; one such change is under way at a time."""
        if self._forgotten:
            return
        self._put_again = self._putting
        if not self._putting:
            self._putting = True
            value, sync_s = _OFFSET.pack(self.committed), self.partition.sync_s
            if self._begun is None:
                sync_s = sync_s or 1.0
            self.partition.kept.put(self._key, value, self._on_kept, sync_s=sync_s)

    def _on_kept(self, error: StoreError | None) -> None:
        self._putting = False
        begun, self._begun = self._begun, None
        if begun is not None:
            begun(error)
        if self._put_again:
            self._keep()

    def keep_last(self) -> None:
        """Have the store keep the committed offset at once: it is closed soon."""
        if self._put_again:
            self._putting = False
            self._keep()

    def hand_on(self, member: PartitionOwner | None) -> None:
        """Have a member get the messages from the committed offset on; None: no one."""
        if member is None:
            self.cursor.close()
        elif self.cursor.closed:
            self.cursor = self._open()
        elif self.cursor.position != self.committed:
            self.cursor.go_back(self.committed)
        self._out.clear()
        self._lowest_back = None
        self.owning += 1
        self.owner, self.heir = member, None

    def forget(self) -> None:
        """Remove what the group knows of it; messages that are settled later change nothing."""
        self.cursor.close()
        if self._finding:
            self._on_kept(StoreError("the group has been forgotten"))
        self._forgotten, self._finding = True, False
        self.partition.kept.put(self._key, None)


def names_of_groups(records: Mapping[str, bytes]) -> Iterator[str]:
    """Return the names of the groups that the records of a partition know."""
    return (key.removeprefix(_RECORD) for key in records if key.startswith(_RECORD))
