"""The commits of a store: what cannot be written now is refused, or kept and written later.

Theory of operation. All changes that wait make one commit. If that fails, for instance because the disk is full:

    messages that are appended    are refused, and their producers hear of it
    everything else               is kept, and is in the next commits until one of them succeeds: after `RETRY_S`, with
                                  the next changes, and at the close

Before anything is refused, the log is moved into the tables, so that its room can be used again, and the commit is
tried once more. Then the changes that may not be refused are tried alone. `disk_room` says why they find room.

If another program has locked the tables, nothing is refused: everything waits until the lock is let go.

A sync that failed may have lost what was written before it, although the next one succeeds. Therefore no further
commit is made before the whole log has been written anew, into the tables.
"""

from __future__ import annotations

import math
import sqlite3
import time
from collections.abc import Callable
from typing import Final, Protocol

from rstreams import _machine
from rstreams._events.table import (
    STORE_GIVEN_UP,
    STORE_LOCKED,
    STORE_SLOW_SYNC,
    STORE_UNLOCKED,
    STORE_UNWRITABLE,
    STORE_WRITABLE_AGAIN,
)
from rstreams.errors import StoreError
from rstreams.store.changes import Delete, Modification
from rstreams.store.disk_room import DiskRoom
from rstreams.store.failures import PASSING, StoreFull, failure, is_lock, is_of_disk, is_of_sync
from rstreams.store.kept_changes import KeptChanges
from rstreams.store.ledger import Ledger
from rstreams.store.sync_times import SyncClock
from rstreams.store.tables import Tables

LOG_BYTES: Final = 16 * 1024 * 1024
"""The size of SQLite's log (`store.db-wal`) from which it is moved into the tables, when nothing waits."""

_MOST_LOG_BYTES: Final = 64 * 1024 * 1024
"""The size from which the log is moved even if something waits."""

RETRY_S: Final = 1.0
"""The time after which a commit, a sync or a read is tried again."""

LOCKED_S: Final = 0.05
"""The same if another program has locked the tables."""

_ROOM_PAGES: Final = 128
"""The room that there must be before the trouble of a full disk counts as over, in pages."""

SLOW_S: Final = 1.0
"""How long a commit that is synced takes that the log tells of."""

_LOCK_TOLD_AFTER_S: Final = 1.0
"""How long another program may lock the tables before the program's log tells of it, in seconds."""

_CLOSE_S: Final = 10.0
"""The longest time that a close waits for a lock."""


class TellsChanges(Protocol):
    """Has the owner hear of changes that are through."""

    def __call__(self, changed: list[Ledger], changes: list[Modification], error: StoreError | None) -> None:
        """Tell of accounts that have changed, and of changes; `error` is why they were not made."""
        ...


class Writer:
    """Makes the commits of a store.

    Args:
        path: The store, for messages.
        tables: Its tables.
        room: Its room on the disk.
        mark: Called with the number of commits when they have been synced.
        tell: Has the owner hear of changes that are through.

    Attributes:
        trouble: Why it cannot be written now; None while it can.
        syncs: How long commits took that were synced.
        errors: How often the disk has failed.

    Context: The store's thread.
    """

    def __init__(
        self,
        path: str,
        tables: Tables,
        room: DiskRoom,
        *,
        mark: Callable[[int], None],
        tell: TellsChanges,
    ) -> None:
        self._path = path
        self._what = f"store {path!r}"
        self._tables = tables
        self._room = room
        self._mark = mark
        self._tell = tell
        self._kept = KeptChanges()
        self._sync_at = self._retry_at = math.inf
        self._locked_at = math.inf
        self._told_of_lock = False
        self._unsure = False  # whether a sync has failed
        self._has_refused = False  # whether a chain may be broken
        self.trouble: StoreError | None = None
        self._troubled_at = 0.0
        self.syncs = SyncClock()
        self.errors = 0
        self._end_trouble()

    @property
    def due(self) -> float:
        """When `write` is to be called, also without changes; by `_machine.monotonic`."""
        return min(self._sync_at, self._retry_at)

    def write(self, changes: list[Modification], *, is_idle: bool = True) -> None:
        """Make commits of changes, and of those that were kept.

        Args:
            changes: The changes.
            is_idle: Whether nothing else waits, so that there is time to move the log into the tables.
        """
        work = [*self._kept.take(), *changes]
        try:
            self._write(work, is_idle=is_idle)
        except BaseException:
            self._kept.add_all(work)
            raise

    def give_up(self, reason: StoreError) -> None:
        """Refuse what is kept."""
        self._refuse(self._kept.take(), reason)

    def _write(self, work: list[Modification], *, is_idle: bool) -> None:
        now = _machine.monotonic()
        error = self._commit_unbroken(work)
        if error is None:
            self._succeeded(now, is_idle=is_idle)
        elif is_lock(error):
            self._kept.add_all(work)
            self._wait_for_lock(now, error)
        elif now < self._retry_at < math.inf and is_of_disk(error) and not self._room.log_bytes:
            self._kept.add(self._turn_away(work, self._note(error)))  # all means were tried just now
        else:
            self._try_apart(work, error)

    def close(self) -> None:
        """Write what is kept. What cannot be written is refused, and logged."""
        end = _machine.monotonic() + _CLOSE_S
        while self._kept:
            self._retry_at = -math.inf
            self.write([])
            if self._locked_at == math.inf or _machine.monotonic() >= end:
                break
            time.sleep(LOCKED_S)  # this is the store's own thread, and SQLite does not tell when a lock is gone
        left = self._kept.take()
        if left:
            reason = self.trouble or StoreError(
                f"{self._what} cannot be written: another program has locked its tables"
            )
            STORE_GIVEN_UP.tell(self._path, why=reason, count=len(left), store=self._path)
            self._refuse(left, reason)

    # commits

    def _commit_unbroken(self, work: list[Modification]) -> BaseException | None:
        """Make commits of changes, and refuse those of broken chains, in their order; take out those that are through.

        Returns: Why some could not be made; None if all are through.
        """
        if not self._has_refused or not work:
            return self._commit(work)
        while work:
            broken = _is_broken(work[0])
            end = next((at for at, each in enumerate(work) if _is_broken(each) is not broken), len(work))
            run = work[:end]
            error = None
            if broken:
                for change in run:
                    assert change.chain is not None, "it is broken"
                    self._refuse([change], change.chain.error)
                run = []
            else:
                error = self._commit(run)
            work[:end] = run
            if error is not None:
                return error
        return None

    def _commit(self, work: list[Modification]) -> BaseException | None:
        """Make commits of changes until none is left over; see `_commit_unbroken`."""
        try:
            while True:
                if self._unsure:
                    self._write_log_anew()
                sync = any(not change.sync_s for change in work) or _machine.monotonic() >= self._sync_at
                sync_now, began = sync or self.trouble is not None, _machine.monotonic()
                unfinished, changed = self._tables.commit(work, sync=sync_now)
                if sync_now:
                    took_s = _machine.monotonic() - began
                    self.syncs.note(took_s)
                    if took_s >= SLOW_S:
                        STORE_SLOW_SYNC.tell(self._path, store=self._path, seconds=took_s)
                soon = min((change.sync_s for change in work), default=math.inf)
                self._sync_at = math.inf if sync else min(self._sync_at, _machine.monotonic() + soon)
                if sync:
                    self._set_mark()
                left = {id(change) for change in unfinished}
                through = [change for change in work if id(change) not in left]
                work[:] = unfinished
                self._tell(changed, through, None)
                if not unfinished:
                    return None
                self._move_log(_MOST_LOG_BYTES)
        except PASSING as error:
            self._unsure = self._unsure or is_of_sync(error)
            return error.with_traceback(None)  # it would keep cursors open

    def _set_mark(self) -> None:
        try:
            self._mark(self._tables.commits)
        except OSError as error:  # what is synced is safe without it; it is set with a later sync
            self._note(error)
            self._sync_at = self._retry_at = _machine.monotonic() + RETRY_S

    def _try_apart(self, work: list[Modification], error: BaseException) -> None:
        """Try again with the whole room of the log, and then without what may be refused.

        If it is not the disk, the changes of one partition may be what cannot be made: each is tried by itself.
        """
        self._move_log(0)
        for group in [work] if is_of_disk(error) else _by_partition(work):
            still = self._commit_unbroken(group)
            if still is None:
                continue
            reason = self._note(still)
            lasting = self._turn_away(group, reason)
            if lasting and self._commit(lasting) is not None:
                self._kept.add(self._write_parts(lasting) if isinstance(reason, StoreFull) else lasting)
            self._try_later(RETRY_S)

    def _write_parts(self, lasting: list[Modification]) -> list[Modification]:
        """Make one change after the other, and large deletions in parts, as long as there is room; return the rest.

        A deletion may need as much of the log as the messages that it overwrites. Each part uses the log anew.
        """
        left = lasting[::-1]
        while left:
            change = left.pop()
            self._move_log(0)
            if self._commit([change]) is None:
                continue
            halves = change.halves() if isinstance(change, Delete) else None
            if halves is None:
                left.append(change)
                break
            left += reversed(halves)
        return left[::-1]

    def _turn_away(self, work: list[Modification], reason: StoreError) -> list[Modification]:
        """Refuse the changes that may be refused; return the other ones."""
        self._refuse([change for change in work if change.may_be_refused], reason)
        return [change for change in work if not change.may_be_refused]

    def _refuse(self, changes: list[Modification], reason: StoreError | None) -> None:
        self._has_refused = self._has_refused or bool(changes)
        for change in changes:
            if change.chain is not None and change.chain.error is None:
                change.chain.error = reason
        self._tell([], changes, reason)

    # SQLite's log

    def _move_log(self, most: int) -> None:
        """Move the log into the tables, if it has `most` bytes; if that cannot be done, it is tried again later."""
        try:
            if self._room.log_bytes >= most:
                self._tables.move_log()
                self._room.moved()
        except PASSING as error:
            self._unsure = self._unsure or is_of_sync(error)
            if not is_lock(error):
                self._note(error)
                self._retry_at = min(self._retry_at, _machine.monotonic() + RETRY_S)

    def _write_log_anew(self) -> None:
        """Move the whole log into the tables: a sync has failed, and the disk may not have what the log says.

        Errors: As `Tables.move_log`.
        """
        if self._tables.move_log():
            self._unsure = False
        self._room.moved()

    # the states

    def _note(self, error: BaseException) -> StoreError:
        """Note why it cannot be written; the log tells of each new reason once."""
        found = self._room.lack(1) if isinstance(error, sqlite3.Error) else None
        reason = failure(f"{self._what} cannot be written", error, found)
        self.errors += 1
        if self.trouble is None:
            self._troubled_at = _machine.monotonic()
        if self.trouble is None or str(self.trouble) != str(reason):
            STORE_UNWRITABLE.tell(self._path, why=reason, store=self._path)
            self.trouble = reason
        return reason

    def _succeeded(self, now: float, *, is_idle: bool) -> None:
        """Note that everything is written."""
        self._locked(math.inf)
        if self.trouble is None:
            self._retry_at = math.inf
        elif now >= self._retry_at:
            self._end_trouble()
        self._move_log(LOG_BYTES if is_idle else _MOST_LOG_BYTES)

    def _end_trouble(self) -> None:
        """Find whether there is room for new messages: on the disk, or in the tables."""
        self._retry_at = math.inf
        lack = self._room.lack(_ROOM_PAGES)
        if lack is not None and self._tables.free_pages() < _ROOM_PAGES:
            self._note(lack)
            self._try_later(RETRY_S)
        elif self.trouble is not None:
            seconds = _machine.monotonic() - self._troubled_at
            STORE_WRITABLE_AGAIN.tell(self._path, store=self._path, seconds=seconds)
            self.trouble = None

    def _try_later(self, delay_s: float) -> None:
        self._retry_at = _machine.monotonic() + delay_s
        if self._sync_at < math.inf:
            self._sync_at = max(self._sync_at, self._retry_at)

    def _wait_for_lock(self, now: float, error: BaseException) -> None:
        self._try_later(LOCKED_S)
        self._locked(min(self._locked_at, now))
        if now - self._locked_at >= _LOCK_TOLD_AFTER_S and not self._told_of_lock:
            self._told_of_lock = True
            reason = failure(f"{self._what} cannot be written", error)
            STORE_LOCKED.tell(self._path, why=reason, store=self._path)

    def _locked(self, since: float) -> None:
        """Note since when another program has locked the tables; infinity: none has."""
        self._locked_at = since
        if self._told_of_lock and since == math.inf:
            self._told_of_lock = False
            STORE_UNLOCKED.tell(self._path, store=self._path)


def _is_broken(change: Modification) -> bool:
    return change.chain is not None and change.chain.error is not None


def _by_partition(changes: list[Modification]) -> list[list[Modification]]:
    parts: dict[str, list[Modification]] = {}
    for change in changes:
        parts.setdefault(change.partition.name, []).append(change)
    return list(parts.values())
