"""Consumer groups: members share the partitions of a log, and the group remembers how far each one is settled.

Theory of operation. Each partition of the log belongs to one member at a time. It hands out messages in order, and
keeps count of those that are not settled:

    committed   the offset behind the last message that is settled without a gap before it; the store keeps it
    settled     offsets behind it that are settled already
    position    the offset of the next message that is handed out

When members come or go, the partitions are shared out again, as few as possible change hands. A partition is handed on
when its owner has settled all its messages, or has given them back; until then it hands out no more. When a message was
given back, the position goes back to `committed`, and settled offsets are passed over. If it had failed, the partition
pauses before it comes again, longer each time that the same message fails: the order forbids to hand out others.

That holds also for an owner that has completed, or left: the receiver of a link that a node ends, because it is
drained, still settles what it has. When a link is lost, all that it has not settled is given back at once.

If messages were deleted before they were settled, members hear of it: their links end with an error. A member that has
asked for `start="first"` goes on with the oldest message that is there; the messages that are passed over are counted.

At most `MOST_AHEAD` messages are between `committed` and `position`. A member that never settles one message then gets
no more of that partition, and the memory for the settled ones is bounded.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from rstreams._core.claims import Claims
from rstreams.abc import Subscriber
from rstreams.net.dialects import Offset
from rstreams.node.address import SubscriptionOwner
from rstreams.node.group_partition import GroupPartition, PartitionOwner
from rstreams.node.lag import Trend
from rstreams.node.lifetime import QueueClock
from rstreams.node.log_partition import LogPartition
from rstreams.node.log_reader import SLICE, TakesOffsets
from rstreams.node.statistics import GroupStatistics
from rstreams.node.written import Begun


class Group:
    """A consumer group of a log.

    Args:
        name: The name of the group.
        partitions: The partitions of the log.
        start: Where it begins, if it is new.
        clock: The time, for messages that have failed; None: they come again at once.

    Attributes:
        begun: Its begin in the store.
    """

    def __init__(
        self, name: str, partitions: Sequence[LogPartition], start: Offset, clock: QueueClock | None = None
    ) -> None:
        self.name = name
        self.begun = Begun(len(partitions))
        self._parts = [GroupPartition(partition, name, start, self.begun.done, clock) for partition in partitions]
        self._members: list[GroupMember] = []
        self._trend = Trend()
        self._to_end: list[GroupMember] = []  # those that complete, by their ends

    @property
    def members(self) -> int:
        """How many members there are, those included that have completed or left and not settled all."""
        return len({*self._members, *(part.owner for part in self._parts if part.owner is not None)})

    @property
    def handed_out(self) -> int:
        """The sum of the offsets up to which it has handed messages out."""
        return sum(part.cursor.position for part in self._parts)

    @property
    def settled(self) -> int:
        """The sum of the committed offsets."""
        return sum(part.committed for part in self._parts)

    @property
    def is_unused(self) -> bool:
        """Whether it has no members and none on their way, has settled nothing, and is not from before a restart."""
        return not self.members and self.begun.is_known and not any(part.moved for part in self._parts)

    @property
    def due(self) -> float:
        """When the next pause of a partition ends."""
        return min(part.due for part in self._parts)

    def go_on(self, now: float) -> None:
        """Let the partitions go on whose pause is over."""
        for part in self._parts:
            part.go_on(now)

    def join(self, member: GroupMember) -> None:
        """Share the partitions out anew: one more member."""
        self._members.append(member)
        if member.ends:
            self._to_end.append(member)
        self._share_out()

    def leave(self, member: GroupMember) -> None:
        """Share the partitions out anew: one member less. The next owners wait for what it has not settled."""
        if member not in self._members:  # it has left while it subscribed
            return
        self._members.remove(member)
        if member.ends:
            self._to_end.remove(member)
        for part in self._parts:
            if part.owner is member and not part.unsettled:
                part.hand_on(part.heir)
            elif part.heir is member:
                part.heir = None
        self._share_out()

    @property
    def behind(self) -> list[GroupPartition]:
        """The partitions with messages that are not settled."""
        return [part for part in self._parts if part.lag]

    @property
    def holders(self) -> list[GroupMember]:
        """The members that have messages and do not settle them, or ask for none although there are some."""
        held = [part for part in self.behind if part.owner is not None and (part.unsettled or not part.owner.wants)]
        return [member for member in self._members if any(part.owner is member for part in held)]

    @property
    def wants(self) -> bool:
        """Whether a member asks for messages."""
        return any(member.demand for member in self._members)

    def parts_of(self, member: GroupMember) -> list[GroupPartition]:
        """Return the partitions of a member."""
        return [part for part in self._parts if part.owner is member]

    def ends(self) -> list[int]:
        """Return the end of each partition, as it is now."""
        return [part.partition.safe_end for part in self._parts]

    def ends_of(self, member: GroupMember) -> list[tuple[GroupPartition, float]]:
        """Return the partitions of a member, each with the offset before which the member takes messages."""
        ends: Sequence[float] = member.ends or [math.inf] * len(self._parts)
        return [(part, end) for part, end in zip(self._parts, ends, strict=True) if part.owner is member]

    def complete_members(self) -> None:
        """Complete the members to which, and to the others, all has been handed out that they wait for."""
        for member in tuple(self._to_end):
            if not all(map(GroupPartition.has_handed_out, self._parts, member.ends)):
                break  # the others wait for as much, or more
            member.complete()

    def _share_out(self) -> None:
        """Give each partition to a member, so that all have as many; as few as possible change hands."""
        members = self._members
        if not members:
            return
        shares: dict[PartitionOwner, list[GroupPartition]] = {member: [] for member in members}
        free: list[GroupPartition] = []
        for part in self._parts:
            holder = part.heir or part.owner
            if holder in shares:
                shares[holder].append(part)
            else:  # there is none, or the owner has completed
                free.append(part)
        least, more = divmod(len(self._parts), len(members))
        for member in sorted(members, key=lambda each: -len(shares[each])):
            most = least + (more > 0)
            more -= len(shares[member]) > least
            free += shares[member][most:]
            del shares[member][most:]
        for part in free:
            fewest = min(members, key=lambda each: len(shares[each]))
            shares[fewest].append(part)
            self._give(part, fewest)
        for member in tuple(members):
            member.on_ready()

    def _give(self, part: GroupPartition, member: GroupMember) -> None:
        if part.owner is member:
            part.heir = None
        elif part.owner is not None and part.unsettled:
            part.heir = member
        else:
            part.hand_on(member)

    def statistics(self) -> GroupStatistics:
        """Return the group at this moment."""
        parts = tuple(part.statistics() for part in self._parts)
        lag = sum(part.lag for part in parts)
        return GroupStatistics(
            members=len(self._members),
            committed=tuple(part.committed for part in self._parts),
            lag=lag,
            unsettled=sum(part.unsettled for part in self._parts),
            waiting_to_move=sum(part.heir is not None for part in self._parts),
            lost=sum(part.lost for part in self._parts),
            lag_s=max(part.lag_s for part in parts),
            trend=self._trend.look(lag),
            partitions=parts,
        )

    def keep_last(self) -> None:
        """Have the store keep all positions: it is closed soon."""
        for part in self._parts:
            part.keep_last()

    def forget(self) -> None:
        """Remove what the log knows of the group, which has no members."""
        for part in self._parts:
            part.forget()


class GroupMember(TakesOffsets):
    """One member of a group: the subscription behind a link.

    Args:
        address: The address of the log, for messages.
        group: The group.
        subscriber: Gets the messages of its partitions, each with its offset; those of a partition are in order.
        goes_on: Whether it passes over messages that were deleted before they were settled. Otherwise it ends.
        to_end: Whether it completes when all messages have been handed out that are there now.
        who: The container, the link and the user of the subscriber.

    Attributes:
        ends: The ends of the partitions when it joined, if it completes there; else none.
        left: Whether it has left before it completed.

    Errors: `on_error` with `ProtocolError` (`amqp:not-found`) if such messages are missing.
    """

    def __init__(
        self,
        address: str,
        group: Group,
        subscriber: Subscriber[bytes],
        *,
        goes_on: bool = False,
        to_end: bool = False,
        who: SubscriptionOwner = SubscriptionOwner("", ""),  # noqa: B008 - it never changes
    ) -> None:
        super().__init__(address, subscriber)
        self.who = who
        self._group = group
        self.ends = group.ends() if to_end else []
        self.goes_on = goes_on
        self.left = False
        self._turn = 0

    @property
    def comes_later(self) -> bool:
        """Whether messages are being read from the disk."""
        return any(part.comes_later for part in self._group.parts_of(self))

    def emit(self) -> None:
        """Hand over messages as far as there is demand; members that have all they wait for complete."""
        super().emit()
        if not self._emitting:
            self._group.complete_members()

    def complete(self) -> None:
        """Take no more messages; those that were taken can still be settled."""
        if not self.ended and not self._emitting:
            self.ended = True
            self.subscriber.on_complete()
            self._group.leave(self)

    def _emit_some(self) -> bool:
        parts = self._group.ends_of(self)
        for _ in parts:
            self._turn = (self._turn + 1) % len(parts)
            part, end = parts[self._turn]
            offsets, messages = part.take(min(self.demand, SLICE), end)
            if messages:
                self._hand_over_run(messages, Claims(part, part.owning, offsets))
                return True
            if part.cursor.error is not None:
                self.fail(part.cursor.error)
                return False
        return False

    def _has_more(self) -> bool:
        return any(part.cursor.position < min(end, part.partition.safe_end) for part, end in self._group.ends_of(self))

    def _rest(self) -> None:
        for part in self._group.parts_of(self):
            part.cursor.rest()

    def _leave(self) -> None:
        self.left = True
        self._group.leave(self)
