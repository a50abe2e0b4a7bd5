"""Replay: pushed items go to all current subscribers, and the last items also to later ones."""

from __future__ import annotations

from typing import TypeVar

from rstreams._checks.numbers import require_count
from rstreams.push._push_source import Pushed

T = TypeVar("T")


class Replay(Pushed[T]):
    """A push source that starts each subscriber with the last `count` items, and sends it all later ones.

    Like Reactor's `Sinks.many().replay().limit(count)`, but also bounded for a slow subscriber.

    Args:
        count: How many items are kept for later subscribers; at least 1.
        capacity: The most items by which a subscriber without demand may be behind, besides those it started with.

    Results: The slowest subscriber decides: OVERFLOW while some subscriber has no demand and is `capacity` items
        behind; then no subscriber gets the item, and it is not kept. Without a subscriber items are kept, and the
        oldest make room. TERMINATED after the end.
    Errors: `ConfigError` at the call if `count` is less than 1 or `capacity` negative. A pushed error comes behind the
        kept items, also for later subscribers.
    Spec: Reactive Streams 1.1, 1.3, 1.11.
    """

    def __init__(self, count: int, *, capacity: int = 256) -> None:
        require_count("Replay", "count", count, 1)
        require_count("Replay", "capacity", capacity, 0)
        super().__init__("Replay", capacity + count, count, waits=False)
