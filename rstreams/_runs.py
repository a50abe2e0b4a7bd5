"""What can be seen of a pipeline while it runs: the counts of a subscription, and the subscriptions of a publisher.

A publisher remembers its runs by weak references, a subscription tells its counts when it is asked for them. Both cost
nothing while items flow.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol, runtime_checkable
from weakref import ref

from rstreams._demand import UNBOUNDED
from rstreams.abc import Subscription

_MANY: Final = 16

_SUBSCRIBER: Final = ("_downstream", "_subscriber", "subscriber")
"""Where a subscription has its subscriber."""


@dataclass(frozen=True, slots=True)
class Counts:
    """What has gone through a subscription, in items.

    Attributes:
        requested: How many its subscriber has asked for; `UNBOUNDED` or more is as many as there are.
        delivered: How many its subscriber has received.
        buffered: How many are kept here, waiting for demand or for others.
    """

    requested: int
    delivered: int
    buffered: int = 0

    @property
    def outstanding(self) -> int:
        """Return how many were requested and not delivered."""
        return UNBOUNDED if self.requested >= UNBOUNDED else self.requested - self.delivered


@runtime_checkable
class Counted(Protocol):
    """A subscription that can tell its counts."""

    def counts(self) -> Counts:
        """Return them as they are now; in the middle of a run of items, as they were at its begin."""
        ...


def counts_of(subscription: Subscription) -> Counts | None:
    """Return the counts of a subscription, or None if it has none to tell."""
    return subscription.counts() if isinstance(subscription, Counted) else None


def stall_of(subscription: Subscription) -> str:
    """Return what the subscriber of `subscription` waits for, as it says itself; empty if it says nothing.

    A stage that has had all it asked for waits for its own subscriber: that one is asked then.
    """
    subscriber: Any = subscription
    while subscriber is not None:
        subscriber = next((found for name in _SUBSCRIBER if (found := getattr(subscriber, name, None))), None)
        stall: Callable[[], str] | None = getattr(subscriber, "stall", None)
        if stall is not None:
            return stall()
        if not isinstance(subscriber, Counted) or subscriber.counts().outstanding:
            return ""
    return ""


class Watched:
    """A publisher that knows its runs."""

    __slots__ = ("_runs",)

    def __init__(self) -> None:
        self._runs: list[ref[Any]] = []

    def runs(self) -> list[Any]:
        """Return the subscriptions that have not been forgotten by all who had to do with them; some may have ended."""
        return [subscription for run in self._runs if (subscription := run()) is not None]

    def _begins(self, subscription: object) -> None:
        """Remember a subscription for as long as it lives."""
        runs = self._runs
        if len(runs) >= _MANY and not len(runs) & (len(runs) - 1):  # at 16, 32, 64...
            runs[:] = [run for run in runs if run() is not None]
        runs.append(ref(subscription))
