"""What comes to a durable queue: messages are stored, refused or dropped, and producers hear when they are safe."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import partial
from itertools import compress, groupby
from typing import Any, Literal, TypeAlias

from rstreams.errors import Condition, DeliveryFailed, StoreError
from rstreams.net.links.effectively_once import Stamp
from rstreams.node.durable_producer import DurableProducer, not_stored
from rstreams.node.durable_room import DurableRoom, Limits
from rstreams.node.producer import Producer
from rstreams.node.queue import Queue
from rstreams.node.stored_producers import StoredProducers
from rstreams.store import Chain, Partition

WhenFull: TypeAlias = Literal["block", "reject", "drop_oldest", "drop_newest"]
"""What becomes of messages that come to a full queue."""


class DurableIntake(Queue, ABC):
    """The part of a durable queue that its producers call; see `DurableQueue`.

    Args:
        name: The address.
        partition: Its part of the store.
        limits: How much is stored.
        in_memory: The most messages that are on their way to the disk.
        sync_s: As for `Partition.append`.
        when_full: What becomes of messages that come to a full queue.
        options: As for `Queue`.
    """

    def __init__(
        self,
        name: str,
        partition: Partition,
        limits: Limits,
        in_memory: int,
        *,
        sync_s: float,
        when_full: WhenFull,
        **options: Any,  # noqa: ANN401 - those of `Queue`
    ) -> None:
        super().__init__(name, in_memory, **options)
        self._partition = partition
        self._sync_s = sync_s
        self._when_full: WhenFull = when_full
        self._limits = limits
        self._room = self._places = DurableRoom(limits if when_full == "block" else Limits(None, None), in_memory)
        self._numbered = StoredProducers(self.seen, partition, sync_s, self.seen.gaps)
        self._refused = 0
        self._dropped = 0
        self._turned_down = 0  # the newest ones among the dropped: they were never enqueued

    @abstractmethod
    def _on_safe(self, first: int, run: Sequence[bytes]) -> None:
        """Hear that messages are safe, which have the positions from `first` on."""

    @property
    def _policy(self) -> WhenFull:
        """What becomes of messages that come now, if the queue is full."""
        return self._when_full

    def _receive(self, producer: Producer, run: Sequence[bytes]) -> None:
        assert isinstance(producer, DurableProducer), "made by `producer`"
        self._keep(producer, run, (), 0)

    def _keep(self, producer: DurableProducer, run: Sequence[bytes], stamps: Sequence[Stamp], repeated: int) -> None:
        """Append messages to the store, if the queue is not full; their producer hears when they are safe."""
        policy, limits, places = self._policy, self._limits, self._places
        if (
            not run
            or policy in {"block", "drop_oldest"}
            or limits.hold(places.stored + len(run), places.size + sum(map(len, run)))
        ):
            self._append(producer, run, stamps, repeated)
        else:
            fits = limits.fitting(run, places.stored, places.size)
            if policy == "drop_newest":
                self._turn_away(producer, fits.count(False))
                kept = list(compress(run, fits))
                self._dropped += len(run) - len(kept)
                self._turned_down += len(run) - len(kept)
                self._append(producer, kept, stamps, repeated + len(run) - len(kept))  # the others are accepted
            else:
                self._keep_or_refuse(producer, run, stamps, repeated, fits)
        self._room.top_up(producer)
        if self._room.is_short:
            self._ask_for_room()

    def _keep_or_refuse(
        self, producer: DurableProducer, run: Sequence[bytes], stamps: Sequence[Stamp], repeated: int, fits: list[bool]
    ) -> None:
        """Append the messages that fit, and refuse the others; of numbered ones all behind a refused one."""
        if producer.numbered:
            kept = fits.index(False)
            fits = [True] * kept + [False] * (len(run) - kept)
            for stamp in stamps[kept:]:
                self.seen.gaps.open(stamp)
            stamps = stamps[:kept]
        if repeated or fits[0]:
            kept = fits.index(False)
            self._append(producer, run[:kept], stamps, repeated)
            run, fits = run[kept:], fits[kept:]
        text = f"queue {self.name!r:.80} is full"
        error = DeliveryFailed("rejected", Condition.RESOURCE_LIMIT_EXCEEDED.value, text)
        at = 0
        for fit, same in groupby(fits):
            end = at + len(list(same))
            if fit:
                self._append(producer, run[at:end], (), 0)
            else:
                self._refused += end - at
                self._turn_away(producer, end - at)
                self._refuse_in_turn(producer, end - at, error)
            at = end

    def _turn_away(self, producer: DurableProducer, messages: int) -> None:
        """Take back the promise of places for messages that are not stored."""
        producer.outstanding -= messages
        self._room.outstanding -= messages

    def _append(self, producer: DurableProducer, run: Sequence[bytes], stamps: Sequence[Stamp], repeated: int) -> None:
        """Append messages to the store; `repeated` further ones are accepted with them."""
        chain = self._partition.chain
        if run:
            first, count = self._partition.next, len(run)
            self._places.receive(producer, count, sum(map(len, run)))
            self._enqueued += count
            records = self._numbered.note(stamps) if producer.numbered else {}
            done = partial(self._on_commit, producer, first=first, run=run, chain=chain, repeated=repeated)
            self._partition.append(run, done, sync_s=self._sync_s, records=records)
        elif repeated:  # those that came first may not be safe yet
            self._numbered.note(())
            done = partial(self._on_barrier, producer, repeated, chain)
            self._partition.delete((), done, sync_s=self._sync_s, after_appends=True)

    def _refuse_in_turn(self, producer: DurableProducer, messages: int, error: DeliveryFailed) -> None:
        """Refuse messages when the outcomes of all earlier ones of their producer are told."""
        self._partition.delete((), lambda _: producer.refuse(messages, error), sync_s=self._sync_s)

    def _on_barrier(self, producer: DurableProducer, messages: int, chain: Chain, error: StoreError | None) -> None:
        self._numbered.heard(chain, error)
        if error is None:
            producer.accept(messages)
        else:
            producer.refuse(messages, not_stored(error, self.name))

    def _on_commit(
        self,
        producer: DurableProducer,
        error: StoreError | None,
        *,
        first: int,
        run: Sequence[bytes],
        chain: Chain,
        repeated: int,
    ) -> None:
        """Hear that messages are safe, or that they are not in the store."""
        count, size = len(run), sum(map(len, run))
        self._places.heard(count, size)
        if producer.numbered or error is not None:
            self._numbered.heard(chain, error)
        if error is not None:
            self._enqueued -= count
            self._refused += count
            self._places.size -= size
            self._room.free(count)
            producer.refuse(count + repeated, not_stored(error, self.name))
            self._room.serve()
            return
        producer.accept(count + repeated)
        self._on_safe(first, run)
