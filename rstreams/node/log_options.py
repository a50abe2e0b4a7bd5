"""The options of `Node.log` and `Node.latest`: checked, and made into a log and the addresses of its partitions."""

from __future__ import annotations

from dataclasses import dataclass

from rstreams._checks.choices import require_flag
from rstreams._checks.numbers import require_count, require_seconds
from rstreams.errors import ConfigError
from rstreams.net.dialects import Offset
from rstreams.node.address import Address, require_address_name
from rstreams.node.log import LogAddress, LogPartitionAddress
from rstreams.node.log_keys import Key
from rstreams.node.log_partition import Retention
from rstreams.node.memory_partition import AnyPartition, MemoryPartition
from rstreams.node.node_store import NodeStore
from rstreams.node.queue_options import Fsync, require_sync
from rstreams.store import Store

MAX_PARTITIONS = 4096
"""The most partitions of a log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOptions:
    """The options of a log; see `Node.log`."""

    partitions: int
    key: Key
    retention_s: float | None
    retention_bytes: int | None
    retention_items: int | None
    compact: bool
    tombstones_s: float
    fsync: Fsync
    fsync_interval_s: float
    start: Offset

    def make(self, name: str, store: NodeStore) -> tuple[LogAddress, list[Address]]:
        """Return the log, and the addresses of its partitions if it has several.

        Errors: `ConfigError` that names the log and the option.
        """
        call = f"log {require_address_name('log', name)!r:.80}"
        partitions = require_count(call, "partitions", self.partitions, 1, MAX_PARTITIONS, unit=" partitions")
        stored = 0 if store.store is None else partitions_in(store.store, name)
        if stored > partitions:
            msg = f"{call}: partitions={partitions}: the log in the store has {stored} partitions, and cannot get fewer"
            raise ConfigError(msg)
        sync_s = require_sync(call, self.fsync, self.fsync_interval_s)
        if self.retention_s is not None:
            require_seconds(call, "retention_s", self.retention_s)
        for option, value, unit in (
            ("retention_bytes", self.retention_bytes, " bytes, or None"),
            ("retention_items", self.retention_items, " messages, or None"),
        ):
            if value is not None:
                require_count(call, option, value, 1, unit=unit)
        require_seconds(call, "tombstones_s", self.tombstones_s)
        compact = require_flag(call, "compact", self.compact)
        if store.store is None and not compact and self.retention_bytes is None and self.retention_items is None:
            why = "without a store the log is in memory, and needs retention_items or retention_bytes"
            msg = f"{call}: {why}; or use Node(store=PATH)"
            raise ConfigError(msg)
        log = LogAddress(
            name,
            [self._kept(name, number, store) for number in range(partitions)],
            key=self.key,
            retention=Retention(self.retention_s, self.retention_bytes, self.retention_items),
            compact=compact,
            tombstones_s=self.tombstones_s,
            start=self.start,
            sync_s=sync_s,
        )
        parts: list[Address] = [LogPartitionAddress(log, number) for number in range(partitions)]
        return log, parts if partitions > 1 else []

    def _kept(self, name: str, number: int, store: NodeStore) -> AnyPartition:
        return MemoryPartition() if store.store is None else store.store.partition(f"{_prefix(name)}{number}")


def _prefix(name: str) -> str:
    return f"log/{name}/"


def partitions_in(store: Store, name: str) -> int:
    """Return how many partitions of a log are in a store: one more than the highest number."""
    prefix = _prefix(name)
    numbers = (each.removeprefix(prefix) for each in store.names if each.startswith(prefix))
    return max((int(number) + 1 for number in numbers if number.isdecimal()), default=0)
