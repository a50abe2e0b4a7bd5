"""Unicast: pushed items go to one subscriber."""

from __future__ import annotations

from typing import Final, TypeVar

from rstreams._checks.numbers import require_count
from rstreams._checks.publishers import require_subscriber
from rstreams._core.subscription import subscribe_failed
from rstreams.abc import Subscriber
from rstreams.errors import RStreamsError
from rstreams.push._push_source import Pushed
from rstreams.push.emit_result import EmitResult

T = TypeVar("T")

_TAKEN: Final = (
    "Unicast takes one subscriber, and has had it. For several, also one after the other as with `retry` or `repeat` "
    "behind it, use Multicast or Replay; or share the stream: `Stream(unicast).share()`"
)


class Unicast(Pushed[T]):
    """A push source for one subscriber; items wait for it, and for its demand.

    Like Reactor's `Sinks.many().unicast()`, but bounded.

    Args:
        capacity: The most items that wait; with 0 an item is taken only if there is demand.

    Results: OVERFLOW while there is no demand and `capacity` items wait; CANCELLED once the subscriber has left;
        TERMINATED after the end.
    Errors: `ConfigError` at the call if `capacity` is negative. A second subscriber gets an `RStreamsError`. A pushed
        error comes behind the items that wait.
    Spec: Reactive Streams 1.1, 1.3, 1.11.
    """

    def __init__(self, capacity: int = 256) -> None:
        require_count("Unicast", "capacity", capacity, 0)
        super().__init__("Unicast", capacity, 0, waits=True)
        self._taken = False

    def subscribe(self, subscriber: Subscriber[T]) -> None:
        """Send all items to `subscriber`, if it is the first."""
        require_subscriber(subscriber)
        if self._taken:
            subscribe_failed(subscriber, RStreamsError(_TAKEN))
            return
        self._taken = True
        super().subscribe(subscriber)
        if not self._log.members:  # it cancelled at once
            self._changed()

    def _refusal(self) -> EmitResult | None:
        refusal = super()._refusal()
        if refusal is None and self._taken and not self._log.members and not self._log.joining:
            return EmitResult.CANCELLED
        return refusal
