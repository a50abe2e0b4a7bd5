"""What the owner of a store asks of its thread: changes, and reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Generic, TypeAlias, TypeVar

from rstreams.errors import StoreError
from rstreams.store.entries import Chunk, Cut, Done, as_ranges
from rstreams.store.ledger import Ledger

A = TypeVar("A")

RETRIES_S: Final = 10.0
"""How long a read that fails is tried again before its reader gets the error, in seconds."""


class Chain:
    """Changes of which none is made if an earlier one of them could not be made.

    Attributes:
        error: Why a change could not be made; None while all were made. The store's thread sets it.
    """

    __slots__ = ("error",)

    def __init__(self) -> None:
        self.error: StoreError | None = None


class _Chains:
    """Several chains as one: it is broken if one of them is, and then all are."""

    __slots__ = ("_chains",)

    def __init__(self, chains: Sequence[Chain]) -> None:
        self._chains = chains

    @property
    def error(self) -> StoreError | None:
        """Why a change of one of the chains could not be made."""
        return next((each.error for each in self._chains if each.error is not None), None)

    @error.setter
    def error(self, error: StoreError | None) -> None:
        for each in self._chains:
            each.error = each.error or error


@dataclass(slots=True)
class _Changing:
    """A change of a partition.

    A change may be refused if its owner waits for the outcome and can do without the change. Any other change tells of
    something that has happened already: it is kept until it can be made.

    Attributes:
        partition: The account of the partition, as the owner sees it.
        done: Called when the change is safe.
        sync_s: When it must be synced; 0: before `done` is called.
        chain: The chain of changes that it belongs to; None: it depends on no other change.
    """

    partition: Ledger
    done: Done | None
    sync_s: float
    chain: Chain | None = field(default=None, kw_only=True)

    @property
    def may_be_refused(self) -> bool:
        """Whether it may be refused when it cannot be made now."""
        return False


@dataclass(slots=True)
class Append(_Changing):
    """Append messages from a position on, and set records."""

    first: int
    messages: Sequence[bytes]
    records: Mapping[str, bytes]

    @property
    def may_be_refused(self) -> bool:
        """Return True: the producer sends the messages again."""
        return True


@dataclass(slots=True)
class Delete(_Changing):
    """Delete the messages at some positions. Without a position it only keeps its place among the other changes."""

    positions: Iterable[int]
    parts: Sequence[range] | None = None

    @property
    def may_be_refused(self) -> bool:
        """Whether it deletes nothing."""
        return not self.ranges()

    def ranges(self) -> Sequence[range]:
        """Return the positions, in rising order."""
        if self.parts is None:
            self.parts = [each for each in as_ranges(self.positions) if each]
            self.positions = ()
        return self.parts

    def halves(self) -> tuple[Delete, Delete] | None:
        """Return two deletions that together do the same; None if it has a single position."""
        parts = self.ranges()
        room = sum(map(len, parts)) // 2
        if not room:
            return None
        first: list[range] = []
        second: list[range] = []
        for part in parts:
            if part[:room]:
                first.append(part[:room])
            if part[room:]:
                second.append(part[room:])
            room -= min(room, len(part))
        return (
            Delete(self.partition, None, self.sync_s, (), first),
            Delete(self.partition, self.done, self.sync_s, (), second),
        )


@dataclass(slots=True)
class Shrink(_Changing):
    """Write again the runs that have one of some positions, if most of their messages are gone.

    Attributes:
        parts: The positions, in rising order.
        done_below: The position below which all runs have been looked at.
    """

    parts: Sequence[range]
    done_below: int = 0

    @property
    def may_be_refused(self) -> bool:
        """Return True: it is done when the store is opened again."""
        return True


@dataclass(slots=True)
class Trim(_Changing):
    """Delete the oldest messages."""

    below: int
    before_s: float
    keep_bytes: int | None
    keep_items: int | None


@dataclass(slots=True)
class Put(_Changing):
    """Set or remove a record."""

    key: str
    value: bytes | None


@dataclass(slots=True)
class Note(_Changing):
    """Keep something beside a message."""

    position: int
    value: bytes


@dataclass(slots=True)
class Drop(_Changing):
    """Delete a partition."""


class Together:
    """Changes of any partitions that are made in one commit, all of them or none.

    Args:
        changes: The changes, at least one.
    """

    __slots__ = ("chain", "changes", "partition", "sync_s")

    may_be_refused = True  # its owner waits for the outcome

    def __init__(self, changes: Sequence[Append | Delete]) -> None:
        self.changes = changes
        self.partition = changes[0].partition
        self.sync_s = min(each.sync_s for each in changes)
        chains = [each.chain for each in changes if each.chain is not None]
        self.chain = _Chains(chains) if chains else None

    def done(self, error: StoreError | None) -> None:
        """Tell the owner of each change whether all of them were made."""
        for each in self.changes:
            if each.done is not None:
                each.done(error)


@dataclass(slots=True)
class _Asking(Generic[A]):
    """A question about a partition.

    Attributes:
        partition: The account of the partition, as the owner sees it.
        answer: Called with the answer.
        retries_s: How long it is tried again if the disk cannot be read.
    """

    partition: Ledger
    answer: Callable[[A | StoreError], None]
    retries_s: float = field(default=RETRIES_S, kw_only=True)


@dataclass(slots=True)
class Read(_Asking[Chunk]):
    """Read messages from a position on."""

    position: int
    most_bytes: int
    cut: Cut | None = None


@dataclass(slots=True)
class Seek(_Asking[int]):
    """Find the first position of a time."""

    time_s: float


Modification: TypeAlias = Append | Delete | Shrink | Trim | Put | Note | Drop | Together
Question: TypeAlias = Read | Seek
Change: TypeAlias = Modification | Question
