"""The account of a partition: its position, and sums over its runs, which show whether a run is missing."""

from __future__ import annotations

from dataclasses import dataclass

from rstreams.store.entries import checksum

POSITION_BITS = 0xFFFFFFFF


@dataclass(slots=True)
class Ledger:
    """The account of one partition, as it is on disk.

    Attributes:
        number: The partition's number in the tables; 0 before it is there.
        name: Its name.
        next: The position that the next message gets.
        first: The position of its oldest run; `next` if there is none.
        rows: How many runs it has.
        live: How many messages it has.
        size: The bytes of its runs.
        sum: The sum over all runs of the lower 32 bits of the first position and of the checksum.
        notes: How many notes it has.
        records: How many records it has.
        time_ms: When its newest run was appended, in milliseconds since 1970; the runs have it on disk.
    """

    number: int
    name: str
    next: int = 0
    first: int = 0
    rows: int = 0
    live: int = 0
    size: int = 0
    sum: int = 0
    notes: int = 0
    records: int = 0
    time_ms: int = 0

    def numbers(self) -> tuple[int, ...]:
        """Return the numbers as they are stored, and a checksum of them and the name behind them."""
        kept = self._kept()
        return (*kept, checksum((self.number, *kept), self.name.encode()))

    def copy(self) -> Ledger:
        """Return another one with the same numbers."""
        copied = Ledger(self.number, self.name)
        copied.become(self)
        return copied

    def become(self, other: Ledger) -> None:
        """Take over the numbers of another one."""
        self.number, self.next, self.first, self.rows = other.number, other.next, other.first, other.rows
        self.live, self.size, self.sum, self.notes, self.records = other._counts()
        self.time_ms = other.time_ms

    def _kept(self) -> tuple[int, ...]:
        return (self.next, self.first, self.rows, *self._counts())

    def _counts(self) -> tuple[int, int, int, int, int]:
        return self.live, self.size, self.sum, self.notes, self.records
