"""The options of `Node.queue`: checked, and made into a queue of the right kind."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NoReturn, TypeAlias

from rstreams._checks.choices import require_choice, require_flag
from rstreams._checks.numbers import require_count, require_seconds
from rstreams.errors import ConfigError
from rstreams.node.address import Address, require_address_name, require_capacity
from rstreams.node.disk_storage import DEFAULT_IN_MEMORY, DiskStorage
from rstreams.node.limits import Limits, WhenFull
from rstreams.node.memory_room import DEFAULT_CAPACITY_BYTES
from rstreams.node.memory_storage import MemoryStorage
from rstreams.node.node_store import NodeStore
from rstreams.node.queue import Queue
from rstreams.node.redelivery import Attempts, RedeliveryDelay
from rstreams.node.storage import Storage

Fsync: TypeAlias = Literal["always", "interval", "never"]
"""When the messages of an address are synced to the disk."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueOptions:
    """The options of a queue; see `Node.queue`."""

    capacity: int | None
    capacity_bytes: int | None
    capacity_in_memory: int
    when_full: WhenFull
    durable: bool
    fsync: Fsync
    fsync_interval_s: float
    max_deliveries: int | None
    redelivery: RedeliveryDelay
    expose_errors: bool
    dedup_producers: int

    def make(self, name: str, dead_letters: Address | None, store: NodeStore) -> Queue:
        """Return the queue.

        Errors: `ConfigError` that names the queue and the option, also if options contradict each other.
        """
        call = f"queue {require_address_name('queue', name)!r:.80}"
        require_choice(call, "when_full", self.when_full, WhenFull)
        sync_s = require_sync(call, self.fsync, self.fsync_interval_s)
        if require_flag(call, "durable", self.durable):
            stored: Storage = self._on_disk(call, name, store, sync_s)
        else:
            stored = self._in_memory(call, name)
        attempts = Attempts(
            max_deliveries=self.max_deliveries, redelivery=self.redelivery, expose_errors=self.expose_errors
        )
        return Queue(name, stored, self.when_full, dead_letters=dead_letters, attempts=attempts)

    def _on_disk(self, call: str, name: str, store: NodeStore, sync_s: float) -> DiskStorage:
        if self.capacity is not None:
            require_count(call, "capacity", self.capacity, 1, unit=" messages, or None")
        if self.capacity_bytes is not None:
            require_count(call, "capacity_bytes", self.capacity_bytes, 1, unit=" bytes, or None")
        if self.when_full != "block" and self.capacity is None and self.capacity_bytes is None:
            self._refuse(call, f"when_full={self.when_full!r}: the queue is never full without a capacity")
        return DiskStorage(
            store.require(f"{call}: durable=True").partition(f"queue/{name}"),
            Limits(self.capacity, self.capacity_bytes),
            in_memory=require_count(call, "capacity_in_memory", self.capacity_in_memory, 1, unit=" messages"),
            sync_s=sync_s,
            dedup_producers=self.dedup_producers,
        )

    def _in_memory(self, call: str, name: str) -> MemoryStorage:
        if self.capacity is None:
            self._refuse(call, "capacity=None: only a durable queue may have any number of messages")
        size = DEFAULT_CAPACITY_BYTES if self.capacity_bytes is None else self.capacity_bytes
        require_count(call, "capacity_bytes", size, 1, unit=" bytes, or None")
        if self.capacity_in_memory != DEFAULT_IN_MEMORY:
            why = "all messages of a queue that is not durable are in memory; use capacity"
            self._refuse(call, f"capacity_in_memory={self.capacity_in_memory!r}: {why}")
        if self.fsync != "always":
            self._refuse(call, f"fsync={self.fsync!r}: only a durable queue is synced")
        return MemoryStorage(require_capacity("queue", name, self.capacity), size, self.dedup_producers)

    def _refuse(self, call: str, text: str) -> NoReturn:
        msg = f"{call}: {text}"
        raise ConfigError(msg)


def require_sync(call: str, fsync: Fsync, fsync_interval_s: float) -> float:
    """Return after how many seconds at most messages are synced, as `Partition.append` takes it.

    Errors: `ConfigError` for another word, or a time that is not allowed.
    """
    require_choice(call, "fsync", fsync, Fsync)
    require_seconds(call, "fsync_interval_s", fsync_interval_s)
    return {"always": 0.0, "interval": float(fsync_interval_s), "never": math.inf}[fsync]


def find_dead_letters(addresses: Mapping[str, Address], name: str, dead_letters: str | None) -> Address | None:
    """Return the address for the dead letters of the queue `name`; None if it has none.

    Errors: `ConfigError` if it is not one of `addresses` that takes dead letters.
    """
    if dead_letters is None:
        return None
    address = addresses.get(dead_letters) if isinstance(dead_letters, str) else None
    if address is not None and address.takes_dead_letters and dead_letters != name:
        return address
    why = "it cannot be the queue itself" if dead_letters == name else "it must be a queue made before this one"
    msg = f"queue {name!r:.80}: dead_letters={dead_letters!r:.80}: {why}"
    raise ConfigError(msg)
