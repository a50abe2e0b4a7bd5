"""The store: a directory with partitions, and the thread that owns its files."""

from __future__ import annotations

import math
import os
import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from queue import Empty
from typing import Any, Final

from rstreams import _machine
from rstreams._events.table import (
    STORE_DAMAGED,
    STORE_FAILED,
    STORE_NOT_CLOSED,
    STORE_READABLE_AGAIN,
    STORE_TABLES_OPEN,
    STORE_UNREADABLE,
)
from rstreams.errors import StoreError
from rstreams.store.changes import Append, Change, Delete, Modification, Read, Seek, Together
from rstreams.store.directory import APPLICATION, SKIPPED, TABLES, StoreDirectory, damaged, is_missing
from rstreams.store.disk import Turns, Wish, disk
from rstreams.store.disk_room import DiskRoom, let_go
from rstreams.store.failures import PASSING, failure, is_lock, is_of_disk, says_damaged
from rstreams.store.ledger import Ledger
from rstreams.store.partition import Partition
from rstreams.store.recovery import LOCK_S, VERSION, StoreState, recover
from rstreams.store.sync_times import SyncTimes
from rstreams.store.tables import PAGE_BYTES, SCHEMA, UNREADABLE, Tables, account_checksum
from rstreams.store.writer import LOCKED_S, LOG_BYTES, RETRY_S, Writer

_COMMIT_BYTES: Final = 8 * 1024 * 1024
"""The size of a commit's messages at which it takes no further changes."""


@dataclass(frozen=True, slots=True)
class StoreStatistics:
    """A store at one moment.

    Attributes:
        syncs: How long the commits took that were synced to the disk.
        file_bytes: The bytes of its tables.
        log_bytes: The bytes of the log of SQLite, in which commits are before they are moved into the tables.
        free_bytes: The bytes that the disk has left for it.
        errors: How often the disk could not be written since the store was opened.
        trouble: Why it cannot be written now; "" while it can.
    """

    syncs: SyncTimes = field(default_factory=SyncTimes)
    file_bytes: int = 0
    log_bytes: int = 0
    free_bytes: int = 0
    errors: int = 0
    trouble: str = ""


class _Work:
    """What the thread does in one turn.

    Attributes:
        changes: What goes into the commit.
        questions: What is answered after the commit.
        waiting: The events that are set after the answers.
        size: The bytes of the messages.
        ends: Whether the store is to be closed.
    """

    def __init__(self) -> None:
        self.changes: list[Modification] = []
        self.questions: list[Read | Seek] = []
        self.waiting: list[threading.Event] = []
        self.size = 0
        self.ends = False

    def add(self, change: Wish) -> bool:
        """Add a wish; return whether there is room for more."""
        if change is None:
            self.ends = True
        elif isinstance(change, threading.Event):
            self.waiting.append(change)
        elif isinstance(change, Read | Seek):
            self.questions.append(change)
        else:
            self.changes.append(change)
            if isinstance(change, Append):
                self.size += sum(map(len, change.messages))
        return not self.ends and self.size < _COMMIT_BYTES


class Store:
    """A directory of partitions. A thread of its own reads and writes the files.

    Args:
        path: The directory; it is made if it is missing.
        notify: Called in the store's thread when `finish` has something to do. It must return at once.
        secure_delete: Whether deleted messages are overwritten with zeros.

    Errors: `StoreError` if the store is used by another process, damaged, of another version, or cannot be written, or
        if the directory is not a store's. No file has been changed then.
    Context: The constructor, `flush` and `close` wait for the disk. The other methods do not; the owner calls them in
        one thread.
    """

    def __init__(
        self, path: str | os.PathLike[str], notify: Callable[[], None] = lambda: None, *, secure_delete: bool = False
    ) -> None:
        self.path = os.fspath(path)
        self._notify = notify
        self._secure_delete = secure_delete
        self._directory = StoreDirectory(path)
        try:
            state = self._recover()
        except BaseException:
            self._directory.close()
            raise
        self._records = state.records
        self._partitions: dict[str, Partition] = {}
        self._known = dict(state.ledgers.items())
        self._finished: deque[Callable[[], None]] = deque()
        self._gathered: list[Append | Delete] | None = None
        self._error: StoreError | None = None  # it cannot go on
        self._batch = _Work()
        self._unread: list[tuple[float, Read | Seek]] = []  # questions that could not be answered, and since when
        self._unread_at = math.inf
        self._unreadable = ""  # why they cannot be answered; "" if they can
        self._damages: set[str] = set()  # those that the log has told of
        self._closed = False
        self._worker = disk.get().worker(f"rstreams store {self.path}")
        self._inbox = self._worker.inbox
        self._worker.start(self._turns())

    @property
    def names(self) -> list[str]:
        """The names of the partitions that are in the store."""
        return sorted({*self._known, *self._partitions})

    @property
    def messages(self) -> int:
        """How many messages were in it when it was opened."""
        return sum(ledger.live for ledger in self._known.values())

    @property
    def error(self) -> StoreError | None:
        """Why the store cannot go on; None while it can."""
        return self._error

    @property
    def trouble(self) -> StoreError | None:
        """Why it cannot be written now; None while it can. What may not be refused is written later."""
        return self._error or self._writer.trouble

    def statistics(self) -> StoreStatistics:
        """Return what its files take, what the disk has left, and how it has written so far."""
        writer, folder, trouble = self._writer, self._directory.path, self.trouble
        free = 0
        with suppress(OSError):  # the folder may be gone
            space = os.statvfs(folder)
            free = space.f_bavail * space.f_frsize
        return StoreStatistics(
            syncs=writer.syncs.times(),
            file_bytes=_size_of(self._directory.tables),
            log_bytes=_size_of(Path(f"{self._directory.tables}-wal")),
            free_bytes=free,
            errors=writer.errors,
            trouble="" if trouble is None else str(trouble),
        )

    def partition(self, name: str) -> Partition:
        """Return the partition of that name; it is made by its first change if it is not there."""
        partition = self._partitions.get(name)
        if partition is None:
            known = self._known.get(name)
            ledger = Ledger(0, name)
            if known is not None:
                ledger.become(known)
            partition = self._partitions[name] = Partition(self, name, ledger, self._records.get(name, {}))
        return partition

    def forget(self, name: str) -> None:
        """Have no partition of that name any more; a part of `Partition`."""
        self._partitions.pop(name, None)
        self._known.pop(name, None)
        self._records.pop(name, None)

    def take(self, change: Change) -> None:
        """Carry out a change soon, or refuse it if the store is closed; a part of `Partition`."""
        if self._gathered is not None and isinstance(change, Append | Delete) and change.chain is not None:
            self._gathered.append(change)
            return
        if not self._closed:
            self._inbox.put(change)
            return
        work = _Work()
        work.add(change)
        self._give_up(work, StoreError(f"store {self.path!r} is closed"))

    @contextmanager
    def together(self) -> Iterator[list[Append | Delete]]:
        """Have the appends of the block be in one commit, or in none; a part of `Partition`.

        The block gets the list of them, and may add a deletion to it. Other changes are made as ever: they must not be
        refused together with an append. The block must not wait. A block inside of another one is a part of it.
        """
        if self._gathered is not None:
            yield self._gathered
            return
        gathered = self._gathered = []
        try:
            yield gathered
        finally:
            self._gathered = None
            if gathered:
                self.take(gathered[0] if len(gathered) == 1 else Together(gathered))

    def finish(self) -> None:
        """Call the functions `done` and `answer` whose changes are through, in their order."""
        finished = self._finished
        while finished:
            finished.popleft()()

    def flush(self) -> bool:
        """Wait until all changes so far are carried out; return whether `finish` has something to do."""
        through = threading.Event()
        if not self._closed:
            self._inbox.put(through)
            self._worker.wait_for(through)
        return bool(self._finished)

    def close(self) -> None:
        """Carry out all changes, and close the files. The functions that are left are called by `finish` afterwards."""
        if not self._closed:
            self._closed = True
            self._inbox.put(None)
            self._worker.join()

    def _recover(self) -> StoreState:
        """Open the files; on a disk that is full with the room of the reserve.

        Errors: As for `Store`.
        """
        try:
            try:
                return self._open()
            except (sqlite3.Error, OSError) as error:
                if not is_of_disk(error) or not let_go(self._directory.path):
                    raise
                return self._open()
        except (sqlite3.Error, OSError) as error:
            what = f"store {self.path!r} cannot be used"
            raise failure(what, error) from error

    def _open(self) -> StoreState:
        directory = self._directory
        if (directory.path / SKIPPED).exists():
            msg = f"store {self.path!r}: `python -m rstreams.store skip` was interrupted: run it again"
            raise StoreError(msg)
        if is_missing(directory.path):
            raise damaged(directory.path, f"the file {TABLES!r} is missing")
        if not directory.tables.exists():
            _create(directory)
        state = recover(directory.path)
        directory.begin_marks(state.identity, state.commits)
        connection = _connect(directory, secure_delete=self._secure_delete)
        try:
            [(pages,)] = connection.execute("PRAGMA page_count").fetchall()
            self._room = DiskRoom(directory.tables, pages)
        except BaseException:
            connection.close()
            raise
        self._tables = Tables(
            connection,
            self.path,
            identity=state.identity,
            commits=state.commits,
            ledgers=dict(state.ledgers),
            cover=self._room.cover,
        )
        self._writer = Writer(self.path, self._tables, self._room, mark=directory.mark, tell=self._tell)
        return state

    # the store's thread

    def _turns(self) -> Turns:
        try:
            while not self._batch.ends:
                wait_s = math.inf if self._error else min(self._writer.due, self._unread_at) - _machine.monotonic()
                came = yield wait_s
                try:
                    self._turn(came)
                except BaseException as error:
                    STORE_FAILED.tell(self.path, raised=error, store=self.path)
                    self._error = StoreError(f"store {self.path!r} has failed; the log says how")
                    self._batch.changes = []
                    self._writer.give_up(self._error)
                    self._give_up(self._batch, self._error)
                    self._finished.append(partial(self._tell_all, self._error))
                    self._notify()
            self._writer.close()
        except BaseException as error:
            STORE_NOT_CLOSED.tell(self.path, raised=error, store=self.path)
        finally:
            for _, question in self._unread:
                self._tell_answer(question, StoreError(f"store {self.path!r} is closed"))
            try:
                self._tables.connection.close()
            except sqlite3.Error as error:
                STORE_TABLES_OPEN.tell(self.path, raised=error, store=self.path)
            self._room.close()
            self._directory.close()

    def _turn(self, came: list[Wish]) -> None:
        """Make one commit of the changes that have come and those that wait, or do what is due."""
        batch = self._batch = _Work()
        with suppress(Empty):
            has_room = all(map(batch.add, came))
            while has_room:
                has_room = batch.add(self._inbox.get_nowait())
        if self._error is not None:
            self._give_up(batch, self._error)
            return
        if batch.changes or _machine.monotonic() >= self._writer.due:
            self._writer.write(batch.changes, is_idle=self._inbox.empty())
        if self._unread and _machine.monotonic() >= self._unread_at:
            unread, self._unread = self._unread, []
            self._unread_at = math.inf
            for since, question in unread:
                self._answer(question, since)
        while batch.questions:
            self._answer(batch.questions[0], _machine.monotonic())
            del batch.questions[0]
        for each in batch.waiting:
            each.set()

    def _give_up(self, batch: _Work, reason: StoreError) -> None:
        """Refuse everything: the store cannot go on."""
        for change in batch.changes:
            if change.chain is not None and change.chain.error is None:
                change.chain.error = reason
        self._tell([], batch.changes, reason)
        for question in [*batch.questions, *(question for _, question in self._unread)]:
            self._tell_answer(question, reason)
        self._unread = []
        for each in batch.waiting:
            each.set()

    def _tell_all(self, error: StoreError) -> None:
        for partition in tuple(self._partitions.values()):
            if partition.on_failed is not None:
                partition.on_failed(error)

    def _answer(self, question: Read | Seek, since: float) -> None:
        """Answer a question now, or later if the disk cannot be read."""
        name = question.partition.name
        try:
            if isinstance(question, Read):
                self._tell_answer(
                    question, self._tables.read(name, question.position, question.most_bytes, question.cut)
                )
            else:
                self._tell_answer(question, self._tables.seek(name, question.time_s))
        except StoreError as error:
            self._tell_of_damage(question, error)
        except (*UNREADABLE, *PASSING) as error:
            if is_of_disk(error) or says_damaged(error):
                self._answer_later(question, since, error)
            else:
                self._tell_of_damage(question, self._tables.damaged(str(error)))
        else:
            if self._unreadable and not self._unread:
                self._unreadable = ""
                STORE_READABLE_AGAIN.tell(self.path, store=self.path)

    def _tell_of_damage(self, question: Read | Seek, damage: StoreError) -> None:
        if str(damage) not in self._damages:
            self._damages.add(str(damage))
            STORE_DAMAGED.tell(str(damage), why=damage, store=self.path)
        self._tell_answer(question, damage)

    def _answer_later(self, question: Read | Seek, since: float, error: BaseException) -> None:
        """Keep a question that the disk does not answer now; its reader gets the error when it has waited long.

        If SQLite then still calls the tables damaged, and the disk can read their files, they are damaged.
        """
        now = _machine.monotonic()
        reason = failure(f"store {self.path!r} cannot be read", error)
        if not is_lock(error) and str(reason) != self._unreadable:
            self._unreadable = str(reason)
            STORE_UNREADABLE.tell(self.path, why=reason, store=self.path)
        if is_lock(error) or now - since < question.retries_s:
            self._unread.append((since, question))
            self._unread_at = min(self._unread_at, now + (LOCKED_S if is_lock(error) else RETRY_S))
            return
        fault = self._room.unreadable() if says_damaged(error) else None
        if fault is not None:
            reason = failure(f"store {self.path!r} cannot be read", fault)
        elif says_damaged(error):
            self._tell_of_damage(question, self._tables.damaged(str(error)))
            return
        self._tell_answer(question, reason)

    def _tell_answer(self, question: Read | Seek, answer: Any) -> None:  # noqa: ANN401 - of the question
        tell: Callable[[Any], None] = question.answer
        self._finished.append(lambda: tell(answer))
        self._notify()

    def _tell(self, changed: list[Ledger], changes: list[Modification], error: StoreError | None) -> None:
        """Have the owner hear of changes that are through."""

        def tell() -> None:
            for ledger in changed:
                partition = self._partitions.get(ledger.name)
                if partition is not None:
                    partition.committed(ledger)
            for change in changes:
                if change.done is not None:
                    change.done(error)

        self._finished.append(tell)
        self._notify()


def _size_of(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return 0


def _create(directory: StoreDirectory) -> None:
    """Write the files of an empty store."""
    fresh = Path(f"{directory.tables}.new")
    for unfinished in (fresh, Path(f"{fresh}-wal"), Path(f"{fresh}-shm"), Path(f"{fresh}-journal")):
        unfinished.unlink(missing_ok=True)
    os.close(os.open(fresh, os.O_CREAT | os.O_EXCL, 0o600))  # SQLite gives its other files the same mode
    connection = disk.get().connect(fresh)
    try:
        connection.executescript(
            f"PRAGMA page_size = {PAGE_BYTES}; PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {VERSION};"
            f"PRAGMA synchronous = FULL; BEGIN; {SCHEMA} COMMIT;"
        )
        identity = _machine.fresh_uuid().bytes
        connection.execute("INSERT INTO store VALUES(?, 0, 0, ?)", (identity, account_checksum(identity, 0, 0)))
    finally:
        connection.close()
    fresh.rename(directory.tables)
    opened = os.open(directory.path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _connect(directory: StoreDirectory, *, secure_delete: bool) -> sqlite3.Connection:
    """Open the tables for writing."""
    connection = disk.get().connect(directory.tables, lock_wait_s=LOCK_S)
    try:
        for option in (
            "journal_mode = WAL",
            "wal_autocheckpoint = 0",
            "cache_size = -8192",
            f"journal_size_limit = {LOG_BYTES}",
            "synchronous = FULL",
            f"secure_delete = {'ON' if secure_delete else 'OFF'}",  # the default is that of who has built SQLite
        ):
            connection.execute(f"PRAGMA {option}").fetchall()
        with suppress(sqlite3.Error):  # a full disk may have no room for that; then it is done later
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        connection.execute("BEGIN IMMEDIATE")  # a place that cannot be written is found here
        connection.execute("UPDATE store SET commits = commits")
        connection.execute("ROLLBACK")
        connection.execute("PRAGMA busy_timeout = 0")  # the thread does other work while it waits
    except BaseException:
        connection.close()
        raise
    return connection
