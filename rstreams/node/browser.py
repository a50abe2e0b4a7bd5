"""A queue's browsers: each gets copies of the messages in their order, and the messages stay."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from rstreams._core.demand import add_demand, demand_error, take_demand
from rstreams._core.holds import NO_HOLD
from rstreams._core.sight import Scannable
from rstreams.abc import Hold, Subscriber
from rstreams.node.handover import hand_over

_MANY = 64


class Shows(Protocol):
    """The queue behind a browser.

    Attributes:
        name: The address.
    """

    name: str

    def _after(self, position: int, most: int) -> Sequence[tuple[int, bytes]]:
        """Return the first messages behind a position, each with its own position."""
        ...

    def _leave_browser(self, browser: Browser) -> None: ...


class Browser(Scannable):
    """One browser's subscription. It keeps a position in the queue and nothing else.

    It gets each message that is ready, or waits for its next attempt, when its position gets there. It does not get a
    message that is at a consumer then and comes back later.

    Demand: Its own; no other subscription waits for it.

    Attributes:
        position: The sequence number of the last message that it got.
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
        """Ask for `n` more copies."""
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
        """Leave the queue."""
        if not self._ended:
            self._ended = True
            self._queue._leave_browser(self)  # noqa: SLF001 - a part of the queue

    def hold(self) -> Hold:
        """Return a hold that does nothing: a copy needs no outcome."""
        return NO_HOLD

    def suspend(self) -> None:
        """Get no copies until `resume`."""
        self._suspended = True

    def resume(self) -> None:
        """Get copies again."""
        self._suspended = False
        self.show()

    def show(self) -> None:
        """Hand over the messages behind the position, as far as there is demand; a nested call does nothing."""
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
