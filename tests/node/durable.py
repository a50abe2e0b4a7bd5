"""A durable queue played by hand: its store runs, and `run` waits until it has done everything."""

from __future__ import annotations

import math
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from rstreams.errors import StoreError
from rstreams.message import decode_message, encode_item
from rstreams.node.competing import Competing, OneAfterTheOther
from rstreams.node.disk_storage import DEFAULT_IN_MEMORY, DiskStorage
from rstreams.node.durable_room import DurableRoom
from rstreams.node.limits import Limits, WhenFull
from rstreams.node.memory_storage import MemoryStorage
from rstreams.node.queue import Queue
from rstreams.node.storage import Storage
from rstreams.store import Chunk, Partition, Store
from rstreams.testing import ManualPublisher, ProbeSubscriber


class Bench:
    """A store with queues."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rung = threading.Event()
        self.store = Store(path, self.rung.set)
        self.queues: list[Queue] = []

    def queue(
        self,
        name: str = "q",
        *,
        capacity: int | None = 1024,
        capacity_bytes: int | None = None,
        in_memory: int = DEFAULT_IN_MEMORY,
        sync_s: float = 0.0,
        dedup_producers: int = 4096,
        when_full: WhenFull = "block",
        **options: Any,  # noqa: ANN401 - those of `Queue`
    ) -> Queue:
        partition = self.store.partition(f"queue/{name}")
        limits = Limits(capacity, capacity_bytes)
        storage = DiskStorage(partition, limits, in_memory=in_memory, sync_s=sync_s, dedup_producers=dedup_producers)
        queue = Queue(name, storage, when_full, **options)
        self.queues.append(queue)
        return queue

    def run(self) -> None:
        """Wait until the store has done everything, and what follows from it."""
        while True:
            through: list[StoreError | None] = []
            self.store.partition("barrier").delete((), through.append, sync_s=math.inf)  # nothing waits for the disk
            while not through:
                assert self.rung.wait(30)
                self.rung.clear()
                self.store.finish()
            if not any(map(_is_busy, self.queues)):
                return

    def read(self, partition: Partition) -> Chunk:
        """Return all messages of a partition as they are in the store."""
        answers: list[Chunk | StoreError] = []
        partition.read(0, answers.append, most_bytes=10**9)
        while not answers:
            assert self.rung.wait(30)
            self.rung.clear()
            self.store.finish()
        assert isinstance(answers[0], Chunk)
        return answers[0]

    def killed(self, path: Path) -> Bench:
        """Return the store as another process finds it, if this one is killed now."""
        shutil.copytree(self.path, path)
        return Bench(path)

    def close(self) -> None:
        self.store.close()
        self.store.finish()


KINDS: Final = ("in memory", "durable", "durable, little memory", "backlog in memory", "durable backlog")
"""The kinds of queues, by their storage."""


def of_kind(
    here: Bench,
    kind: str,
    when_full: WhenFull,
    items: int | None,
    size: int | None,
    *,
    name: str = "q",
    sync_s: float = 0.0,
    **options: Any,  # noqa: ANN401 - those of `Queue`
) -> Queue:
    """Return a queue of one of `KINDS`; a backlog is what a named subscription has."""
    storage: Storage
    if "durable" in kind:
        partition, in_memory = here.store.partition(f"queue/{name}"), 6 if "little" in kind else DEFAULT_IN_MEMORY
        storage = DiskStorage(partition, Limits(items, size), in_memory=in_memory, sync_s=sync_s)
    elif "backlog" in kind:
        storage = MemoryStorage(items, size, room=DurableRoom(Limits(), DEFAULT_IN_MEMORY))
    else:
        storage = MemoryStorage(items or 1000, size or 10**6)
    queue = Queue(name, storage, when_full, policy=OneAfterTheOther if "backlog" in kind else Competing, **options)
    here.queues.append(queue)
    return queue


def _is_busy(queue: Queue) -> bool:
    browsers = any(browser.reads for browser in queue.storage.browsers)
    return queue.storage.comes_later or browsers or queue.statistics().unsafe > 0


@contextmanager
def bench(path: Path) -> Iterator[Bench]:
    made = Bench(path)
    try:
        yield made
    finally:
        made.close()


def send(queue: Queue, *items: object) -> ManualPublisher[bytes]:
    link = ManualPublisher[bytes]()
    link.subscribe(queue.producer())
    link.next(*map(encode_item, items))
    link.complete()  # another producer gets its places
    return link


def consumer(queue: Queue, request: int) -> ProbeSubscriber[bytes]:
    probe = ProbeSubscriber[bytes](request, hold=True)
    queue.subscribe(probe)
    return probe


def bodies(probe: ProbeSubscriber[bytes]) -> list[Any]:
    return [decode_message(item).body for item in probe.items]


def check_laws(queue: Queue) -> None:
    now = queue.statistics()
    here = now.ready + now.delayed + now.unsettled + now.unsafe
    assert now.enqueued == here + now.accepted + now.rejected + now.exhausted + now.expired + now.dropped + now.purged
    assert now.delivered == now.unsettled + now.accepted + now.rejected + now.released + now.modified
    assert min(now.ready, now.delayed, now.unsettled, now.leaving, now.credit, now.on_disk, now.unsafe) >= 0
    assert here + now.leaving == queue._room.stored
    assert queue.tally().missing == 0
