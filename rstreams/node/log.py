"""A log: messages are appended, stay, and are read from any offset, as often as wanted.

Theory of operation. A log has partitions, each with offsets of its own. A message goes to the partition of its key, and
is accepted when it is as safe as the log promises. Readers attach to a partition, and say where they begin; they do not
change the log. Members of a consumer group share the partitions, and the group remembers what they have settled.

    producers  ->  "events"                     the partition of each message is found by its key
                   "events-0", "events-1" ...   that partition
    readers    <-  "events-0", "events-1" ...   also "events", if it has one partition
    members    <-  "events", with the name of their group
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Final

from rstreams import _machine
from rstreams._checks.publishers import require_subscriber
from rstreams._codec.asking import Wish
from rstreams._core.sight import Asked
from rstreams.abc import Subscriber
from rstreams.errors import Condition, ConfigError, ProtocolError
from rstreams.net.dialects import Offset
from rstreams.net.dialects.stream_offsets import START_AT
from rstreams.net.links.offsets import GROUP, INCARNATION, TO_END, read_group, read_start, read_to_end
from rstreams.node.address import Address, LinkRequest, NodeServices, SubscriptionOwner, Supply, require_address_name
from rstreams.node.address_waits import Standing, disk_full, poison
from rstreams.node.consumer import Subscribing
from rstreams.node.group_partition import names_of_groups
from rstreams.node.incarnations import require_incarnation
from rstreams.node.lifetime import QueueClock
from rstreams.node.log_group import Group, GroupMember
from rstreams.node.log_intake import LogIntake
from rstreams.node.log_keys import Compaction, Key, Keys
from rstreams.node.log_partition import LogPartition, Retention
from rstreams.node.log_reader import LogReader, begin_of, end_of, position_of
from rstreams.node.memory_partition import AnyPartition, MemoryPartition
from rstreams.node.state_lines import log_line
from rstreams.node.statistics import AddressTotals, LogStatistics, PartitionStatistics
from rstreams.node.wishes import AS_THEY_COME, IN_MEMORY
from rstreams.node.written import Written

MAX_GROUPS: Final = 1024
"""The most consumer groups of a log."""

MAX_MEMBERS: Final = 1024
"""The most members of a consumer group."""

_MOST_GROUP_PARTITIONS: Final = 64 * 1024
"""The most positions that all groups together keep; a log with many partitions has fewer groups."""

_LEAST_GROUPS: Final = 16
"""The groups that any log may have."""

_LOOKS: Final = 10
"""How often in the time of retention the log looks for messages that are too old."""

_LEAST_S: Final = 0.1
_MOST_S: Final = 60.0
"""The shortest and the longest time between two such looks, in seconds."""


class LogAddress(Address):
    """A log; see the text of this module, and `Node.log`.

    Args:
        name: The address.
        kept: Where the messages of each partition are.
        key: Where the key of a message is.
        retention: How much of each partition is kept.
        compact: Whether a message is deleted when a later one of its partition has the same key.
        tombstones_s: How long messages without a body stay in a compacted log, in seconds.
        start: Where a link begins that does not say it.
        sync_s: As for `rstreams.store.Partition.append`.

    Errors: If the store fails, messages on their way are rejected.

    Attributes:
        partitions: The partitions.
    """

    kind = "log"
    table = "logs"

    def __init__(
        self,
        name: str,
        kept: Sequence[AnyPartition],
        *,
        key: Key,
        retention: Retention,
        compact: bool,
        tombstones_s: float,
        start: Offset,
        sync_s: float,
    ) -> None:
        self.name = require_address_name(self.kind, name)
        names = [name] if len(kept) == 1 else [f"{name}-{number}" for number in range(len(kept))]
        self.partitions = tuple(
            LogPartition(each, messages, retention, sync_s, has_gaps=compact, number=number)
            for number, (each, messages) in enumerate(zip(names, kept, strict=True))
        )
        self.parts = tuple(names) if len(names) > 1 else ()
        ignores = {**AS_THEY_COME, Wish.LIFETIME: "the options of the log say how long they stay"}
        if isinstance(kept[0], MemoryPartition):
            ignores[Wish.DURABLE] = IN_MEMORY
        if len(kept) > 1 and not callable(key):
            ignores[Wish.GROUP] = f"their partition is that of their key, the annotation {key}"
        self.ignores = ignores
        self._start: Offset = start
        keys = Keys(key, len(kept))
        self._retention = retention
        self._intake = LogIntake(name, self.partitions, keys, self._on_safe, self.explain, waits=self.waits)
        self._groups: dict[str, Group] = {}
        self._clock = QueueClock(now=self._now, wake_at=self._wake_at)
        self._readers: set[LogReader] = set()
        compacted = self.partitions if compact else ()
        self._compactions = [Compaction(each, keys, tombstones_s, self._now, self._wake_at) for each in compacted]
        self._services: NodeServices | None = None
        self._deadline = math.inf
        self._written = Written()
        self._began_at = sum(each.safe_end for each in self.partitions)

    def begin(self, services: NodeServices) -> None:
        """Take the time from the node, and read what a compacted log has."""
        self._services = services
        for name in sorted({name for part in self.partitions for name in names_of_groups(part.kept.records)}):
            self._groups[name] = Group(name, self.partitions, "first", self._clock)
        for compaction in self._compactions:
            compaction.begin()
        if self._retention.seconds is not None:
            self._deadline = -math.inf  # at once
            services.wake_at(self._deadline)

    def forget(self) -> None:
        """Delete the messages, and what is known of groups and producers."""
        for group in self._groups.values():
            group.forget()
        self._groups.clear()
        for part in self.partitions:
            part.kept.clear(self._written.hear())

    async def written(self) -> None:
        """Wait until all changes so far are safe; see `Address.written`."""
        for part in self.partitions:
            part.kept.delete((), self._written.hear(), sync_s=part.sync_s)
        await self._written.wait()

    async def close(self) -> None:
        """Have the store keep what the groups have settled."""
        for group in self._groups.values():
            group.keep_last()

    def _now(self) -> float:
        return _machine.monotonic() if self._services is None else self._services.now()

    # links

    def producer(self, *, once: bool = False, partition: int | None = None) -> Subscriber[bytes]:
        """Return the subscriber for one producer link, to one partition or to that of each message's key."""
        return self._intake.producer(partition, once=once)

    def supply(self, link: LinkRequest) -> Supply:
        """Return the messages for a reader, or for a member of a group."""
        filters = link.attach.filters
        try:
            group, start, to_end = read_group(filters), read_start(filters), read_to_end(filters) is not None
        except ValueError as error:
            raise ProtocolError(Condition.INVALID_FIELD.value, str(error)) from None
        used = {name: filters[name] for name in (GROUP, START_AT, TO_END) if name in filters}
        first = self.partitions[0]
        if group is not None:
            used |= require_incarnation(filters, first.incarnation.id, f"log {self.name!r:.80}")
            safe, begun = first.incarnation.safe(), self._admitted(group, start).begun
            if safe is not None and begun.is_known:  # else its changes are behind that of the id
                begun = safe
            told = {INCARNATION: first.incarnation.id}
            member = Subscribing(partial(self._join_group, group, start, to_end=to_end, who=link.owner))
            return Supply(member, encoded=True, filters=used, properties=told, begun=begun)
        if len(self.partitions) > 1:
            names = f"{first.name!r} to {self.partitions[-1].name!r}"
            text = f"log {self.name!r:.80} has {len(self.partitions)} partitions: read {names}, or join a group"
            raise ProtocolError(Condition.NOT_ALLOWED.value, text)
        return self.supply_of(first, link)

    def supply_of(self, partition: LogPartition, link: LinkRequest) -> Supply:
        """Return the messages of one partition for a reader."""
        begin, used = begin_of(partition, link.attach.filters, self._start)
        end, completes = end_of(partition, link.attach.filters)
        told = {INCARNATION: partition.incarnation.id}
        reader = Subscribing(partial(self._read, partition, begin, end))
        return Supply(
            reader, encoded=True, filters=used | completes, properties=told, begun=partition.incarnation.safe()
        )

    def _read(self, partition: LogPartition, start: Offset, end: int | None, subscriber: Subscriber[bytes]) -> None:
        require_subscriber(subscriber)
        reader = LogReader(partition, subscriber, start, self._readers.discard, end)
        reader.waits = self.waits
        self._readers.add(reader)
        subscriber.on_subscribe(reader)
        reader.emit()  # it may complete at once

    def _join_group(
        self,
        name: str,
        start: Offset | None,
        subscriber: Subscriber[bytes],
        *,
        to_end: bool = False,
        who: SubscriptionOwner = SubscriptionOwner("", ""),  # noqa: B008 - it never changes
    ) -> None:
        require_subscriber(subscriber)
        group = self._admitted(name, start)
        member = GroupMember(self.name, group, subscriber, goes_on=start == "first", to_end=to_end, who=who)
        member.waits = self.waits
        subscriber.on_subscribe(member)
        if not member.ended:
            group.join(member)

    def _admitted(self, name: str, start: Offset | None) -> Group:
        """Return the group that a member may join; for a new one, forget one without members that has settled nothing.

        Errors: `ProtocolError` if there is no room, or a new group cannot begin at `start`.
        """
        begin: Offset = "first" if start is None else start
        limit = Condition.RESOURCE_LIMIT_EXCEEDED.value
        known = self._groups.get(name)
        if known is not None:
            if known.members >= MAX_MEMBERS:
                raise ProtocolError(limit, f"group {name!r} of log {self.name!r:.80} has {MAX_MEMBERS} members")
            return known
        for partition in self.partitions:
            position_of(partition, begin)
        most = min(MAX_GROUPS, max(_LEAST_GROUPS, _MOST_GROUP_PARTITIONS // len(self.partitions)))
        if len(self._groups) >= most:
            unused = next((name for name, group in self._groups.items() if group.is_unused), None)
            if unused is None:
                raise ProtocolError(limit, f"log {self.name!r:.80} has {most} consumer groups")
            self.forget_group(unused)
        group = self._groups[name] = Group(name, self.partitions, begin, self._clock)
        return group

    def forget_group(self, name: str) -> bool:
        """Forget a consumer group that has no members: its positions are removed, also from the store.

        The store is written soon; `await written()` waits for that.

        Returns: Whether there was such a group.

        Errors: `ConfigError` if it has members.
        """
        group = self._groups.get(name)
        if group is None:
            return False
        if group.members:
            what = f"{group.members} member{'' if group.members == 1 else 's'}"
            msg = f"log {self.name!r}: group {name!r} has {what}; it can be forgotten when all members have left"
            raise ConfigError(msg)
        del self._groups[name]
        group.forget()
        return True

    def explain(self) -> str:
        """Return how many messages the log has, and which groups read it."""
        return log_line(self.name, self.statistics())

    def standing(self, asked: Asked) -> Standing:
        """Return the members that have not settled what they have, the producers, and what fails again and again."""
        room, groups = self._intake.room, self._groups.values()
        behind = [part for group in groups for part in group.behind]
        attempts = max((part.attempts for part in behind), default=0)
        stored = self.partitions[0].kept
        trouble = None if isinstance(stored, MemoryPartition) else stored.trouble
        blame = poison(self.kind, self.name, attempts, asked) if attempts > 1 else None
        return Standing(
            self.kind,
            self.name,
            self.explain(),
            full=room.full.lasts,
            full_s=room.full.present_s if room.full.lasts else None,
            waiting=max((part.lag for part in behind), default=0),
            consumers=[member.subscriber for group in groups for member in group.holders],
            takers=len(self._readers) + sum(group.members for group in groups),
            wanting=any(each.demand for each in self._readers) or any(group.wants for group in groups),
            sources=[producer.source for producer in room.all],
            blame=blame if trouble is None else disk_full(trouble, asked),
        )

    @property
    def left(self) -> int:
        """How many messages would be lost with the node: all, or none if they are in the store."""
        return sum(each.kept.count for each in self.partitions if isinstance(each.kept, MemoryPartition))

    @property
    def kept(self) -> int:
        """How many messages are in the node's store."""
        return sum(each.kept.count for each in self.partitions if not isinstance(each.kept, MemoryPartition))

    def _on_safe(self, at: int, first: int, messages: Sequence[bytes]) -> None:
        """Hear that a partition has messages."""
        if self._compactions:
            self._compactions[at].come(range(first, first + len(messages)), messages)
            self._wake_at(self._compactions[at].due)

    def _wake_at(self, due: float) -> None:
        if self._services is not None and due < self._deadline:
            self._deadline = due
            self._services.wake_at(due)

    # time

    @property
    def next_deadline(self) -> float:
        """When messages are to be deleted because they are too old, or a group's pause is over."""
        return self._deadline

    def expire(self) -> None:
        """Delete messages that are too old, and old tombstones; let groups go on whose pause is over."""
        now = self._now()
        self._deadline = math.inf
        if self._retention.seconds is not None:
            for partition in self.partitions:
                partition.expire(_machine.today())
            self._deadline = now + min(_MOST_S, max(_LEAST_S, self._retention.seconds / _LOOKS))
        for compaction in self._compactions:
            compaction.expire()
            self._deadline = min(self._deadline, compaction.due)
        for group in self._groups.values():
            group.go_on(now)
            self._deadline = min(self._deadline, group.due)

    def tally(self) -> AddressTotals:
        """Return the totals. Each message that was appended has an offset of its own."""
        came, groups = self._intake.appended, self._groups.values()
        lost = came - sum(each.safe_end for each in self.partitions) + self._began_at
        return AddressTotals(came, sum(each.handed_out for each in groups), sum(each.settled for each in groups), lost)

    def statistics(self) -> LogStatistics:
        """Return the log's counters."""
        return LogStatistics(
            partitions=tuple(
                PartitionStatistics(
                    each.kept.first, each.safe_end, each.kept.count, each.kept.size, each.incarnation.id
                )
                for each in self.partitions
            ),
            appended=self._intake.appended,
            duplicates=self._intake.seen.duplicates,
            producers=self._intake.room.producers,
            credit=self._intake.room.outstanding,
            readers=len(self._readers),
            groups={name: group.statistics() for name, group in self._groups.items()},
            refused=self._intake.refused,
        )


class LogPartitionAddress(Address):
    """One partition of a log that has several: an address of its own.

    Args:
        log: The log.
        number: The number of the partition.
    """

    kind = "partition of a log"

    def __init__(self, log: LogAddress, number: int) -> None:
        self.name = log.partitions[number].name
        self.ignores = {wish: why for wish, why in log.ignores.items() if wish is not Wish.GROUP}
        self._log = log
        self._number = number

    def producer(self, *, once: bool = False) -> Subscriber[bytes]:
        """Return the subscriber for one producer link."""
        return self._log.producer(once=once, partition=self._number)

    def supply(self, link: LinkRequest) -> Supply:
        """Return the messages of the partition."""
        return self._log.supply_of(self._log.partitions[self._number], link)

    def explain(self) -> str:
        """Return an empty line: the log tells of its partitions."""
        return ""
