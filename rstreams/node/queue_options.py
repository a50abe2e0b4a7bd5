"""The options of `Node.queue`: checked, and made into a queue of the right kind."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NoReturn, TypeAlias

from rstreams._checks.choices import require_choice, require_flag
from rstreams._checks.numbers import require_count, require_seconds
from rstreams.errors import ConfigError
from rstreams.node.address import Address, require_address_name, require_capacity
from rstreams.node.durable_intake import WhenFull
from rstreams.node.durable_queue import DEFAULT_IN_MEMORY, DurableQueue
from rstreams.node.limited_queue import LimitedQueue
from rstreams.node.memory_room import DEFAULT_CAPACITY_BYTES
from rstreams.node.queue import Queue
from rstreams.node.redelivery import RedeliveryDelay
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

    def make(self, name: str, dead_letters: Address | None, storage: Storage) -> Queue:
        """Return the queue.

        Errors: `ConfigError` that names the queue and the option, also if options contradict each other.
        """
        call = f"queue {require_address_name('queue', name)!r:.80}"
        require_choice(call, "when_full", self.when_full, WhenFull)
        sync_s = require_sync(call, self.fsync, self.fsync_interval_s)
        shared: dict[str, Any] = {
            "dead_letters": dead_letters,
            "max_deliveries": self.max_deliveries,
            "redelivery": self.redelivery,
            "expose_errors": self.expose_errors,
            "dedup_producers": self.dedup_producers,
        }
        if require_flag(call, "durable", self.durable):
            if self.capacity is not None:
                require_count(call, "capacity", self.capacity, 1, unit=" messages, or None")
            if self.capacity_bytes is not None:
                require_count(call, "capacity_bytes", self.capacity_bytes, 1, unit=" bytes, or None")
            if self.when_full != "block" and self.capacity is None and self.capacity_bytes is None:
                self._refuse(call, f"when_full={self.when_full!r}: the queue is never full without a capacity")
            return DurableQueue(
                name,
                storage.require(f"{call}: durable=True").partition(f"queue/{name}"),
                capacity=self.capacity,
                capacity_bytes=self.capacity_bytes,
                in_memory=require_count(call, "capacity_in_memory", self.capacity_in_memory, 1, unit=" messages"),
                sync_s=sync_s,
                when_full=self.when_full,
                **shared,
            )
        if self.capacity is None:
            self._refuse(call, "capacity=None: only a durable queue may have any number of messages")
        size = DEFAULT_CAPACITY_BYTES if self.capacity_bytes is None else self.capacity_bytes
        shared["capacity_bytes"] = require_count(call, "capacity_bytes", size, 1, unit=" bytes, or None")
        if self.capacity_in_memory != DEFAULT_IN_MEMORY:
            why = "all messages of a queue that is not durable are in memory; use capacity"
            self._refuse(call, f"capacity_in_memory={self.capacity_in_memory!r}: {why}")
        if self.fsync != "always":
            self._refuse(call, f"fsync={self.fsync!r}: only a durable queue is synced")
        if self.when_full == "block":
            return Queue(name, self.capacity, **shared)
        require_capacity("queue", name, self.capacity)
        return LimitedQueue(name, self.capacity, self.when_full, **shared)

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
