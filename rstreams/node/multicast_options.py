"""The options of `Node.multicast`: checked, and made into a multicast."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NoReturn

from rstreams._checks.choices import require_choice, require_flag
from rstreams._checks.numbers import require_count
from rstreams.errors import ConfigError
from rstreams.node.address import require_address_name
from rstreams.node.memory_room import DEFAULT_CAPACITY_BYTES
from rstreams.node.multicast import MulticastAddress
from rstreams.node.named_subscriptions import BacklogOptions, DropWhenFull
from rstreams.node.node_store import NodeStore
from rstreams.node.queue_options import Fsync, require_sync

MAX_SUBSCRIPTIONS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class MulticastOptions:
    """The options of a multicast; see `Node.multicast`."""

    overflow: Literal["block", "drop_oldest"]
    capacity: int
    capacity_bytes: int
    durable: bool
    backlog: int | None
    backlog_bytes: int | None
    when_full: DropWhenFull
    max_subscriptions: int
    fsync: Fsync
    fsync_interval_s: float

    def make(self, name: str, store: NodeStore) -> MulticastAddress:
        """Return the multicast.

        Errors: `ConfigError` that names the multicast and the option, also if options contradict each other.
        """
        call = f"multicast {require_address_name('multicast', name)!r:.80}"
        require_choice(call, "when_full", self.when_full, DropWhenFull)
        require_count(call, "max_subscriptions", self.max_subscriptions, 1, MAX_SUBSCRIPTIONS, unit="")
        for option, value, unit in (
            ("backlog", self.backlog, " items, or None"),
            ("backlog_bytes", self.backlog_bytes, " bytes, or None"),
        ):
            if value is not None:
                require_count(call, option, value, 1, unit=unit)
        sync_s = require_sync(call, self.fsync, self.fsync_interval_s)
        require_count(call, "capacity_bytes", self.capacity_bytes, 1, unit=" bytes")
        durable = require_flag(call, "durable", self.durable)
        kept = store.require(f"{call}: durable=True") if durable else None
        if not durable and self.backlog is None and self.backlog_bytes is None:
            self._refuse(call, "backlog=None: only a durable multicast may keep any number of items")
        if not durable and self.fsync != "always":
            self._refuse(call, f"fsync={self.fsync!r}: only a durable multicast is synced")
        backlogs = BacklogOptions(
            items=self.backlog,
            size=DEFAULT_CAPACITY_BYTES if self.backlog_bytes is None and not durable else self.backlog_bytes,
            when_full=self.when_full,
            most=self.max_subscriptions,
            store=kept,
            sync_s=sync_s,
        )
        return MulticastAddress(name, self.overflow, self.capacity, backlogs, self.capacity_bytes)

    def _refuse(self, call: str, text: str) -> NoReturn:
        msg = f"{call}: {text}"
        raise ConfigError(msg)
