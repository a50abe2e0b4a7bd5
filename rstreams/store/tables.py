"""The tables of a store: changes become rows inside one transaction, and positions become messages again.

    store        one row: how many commits there were, and how many partitions there are
    partitions   the account of each partition (`ledger`)
    runs         where the messages are: one row for messages that were appended together, at most 128 KiB of them
    bodies       the messages of a run
    notes        what is kept beside single messages
    records      small values by key

A run stays until all its messages are deleted, or `Shrink` writes it again with fewer bytes. `gone` has a bit for each
message that is deleted.
"""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import starmap
from typing import Final

from rstreams import _machine
from rstreams.store.changes import Append, Delete, Drop, Modification, Note, Put, Shrink, Together, Trim
from rstreams.store.entries import AppendedRun, Chunk, Cut, as_blob, checksum, cut, join, merged, split
from rstreams.store.failures import StoreDamaged
from rstreams.store.ledger import POSITION_BITS, Ledger
from rstreams.store.sparse_runs import smaller_parts

SCHEMA: Final = """
    CREATE TABLE store(identity BLOB, commits INTEGER, partitions INTEGER, crc INTEGER);
    CREATE TABLE partitions(number INTEGER PRIMARY KEY, name TEXT UNIQUE, next INTEGER, first INTEGER, rows INTEGER,
        live INTEGER, size INTEGER, sum INTEGER, notes INTEGER, records INTEGER, crc INTEGER);
    CREATE TABLE runs(partition INTEGER, first INTEGER, count INTEGER, live INTEGER, size INTEGER, time_ms INTEGER,
        crc INTEGER, gone BLOB, body INTEGER, PRIMARY KEY(partition, first)) WITHOUT ROWID;
    CREATE TABLE bodies(number INTEGER PRIMARY KEY, data BLOB);
    CREATE TABLE notes(partition INTEGER, position INTEGER, value BLOB, crc INTEGER,
        PRIMARY KEY(partition, position)) WITHOUT ROWID;
    CREATE TABLE records(partition INTEGER, key TEXT, value BLOB, crc INTEGER,
        PRIMARY KEY(partition, key)) WITHOUT ROWID;
"""

PAGE_BYTES: Final = 8192
"""The size of a page of the tables."""

UNREADABLE: Final = (sqlite3.Error, struct.error, AttributeError, OverflowError, TypeError, ValueError)
"""The exceptions of reading damaged tables: a number may have become a text."""

_A_STEP: Final = 512
"""How many runs one commit deletes (`trim`, `drop`) or looks at (`shrink`); later commits do the rest."""

_SHRINK_BYTES: Final = 4 * 1024 * 1024
"""About how many bytes of runs `shrink` writes again in one commit."""

_READ: Final = """
    SELECT first, count, time_ms, crc, gone, data FROM runs LEFT JOIN bodies ON number = body
    WHERE partition = ?1 AND first >= coalesce((SELECT max(first) FROM runs WHERE partition = ?1 AND first <= ?2), ?2)
    ORDER BY first
"""
"""Selects the run that has a position, and those behind it."""

_SEEK: Final = """
    SELECT first, count, time_ms FROM runs
    WHERE partition = ?1 AND first >= coalesce((SELECT max(first) FROM runs WHERE partition = ?1 AND first <= ?2), ?2)
    ORDER BY first LIMIT 1
"""

_TOUCHED: Final = """
    SELECT first, count, live, size, crc, gone, body, time_ms FROM runs
    WHERE partition = ?1 AND first >= coalesce((SELECT max(first) FROM runs WHERE partition = ?1 AND first <= ?2), ?2)
    AND first < ?3 ORDER BY first LIMIT ?4
"""
"""Selects the runs that have a position of a range."""


def account_checksum(identity: bytes, commits: int, partitions: int) -> int:
    """Return the checksum of the row of the table `store`."""
    return checksum((commits, partitions), identity)


class Tables:
    """The tables, over a connection that is in no transaction between two calls.

    Args:
        connection: The connection.
        path: The place of the store, for errors.
        identity: The store's own number.
        commits: How many commits there were.
        ledgers: The accounts by name.
        cover: Called in a transaction; see `DiskRoom.cover`.

    Context: The store's thread.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        path: str,
        *,
        identity: bytes,
        commits: int,
        ledgers: dict[str, Ledger],
        cover: Callable[[int, Callable[[], int] | None], None],
    ) -> None:
        self.connection = connection
        self.commits = commits
        self.ledgers = ledgers
        self._path = path
        self._identity = identity
        self._cover = cover
        self._last = max((ledger.number for ledger in ledgers.values()), default=0)
        self._synchronous = ""

    def commit(self, changes: Sequence[Modification], *, sync: bool) -> tuple[list[Modification], list[Ledger]]:
        """Make one transaction of the changes.

        Returns: The changes that need a further commit, and the accounts that have changed.

        Errors: `sqlite3.Error`, or `OSError` if there is no room; nothing has changed then.
        """
        execute = self.connection.execute
        if self.connection.in_transaction:  # the last one failed, and could not be rolled back
            execute("ROLLBACK")
        wanted = "FULL" if sync else "NORMAL"
        if wanted != self._synchronous:
            execute(f"PRAGMA synchronous = {wanted}")
            self._synchronous = wanted
        before, last = self.ledgers, self._last
        self.ledgers = dict(before)
        execute("BEGIN IMMEDIATE")
        try:
            work = _Transaction(self)
            unfinished = [change for change in changes if not work.apply(change)]
            changed = work.finish()
            commits, partitions = self.commits + 1, len(self.ledgers)
            crc = account_checksum(self._identity, commits, partitions)
            execute("UPDATE store SET commits = ?, partitions = ?, crc = ?", (commits, partitions, crc))
            [(pages,)] = execute("PRAGMA page_count").fetchall()
            self._cover(pages, self.free_pages if any(change.may_be_refused for change in changes) else None)
            execute("COMMIT")
        except BaseException:
            self.ledgers, self._last = before, last
            if self.connection.in_transaction:
                execute("ROLLBACK")
            raise
        self.commits = commits
        return unfinished, changed

    def free_pages(self) -> int:
        """Return the number of pages of the tables that nothing uses."""
        [(pages,)] = self.connection.execute("PRAGMA freelist_count").fetchall()
        return int(pages)

    def move_log(self) -> bool:
        """Write what is in SQLite's log into the tables, and sync them; return whether all of it was written.

        Errors: `sqlite3.Error`.
        """
        [(_, pages, moved)] = self.connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        return bool(pages == moved)

    def make(self, name: str) -> Ledger:
        """Make a partition."""
        self._last += 1
        ledger = Ledger(self._last, name)
        self.connection.execute(
            "INSERT INTO partitions VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (ledger.number, ledger.name, *ledger.numbers()),
        )
        return ledger

    def read(self, name: str, position: int, most_bytes: int, cut: Cut | None = None) -> Chunk:
        """Return the messages from a position on; see `Partition.read`.

        Errors: `StoreDamaged` if the first ones are damaged; `sqlite3.Error` if they cannot be read.
        """
        ledger = self.ledgers.get(name)
        if ledger is None:
            return Chunk((), position)
        found: list[AppendedRun] = []
        following, size = position, 0
        with closing(self.connection.execute(_READ, (ledger.number, position))) as rows:
            for first, count, time_ms, crc, gone, body in rows:
                if body is None or checksum((ledger.number, first, count), body) != crc:
                    if found:
                        break  # the next read, which begins here, raises the error
                    msg = f"the messages {first} to {first + count - 1} of {name!r} are not readable"
                    raise self.damaged(msg)
                following = max(following, first + count)
                messages = split(body, count) if cut is None else cut(body, count, first, time_ms)
                positions: Sequence[int] = range(first, first + count)
                if gone is not None or first < position:
                    mask = int.from_bytes(gone or b"", "little")
                    positions = [at for at in positions if at >= position and not mask >> (at - first) & 1]
                    messages = [messages[at - first] for at in positions]
                if messages:
                    found.append(AppendedRun(positions, messages, time_ms))
                    size += len(body)
                    if size >= most_bytes:
                        break
        notes = self._notes(ledger, position, following) if ledger.notes else {}
        return Chunk(found, following, size, cut is not None, notes)

    def seek(self, name: str, time_s: float) -> int:
        """Return the first position of a run that was appended at a time or later."""
        ledger = self.ledgers.get(name)
        if ledger is None:
            return 0
        low, high = ledger.first, ledger.next
        while low < high:
            middle = (low + high) // 2
            found = self.connection.execute(_SEEK, (ledger.number, middle)).fetchall()
            first, count, time_ms = found[0] if found else (high, 0, 1000 * time_s)
            if time_ms < 1000 * time_s:
                low = max(first + count, middle + 1)
            else:
                high = min(first, middle)
        return low

    def damaged(self, text: str) -> StoreDamaged:
        """Return the error that says what is damaged."""
        return StoreDamaged(f"store {self._path!r} is damaged: {text}")

    def _notes(self, ledger: Ledger, begin: int, end: int) -> dict[int, bytes]:
        rows = self.connection.execute(
            "SELECT position, value, crc FROM notes WHERE partition = ? AND position >= ? AND position < ?",
            (ledger.number, begin, end),
        ).fetchall()
        notes: dict[int, bytes] = {}
        for position, value, crc in rows:
            if checksum((ledger.number, position), value) != crc:
                msg = f"the notes on message {position} of {ledger.name!r} are not readable"
                raise self.damaged(msg)
            notes[position] = value
        return notes


@dataclass(frozen=True, slots=True)
class _Row:
    """A run, as `_TOUCHED` selects it."""

    first: int
    count: int
    live: int
    size: int
    crc: int
    gone: bytes | None
    body: int
    time_ms: int

    @property
    def end(self) -> int:
        """The position behind its last message."""
        return self.first + self.count


class _Transaction:
    """The changes of one commit."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._execute: Callable[..., sqlite3.Cursor] = tables.connection.execute
        self._time_ms = int(_machine.today() * 1000)
        self._ledgers: dict[str, Ledger] = {}  # those that change: copies
        self._appended: dict[str, tuple[int, list[bytes]]] = {}
        self._deleted: dict[str, list[range]] = {}

    def apply(self, change: Modification) -> bool:
        """Make a change; return False if it needs a further commit."""
        if isinstance(change, Together):
            return all(self.apply(each) for each in change.changes)  # none of them needs a further commit
        name = change.partition.name
        ledger = self._ledgers.get(name)
        if ledger is None:
            known = self._tables.ledgers.get(name)
            ledger = self._tables.make(name) if known is None else known.copy()
            self._ledgers[name] = self._tables.ledgers[name] = ledger
        if isinstance(change, Append):
            first, messages = self._appended.get(name, (change.first, ()))
            if first + len(messages) != change.first:
                self._write_runs(ledger)
                first, messages = change.first, ()
            if messages:
                messages.extend(change.messages)
            else:
                self._appended[name] = first, list(change.messages)
            for key, value in change.records.items():
                self._put(ledger, key, value)
        elif isinstance(change, Delete):
            self._deleted.setdefault(name, []).extend(change.ranges())
        elif isinstance(change, Put):
            self._put(ledger, change.key, change.value)
        elif isinstance(change, Note):
            self._note(ledger, change.position, change.value)
        else:
            self._flush(ledger)
            return self._make_a_step(ledger, change)
        return True

    def _make_a_step(self, ledger: Ledger, change: Shrink | Trim | Drop) -> bool:
        """Make a change as far as one commit may; return False if it needs a further one."""
        if isinstance(change, Shrink):
            return self._shrink(ledger, change)
        if isinstance(change, Trim):
            return self._trim(ledger, change)
        return self._drop(ledger)

    def finish(self) -> list[Ledger]:
        """Write what is left, and the accounts; return those that have changed."""
        for ledger in list(self._ledgers.values()):
            self._flush(ledger)
            self._execute(
                "UPDATE partitions SET next = ?, first = ?, rows = ?, live = ?, size = ?, sum = ?, notes = ?, "
                "records = ?, crc = ? WHERE number = ?",
                (*ledger.numbers(), ledger.number),
            )
        return [ledger.copy() for ledger in self._ledgers.values()]

    def _flush(self, ledger: Ledger) -> None:
        self._write_runs(ledger)
        deleted = self._deleted.pop(ledger.name, None)
        if deleted:
            for found in deleted if len(deleted) == 1 else merged(deleted):
                self._delete(ledger, found)
        if not ledger.rows:
            ledger.first = ledger.next
        elif deleted:
            [(ledger.first,)] = self._execute("SELECT min(first) FROM runs WHERE partition = ?", (ledger.number,))

    def _write_runs(self, ledger: Ledger) -> None:
        first, messages = self._appended.pop(ledger.name, (0, []))
        if messages:  # a clock that was set back would otherwise hide runs from `seek`
            ledger.time_ms = max(ledger.time_ms, self._time_ms)
        for part in cut(messages):
            if not ledger.rows:
                ledger.first = first
            self._write_run(ledger, first, part, ledger.time_ms)
            ledger.live += len(part)
            first += len(part)
            ledger.next = first

    def _write_run(self, ledger: Ledger, first: int, messages: Sequence[bytes], time_ms: int, gone: int = 0) -> None:
        """Write one run; `gone` has a bit for each message that is deleted."""
        count, body = len(messages), join(messages)
        crc = checksum((ledger.number, first, count), body)
        number = self._execute("INSERT INTO bodies(data) VALUES(?)", (body,)).lastrowid
        live, mask = count - gone.bit_count(), as_blob(gone, count) if gone else None
        self._execute(
            "INSERT INTO runs VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (ledger.number, first, count, live, len(body), time_ms, crc, mask, number),
        )
        ledger.rows += 1
        ledger.size += len(body)
        ledger.sum += (first & POSITION_BITS) + crc

    def _remove_run(self, ledger: Ledger, row: _Row) -> None:
        self._execute("DELETE FROM runs WHERE partition = ? AND first = ?", (ledger.number, row.first))
        self._execute("DELETE FROM bodies WHERE number = ?", (row.body,))
        ledger.rows -= 1
        ledger.size -= row.size
        ledger.sum -= (row.first & POSITION_BITS) + row.crc

    def _delete(self, ledger: Ledger, positions: range, most: int = -1) -> bool:
        """Delete messages; return False if there are more runs than `most`."""
        begin, end = positions.start, positions.stop
        rows = self._execute(_TOUCHED, (ledger.number, begin, end, most)).fetchall()
        for row in starmap(_Row, rows):
            count = row.count
            low, high = max(begin - row.first, 0), min(end - row.first, count)
            if low >= high:
                continue
            mask = int.from_bytes(row.gone or b"", "little") | ((1 << high) - (1 << low))
            left = count - mask.bit_count()
            ledger.live -= row.live - left
            if left:
                self._execute(
                    "UPDATE runs SET live = ?, gone = ? WHERE partition = ? AND first = ?",
                    (left, as_blob(mask, count), ledger.number, row.first),
                )
                continue
            self._remove_run(ledger, row)
        through = len(rows) != most
        if ledger.notes:
            if not through:
                end = rows[-1][0] + rows[-1][1]
            ledger.notes -= self._execute(
                "DELETE FROM notes WHERE partition = ? AND position >= ? AND position < ?", (ledger.number, begin, end)
            ).rowcount
        return through

    def _shrink(self, ledger: Ledger, change: Shrink) -> bool:
        """Write sparse runs again; return False if a further commit goes on at `done_below`."""
        room, runs = _SHRINK_BYTES, _A_STEP
        for part in change.parts:
            while change.done_below < part.stop:
                if room <= 0 or runs <= 0:
                    return False
                begin = max(part.start, change.done_below)
                rows = self._execute(_TOUCHED, (ledger.number, begin, part.stop, 2)).fetchall()
                row = next((row for row in starmap(_Row, rows) if row.end > begin), None)  # the first may end before it
                change.done_below = part.stop if row is None else row.end
                if row is not None:
                    runs -= 1
                    room -= self._shrink_run(ledger, row)
        return True

    def _shrink_run(self, ledger: Ledger, row: _Row) -> int:
        """Write a run again if that needs less than half of its room; return the bytes that were read for it."""
        if row.gone is None:
            return 0
        mask, first = int.from_bytes(row.gone, "little"), row.first
        try:
            with self._tables.connection.blobopen("bodies", "data", row.body, readonly=True) as blob:
                parts = smaller_parts(struct.unpack(f"<{row.count}I", blob.read(4 * row.count)), mask)
                if parts is None:
                    return 0
                blob.seek(0)
                data = blob.read()
        except (sqlite3.OperationalError, struct.error):
            return 0  # it is damaged, and stays as it is; a reader gets the error
        if checksum((ledger.number, first, row.count), data) != row.crc:
            return 0
        messages = split(data, row.count)
        self._remove_run(ledger, row)
        if ledger.first == first:
            ledger.first = first + parts[0].start
        for part in parts:
            missing = mask >> part.start & (1 << len(part)) - 1
            kept = [
                b"" if missing >> at & 1 else message for at, message in enumerate(messages[part.start : part.stop])
            ]
            self._write_run(ledger, first + part.start, kept, row.time_ms, missing)
        return row.size

    def _trim(self, ledger: Ledger, change: Trim) -> bool:
        below = max(change.below, self._end_of_old(ledger, change))
        through = self._delete(ledger, range(below), _A_STEP) if below > ledger.first else True
        self._deleted.setdefault(ledger.name, []).append(range(0))  # `_flush` finds the first run of the partition
        self._flush(ledger)
        return through

    def _end_of_old(self, ledger: Ledger, change: Trim) -> int:
        """Return the position behind the oldest runs that are to be deleted: too old, or more than is to be kept."""
        below, size, live = 0, ledger.size, ledger.live
        keep_bytes = size if change.keep_bytes is None else change.keep_bytes
        keep_items = live if change.keep_items is None else change.keep_items
        rows = self._execute(
            "SELECT first, count, live, size, time_ms FROM runs WHERE partition = ? ORDER BY first LIMIT ?",
            (ledger.number, _A_STEP),
        )
        for first, count, its_live, its_size, time_ms in rows:
            too_old = time_ms < 1000 * change.before_s
            size, live = size - its_size, live - its_live
            if not too_old and size < keep_bytes and live < keep_items:
                break
            below = first + count
        rows.close()
        return below

    def _drop(self, ledger: Ledger) -> bool:
        if not self._delete(ledger, range(ledger.next), _A_STEP):
            return False
        self._execute("DELETE FROM records WHERE partition = ?", (ledger.number,))
        self._execute("DELETE FROM partitions WHERE number = ?", (ledger.number,))
        del self._ledgers[ledger.name], self._tables.ledgers[ledger.name]
        return True

    def _put(self, ledger: Ledger, key: str, value: bytes | None) -> None:
        where = (ledger.number, key)
        ledger.records -= self._execute("DELETE FROM records WHERE partition = ? AND key = ?", where).rowcount
        if value is not None:
            crc = checksum((ledger.number,), key.encode(), value)
            self._execute("INSERT INTO records VALUES(?, ?, ?, ?)", (*where, value, crc))
            ledger.records += 1

    def _note(self, ledger: Ledger, position: int, value: bytes) -> None:
        where = (ledger.number, position)
        ledger.notes -= self._execute("DELETE FROM notes WHERE partition = ? AND position = ?", where).rowcount
        self._execute("INSERT INTO notes VALUES(?, ?, ?, ?)", (*where, value, checksum(where, value)))
        ledger.notes += 1
