"""A store without a node: what the disk and the store's thread allow."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Semaphore

from benchmarks._processes import Counter, Figures, Load, Timer, idle
from rstreams.errors import StoreError
from rstreams.store import Chunk, Partition, Store

__all__ = ["append", "idle", "opened_store", "read"]

_RUN = 64
"""The messages that are appended together."""

_WINDOW = 32
"""The runs on their way to the disk."""


def append(load: Load) -> Figures:
    """Append the items, and wait until all of them are safe."""
    with opened_store() as (store, bell):
        timer = Timer(load)
        _append(load, store, bell)
        return timer.figures()


def read(load: Load) -> Figures:
    """Read the items, a chunk at a time, after they have been appended."""
    counter = Counter(load)
    with opened_store() as (store, bell):
        partition = _append(load, store, bell)
        chunks: list[Chunk | StoreError] = []
        position = 0
        while position < load.items:
            partition.read(position, chunks.append)
            while not chunks:
                bell.acquire()
                store.finish()
            chunk = chunks.pop()
            assert isinstance(chunk, Chunk), chunk
            for _, message in chunk:
                counter(message)
            position = chunk.following
    return counter.figures()


def _append(load: Load, store: Store, bell: Semaphore) -> Partition:
    partition = store.partition("items")
    safe: list[StoreError | None] = []
    run = [load.item] * _RUN
    while partition.next < load.items:
        partition.append(run[: load.items - partition.next], safe.append)
        while partition.next > _RUN * (len(safe) + _WINDOW):
            bell.acquire()
            store.finish()
    store.flush()
    store.finish()
    assert not any(safe)
    return partition


@contextmanager
def opened_store() -> Iterator[tuple[Store, Semaphore]]:
    """Open an empty store; the semaphore is released when `Store.finish` has something to do."""
    bell = Semaphore(0)
    with tempfile.TemporaryDirectory(prefix="rstreams-bench-") as folder:
        store = Store(f"{folder}/store", bell.release)
        try:
            yield store, bell
        finally:
            store.close()
