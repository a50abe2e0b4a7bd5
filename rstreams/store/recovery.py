"""Recovery: from the files of a store to its state. It writes nothing, and finds what is damaged.

Theory of operation. SQLite brings the tables to the state of the last whole commit; a commit that a crash cut off is
gone as a whole. The checks here find what SQLite does not look for:

    commits that were safe and are missing   the file `mark` says how many there were
    runs that are missing or changed         the account of their partition has sums over them
    accounts, records, notes, bodies         each has a checksum

A store of up to `SMALL` bytes is read whole. In a larger one, the bodies and notes are checked when they are read.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rstreams.errors import StoreError
from rstreams.store.directory import MARK, TABLES, damaged, is_of_store, read_header, read_mark
from rstreams.store.disk import disk
from rstreams.store.entries import checksum
from rstreams.store.failures import FILES, is_of_disk
from rstreams.store.ledger import POSITION_BITS, Ledger
from rstreams.store.tables import UNREADABLE, account_checksum

VERSION: Final = 1
"""The version of the format."""

LOCK_S: Final = 10.0
"""The longest time that the opening of a store waits for another program's lock on its tables, in seconds."""

SMALL: Final = 32 * 1024 * 1024
"""The size of the files up to which a store is read whole when it is opened."""


@dataclass(frozen=True, slots=True)
class StoreState:
    """The state of a store when it is opened.

    Attributes:
        identity: The store's own number.
        commits: How many commits there were.
        ledgers: The accounts of its partitions, by name.
        records: The records of each partition, by its name and their key.
    """

    identity: bytes
    commits: int
    ledgers: dict[str, Ledger]
    records: dict[str, dict[str, bytes]]


def recover(path: Path) -> StoreState:
    """Return the state of the store in the directory `path`.

    Errors: `StoreError` if it is damaged, of a newer version, or the file is not a store's; `sqlite3.Error` or
        `OSError` if it cannot be read now.
    """
    _check_header(path)
    with closing(open_to_read(path)) as connection:
        try:
            return _Recovery(path, connection).run()
        except UNREADABLE as error:
            if is_of_disk(error):
                raise
            raise damaged(path, f"{FILES}: {error}") from error


def open_to_read(path: Path) -> sqlite3.Connection:
    """Open the tables of a store; nothing is written to them."""
    tables = f"{(path / TABLES).absolute().as_uri()}?mode=ro"
    return disk.get().connect(tables, lock_wait_s=LOCK_S)


def _check_header(path: Path) -> None:
    """Look at the file's header before SQLite opens it, because SQLite might change files that are not a store's."""
    header = read_header(path)
    version = int.from_bytes(header[60:64], "big")
    if not is_of_store(header):
        raise damaged(path, f"the file {TABLES!r} does not begin as a store's")
    if version != VERSION:
        raise of_another_version(path, version)


def of_another_version(path: Path, version: int) -> StoreError:
    """Return the error for a store that another version of rstreams has written."""
    formats = f"has the format {version}, and this rstreams reads the format {VERSION}"
    return StoreError(f"store {str(path)!r} {formats}: use the version that wrote it, or begin an empty directory")


def missing_commits(number: int) -> str:
    """Return the text for tables that have fewer commits than the mark says."""
    return f"the last {number} commits that were safe are missing from {FILES}"


class _Recovery:
    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self._path = path
        self._execute = connection.execute

    def run(self) -> StoreState:
        """Check everything; return the state."""
        files = (self._path / TABLES, self._path / f"{TABLES}-wal")
        size = sum(file.stat().st_size for file in files if file.exists())
        self._execute("BEGIN")
        if size <= SMALL:
            [(found,)] = self._execute("PRAGMA quick_check(1)").fetchall()
            self._require(found == "ok", f"{FILES}: {found}")
        identity, commits, partitions = self._account()
        ledgers = self._ledgers()
        self._require(len(ledgers) == partitions, "a partition is missing")
        self._check_runs(ledgers)
        if size <= SMALL:
            self._check_bodies({ledger.number: name for name, ledger in ledgers.items()})
            self._check_notes()
        return StoreState(identity, commits, ledgers, self._records(ledgers))

    def _require(self, condition: bool, text: str) -> None:  # noqa: FBT001 - as an assert
        if not condition:
            raise damaged(self._path, text)

    def _account(self) -> tuple[bytes, int, int]:
        rows = self._execute("SELECT identity, commits, partitions, crc FROM store").fetchall()
        self._require(len(rows) == 1, "its account is missing")
        identity, commits, partitions, crc = rows[0]
        self._require(crc == account_checksum(identity, commits, partitions), "its account is not readable")
        mark = read_mark(self._path)
        if mark is not None:
            self._require(mark[0] == identity, f"{TABLES!r} and {MARK!r} are not of the same store")
            missing = mark[1] - commits
            self._require(missing <= 0, missing_commits(missing))
        return identity, commits, partitions

    def _ledgers(self) -> dict[str, Ledger]:
        ledgers: dict[str, Ledger] = {}
        for number, name, *numbers, crc in self._execute("SELECT * FROM partitions"):
            ledger = Ledger(number, name, *numbers)
            self._require(ledger.numbers()[-1] == crc, f"the account of the partition {name!r} is not readable")
            ledgers[name] = ledger
        return ledgers

    def _check_runs(self, ledgers: dict[str, Ledger]) -> None:
        found = {
            number: (time_ms, sums)
            for number, time_ms, *sums in self._execute(
                "SELECT partition, max(time_ms), count(*), min(first), sum(live), sum(size), sum((first & ?) + crc) "
                "FROM runs GROUP BY partition",
                (POSITION_BITS,),
            )
        }
        for ledger in ledgers.values():
            ledger.time_ms, sums = found.pop(ledger.number, (0, [0, ledger.next, 0, 0, 0]))
            same = sums == [ledger.rows, ledger.first, ledger.live, ledger.size, ledger.sum]
            self._require(same, f"some messages of the partition {ledger.name!r} are missing")
        self._require(not found, "there are messages without a partition")

    def _check_bodies(self, names: dict[int, str]) -> None:
        for number, first, count, live, crc, gone, data in self._execute(
            "SELECT partition, first, count, live, crc, gone, data FROM runs LEFT JOIN bodies ON number = body"
        ):
            text = f"the messages from {first} on of {names[number]!r} are not readable"
            self._require(data is not None and checksum((number, first, count), data) == crc, text)
            self._require(count - int.from_bytes(gone or b"", "little").bit_count() == live, text)

    def _check_notes(self) -> None:
        for number, position, value, crc in self._execute("SELECT partition, position, value, crc FROM notes"):
            text = f"the notes on message {position} are not readable"
            self._require(checksum((number, position), value) == crc, text)

    def _records(self, ledgers: dict[str, Ledger]) -> dict[str, dict[str, bytes]]:
        names = {ledger.number: name for name, ledger in ledgers.items()}
        records: dict[str, dict[str, bytes]] = {name: {} for name in ledgers}
        for number, key, value, crc in self._execute("SELECT partition, key, value, crc FROM records"):
            readable = number in names and checksum((number,), key.encode(), value) == crc
            self._require(readable, f"the record {key!r} is not readable")
            records[names[number]][key] = value
        for name, ledger in ledgers.items():
            self._require(len(records[name]) == ledger.records, f"a record of the partition {name!r} is missing")
        notes = dict(self._execute("SELECT partition, count(*) FROM notes GROUP BY partition").fetchall())
        for name, ledger in ledgers.items():
            self._require(notes.get(ledger.number, 0) == ledger.notes, f"a note of the partition {name!r} is missing")
        return records
