"""The way of dead letters from one queue to another address: a producer there, while there are any."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from rstreams._core.demand import add_demand
from rstreams._core.holds import NO_HOLD
from rstreams.abc import Hold, Subscriber
from rstreams.node.address import Address


class Outlet:
    """Passes dead letters on as the other address has room; until then they keep their places in their queue.

    Args:
        target: The address that the dead letters go to.
        on_gone: Called for each one that has arrived there.
    """

    def __init__(self, target: Address, on_gone: Callable[[], None]) -> None:
        self._target = target
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
            self._producer = self._target.producer()
            self._producer.on_subscribe(self)
        else:
            self._send()

    # as the subscription of a producer

    def request(self, n: int) -> None:
        """Note that there is room for `n` more."""
        self._demand = add_demand(self._demand, n)
        self._send()

    def cancel(self) -> None:
        """Do nothing: no address cancels a producer that sends no more than was requested."""

    def hold(self) -> Hold:
        """Return a hold that does nothing: a dead letter has arrived when `on_next` returns."""
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
            producer.on_complete()  # the room it was promised is for others
