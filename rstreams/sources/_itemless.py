"""Subscriptions without items: the base of `empty`, `fail` and `never`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Never

from rstreams._checks.publishers import require_subscriber
from rstreams._core.claims import NO_HOLD
from rstreams._core.demand import demand_error
from rstreams._core.sight import Counts, Scannable, Waits, Watched, Way
from rstreams._core.threads import get_ident, refuse_thread
from rstreams.abc import Hold, Subscriber


class ItemlessPublisher(Watched):
    """A publisher that ends each subscription, by `end`, as soon as it is made; or never, if `end` is None."""

    __slots__ = ("_end",)

    def __init__(self, end: Callable[[Subscriber[Never]], None] | None) -> None:
        super().__init__()
        self._end = end

    def subscribe(self, subscriber: Subscriber[Never]) -> None:
        require_subscriber(subscriber)
        subscription = _Itemless(subscriber)
        self._begins(subscription)
        subscriber.on_subscribe(subscription)
        if self._end is not None and subscription.end():
            self._end(subscriber)


class _Itemless(Scannable):
    __slots__ = ("__weakref__", "_requested", "_subscriber", "_thread", "ended")

    operator = "never"  # the others end before `explain` could show them

    def __init__(self, subscriber: Subscriber[Never]) -> None:
        self._subscriber = subscriber
        self._requested = 0
        self.ended = False
        self._thread = get_ident()

    def end(self) -> bool:
        """End the subscription, and tell whether it had not ended before."""
        ended, self.ended = self.ended, True
        return not ended

    def request(self, n: int) -> None:
        if get_ident() != self._thread:
            refuse_thread(f"request({n})", self._thread)
        error = demand_error(n)
        if error is None:
            self._requested += n
        elif self.end():
            self._subscriber.on_error(error)  # 3.9

    def cancel(self) -> None:
        if get_ident() != self._thread:
            refuse_thread("cancel()", self._thread)
        self.ended = True

    @property
    def downstream(self) -> object:
        """The subscriber."""
        return self._subscriber

    def counts(self) -> Counts:
        """Return the number of requested items; no item is ever delivered."""
        return Counts(self._requested, 0)

    def waits_to(self, way: Way) -> Waits:  # noqa: ARG002 - the answer is the same for every way
        """Return that nothing makes it do anything."""
        return []

    def hold(self) -> Hold:
        return NO_HOLD
