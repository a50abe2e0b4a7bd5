"""The disks of a simulation: the store of a node takes its turns in a task, and may lose what it has not synced."""

from __future__ import annotations

import math
import shutil
import sqlite3
import threading
from collections import deque
from pathlib import Path
from queue import Empty
from random import Random
from typing import Final, Protocol, cast

import trio

from rstreams.simulation.faulty_files import FilesOfDisk, forget_disk, open_tables
from rstreams.store.disk import Disk, Turns, Wish

_TURNS_S: Final = (0.004, 0.03)
"""The longest time that a turn of a store, a commit with its sync, takes: on a quick disk, and on a slow one."""


class DiskOwner(Protocol):
    """Has a disk during its life."""

    nursery: trio.Nursery | None
    is_over: bool


class TaskInbox:
    """What a store is asked for; it wakes the store's task."""

    def __init__(self) -> None:
        self._wishes: deque[Wish] = deque()
        self.bell = trio.Event()

    def put(self, item: Wish, /) -> None:
        """See `Inbox`."""
        self._wishes.append(item)
        self.bell.set()

    def get_nowait(self) -> Wish:
        """See `Inbox`."""
        if not self._wishes:
            raise Empty
        return self._wishes.popleft()

    def empty(self) -> bool:
        """See `Inbox`."""
        return not self._wishes


class StoreTask:
    """Takes the turns of a store in a task of the part that has made the store.

    Args:
        life: The life of the part.
        random: Draws how long a turn takes.
        turn_s: The longest time that it takes, in seconds.
    """

    def __init__(self, life: DiskOwner, random: Random, turn_s: float) -> None:
        self.inbox = TaskInbox()
        self._life = life
        self._random = random
        self._turn_s = turn_s
        self._wait_s: float | None = None

    def start(self, turns: Turns) -> None:
        """See `StoreWorker`."""
        self._turns = turns
        self._wait_s = next(turns, None)
        assert self._life.nursery is not None, "a store is made inside a program"
        self._life.nursery.start_soon(self._run)

    def wait_for(self, event: threading.Event) -> None:
        """See `StoreWorker`: the turns are taken here, at once."""
        while not event.is_set() and self._wait_s is not None:
            self._turn()

    def join(self) -> None:
        """See `StoreWorker`: as `wait_for`."""
        while self._wait_s is not None:
            self._turn()
        self.inbox.bell.set()

    async def _run(self) -> None:
        while self._wait_s is not None:
            if self.inbox.empty():
                self.inbox.bell = trio.Event()
                with trio.move_on_after(max(0.0, self._wait_s) if self._wait_s < math.inf else math.inf):
                    await self.inbox.bell.wait()
            await trio.sleep(self._turn_s * self._random.random())
            self._turn()

    def _turn(self) -> None:
        if self._life.is_over:
            self._turns.close()
            self._wait_s = None
        if self._wait_s is None:
            return
        try:
            self._wait_s = self._turns.send([])
        except StopIteration:
            self._wait_s = None


class MemoryDisk(Disk):
    """The disk of a part during one life.

    Args:
        life: The life.
        folder: The files; they are in memory.
        random: Draws how long things take, and what fails.

    Attributes:
        files: The layer below the tables.
    """

    def __init__(self, life: DiskOwner, folder: Path, random: Random) -> None:
        self.files = FilesOfDisk(random, trio.lowlevel.current_clock().current_time)
        self._life = life
        self._folder = folder
        self._random = random

    def connect(self, database: str | Path, *, lock_wait_s: float = 5.0) -> sqlite3.Connection:
        """See `Disk`."""
        return cast("sqlite3.Connection", open_tables(database, lock_wait_s, self._folder, self.files))

    def worker(self, name: str) -> StoreTask:  # noqa: ARG002 - it has no thread that would show it
        """See `Disk`."""
        return StoreTask(self._life, self._random, self._random.choice(_TURNS_S))

    def copy(self, target: Path, *, power: bool) -> None:
        """Copy the files as they are after a kill, or after a failure of the power."""
        if self._folder.exists():
            shutil.copytree(self._folder, target)
            if power:
                self.files.undo(target)
        forget_disk(self._folder)
