"""A request that waits for its reply, and the time limits of all such requests."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import trio

from rstreams._core.claims import NO_HOLD
from rstreams._core.kept_errors import KeptError
from rstreams.abc import Hold
from rstreams.errors import DeliveryFailed
from rstreams.net.links.sender import Receipt

T = TypeVar("T")


class Pending(Generic[T]):
    """A request that waits for its reply.

    The task that waits accepts the reply. What it sends next may then leave together with the disposition.

    Attributes:
        came: Set when the wait is over.
        hold: The claim on the reply.
        lost: Whether the wait is over because the connection was lost.
        too_late: Whether it is over because its time is over.
    """

    __slots__ = ("_error", "_item", "came", "hold", "lost", "too_late")

    def __init__(self) -> None:
        """Wait."""
        self.came = trio.Event()
        self.hold: Hold = NO_HOLD
        self.lost = self.too_late = False
        self._item: Any = None
        self._error: KeptError[BaseException] | None = None

    def finish(self, item: T | None, error: BaseException | None, *, lost: bool = False) -> None:
        """End the wait with a reply or an error; only the first call counts."""
        if not self.came.is_set():
            self._item, self.lost = item, lost
            self._error = None if error is None else KeptError(error)
            self.came.set()

    def time_out(self) -> None:
        """End the wait because its time is over."""
        if not self.came.is_set():
            self.too_late = True
            self.came.set()

    def on_settled(self, receipt: Receipt) -> None:
        """Hear the outcome of the request's delivery: only a refusal ends the wait."""
        if isinstance(receipt.error, DeliveryFailed):
            self.finish(None, receipt.error)

    def result(self) -> T:
        """Return the reply, or raise the error."""
        if self._error is not None:
            raise self._error.again()
        item: T = self._item
        return item


class TimeLimits:
    """The time limits of requests that wait for a reply: one timer for all of them.

    The timer is set again only for a limit that is sooner than its own, and when it has rung.
    """

    def __init__(self) -> None:
        """Have none."""
        self._due: dict[Pending[Any], float] = {}
        self._timer = trio.CancelScope()

    def begin(self, pending: Pending[Any], deadline: float) -> None:
        """End the wait of `pending` at `deadline`."""
        self._due[pending] = deadline
        if deadline < self._timer.deadline:  # noqa: PLR1730 - to set it takes time
            self._timer.deadline = deadline

    def end(self, pending: Pending[Any]) -> None:
        """Forget the limit of `pending`."""
        del self._due[pending]

    async def run(self) -> None:
        """Keep the limits until this is cancelled."""
        while True:
            with self._timer:
                await trio.sleep_forever()
            now = trio.current_time()
            for pending, deadline in self._due.items():
                if deadline <= now:
                    pending.time_out()
            later = (deadline for deadline in self._due.values() if deadline > now)
            self._timer = trio.CancelScope(deadline=min(later, default=float("inf")))
