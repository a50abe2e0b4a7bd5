"""Multicast: pushed items go to all current subscribers."""

from __future__ import annotations

from typing import TypeVar

from rstreams._checks.numbers import require_count
from rstreams.push._push_source import Pushed
from rstreams.push.emit_result import EmitResult

T = TypeVar("T")


class Multicast(Pushed[T]):
    """A push source for many subscribers: each gets every item pushed after it came, at its own pace.

    Like Reactor's `Sinks.many().multicast()`: with a capacity like its `onBackpressureBuffer`, but no item waits before
    the first subscriber; with capacity 0 like its `directAllOrNothing`.

    Args:
        capacity: The most items by which a subscriber without demand may be behind; with 0 an item is taken only if all
            subscribers have demand.

    Results: The slowest subscriber decides: OVERFLOW while some subscriber has no demand and is `capacity` items
        behind; then no subscriber gets the item. NO_SUBSCRIBER while there is none. TERMINATED after the end.
    Errors: `ConfigError` at the call if `capacity` is negative. A pushed error comes behind the items that wait.
    Spec: Reactive Streams 1.1, 1.3, 1.11.
    """

    def __init__(self, capacity: int = 256) -> None:
        require_count("Multicast", "capacity", capacity, 0)
        super().__init__("Multicast", capacity, 0, waits=False)

    def _refusal(self) -> EmitResult | None:
        refusal = super()._refusal()
        return EmitResult.NO_SUBSCRIBER if refusal is None and not self._log.members else refusal
