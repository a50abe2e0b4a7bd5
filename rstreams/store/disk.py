"""The disk as a store meets it: how its tables are opened, and the thread that may wait for it.

A simulation brings a disk of its own: it sets `disk` where it makes a node.
"""

from __future__ import annotations

import math
import sqlite3
import threading
from collections.abc import Generator
from contextvars import ContextVar
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Final, Protocol, TypeAlias

from rstreams.store.changes import Change

Wish: TypeAlias = Change | threading.Event | None
"""A wish of a store's owner: a change or a question; an event, to be set after all earlier wishes; None: to close."""

Turns: TypeAlias = Generator[float, list[Wish], None]
"""The turns of a store. It yields how long it may wait, in seconds, and gets the wishes that have come."""


class Inbox(Protocol):
    """The wishes of a store's owner, in order."""

    def put(self, item: Wish, /) -> None:
        """Add a wish; any thread may call this."""
        ...

    def get_nowait(self) -> Wish:
        """Take the oldest wish.

        Errors: `Empty`.
        """
        ...

    def empty(self) -> bool:
        """Return whether there is none."""
        ...


class StoreWorker(Protocol):
    """Takes the turns of a store where it may wait for the disk."""

    @property
    def inbox(self) -> Inbox:
        """What waits for the next turn."""
        ...

    def start(self, turns: Turns) -> None:
        """Begin to take turns."""
        ...

    def wait_for(self, event: threading.Event) -> None:
        """Wait until a turn has set the event."""
        ...

    def join(self) -> None:
        """Wait until the turns are through."""
        ...


class StoreThread:
    """A thread of the store's own.

    Args:
        name: The thread's name.
    """

    def __init__(self, name: str) -> None:
        self.inbox: SimpleQueue[Wish] = SimpleQueue()
        self._name = name

    def start(self, turns: Turns) -> None:
        """See `StoreWorker`."""
        self._thread = threading.Thread(target=self._run, args=(turns,), name=self._name, daemon=True)
        self._thread.start()

    def wait_for(self, event: threading.Event) -> None:
        """See `StoreWorker`."""
        event.wait()

    def join(self) -> None:
        """See `StoreWorker`."""
        self._thread.join()

    def _run(self, turns: Turns) -> None:
        wait_s = next(turns, None)
        while wait_s is not None:
            try:
                came = [self.inbox.get(timeout=None if wait_s == math.inf else max(wait_s, 0.0))]
            except Empty:
                came = []
            try:
                wait_s = turns.send(came)
            except StopIteration:
                return


class Disk:
    """The disk of this machine."""

    def connect(self, database: str | Path, *, lock_wait_s: float = 5.0) -> sqlite3.Connection:
        """Open tables; no transaction begins unless the caller begins it.

        Args:
            database: The file, or a `file:` URI.
            lock_wait_s: How long a call waits while another program has locked them, in seconds.
        """
        return sqlite3.connect(database, lock_wait_s, isolation_level=None, uri=True, check_same_thread=False)

    def worker(self, name: str) -> StoreWorker:
        """Return who takes the turns of one store."""
        return StoreThread(name)


disk: Final[ContextVar[Disk]] = ContextVar("rstreams.store.disk", default=Disk())  # noqa: B039 - it has no state
