"""What comes to a log: each message goes to the partition of its key, unless it came before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from rstreams.errors import DeliveryFailed, StoreError
from rstreams.net.links.effectively_once import Stamp, read_stamp
from rstreams.node.address_waits import Waits
from rstreams.node.log_keys import Keys
from rstreams.node.log_partition import LogPartition
from rstreams.node.memory_partition import MemoryPartition
from rstreams.node.producer import Producer
from rstreams.node.room import Room
from rstreams.node.run_outcome import RunOutcome
from rstreams.node.seen_messages import DEFAULT_PRODUCERS, Seen, behind_a_gap, open_gaps
from rstreams.node.stored_producers import RunNumbers, StoredProducers
from rstreams.store import Done

IN_MEMORY: Final = 4096
"""The most messages of a log that are granted to producers, or are on their way to the disk."""

_Parts: TypeAlias = dict[int, tuple[list[bytes], RunNumbers]]
"""The new messages of a run, and their numbers, by partition."""


class LogIntake:
    """The address of the producers of a log; see `Receives`.

    Args:
        name: The log.
        partitions: Its partitions.
        keys: Finds the partition of a message.
        on_safe: Called when messages are safe: with the number of their partition, the position of the first one, and
            the messages.
        explain: As for `Receives`.
        waits: As for `Receives`.

    Attributes:
        room: The room that producers share.
        appended: How many messages were appended.
        refused: How many were refused.
        seen: Which link sends as which producer, and which messages were refused.
        tells_outcomes: As for `Receives`; messages of a log in memory are safe at once.
        takes_singly: As for `Receives`: each run is appended as a whole.
    """

    takes_singly = False

    def __init__(
        self,
        name: str,
        partitions: Sequence[LogPartition],
        keys: Keys,
        on_safe: Callable[[int, int, Sequence[bytes]], None],
        explain: Callable[[], str],
        *,
        waits: Waits,
    ) -> None:
        self.name = name
        self.explain = explain
        self.waits = waits
        self.room = Room(IN_MEMORY)
        self.join, self.leave = self.room.join, self.room.leave
        self.appended = self.refused = 0
        self.seen = Seen(DEFAULT_PRODUCERS)
        self.tells_outcomes = not isinstance(partitions[0].kept, MemoryPartition)
        self._partitions = partitions
        self._keys = keys
        self._on_safe = on_safe
        self._seen = [Seen(DEFAULT_PRODUCERS) for _ in partitions]
        self._numbered = [
            StoredProducers(seen, each.kept, each.sync_s, self.seen.gaps)
            for seen, each in zip(self._seen, partitions, strict=True)
        ]

    def producer(self, number: int | None, *, once: bool) -> Producer:
        """Return the subscriber for one producer link to a partition; None: the messages go where their keys say."""
        return _LogProducer(self, self.room.first_window, number, self.seen if once else None)

    def receive(
        self,
        producer: Producer,
        run: Sequence[bytes],
        stamps: Sequence[Stamp] = (),  # noqa: ARG002 - each partition knows its own numbers
        repeated: int = 0,
    ) -> None:
        """Append messages of a producer; it hears when all of them are safe, or when some are not there."""
        assert isinstance(producer, _LogProducer), "made by `producer`; it leaves the numbers to the log"
        if not producer.numbered and (producer.number is not None or len(self._partitions) == 1):
            self.room.store(producer, len(run))
            self._append_to(producer.number or 0, run, None, RunOutcome(producer, len(run), self).part())
            self.room.top_up(producer)
            return
        parts, end = self._part(producer, run)
        run, behind = run[:end], run[end:]
        fresh = sum(len(messages) for messages, _ in parts.values())
        repeated = len(run) - fresh
        self.room.store(producer, fresh)
        commit = RunOutcome(producer, len(run), self, repeated=repeated)
        all_begun = commit.part()  # first: a partition in memory is done at once
        for at, (messages, numbers) in parts.items():
            self._append_to(at, messages, numbers.stamps if producer.numbered else None, commit.part())
        all_begun(None)
        if behind:
            stamps_behind = open_gaps(self.seen.gaps, behind)
            self.refuse_in_turn(producer, len(behind), behind_a_gap(stamps_behind[0]))
        if repeated + len(behind) and not producer.ended:
            producer.grant_again(repeated + len(behind))
        self.room.top_up(producer)

    def _part(self, producer: _LogProducer, run: Sequence[bytes]) -> tuple[_Parts, int]:
        """Return the new messages for each partition, and the place of the first one behind a refused one."""
        parts: _Parts = {}
        gaps = self.seen.gaps
        for place, encoded in enumerate(run):
            stamp = read_stamp(encoded) if producer.numbered else None
            at = producer.number
            if at is None:
                at = self._keys.partition_of(encoded, None if stamp is None else stamp[1])
            if stamp is not None:
                producer.sends_as(stamp[0], self.seen)
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
        first = self._partitions[0]
        first.kept.delete((), RunOutcome(producer, messages, self, refusal=error).part(), sync_s=first.sync_s)

    def _append_to(self, at: int, messages: Sequence[bytes], stamps: Sequence[Stamp] | None, tell: Done) -> None:
        """Append to one partition; `stamps` is None if the messages are not numbered."""
        partition, numbered = self._partitions[at], self._numbered[at]
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
            self.room.free(len(messages))
            if stamps is not None or error is not None:
                numbered.heard(chain, error)
            if error is None:
                self.appended += len(messages)
                self._on_safe(at, first, messages)
            tell(error)
            self.room.serve()

        partition.append(messages, done, records)


class _LogProducer(Producer):
    """The end of one producer link; the log finds out which messages come again, because each partition knows its own.

    Attributes:
        number: The partition that the messages go to; None: the one of their key.
    """

    __slots__ = ("_intake", "number")

    def __init__(self, intake: LogIntake, window: int, number: int | None, seen: Seen | None) -> None:
        super().__init__(intake, window, seen)
        self._intake = intake
        self.number = number

    def grant_again(self, messages: int) -> None:
        """Give back the credit of messages that were not appended."""
        self._subscription.request(messages)

    def take(self, run: Sequence[bytes]) -> None:
        self._intake.receive(self, run)
