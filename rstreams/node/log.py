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
from typing import Final, TypeAlias

from rstreams import _machine
from rstreams._checks.publishers import require_subscriber
from rstreams.abc import Subscriber
from rstreams.errors import Condition, ConfigError, DeliveryFailed, ProtocolError, StoreError
from rstreams.net.dialects import Offset
from rstreams.net.dialects.stream_offsets import START_AT
from rstreams.net.links.effectively_once import Stamp, read_stamp
from rstreams.net.links.offsets import GROUP, INCARNATION, read_group, read_start
from rstreams.node.address import Address, LinkRequest, NodeServices, Supply, require_address_name
from rstreams.node.consumer import Subscribing
from rstreams.node.incarnations import require_incarnation
from rstreams.node.log_group import Group, GroupMember, names_of_groups
from rstreams.node.log_keys import Compaction, Key, Keys
from rstreams.node.log_partition import LogPartition, Retention
from rstreams.node.log_reader import LogReader, begin_of, position_of
from rstreams.node.memory_partition import AnyPartition, MemoryPartition
from rstreams.node.producer import Producer
from rstreams.node.room import Room
from rstreams.node.run_outcome import RunOutcome
from rstreams.node.seen_messages import DEFAULT_PRODUCERS, Seen, behind_a_gap, open_gaps
from rstreams.node.state_lines import log_line
from rstreams.node.statistics import LogStatistics, PartitionStatistics
from rstreams.node.stored_producers import RunNumbers, StoredProducers
from rstreams.node.written import Written
from rstreams.store import Done

IN_MEMORY: Final = 4096
"""The most messages of a log that are granted to producers, or are on their way to the disk."""

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

_Parts: TypeAlias = dict[int, tuple[list[bytes], RunNumbers]]
"""The new messages of a run, and their numbers, by partition."""


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
        in_memory: Whether the log is not in a store.
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
            LogPartition(each, messages, retention, sync_s, has_gaps=compact)
            for each, messages in zip(names, kept, strict=True)
        )
        self.parts = tuple(names) if len(names) > 1 else ()
        self.in_memory = isinstance(kept[0], MemoryPartition)
        self._start: Offset = start
        self._keys = Keys(key, len(kept))
        self._retention = retention
        self._room = Room(IN_MEMORY)
        self._seen = [Seen(DEFAULT_PRODUCERS) for _ in kept]
        self._links = Seen(DEFAULT_PRODUCERS)  # which link sends as which producer, and which messages were refused
        gaps = self._links.gaps
        self._numbered = [StoredProducers(*each, sync_s, gaps) for each in zip(self._seen, kept, strict=True)]
        self._groups: dict[str, Group] = {}
        self._readers: set[LogReader] = set()
        compacted = self.partitions if compact else ()
        self._compactions = [Compaction(each, self._keys, tombstones_s, self._now, self._wake_at) for each in compacted]
        self._services: NodeServices | None = None
        self._deadline = math.inf
        self._appended = self._refused = 0
        self._written = Written()

    def begin(self, services: NodeServices) -> None:
        """Take the time from the node, and read what a compacted log has."""
        self._services = services
        for name in sorted({name for part in self.partitions for name in names_of_groups(part.kept.records)}):
            self._groups[name] = Group(name, self.partitions, "first")
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

    def producer(self, *, once: bool = False) -> Subscriber[bytes]:
        """Return the subscriber for one producer link."""
        return self.producer_to(None, once=once)

    def producer_to(self, number: int | None, *, once: bool) -> Subscriber[bytes]:
        """Return the subscriber for one producer link to a partition; None: the messages go where their keys say."""
        return LogProducer(self, self._room.first_window, number, self._links if once else None)

    def supply(self, link: LinkRequest) -> Supply:
        """Return the messages for a reader, or for a member of a group."""
        filters = link.attach.filters
        try:
            group, start = read_group(filters), read_start(filters)
        except ValueError as error:
            raise ProtocolError(Condition.INVALID_FIELD.value, str(error)) from None
        used = {name: filters[name] for name in (GROUP, START_AT) if name in filters}
        first = self.partitions[0]
        if group is not None:
            used |= require_incarnation(filters, first.incarnation.id, f"log {self.name!r:.80}")
            safe, begun = first.incarnation.safe(), self._admitted(group, start).begun
            if safe is not None and begun.is_known:  # else its changes are behind that of the id
                begun = safe
            told = {INCARNATION: first.incarnation.id}
            member = Subscribing(partial(self._join_group, group, start))
            return Supply(member, encoded=True, filters=used, properties=told, begun=begun)
        if len(self.partitions) > 1:
            names = f"{first.name!r} to {self.partitions[-1].name!r}"
            text = f"log {self.name!r:.80} has {len(self.partitions)} partitions: read {names}, or join a group"
            raise ProtocolError(Condition.NOT_ALLOWED.value, text)
        return self.supply_of(first, link)

    def supply_of(self, partition: LogPartition, link: LinkRequest) -> Supply:
        """Return the messages of one partition for a reader."""
        begin, used = begin_of(partition, link.attach.filters, self._start)
        told = {INCARNATION: partition.incarnation.id}
        reader = Subscribing(partial(self._read, partition, begin))
        return Supply(reader, encoded=True, filters=used, properties=told, begun=partition.incarnation.safe())

    def _read(self, partition: LogPartition, start: Offset, subscriber: Subscriber[bytes]) -> None:
        require_subscriber(subscriber)
        reader = LogReader(partition, subscriber, start, self._readers.discard)
        self._readers.add(reader)
        subscriber.on_subscribe(reader)

    def _join_group(self, name: str, start: Offset | None, subscriber: Subscriber[bytes]) -> None:
        require_subscriber(subscriber)
        group = self._admitted(name, start)
        member = GroupMember(self.name, group, subscriber, goes_on=start == "first")
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
        group = self._groups[name] = Group(name, self.partitions, begin)
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
            msg = f"log {self.name!r}: group {name!r} has {what}: it is forgotten when they have left"
            raise ConfigError(msg)
        del self._groups[name]
        group.forget()
        return True

    # producers call these; see `Receives`

    @property
    def tells_outcomes(self) -> bool:
        """Whether a message is accepted later, or refused; those of a log in memory are safe at once."""
        return not self.in_memory

    @property
    def takes_singly(self) -> bool:
        """Whether messages come one by one: each run is appended as a whole."""
        return False

    def join(self, producer: Producer) -> None:
        """Grant a new producer its part of the room."""
        self._room.join(producer)

    def leave(self, producer: Producer) -> None:
        """Take back what was granted to a producer that has gone."""
        self._room.leave(producer)

    def explain(self) -> str:
        """Return how many messages the log has, and which groups read it."""
        return log_line(self.name, self.statistics())

    def receive(
        self,
        producer: Producer,
        run: Sequence[bytes],
        stamps: Sequence[Stamp] = (),  # noqa: ARG002 - each partition knows its own numbers
        repeated: int = 0,
    ) -> None:
        """Append messages of a producer; it hears when all of them are safe, or when some are not there."""
        assert isinstance(producer, LogProducer), "made by `producer`; it leaves the numbers to the log"
        if not producer.numbered and (producer.number is not None or len(self.partitions) == 1):
            self._room.store(producer, len(run))
            self._append_to(producer.number or 0, run, None, RunOutcome(producer, len(run), self.name).part())
            self._room.top_up(producer)
            return
        parts, end = self._part(producer, run)
        run, behind = run[:end], run[end:]
        fresh = sum(len(messages) for messages, _ in parts.values())
        repeated = len(run) - fresh
        self._links.duplicates += repeated
        self._room.store(producer, fresh)
        commit = RunOutcome(producer, len(run), self.name)
        for at, (messages, numbers) in parts.items():
            self._append_to(at, messages, numbers.stamps if producer.numbered else None, commit.part())
        commit.part()(None)
        if behind:
            stamps_behind = open_gaps(self._links.gaps, behind)
            self.refuse_in_turn(producer, len(behind), behind_a_gap(stamps_behind[0]))
        if repeated + len(behind) and not producer.ended:
            producer.grant_again(repeated + len(behind))
        self._room.top_up(producer)

    def _part(self, producer: LogProducer, run: Sequence[bytes]) -> tuple[_Parts, int]:
        """Return the new messages for each partition, and the place of the first one behind a refused one."""
        parts: _Parts = {}
        gaps = self._links.gaps
        for place, encoded in enumerate(run):
            stamp = read_stamp(encoded) if producer.numbered else None
            at = producer.number
            if at is None:
                at = self._keys.partition_of(encoded, None if stamp is None else stamp[1])
            if stamp is not None:
                producer.sends_as(stamp[0], self._links)
                if gaps and gaps.is_behind(stamp):
                    return parts, place
            messages, numbers = parts.setdefault(at, ([], RunNumbers()))
            if stamp is not None:
                if self._seen[at].has(stamp) or not numbers.add(stamp):
                    continue
                if gaps:
                    gaps.close(stamp)
            messages.append(encoded)
        return parts, len(run)

    def refuse_in_turn(self, producer: Producer, messages: int, error: DeliveryFailed) -> None:
        """Refuse messages when the outcomes of all earlier ones are told."""
        first = self.partitions[0]
        first.kept.delete((), RunOutcome(producer, messages, self.name, error).part(), sync_s=first.sync_s)

    def _append_to(self, at: int, messages: Sequence[bytes], stamps: Sequence[Stamp] | None, tell: Done) -> None:
        """Append to one partition; `stamps` is None if the messages are not numbered."""
        partition, numbered = self.partitions[at], self._numbered[at]
        chain = partition.kept.chain
        records = {} if stamps is None else numbered.note(stamps)
        if not messages:  # those that came first may not be safe yet

            def through(error: StoreError | None) -> None:
                numbered.heard(chain, error)
                tell(error)

            partition.kept.delete((), through, sync_s=partition.sync_s, after_appends=True)
            return
        first = partition.kept.next

        def done(error: StoreError | None) -> None:
            self._room.free(len(messages))
            if stamps is not None or error is not None:
                numbered.heard(chain, error)
            self._refused += 0 if error is None else len(messages)
            if error is None:
                self._appended += len(messages)
                if self._compactions:
                    self._compact(self._compactions[at], first, messages)
            tell(error)
            self._room.serve()

        partition.append(messages, done, records)

    def _compact(self, compaction: Compaction, first: int, messages: Sequence[bytes]) -> None:
        compaction.come(range(first, first + len(messages)), messages)
        self._wake_at(compaction.due)

    def _wake_at(self, due: float) -> None:
        if self._services is not None and due < self._deadline:
            self._deadline = due
            self._services.wake_at(due)

    # time

    @property
    def next_deadline(self) -> float:
        """When messages are to be deleted because they are too old."""
        return self._deadline

    def expire(self) -> None:
        """Delete messages that are too old, and old tombstones."""
        now = self._now()
        self._deadline = math.inf
        if self._retention.seconds is not None:
            for partition in self.partitions:
                partition.expire(_machine.today())
            self._deadline = now + min(_MOST_S, max(_LEAST_S, self._retention.seconds / _LOOKS))
        for compaction in self._compactions:
            compaction.expire()
            self._deadline = min(self._deadline, compaction.due)

    def statistics(self) -> LogStatistics:
        """Return the log's counters."""
        return LogStatistics(
            partitions=tuple(
                PartitionStatistics(
                    each.kept.first, each.safe_end, each.kept.count, each.kept.size, each.incarnation.id
                )
                for each in self.partitions
            ),
            appended=self._appended,
            duplicates=self._links.duplicates,
            producers=self._room.producers,
            credit=self._room.outstanding,
            readers=len(self._readers),
            groups={name: group.statistics() for name, group in self._groups.items()},
            refused=self._refused,
        )


class LogProducer(Producer):
    """The end of one producer link; the log finds out which messages come again, because each partition knows its own.

    Args:
        log: The log.
        window: As for `Producer`.
        number: The partition that the messages go to; None: the one of their key.
        seen: As for `Producer`.
    """

    __slots__ = ("_log", "number")

    def __init__(self, log: LogAddress, window: int, number: int | None, seen: Seen | None) -> None:
        super().__init__(log, window, seen)
        self._log = log
        self.number = number

    def grant_again(self, messages: int) -> None:
        """Give back the credit of messages that were not appended."""
        self._subscription.request(messages)

    def _take(self, run: Sequence[bytes]) -> None:
        self._log.receive(self, run)


class LogPartitionAddress(Address):
    """One partition of a log that has several: an address of its own.

    Args:
        log: The log.
        number: The number of the partition.
    """

    kind = "partition of a log"

    def __init__(self, log: LogAddress, number: int) -> None:
        self.name = log.partitions[number].name
        self._log = log
        self._number = number

    def producer(self, *, once: bool = False) -> Subscriber[bytes]:
        """Return the subscriber for one producer link."""
        return self._log.producer_to(self._number, once=once)

    def supply(self, link: LinkRequest) -> Supply:
        """Return the messages of the partition."""
        return self._log.supply_of(self._log.partitions[self._number], link)

    def explain(self) -> str:
        """Return an empty line: the log tells of its partitions."""
        return ""
