"""Reading a store that is damaged: everything that is readable, and what is not.

Theory of operation. Rows are read in their order. Where a page of the tables cannot be read, they are read from the
other end, so that only the rows of that page are missing. A run counts as damaged if its checksum is wrong: one flipped
bit may be in any of its messages. If the sizes of its messages are right they can still be read, as suspects. Nothing
is written.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from rstreams.errors import StoreError
from rstreams.store.directory import MARK, TABLES, read_mark
from rstreams.store.entries import checksum, split
from rstreams.store.failures import FILES
from rstreams.store.ledger import POSITION_BITS, Ledger
from rstreams.store.recovery import VERSION, missing_commits, of_another_version, open_to_read
from rstreams.store.tables import UNREADABLE, account_checksum


@dataclass(frozen=True, slots=True)
class Damage:
    """Something of a store that is damaged.

    Attributes:
        partition: The name of the partition; "" for the store as a whole.
        text: What is damaged.
        positions: The positions of the messages that are not readable; None if it is not about messages.
    """

    partition: str
    text: str
    positions: range | None = None

    def __str__(self) -> str:
        """Return it in one line."""
        return f"{self.partition!r}: {self.text}" if self.partition else self.text


@dataclass(frozen=True, order=True, slots=True)
class StoredRun:
    """A row of the table `runs`."""

    partition: int
    first: int
    count: int
    live: int
    size: int
    time_ms: int
    crc: int
    gone: bytes | None
    body: int

    @property
    def positions(self) -> list[int]:
        """The positions of the messages that are not deleted."""
        mask = int.from_bytes(self.gone or b"", "little")
        return [self.first + at for at in range(self.count) if not mask >> at & 1]


@dataclass(slots=True)
class Salvage:
    """What is readable of a store.

    Attributes:
        damages: What is damaged, as far as it has been read.
        ledgers: The accounts of the partitions by number; after `runs`, with the sums of what is readable.
        records: The rows of the table `records` that are readable.
        notes: The rows of the table `notes` that are readable.
        runs: The rows of the table `runs` that have a right form; their bodies may be damaged.
        identity: The store's own number; empty if it is not readable.
        commits: How many commits there were, about.
    """

    connection: sqlite3.Connection
    damages: list[Damage] = field(default_factory=list)
    ledgers: dict[int, Ledger] = field(default_factory=dict)
    records: list[tuple[int, str, bytes, int]] = field(default_factory=list)
    notes: list[tuple[int, int, bytes, int]] = field(default_factory=list)
    runs: list[StoredRun] = field(default_factory=list)
    identity: bytes = b""
    commits: int = 0

    def body(self, run: StoredRun) -> tuple[bytes | None, bool]:
        """Return the body of a run (None if it is not readable), and whether it is right."""
        found: Any = None
        with suppress(*UNREADABLE):
            rows = self.connection.execute("SELECT data FROM bodies WHERE number = ?", (run.body,)).fetchall()
            found = rows[0][0] if rows else None
        if not isinstance(found, bytes):
            return None, False
        return found, checksum((run.partition, run.first, run.count), found) == run.crc

    def messages(self, run: StoredRun, body: bytes) -> Sequence[bytes]:
        """Return the messages of a body; none if the sizes of the messages are not right."""
        with suppress(*UNREADABLE):
            messages = split(body, run.count)
            if 4 * run.count + sum(map(len, messages)) == len(body):
                return messages
        return ()


def salvage(path: Path) -> Salvage:
    """Read what is readable of the store in a directory, except the messages.

    Errors: `StoreError` if it was written by a newer version, or nothing of it can be read.
    """
    if not (path / TABLES).stat().st_size:  # SQLite would remove the log beside it
        msg = f"store {str(path)!r}: nothing of it can be read: the file {TABLES!r} is empty"
        raise StoreError(msg)
    connection = open_to_read(path)
    try:
        return _Reading(path, connection).run()
    except UNREADABLE as error:
        connection.close()
        msg = f"store {str(path)!r}: nothing of it can be read, which is in {FILES}: {error}"
        raise StoreError(msg) from error
    except BaseException:
        connection.close()
        raise


_NUMBERS: Final = (int, int, int, int, int, int, int, (bytes, type(None)), int)


class _Reading:
    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self._path = path
        self._found = Salvage(connection)

    def run(self) -> Salvage:
        found, execute = self._found, self._found.connection.execute
        [(version,)] = execute("PRAGMA user_version").fetchall()
        if version > VERSION:
            raise of_another_version(self._path, version)
        execute("SELECT count(*) FROM sqlite_master").fetchall()
        self._look_at_pages()
        self._read_account()
        accounts = self._read_ledgers()
        self._read_rows("runs", "partition, first", self._add_run)
        self._read_rows("notes", "partition, position", self._add_note)
        self._read_rows("records", "partition, key", self._add_record)
        self._sum_up(accounts)
        return found

    def _damaged(self, text: str, partition: str = "", positions: range | None = None) -> None:
        self._found.damages.append(Damage(partition, text, positions))

    def _look_at_pages(self) -> None:
        try:
            [(told,), *_] = self._found.connection.execute("PRAGMA quick_check(1)").fetchall()
        except sqlite3.Error as error:
            told = str(error)
        if told != "ok":
            self._damaged(f"the file {TABLES!r} has a damaged page: {' '.join(str(told).split())}")

    def _read_account(self) -> None:
        found = self._found
        with suppress(*UNREADABLE):
            [(identity, commits, partitions, crc)] = found.connection.execute(
                "SELECT identity, commits, partitions, crc FROM store"
            ).fetchall()
            if crc == account_checksum(identity, commits, partitions):
                found.identity, found.commits = identity, commits
        if not found.identity:
            self._damaged("its account is not readable")
        try:
            mark = read_mark(self._path)
        except StoreError:
            self._damaged(f"the file {MARK!r} is not readable")
            return
        if mark is not None and found.identity:
            if mark[0] != found.identity:
                self._damaged(f"{TABLES!r} and {MARK!r} are not of the same store")
            elif mark[1] > found.commits:
                self._damaged(missing_commits(mark[1] - found.commits))
        if mark is not None:
            found.identity = found.identity or mark[0]
            found.commits = max(found.commits, mark[1])

    def _read_ledgers(self) -> dict[int, Ledger]:
        """Read the accounts; return those that are right."""
        right: dict[int, Ledger] = {}

        def add(row: tuple[Any, ...]) -> bool:
            number, name, *numbers, crc = row
            if not (isinstance(number, int) and isinstance(name, str) and isinstance(numbers[0], int)):
                return False
            ledger = Ledger(number, name, next=numbers[0])
            self._found.ledgers[number] = ledger
            with suppress(*UNREADABLE):
                account = Ledger(number, name, *numbers)
                if account.numbers()[-1] == crc:
                    right[number] = account
            if number not in right:
                self._damaged("its account is not readable", name)
            return True

        self._read_rows("partitions", "number", add)
        return right

    def _read_rows(self, table: str, key: str, add: Callable[[tuple[Any, ...]], bool]) -> None:
        """Read the rows of a table; at a page that is not readable, begin again from the other end."""
        seen: set[Any] = set()
        width = key.count(",") + 1
        for order in ("ASC", "DESC"):
            by = ", ".join(f"{each} {order}" for each in key.split(", "))
            try:
                for row in self._found.connection.execute(f"SELECT * FROM {table} ORDER BY {by}"):  # noqa: S608 - ours
                    if row[:width] in seen:
                        break
                    seen.add(row[:width])
                    if not add(row):
                        self._damaged(f"a row of the table {table!r} is not readable")
            except UNREADABLE:
                if order == "ASC":
                    self._damaged(f"some rows of the table {table!r} are not readable")
                    continue
            return

    def _add_run(self, row: tuple[Any, ...]) -> bool:
        if not all(isinstance(value, kind) for value, kind in zip(row, _NUMBERS, strict=True)):  # type: ignore[arg-type]
            return False
        run = StoredRun(*row)
        if run.partition not in self._found.ledgers or run.count <= 0 or run.live != len(run.positions):
            return False
        self._found.runs.append(run)
        return True

    def _add_note(self, row: tuple[Any, ...]) -> bool:
        number, position, value, crc = row
        with suppress(*UNREADABLE):
            if number in self._found.ledgers and checksum((number, position), value) == crc:
                self._found.notes.append((number, position, value, crc))
                return True
        return False

    def _add_record(self, row: tuple[Any, ...]) -> bool:
        number, key, value, crc = row
        with suppress(*UNREADABLE):
            if number in self._found.ledgers and checksum((number,), key.encode(), value) == crc:
                self._found.records.append((number, key, value, crc))
                return True
        return False

    def _sum_up(self, accounts: dict[int, Ledger]) -> None:
        """Compare what was read with the accounts."""
        found = self._found
        found.runs.sort()
        for number, account in accounts.items():
            runs = [run for run in found.runs if run.partition == number]
            total = sum((run.first & POSITION_BITS) + run.crc for run in runs)
            if (len(runs), total) != (account.rows, account.sum):
                missing = account.live - sum(run.live for run in runs)
                self._damaged(f"{missing} messages are missing", account.name)
            self._count("notes", found.notes, account, account.notes)
            self._count("records", found.records, account, account.records)

    def _count(self, what: str, rows: Sequence[tuple[int, Any, Any, Any]], account: Ledger, expected: int) -> None:
        there = sum(row[0] == account.number for row in rows)
        if there != expected:
            self._damaged(f"{expected - there} of {expected} {what} are missing or not readable", account.name)


def bodies(found: Salvage) -> Iterator[tuple[StoredRun, bytes | None, bool]]:
    """Return each run with its body, and whether it is right; damages are noted."""
    for run in found.runs:
        body, right = found.body(run)
        if not right:
            end = run.first + run.count
            text = f"the messages {run.first} to {end - 1} are not readable"
            found.damages.append(Damage(found.ledgers[run.partition].name, text, range(run.first, end)))
        yield run, body, right
