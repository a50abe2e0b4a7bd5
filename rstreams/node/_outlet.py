"""The way of dead letters from one queue to another: a producer of the other while there are any."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol

from rstreams._core.demand import add_demand
from rstreams._core.holds import NO_HOLD
from rstreams.abc import Hold, Subscriber


class Takes(Protocol):
    """A queue that takes dead letters."""

    def producer(self) -> Subscriber[bytes]:
        """Return the subscriber for one producer."""
        ...


class Outlet:
    """Passes dead letters on as the other queue has room; until then they keep their places in their own.

    Args:
        queue: Where they go.
        on_gone: Called for each one that has arrived there.
    """

    def __init__(self, queue: Takes, on_gone: Callable[[], None]) -> None:
        self._queue = queue
        self._on_gone = on_gone
        self._producer: Subscriber[bytes] | None = None
        self._waiting: deque[bytes] = deque()
        self._demand = 0
        self._sending = False

    def put(self, encoded: bytes) -> None:
        """Pass on one dead letter, now or later."""
        self._waiting.append(encoded)
        if self._producer is None:
            self._demand = 0
            self._producer = self._queue.producer()
            self._producer.on_subscribe(self)
        else:
            self._send()

    # as the subscription of a producer

    def request(self, n: int) -> None:
        """There is room for `n` more."""
        self._demand = add_demand(self._demand, n)
        self._send()

    def cancel(self) -> None:
        """Never called: no more is sent than there is room for."""

    def hold(self) -> Hold:
        """Return a hold that does nothing: what is sent has arrived when `on_next` returns."""
        return NO_HOLD

    def _send(self) -> None:
        if self._sending:
            return
        self._sending = True
        try:
            while self._producer is not None and self._demand and self._waiting:
                self._demand -= 1
                self._producer.on_next(self._waiting.popleft())
                self._on_gone()
        finally:
            self._sending = False
        if not self._waiting and self._producer is not None:
            producer, self._producer = self._producer, None
            producer.on_complete()  # what room it was promised is for others
