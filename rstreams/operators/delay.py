"""delay: every item later."""

from __future__ import annotations

from collections import deque
from typing import TypeVar

from rstreams._checks.numbers import require_seconds
from rstreams._core.claims import Claims, claims_on
from rstreams._core.scheduler import bound_scheduler
from rstreams._core.subscription import ENDED
from rstreams._core.turn import Turn
from rstreams._stages.stage import KeepingStage, Lifted
from rstreams.abc import Cancellable, Publisher, Scheduler, Subscriber

T = TypeVar("T")


def delay(source: Publisher[T], delay_s: float) -> Publisher[T]:
    """Emit each item of `source` `delay_s` seconds after it came.

        --1--2--3|
          delay(4)
        ------1--2--3|

    The end is not delayed by itself, as in Reactor: an empty stream ends at once. reactivex delays its end, too.

    Args:
        source: The publisher of the items.
        delay_s: The delay, in seconds; more than 0.

    Demand: Passed up unchanged: no more items are delayed than were requested.
    Holds: Items are held while they are delayed, and share the outcome of their emission; they are given back
        (released) on a cancel.
    Errors: `ConfigError` at the call for a bad option, and as `on_error` if there is no scheduler. The end of the
        source, completion or error, comes directly after the last delayed item.
    Cancels: Nothing by itself.
    Context: Timed in the scope that subscribes.
    Spec: Reactive Streams 1.1.

    Example:
        >>> began = asyncio.get_running_loop().time()
        >>> await Stream.of(1, 2).delay(4.0).to_list(), round(asyncio.get_running_loop().time() - began, 3)
        ([1, 2], 4.0)
    """
    require_seconds("delay", "delay_s", delay_s)
    return Lifted(source, lambda downstream: _Delay(downstream, delay_s))


class _Delay(KeepingStage[T, T]):
    __slots__ = ("_busy", "_delay_s", "_kept", "_scheduler", "_timer")

    operator = "delay"
    only_reacts = True

    def __init__(self, downstream: Subscriber[T], delay_s: float) -> None:
        super().__init__(downstream)
        self._scheduler: Scheduler = bound_scheduler("delay")
        self._delay_s = delay_s
        self._kept: deque[tuple[float, T, Claims]] = deque()
        self._timer: Cancellable | None = None
        self._busy = False  # emitting

    def on_next(self, item: T) -> None:
        if self._ended or self._upstream is ENDED:
            return
        due = self._scheduler.now() + self._delay_s
        self._kept.append((due, item, claims_on(self._upstream.hold())))
        if self._timer is None and not self._busy:
            self._timer = self._scheduler.call_later(self._delay_s, self._fire)

    def on_complete(self) -> None:
        self._upstream = ENDED
        if not self._kept and not self._busy:
            super().on_complete()

    def request(self, n: int) -> None:
        if self._accepts(n):
            self._upstream.request(n)

    def _fire(self) -> None:
        self._timer = None
        self._busy = True
        now = self._scheduler.now()
        turn, steps = Turn(self._scheduler).begin(), 0
        try:
            while self._kept and self._kept[0][0] <= now:
                if steps >= turn.look_at and turn.is_over(steps):
                    break  # a burst lets other tasks run in between
                _, item, hold = self._kept.popleft()
                self._emit(item, hold)
                steps += 1
        finally:
            self._busy = False
        if self._ended:
            return
        if self._kept:
            self._timer = self._scheduler.call_later(max(self._kept[0][0] - now, 0.0), self._fire)
        elif self._upstream is ENDED:
            super().on_complete()

    def _kept_items(self) -> int:
        return len(self._kept)

    @property
    def moves(self) -> bool:
        return self._busy or bool(self._kept)

    def _let_go(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        kept, self._kept = self._kept, deque()
        for _, _, hold in kept:
            hold.release()
