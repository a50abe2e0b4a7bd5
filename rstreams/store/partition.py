"""A partition of a store, as its owner uses it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from copy import copy
from functools import partial
from types import MappingProxyType
from typing import Protocol

from rstreams.errors import StoreError
from rstreams.store.changes import (
    RETRIES_S,
    Append,
    Chain,
    Change,
    Delete,
    Drop,
    Note,
    Put,
    Read,
    Seek,
    Shrink,
    Trim,
)
from rstreams.store.entries import Chunk, Cut, Done, as_ranges
from rstreams.store.ledger import Ledger


class Takes(Protocol):
    """The store behind a partition."""

    @property
    def error(self) -> StoreError | None:
        """Why the store cannot go on; None while it can."""
        ...

    @property
    def trouble(self) -> StoreError | None:
        """Why the store cannot be written now; None while it can."""
        ...

    def take(self, change: Change) -> None:
        """Carry out a change soon."""
        ...

    def forget(self, name: str) -> None:
        """Have no partition of that name any more."""
        ...

    def together(self) -> AbstractContextManager[list[Append | Delete]]:
        """Have appends be in one commit."""
        ...


class Partition:
    """An ordered sequence of messages, each with a position, and a few small records.

    Positions rise by 1 for each message, from 0. A message that was deleted leaves a gap, and its position is not used
    again. A message that could not be appended leaves none.

    Theory of operation. A position is given out before the message is in the store. Therefore all appends of a
    partition are one `Chain`: if one fails, the store makes none that was given its position before the owner has heard
    of it. When the owner hears of the first failure, positions go on behind the last message that is in the store, and
    a new chain begins.

    Attributes:
        name: Its name in the store.
        next: The position that the next message gets.
        records: The small records, by key. `put` changes them.
        chain: The chain of the next append. A failure begins a new one, before `done` is called.
        on_failed: Called when the store cannot go on; None: nothing is called.

    Context: The owner's thread. No method waits for the disk. The functions `done` are called by `Store.finish`, in the
        order of the calls that they belong to; while the disk cannot be written, those of appends come first.
    Errors: If messages cannot be appended, for instance because the disk is full, `done` gets a `StoreError`
        (`StoreFull`). Nothing of the change is in the store then. All appends to the partition that waited behind it
        fail with the same error. Later ones are tried again. All other changes are made later, when they can be. Their
        `done` gets an error only if the store is closed before, or has failed for good.
    """

    __slots__ = ("_committed", "_store", "chain", "name", "next", "on_failed", "records")

    def __init__(self, store: Takes, name: str, ledger: Ledger, records: dict[str, bytes]) -> None:
        self._store = store
        self._committed = ledger
        self.name = name
        self.next = ledger.next
        self.records = records
        self.chain = Chain()
        self.on_failed: Callable[[StoreError], None] | None = None

    @property
    def first(self) -> int:
        """The position of the oldest run with a message; `next` if there is none. As of the last finished commit."""
        return self._committed.first

    @property
    def count(self) -> int:
        """How many messages it has, as of the last finished commit."""
        return self._committed.live

    @property
    def size(self) -> int:
        """The bytes of the runs that have a message, as of the last finished commit."""
        return self._committed.size

    @property
    def time_ms(self) -> int:
        """When its newest run was appended, in milliseconds since 1970. As of the last finished commit."""
        return self._committed.time_ms

    @property
    def store_error(self) -> StoreError | None:
        """Why the store cannot go on; None while it can."""
        return self._store.error

    @property
    def trouble(self) -> StoreError | None:
        """Why the store cannot be written now; None while it can."""
        return self._store.trouble

    def append(
        self,
        messages: Sequence[bytes],
        done: Done | None = None,
        *,
        sync_s: float = 0.0,
        records: Mapping[str, bytes] = MappingProxyType({}),
    ) -> int:
        """Append a run of messages.

        Args:
            messages: The messages; at least one. The sequence must not be changed afterwards.
            done: Called when the messages are safe.
            sync_s: 0: they are safe when they are synced to the disk. Else they are safe when the operating system has
                them (they outlive the process, not a loss of power), and are synced within that many seconds.
                `math.inf`: they are synced at some time.
            records: Records that are set in the same commit.

        Returns: The position of the first one.
        """
        first = self.next
        self.next = first + len(messages)
        self.records.update(records)
        heard = partial(self._heard, self.chain, done)
        self._store.take(Append(self._committed, heard, sync_s, first, messages, records, chain=self.chain))
        return first

    def _heard(self, chain: Chain, done: Done | None, error: StoreError | None) -> None:
        """Hear of the outcome of a change of a chain."""
        if error is not None and chain is self.chain:
            self.chain = Chain()
            self.next = self._committed.next
        if done is not None:
            done(error)

    def delete(
        self,
        positions: Iterable[int],
        done: Done | None = None,
        *,
        sync_s: float = 0.0,
        after_appends: bool = False,
    ) -> None:
        """Delete single messages; positions that are not there are passed over.

        Args:
            positions: The positions, in any order; a `range` is cheap.
            done: Called when they will not come back.
            sync_s: As for `append`.
            after_appends: Whether it fails if an append before it has failed, as a further append would.
        """
        if after_appends:
            heard = partial(self._heard, self.chain, done)
            self._store.take(Delete(self._committed, heard, sync_s, positions, chain=self.chain))
        else:
            self._store.take(Delete(self._committed, done, sync_s, positions))

    @contextmanager
    def deleting_with_appends(self, position: int, *, sync_s: float = 0.0) -> Iterator[None]:
        """Delete a message in the same commit in which the block appends it to other partitions of the store.

        If the block appends nothing, or its messages are refused, the message stays. The block must not wait.

        Args:
            position: The position.
            sync_s: As for `append`.
        """
        with self._store.together() as changes:
            begin = len(changes)
            yield
            if any(isinstance(each, Append) for each in changes[begin:]):
                changes.append(Delete(self._committed, None, sync_s, (position,)))

    def shrink(self, positions: Iterable[int], done: Done | None = None, *, sync_s: float = 0.0) -> None:
        """Write again the runs that have one of the positions, if most of their bytes are those of deleted messages.

        A run on disk otherwise keeps its size until its last message is deleted. The positions of the messages stay.

        Args:
            positions: The positions, in any order; a `range` is cheap.
            done: Called when the runs are written.
            sync_s: As for `append`.
        """
        self._store.take(Shrink(self._committed, done, sync_s, as_ranges(positions)))

    def trim(
        self,
        below: int = 0,
        *,
        before_s: float = 0.0,
        keep_bytes: int | None = None,
        keep_items: int | None = None,
        done: Done | None = None,
        sync_s: float = 0.0,
    ) -> None:
        """Delete the oldest messages. `first` tells the result.

        Args:
            below: Delete all messages below this position.
            before_s: Delete runs that were appended before this time, in seconds since 1970.
            keep_bytes: Delete the oldest runs while at least as many bytes remain.
            keep_items: Delete the oldest runs while at least as many messages remain.
            done: Called when they will not come back.
            sync_s: As for `append`.
        """
        self._store.take(Trim(self._committed, done, sync_s, below, before_s, keep_bytes, keep_items))

    def clear(self, done: Done | None = None) -> None:
        """Delete all messages and records; positions go on. `first` and `count` say so at once.

        Args:
            done: Called when they will not come back.
        """
        for key in list(self.records):
            self.put(key, None)
        self.trim(self.next, done=done)
        emptied = copy(self._committed)
        emptied.first, emptied.live, emptied.size = self.next, 0, 0
        self._committed.become(emptied)

    def put(self, key: str, value: bytes | None, done: Done | None = None, *, sync_s: float = 0.0) -> None:
        """Set a small record, or remove it with None; `records` has it at once.

        Changes that are made one after the other without waiting are in the same commit or in later ones, never in
        earlier ones. Therefore a record that is put after an `append` never is there without the messages.
        """
        if value is None:
            self.records.pop(key, None)
        else:
            self.records[key] = value
        self._store.take(Put(self._committed, done, sync_s, key, value))

    def note(self, position: int, value: bytes, done: Done | None = None, *, sync_s: float = 0.0) -> None:
        """Keep something beside a message; it is read with the message, and deleted with it."""
        self._store.take(Note(self._committed, done, sync_s, position, value))

    def read(
        self,
        position: int,
        answer: Callable[[Chunk | StoreError], None],
        *,
        most_bytes: int = 256 * 1024,
        cut: Cut | None = None,
        retries_s: float = RETRIES_S,
    ) -> None:
        """Read messages that are safe, from a position.

        Args:
            position: The position; messages that are gone are passed over.
            answer: Called in the owner's thread with the messages, or with an error: `StoreDamaged` if the first ones
                are damaged.
            most_bytes: The most bytes read, except that one run on disk (at most 128 KiB, or a single message) is
                always read.
            cut: Makes the messages of a run, in the store's thread; None: they are as they were appended.
            retries_s: How long it is tried again if the disk cannot be read.
        """
        self._store.take(Read(self._committed, answer, position, most_bytes, cut, retries_s=retries_s))

    def seek(self, time_s: float, answer: Callable[[int | StoreError], None]) -> None:
        """Find the position of the first run that was appended at a time or later; `next` if there is none."""
        self._store.take(Seek(self._committed, answer, time_s))

    def committed(self, ledger: Ledger) -> None:
        """Take over the account of a commit; a part of `Store`."""
        self._committed.become(ledger)

    def drop(self, done: Done | None = None) -> None:
        """Delete the partition and all that is in it. It must not be used afterwards, and its name must not, either."""
        self._store.forget(self.name)
        self._store.take(Drop(self._committed, done, 0.0))
