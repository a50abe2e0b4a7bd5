"""A store in a test's thread: it waits for each answer."""

import errno
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rstreams.errors import StoreError
from rstreams.store import Chunk, Cut, Partition, Store


class Waiting:
    """Waits for the functions that a store calls."""

    def __init__(self) -> None:
        self.rung = threading.Event()

    def call(self, store: Store, function: Callable[..., Any]) -> Any:  # noqa: ANN401
        """Call `function` with a callback; return the argument of the callback."""
        got: list[Any] = []
        function(got.append)
        while not got:
            assert self.rung.wait(30)
            self.rung.clear()
            store.finish()
        return got[0]


def make_full(store: Store, pages: int | None) -> None:
    """Have the disk have room for so many more pages of the tables; None: for any number.

    The store's thread must have nothing to do.
    """
    tables, room = store._tables, store._room
    vars(room).pop("lack", None)
    tables._cover = room.cover
    if pages is None:
        return
    [(before,)] = tables.connection.execute("PRAGMA page_count").fetchall()
    error = OSError(errno.ENOSPC, "No space left on device")

    def cover(wanted: int, free_pages: Callable[[], int] | None) -> None:
        if wanted > before + pages:
            raise error
        room.cover(wanted, free_pages)

    tables._cover = cover
    vars(room)["lack"] = lambda _: error


class Used:
    """A store, with calls that wait."""

    def __init__(self, path: Path) -> None:
        self._waiting = Waiting()
        self.store = Store(path, self._waiting.rung.set)

    def partition(self, name: str = "q") -> Partition:
        return self.store.partition(name)

    def wait(self, function: Callable[..., Any]) -> Any:  # noqa: ANN401
        """Call `function(done)`; return what `done` gets."""
        return self._waiting.call(self.store, function)

    def append(self, messages: list[bytes], name: str = "q", *, sync_s: float = 0.0) -> None:
        error = self.wait(lambda done: self.partition(name).append(messages, done, sync_s=sync_s))
        assert error is None, error

    def delete(self, positions: Any, name: str = "q") -> None:  # noqa: ANN401
        error = self.wait(lambda done: self.partition(name).delete(positions, done))
        assert error is None, error

    def read(self, position: int = 0, name: str = "q", most_bytes: int = 256 * 1024, cut: Cut | None = None) -> Chunk:
        chunk = self.wait(lambda answer: self.partition(name).read(position, answer, most_bytes=most_bytes, cut=cut))
        if isinstance(chunk, StoreError):
            raise chunk
        assert isinstance(chunk, Chunk)
        return chunk

    def all(self, name: str = "q", most_bytes: int = 256 * 1024) -> list[tuple[int, bytes]]:
        """Read everything, chunk by chunk."""
        found: list[tuple[int, bytes]] = []
        position = 0
        while True:
            chunk = self.read(position, name, most_bytes)
            found.extend(chunk)
            if chunk.following <= position:
                return found
            position = chunk.following


@contextmanager
def opened(path: Path) -> Iterator[Used]:
    used = Used(path)
    try:
        yield used
    finally:
        used.store.close()
        used.store.finish()
