"""Claims on the received messages: they end in the order in which the messages came, many in one call.

A link of rstreams keeps them as the runs in which the messages came. Any other subscription is asked for a hold on each
message.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from rstreams.abc import Hold, Subscription


class Claims(Protocol):
    """Claims on messages, the oldest first.

    Attributes:
        whole_runs: Whether all messages of a run are kept without a call of `keep`.
    """

    whole_runs: bool

    def keep(self) -> None:
        """Keep the message in `on_next`."""
        ...

    def done(self, items: int) -> None:
        """Accept so many messages, the oldest."""
        ...

    def release(self) -> None:
        """Give all messages back, also those that are still kept after this call."""
        ...


def claims_of(subscription: Subscription) -> Claims:
    """Return the claims on the messages that are to come."""
    gather: Callable[..., Any] | None = getattr(subscription, "gather", None)
    if gather is None:
        return _HoldEach(subscription)
    claims: Claims = gather(loose=False).in_order()
    return claims


class _HoldEach:
    def __init__(self, subscription: Subscription) -> None:
        self.whole_runs = False
        self._subscription = subscription
        self._holds: deque[Hold] = deque()

    def keep(self) -> None:
        self._holds.append(self._subscription.hold())

    def done(self, items: int) -> None:
        for _ in range(items):
            self._holds.popleft().done()

    def release(self) -> None:
        while self._holds:
            self._holds.popleft().release()
