"""The backlog of a named subscription: a queue with one consumer at a time, in the store or in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, cast

from rstreams._core.claims import Ending
from rstreams.errors import StoreError
from rstreams.node.consumer import Consumer
from rstreams.node.durable_intake import WhenFull
from rstreams.node.durable_producer import DurableProducer
from rstreams.node.durable_queue import DurableQueue
from rstreams.node.memory_partition import MemoryPartition
from rstreams.node.stored_message import Stored
from rstreams.store import Chunk, Cut, Done, Partition

ANY_NUMBER: Final = 2**62


class UnstoredPartition(MemoryPartition):
    """The partition of a backlog in memory: it gives out positions, and keeps nothing. The queue has the messages."""

    store_error = None
    trouble = None

    def append(
        self,
        messages: Sequence[bytes],
        done: Done | None = None,
        *,
        sync_s: float = 0.0,  # noqa: ARG002 - there is no disk
        records: Mapping[str, bytes] = MappingProxyType({}),
    ) -> int:
        """Give positions to messages; return the first one."""
        first = self.next
        self.next += len(messages)
        self.records.update(records)
        if done is not None:
            done(None)
        return first

    def delete(
        self,
        positions: Iterable[int],  # noqa: ARG002 - there are no messages here
        done: Done | None = None,
        *,
        sync_s: float = 0.0,  # noqa: ARG002
        after_appends: bool = False,  # noqa: ARG002 - nothing fails here
    ) -> None:
        """Do nothing: there are no messages here."""
        if done is not None:
            done(None)

    def note(self, position: int, value: bytes, done: Done | None = None, *, sync_s: float = 0.0) -> None:  # noqa: ARG002
        """Do nothing: the queue knows it."""
        if done is not None:
            done(None)

    def read(
        self,
        position: int,
        answer: Callable[[Chunk | StoreError], None],
        *,
        most_bytes: int = 256 * 1024,  # noqa: ARG002 - there are no messages here
        cut: Cut | None = None,  # noqa: ARG002
        patience_s: float = 0.0,  # noqa: ARG002
    ) -> None:
        """Answer with nothing."""
        answer(Chunk([], position))

    def drop(self, done: Done | None = None) -> None:
        """Do nothing: there are no messages here."""
        if done is not None:
            done(None)


class NamedBacklog(DurableQueue):
    """The messages of one named subscription that its subscriber has not settled.

    The subscriber gets them in their order. Messages that a link has had, and not settled, come again before all
    others. Therefore a new link waits until the link before it has given all its messages back.

    Args:
        name: The name of the multicast.
        partition: Its part of the store; None: it is in memory.
        capacity: The most messages; None: any number.
        capacity_bytes: The most bytes; None: any number.
        sync_s: As for `Partition.append`.
        when_full: The messages that are dropped when it is full.
        on_room: Called when there may be more room.
        blocks: Tells whether it gets no more messages than it has room for, so that none is dropped.
    """

    kind = "subscription of a multicast"
    told_as = "a subscription of multicast"

    def __init__(
        self,
        name: str,
        partition: Partition | None,
        *,
        capacity: int | None,
        capacity_bytes: int | None,
        sync_s: float,
        when_full: WhenFull,
        on_room: Callable[[], None],
        blocks: Callable[[], bool],
    ) -> None:
        self.durable = partition is not None
        self._blocks = blocks
        super().__init__(
            name,
            cast("Partition", UnstoredPartition()) if partition is None else partition,  # it has the same calls
            capacity=capacity,
            capacity_bytes=capacity_bytes,
            sync_s=sync_s,
            when_full=when_full,
        )
        self._places.on_served = on_room
        self._gives_back = False  # a consumer has gone, and has not given all messages back
        self._over = False

    def filler(self) -> DurableProducer:
        """Return the producer that the multicast fills it by; a message that came before is not stored again."""
        return DurableProducer(self, self._room.first_window, self.seen)

    @property
    def space(self) -> float:
        """How many more messages it keeps before it is full, about."""
        places = self._places
        return max(0, self._limits.places(places.stored, places.size, places.mean))

    def taken_of(self, run: Sequence[bytes]) -> int:
        """Return how many of the first messages of a run it has room for; an empty one takes a message of any size."""
        fits = self._limits.fitting(run, self._places.stored, self._places.size)
        taken = fits.index(False) if False in fits else len(fits)
        return taken or (len(run) > 0 and not self._places.stored)

    @property
    def _policy(self) -> WhenFull:
        return "block" if self._blocks() else super()._policy

    @property
    def size(self) -> int:
        """The bytes of its messages."""
        return self._places.size

    @property
    def stored(self) -> int:
        """How many messages it has."""
        return self._places.stored

    @property
    def arrived(self) -> int:
        """How many messages have come, those that it did not take included."""
        return self._enqueued + self._turned_down

    @property
    def left(self) -> int:
        """How many messages would be lost with the node."""
        return 0 if self.durable else self.stored

    def require_readable(self) -> None:
        """Check that it can hand out its messages.

        Errors: `ProtocolError` if they are damaged, or the store has failed.
        """
        self._require_store()

    def require_writable(self) -> None:
        """Check that it takes messages; it takes them also behind those that are damaged.

        Errors: `ProtocolError` if the store has failed.
        """
        if self._partition.store_error is not None:
            self._require_store()

    def end(self, done: Done) -> None:
        """Forget all messages, in the store too; `done` is called when they will not come back."""
        self._over = True
        self._partition.drop(done)

    @property
    def _most_waiting(self) -> int:
        return super()._most_waiting if self.durable else ANY_NUMBER

    # one consumer after the other

    @property
    def _out(self) -> int:
        """How many messages are at consumers."""
        elsewhere = self._on_disk + self._places.unsafe + self._backlog.ready + self._delayed.count + self._leaving
        return self._places.stored - elsewhere

    def _cancel(self, consumer: Consumer) -> None:
        super()._cancel(consumer)
        self._gives_back = True

    def _refuse(self, consumer: Consumer, message: Stored, how: Ending) -> None:
        super()._refuse(consumer, message, how)
        if self._gives_back:
            self._dispatch()

    def _accept(self, consumer: Consumer, messages: Sequence[bytes | Stored]) -> None:
        super()._accept(consumer, messages)
        if self._gives_back:
            self._dispatch()

    def _dispatch(self) -> None:
        if self._gives_back and self._out:
            return
        self._gives_back = False
        super()._dispatch()

    # the store, unless the subscription is over

    def _delete(self, positions: list[int]) -> None:
        if not self._over:
            super()._delete(positions)

    def _note(self, message: Stored) -> None:
        if not self._over:
            super()._note(message)
