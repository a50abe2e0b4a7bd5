"""Browsing a queue: copies of what is in it, in order, which change nothing there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from rstreams._core.demand import add_demand, demand_error, take_demand
from rstreams._core.holds import NO_HOLD
from rstreams._core.sight import Scannable
from rstreams.abc import Hold, Subscriber
from rstreams.node._address import hand_over

_MANY = 64


class Shows(Protocol):
    """The queue behind a browser.

    Attributes:
        name: The address.
    """

    name: str

    def _after(self, position: int, most: int) -> Sequence[tuple[int, bytes]]:
        """Return the first messages behind a position, each with its own."""
        ...

    def _leave_browser(self, browser: Browser) -> None: ...


class Browser(Scannable):
    """One browser's subscription: a position in the queue, and nothing else that is kept.

    It gets each message once that is there when its turn comes: what is ready, and what waits for its next attempt.
    What is at a consumer then, and comes back behind the browser's back, it does not get.

    Demand: Its own; nothing else waits for it.

    Attributes:
        position: The place of the last message that it got.
    """

    __slots__ = ("_demand", "_emitting", "_ended", "_queue", "_subscriber", "_suspended", "position")

    operator = "queue"

    def __init__(self, queue: Shows, subscriber: Subscriber[bytes]) -> None:
        self.position = 0
        self._queue = queue
        self._subscriber = subscriber
        self._demand = 0
        self._ended = False
        self._suspended = False
        self._emitting = False

    def request(self, n: int) -> None:
        if self._ended:
            return
        error = demand_error(n)
        if error is None:
            self._demand = add_demand(self._demand, n)
            self.show()
        else:
            self.cancel()
            self._subscriber.on_error(error)

    def cancel(self) -> None:
        if not self._ended:
            self._ended = True
            self._queue._leave_browser(self)  # noqa: SLF001 - a part of the queue

    def hold(self) -> Hold:
        """Return a hold that does nothing: what becomes of a copy is nobody's concern."""
        return NO_HOLD

    def suspend(self) -> None:
        self._suspended = True

    def resume(self) -> None:
        self._suspended = False
        self.show()

    def show(self) -> None:
        """Hand over what is behind the position, as far as there is demand; not re-entered from `on_next`."""
        if self._emitting:
            return
        queue = self._queue
        self._emitting = True
        try:
            while self._demand and not self._ended and not self._suspended:
                found = queue._after(self.position, min(self._demand, _MANY))  # noqa: SLF001
                for position, encoded in found:
                    if self._ended or self._suspended:
                        return
                    self.position = position
                    self._demand = take_demand(self._demand, 1)
                    hand_over(self._subscriber, encoded, queue.name, self.cancel)
                if not found:
                    return
        finally:
            self._emitting = False
