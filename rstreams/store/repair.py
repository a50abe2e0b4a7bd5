"""A way past damage: find what is damaged in a store, copy its messages out, and go on without what is not readable.

Theory of operation of `skip`. What is readable is copied into new tables, in one file. When that is on the disk, the
old files are linked into a folder, and the new file takes the place of the old one. The log of the old file is
removed before, because SQLite would apply it to the new file. A `skip` that was interrupted at this point is finished
by the next `skip`; until then the store is refused.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import astuple, dataclass, replace
from pathlib import Path

from rstreams import _machine
from rstreams.errors import StoreError
from rstreams.store.directory import APPLICATION, MARK, SKIPPED, TABLES, StoreDirectory, is_missing
from rstreams.store.entries import merged
from rstreams.store.failures import PASSING, failure
from rstreams.store.ledger import POSITION_BITS
from rstreams.store.recovery import VERSION
from rstreams.store.salvage import Damage, Salvage, bodies, salvage
from rstreams.store.tables import PAGE_BYTES, SCHEMA, account_checksum


@dataclass(frozen=True, slots=True)
class SavedMessage:
    """A message that was read from a store.

    Attributes:
        partition: The name of its partition, such as "queue/orders".
        position: Its position.
        time_s: When it was stored, in seconds since 1970.
        message: The message, encoded; `rstreams.message.decode_message` reads it.
        suspect: Whether it may be damaged: it was stored together with a damaged message.
    """

    partition: str
    position: int
    time_s: float
    message: bytes
    suspect: bool


def check(path: str | os.PathLike[str]) -> list[Damage]:
    """Read a whole store; return what is damaged.

    Args:
        path: The directory of the store. No node may use it.

    Errors: `StoreError` if it is used, is not a store, or cannot be read.
    Context: Waits for the disk. Nothing of the store is changed.
    """
    with _locked(path) as directory, _salvaged(directory.path) as found:
        for _ in bodies(found):
            pass
        return _summed(found.damages)


def export(path: str | os.PathLike[str]) -> Iterator[SavedMessage]:
    """Read all messages of a store, also a damaged one; those that are not readable are left out.

    Args: As for `check`.
    Errors: As for `check`.
    Context: As for `check`.
    """
    with _locked(path) as directory, _salvaged(directory.path) as found:
        for run, body, right in bodies(found):
            messages = () if body is None else found.messages(run, body)
            if messages:
                name = found.ledgers[run.partition].name
                for position in run.positions:
                    message = messages[position - run.first]
                    yield SavedMessage(name, position, run.time_ms / 1000, message, not right)


def skip(path: str | os.PathLike[str]) -> list[Damage]:
    """Go on without what is damaged; return what that is.

    All messages of a damaged run are left out: `export` reads those that may be right. The old files
    are kept in a folder of the store, `damaged-1` or a higher number. A store that is whole is not changed.

    Args: As for `check`.
    Errors: As for `check`; and if there is no room for a copy of the messages.
    Context: Waits for the disk.
    """
    with _locked(path) as directory:
        folder = directory.path
        if not (folder / SKIPPED).exists():
            with _salvaged(folder) as found:
                _copy(found, folder)
                damages = _summed(found.damages)
            if not damages:
                (folder / f"{TABLES}.new").unlink()
                return []
            _keep_old(folder)
            (folder / f"{TABLES}.new").rename(folder / SKIPPED)
            _sync(folder)
        else:
            damages = [Damage("", "an earlier skip was interrupted, and is finished now")]
        for name in (f"{TABLES}-wal", f"{TABLES}-shm", MARK):
            (folder / name).unlink(missing_ok=True)
        _sync(folder)
        (folder / SKIPPED).replace(folder / TABLES)
        _sync(folder)
        return damages


@contextmanager
def _locked(path: str | os.PathLike[str]) -> Iterator[StoreDirectory]:
    if not (Path(path) / TABLES).exists():
        why = f": the file {TABLES!r} is missing" if is_missing(Path(path)) else ""
        msg = f"{os.fspath(path)!r} is not a store{why}"
        raise StoreError(msg)
    directory = StoreDirectory(path)
    try:
        yield directory
    except PASSING as error:
        what = f"store {os.fspath(path)!r} cannot be used"
        raise failure(what, error) from error
    finally:
        directory.close()


@contextmanager
def _salvaged(path: Path) -> Iterator[Salvage]:
    """Read what is readable of a store, and close it afterwards."""
    found = salvage(path)
    with closing(found.connection):
        yield found


def _summed(damages: Sequence[Damage]) -> list[Damage]:
    """Return the damages; those of neighbouring runs of one partition become one."""
    others = [each for each in damages if each.positions is None]
    by_partition: dict[str, list[range]] = {}
    for each in damages:
        if each.positions is not None:
            by_partition.setdefault(each.partition, []).append(each.positions)
    for name, parts in by_partition.items():
        for part in merged(parts):
            text = f"the messages {part.start} to {part.stop - 1} are not readable"
            others.append(Damage(name, text, part))
    return others


def _copy(found: Salvage, folder: Path) -> None:
    """Write what is readable into new tables."""
    fresh = folder / f"{TABLES}.new"
    fresh.unlink(missing_ok=True)
    os.close(os.open(fresh, os.O_CREAT | os.O_EXCL, 0o600))
    with closing(sqlite3.connect(fresh, isolation_level=None)) as connection:
        connection.executescript(
            f"PRAGMA page_size = {PAGE_BYTES}; PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {VERSION};"
            f"PRAGMA journal_mode = OFF; PRAGMA synchronous = FULL; BEGIN; {SCHEMA}"
        )
        _insert(found, connection)
        connection.execute("COMMIT")


def _insert(found: Salvage, connection: sqlite3.Connection) -> None:
    noted = {note[:2] for note in found.notes}
    there: set[tuple[int, int]] = set()
    ledgers = found.ledgers
    for ledger in ledgers.values():
        ledger.first = -1
    for number, (run, body, right) in enumerate(bodies(found), 1):
        ledger = ledgers[run.partition]
        ledger.next = max(ledger.next, run.first + run.count)
        if body is None or not right:
            continue
        if noted:
            there.update(noted.intersection((run.partition, position) for position in run.positions))
        connection.execute("INSERT INTO bodies VALUES(?, ?)", (number, body))
        row = astuple(replace(run, size=len(body), body=number))
        connection.execute("INSERT INTO runs VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
        ledger.first = run.first if ledger.first < 0 else ledger.first
        ledger.rows, ledger.live, ledger.size = ledger.rows + 1, ledger.live + run.live, ledger.size + len(body)
        ledger.sum += (run.first & POSITION_BITS) + run.crc
    for note in found.notes:
        if note[:2] in there:
            connection.execute("INSERT INTO notes VALUES(?, ?, ?, ?)", note)
            ledgers[note[0]].notes += 1
    for record in found.records:
        connection.execute("INSERT INTO records VALUES(?, ?, ?, ?)", record)
        ledgers[record[0]].records += 1
    for ledger in ledgers.values():
        ledger.first = ledger.next if ledger.first < 0 else ledger.first
        numbers = (ledger.number, ledger.name, *ledger.numbers())
        connection.execute("INSERT INTO partitions VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", numbers)
    identity, commits = found.identity or _machine.fresh_uuid().bytes, found.commits + 1
    account = (identity, commits, len(ledgers), account_checksum(identity, commits, len(ledgers)))
    connection.execute("INSERT INTO store VALUES(?, ?, ?, ?)", account)


def _keep_old(folder: Path) -> None:
    """Link the old files into a folder of their own."""
    number = 1
    while (folder / f"damaged-{number}").exists():
        number += 1
    kept = folder / f"damaged-{number}"
    kept.mkdir(mode=0o700)
    for name in (TABLES, f"{TABLES}-wal", MARK):
        if (folder / name).exists():
            os.link(folder / name, kept / name)
    _sync(kept)


def _sync(folder: Path) -> None:
    directory = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
