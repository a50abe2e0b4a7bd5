"""Subscriptions without items: what `empty`, `fail` and `never` have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Never

from rstreams._demand import demand_error
from rstreams._holds import NO_HOLD
from rstreams._subscription import require_subscriber
from rstreams.abc import Hold, Subscriber


class ItemlessPublisher:
    """A publisher that ends each subscription, by `end`, as soon as it is made; or never, if `end` is None."""

    __slots__ = ("_end",)

    def __init__(self, end: Callable[[Subscriber[Never]], None] | None) -> None:
        self._end = end

    def subscribe(self, subscriber: Subscriber[Never]) -> None:
        require_subscriber(subscriber)
        subscription = _Itemless(subscriber)
        subscriber.on_subscribe(subscription)
        if self._end is not None and subscription.end():
            self._end(subscriber)


class _Itemless:
    __slots__ = ("_ended", "_subscriber")

    def __init__(self, subscriber: Subscriber[Never]) -> None:
        self._subscriber = subscriber
        self._ended = False

    def end(self) -> bool:
        """End the subscription, and tell whether it had not ended before."""
        ended, self._ended = self._ended, True
        return not ended

    def request(self, n: int) -> None:
        error = demand_error(n)
        if error is not None and self.end():
            self._subscriber.on_error(error)  # 3.9

    def cancel(self) -> None:
        self._ended = True

    def hold(self) -> Hold:
        return NO_HOLD
