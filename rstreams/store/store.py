"""The store: a directory with partitions, and the thread that owns its files."""

from __future__ import annotations

import logging
import math
import os
import sqlite3
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Final

from rstreams.errors import StoreError
from rstreams.store.changes import Append, Change, Delete, Modification, Note, Put, Read, Seek, Together
from rstreams.store.ledger import Ledger
from rstreams.store.partition import Partition
from rstreams.store.place import StorePlace
from rstreams.store.recovery import APPLICATION, VERSION, StoreState, recover
from rstreams.store.tables import SCHEMA, UNREADABLE, Tables, account_checksum

_COMMIT_BYTES: Final = 8 * 1024 * 1024
"""The size of a commit's messages at which it takes no further changes."""

_LOG_BYTES: Final = 16 * 1024 * 1024
"""The size of SQLite's log (`store.db-wal`) from which it is moved into the tables, when nothing waits."""

_MOST_LOG_BYTES: Final = 64 * 1024 * 1024
"""The size from which that is done even if something waits."""

_A_CHANGE: Final = 16 * 1024
"""What a commit adds to the log besides the messages, about."""

_RETRY_S: Final = 1.0
"""The time after which a sync is tried again that found the disk full."""

logger = logging.getLogger("rstreams.store")


class _Work:
    """What the thread does in one turn.

    Attributes:
        changes: What goes into the commit.
        questions: What is answered behind it.
        waiting: What is set behind that.
        size: The bytes of the messages.
        ends: Whether the store is to be closed.
    """

    def __init__(self) -> None:
        self.changes: list[Modification] = []
        self.questions: list[Read | Seek] = []
        self.waiting: list[threading.Event] = []
        self.size = 0
        self.ends = False

    def add(self, change: Change | threading.Event | None) -> bool:
        """Add one; return whether there is room for more."""
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

    Errors: `StoreError` if the store is used by another process, damaged, of another version, or cannot be written, or
        if the directory is not a store's. No file has been changed then.
    Context: The constructor, `flush` and `close` wait for the disk. The other methods do not; the owner calls them in
        one thread.
    """

    def __init__(self, path: str | os.PathLike[str], notify: Callable[[], None] = lambda: None) -> None:
        self.path = os.fspath(path)
        self._notify = notify
        self._place = StorePlace(path)
        try:
            if not self._place.tables.exists():
                _create(self._place)
            state = recover(self._place.path)
            self._tables = _open(self._place, state)
            self._place.begin_marks()
            self._place.mark(state.identity, state.commits)
        except sqlite3.Error as error:
            self._place.close()
            msg = f"store {self.path!r} cannot be used: {error}"
            raise StoreError(msg) from error
        except OSError as error:
            self._place.close()
            msg = f"store {self.path!r} cannot be used: {error.strerror or error}"
            raise StoreError(msg) from error
        except BaseException:
            self._place.close()
            raise
        self._identity = state.identity
        self._records = state.records
        self._partitions: dict[str, Partition] = {}
        self._known = dict(state.ledgers.items())
        self._inbox: SimpleQueue[Change | threading.Event | None] = SimpleQueue()
        self._finished: deque[Callable[[], None]] = deque()
        self._gathered: list[Append | Delete | Put | Note] | None = None
        self._sync_at = math.inf
        self._log_bytes = 0
        self._error: StoreError | None = None  # it cannot go on
        self._behind: deque[Modification] = deque()  # what is to be done in this turn behind the commit
        self._has_failed = False  # whether a chain may be broken
        self._closed = False
        self._thread = threading.Thread(target=self._run, name=f"rstreams store {self.path}", daemon=True)
        self._thread.start()

    @property
    def names(self) -> list[str]:
        """The names of the partitions that are in the store."""
        return sorted({*self._known, *self._partitions})

    @property
    def error(self) -> StoreError | None:
        """Why the store cannot go on; None while it can."""
        return self._error

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
        if self._gathered is not None and isinstance(change, Append | Delete | Put | Note):
            self._gathered.append(change)
        elif self._closed:
            self._refuse([change], StoreError(f"store {self.path!r} is closed"))
        else:
            self._inbox.put(change)

    @contextmanager
    def together(self) -> Iterator[Sequence[Modification]]:
        """Have the changes that are made in the block be in one commit, or in none; a part of `Partition`.

        Trims, shrinks and drops are not among them. The block must not wait, or have another one in it.
        """
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
            through.wait()
        return bool(self._finished)

    def close(self) -> None:
        """Carry out all changes, and close the files. The functions that are left are called by `finish` afterwards."""
        if not self._closed:
            self._closed = True
            self._inbox.put(None)
            self._thread.join()

    # the store's thread

    def _run(self) -> None:
        try:
            while self._turn():
                pass
        except BaseException:
            logger.exception("store %r: its thread has failed", self.path)
            self._error = StoreError(f"store {self.path!r} has failed; the log says how")
            self._refuse(self._waiting())
        finally:
            try:
                self._tables.connection.close()
            except sqlite3.Error:
                logger.exception("store %r: the tables cannot be closed", self.path)
            self._place.close()

    def _turn(self) -> bool:
        """Wait for changes and make one commit of them; return False at the end."""
        wait = self._sync_at - time.monotonic()
        try:
            change = self._inbox.get(timeout=None if wait == math.inf else max(wait, 0.0))
        except Empty:
            self._commit([], sync=True)
            return True
        batch = _Work()
        try:
            while batch.add(change):
                change = self._inbox.get_nowait()
        except Empty:
            pass
        self._log_bytes += batch.size
        if batch.changes:
            self._carry_out(batch.changes)
        for question in batch.questions:
            self._answer(question)
        for each in batch.waiting:
            each.set()
        return not batch.ends

    def _carry_out(self, changes: list[Modification]) -> None:
        """Commit changes, and refuse those of broken chains; their owner hears of all of them in their order."""
        sync = any(not change.sync_s for change in changes) or time.monotonic() >= self._sync_at
        if not self._has_failed:
            self._commit(changes, sync=sync)
            return
        behind = self._behind = deque(changes)
        while behind:
            change = behind[0]
            if change.chain is not None and change.chain.error is not None:
                self._refuse([behind.popleft()], change.chain.error)
                continue
            run = []
            while behind and (behind[0].chain is None or behind[0].chain.error is None):
                run.append(behind.popleft())
            self._commit(run, sync=sync)

    def _commit(self, changes: list[Modification], *, sync: bool) -> None:
        """Make commits of the changes, until none is left over."""
        if self._error is not None:
            self._refuse(changes)
            return
        left = changes
        try:
            while True:
                unfinished, changed = self._tables.commit(left, sync=sync)
                if sync:
                    self._place.mark(self._identity, self._tables.commits)
                    self._sync_at = math.inf
                else:
                    soon = min((change.sync_s for change in left), default=math.inf)
                    self._sync_at = min(self._sync_at, time.monotonic() + soon)
                remain = {id(change) for change in unfinished}
                self._tell(changed, [change for change in left if id(change) not in remain], None)
                left = unfinished
                self._log_bytes += _A_CHANGE * (1 + len(changed))
                self._checkpoint()
                if not unfinished:
                    return
        except Exception as error:
            failed = StoreError(f"store {self.path!r} cannot be written: {str(error) or type(error).__name__}")
            failed.__cause__ = error
            if getattr(error, "sqlite_errorcode", 0) & 0xFF != sqlite3.SQLITE_FULL:
                self._error = failed  # what the disk has then is not known
                self._sync_at = math.inf
            elif self._sync_at < math.inf:
                self._sync_at = time.monotonic() + _RETRY_S
            logger.error("%s", failed)  # noqa: TRY400 - the reason is in the text
            self._refuse([*left, *self._waiting()], failed)

    def _checkpoint(self) -> None:
        """Move SQLite's log into the tables, if it is large."""
        if self._log_bytes >= (_LOG_BYTES if self._inbox.empty() else _MOST_LOG_BYTES):
            self._log_bytes = 0
            self._tables.connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def _answer(self, question: Read | Seek) -> None:
        answer: Any
        name = question.partition.name
        try:
            if self._error is not None:
                answer = self._error
            elif isinstance(question, Read):
                answer = self._tables.read(name, question.position, question.most_bytes, question.cut)
            else:
                answer = self._tables.seek(name, question.time_s)
        except StoreError as error:
            logger.error("%s", error)  # noqa: TRY400 - the reason is in the text
            answer = error
        except UNREADABLE as error:
            answer = self._tables.damaged(str(error))
            logger.error("%s", answer)  # noqa: TRY400
        tell: Callable[[Any], None] = question.answer
        self._finished.append(lambda: tell(answer))
        self._notify()

    def _waiting(self) -> list[Change]:
        """Take out all changes that wait."""
        waiting: list[Change] = [*self._behind]
        self._behind.clear()
        try:
            while True:
                change = self._inbox.get_nowait()
                if change is None:
                    self._inbox.put(None)
                    return waiting
                if isinstance(change, threading.Event):
                    change.set()
                else:
                    waiting.append(change)
        except Empty:
            return waiting

    def _refuse(self, changes: Iterable[Change], error: StoreError | None = None) -> None:
        reason = error or self._error
        assert reason is not None, "there is a reason to refuse them"
        refused: list[Modification] = []
        for change in changes:
            if isinstance(change, Read | Seek):
                tell: Callable[[Any], None] = change.answer
                self._finished.append(lambda tell=tell: tell(reason))  # type: ignore[misc]
            else:
                refused.append(change)
                if change.chain is not None and change.chain.error is None:
                    change.chain.error = reason
        self._has_failed = True
        self._tell([], refused, reason)

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


def _create(place: StorePlace) -> None:
    """Write the files of an empty store."""
    fresh = Path(f"{place.tables}.new")
    for leftover in (fresh, Path(f"{fresh}-wal"), Path(f"{fresh}-shm"), Path(f"{fresh}-journal")):
        leftover.unlink(missing_ok=True)
    os.close(os.open(fresh, os.O_CREAT | os.O_EXCL, 0o600))  # SQLite gives its other files the same mode
    connection = sqlite3.connect(fresh, isolation_level=None)
    try:
        connection.executescript(
            f"PRAGMA page_size = 8192; PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {VERSION};"
            f"PRAGMA synchronous = FULL; BEGIN; {SCHEMA} COMMIT;"
        )
        identity = uuid.uuid4().bytes
        connection.execute("INSERT INTO store VALUES(?, 0, 0, ?)", (identity, account_checksum(identity, 0, 0)))
    finally:
        connection.close()
    fresh.rename(place.tables)
    directory = os.open(place.path, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _open(place: StorePlace, state: StoreState) -> Tables:
    """Open the tables for writing."""
    connection = sqlite3.connect(place.tables, isolation_level=None, check_same_thread=False)
    try:
        for option in (
            "journal_mode = WAL",
            "wal_autocheckpoint = 0",
            "cache_size = -8192",
            f"journal_size_limit = {_LOG_BYTES}",
            "synchronous = FULL",
            "wal_checkpoint(TRUNCATE)",  # what a killed process had not synced is synced now
        ):
            connection.execute(f"PRAGMA {option}").fetchall()
        connection.execute("BEGIN IMMEDIATE")  # a place that cannot be written is found here
        connection.execute("UPDATE store SET commits = commits")
        connection.execute("ROLLBACK")
    except BaseException:
        connection.close()
        raise
    return Tables(connection, str(place.path), state.identity, state.commits, dict(state.ledgers))
