"""interval: numbers, one in every period."""

from __future__ import annotations

from math import floor

from rstreams._checks.numbers import require_seconds
from rstreams._checks.publishers import require_subscriber
from rstreams._core.claims import NO_HOLD
from rstreams._core.demand import UNBOUNDED, add_demand, demand_error, take_demand
from rstreams._core.scheduler import bound_scheduler
from rstreams._core.sight import Counts, Scannable, Watched
from rstreams._core.subscription import subscribe_failed
from rstreams._core.threads import get_ident, refuse_thread
from rstreams.abc import Cancellable, Hold, Publisher, Scheduler, Subscriber
from rstreams.errors import ConfigError


def interval(period_s: float, *, initial_delay_s: float | None = None) -> Publisher[int]:
    """Emit the numbers 0, 1, 2 and so on, one every `period_s` seconds, without end.

        interval(3)
        ---0---1---2-->

    Args:
        period_s: The seconds between two ticks; more than 0.
        initial_delay_s: The seconds before the first one; 0 or more, `period_s` by default.

    Demand: Ticks are counted from the subscription on, with demand or without. Of the ticks without demand only the
        latest is kept: the next request gets its number at once, if it came after the item before. The same holds for
        ticks that could not come in time, because the loop was busy. An item has the number of its tick; therefore
        numbers may be missing. That is not an error. Without demand there is no timer.
    Errors: `ConfigError` at the call for a bad option, and as `on_error` if there is no scheduler.
    Cancels: A cancel ends the ticks.
    Context: Timed in the scope that subscribes; ticks do not drift.
    Spec: Reactive Streams 1.1, 3.17.

    Example:
        >>> await Stream.interval(1.0).take(3).to_list()
        [0, 1, 2]
    """
    require_seconds("interval", "period_s", period_s)
    if initial_delay_s is not None:
        require_seconds("interval", "initial_delay_s", initial_delay_s, zero=True)
    return Ticking("interval", period_s if initial_delay_s is None else initial_delay_s, period_s)


class Ticking(Watched):
    """A publisher of numbered ticks, or of one only."""

    __slots__ = ("_first_s", "_maker", "_period_s")

    def __init__(self, maker: str, first_s: float, period_s: float | None) -> None:
        super().__init__()
        self._maker = maker
        self._first_s = first_s
        self._period_s = period_s

    def subscribe(self, subscriber: Subscriber[int]) -> None:
        """Start the ticks of one subscriber."""
        require_subscriber(subscriber)
        try:
            scheduler = bound_scheduler(self._maker)
        except ConfigError as error:
            subscribe_failed(subscriber, error)
            return
        ticks = _Ticks(subscriber, scheduler, self._first_s, self._period_s)
        self._begins(ticks)
        ticks.start()


class _Ticks(Scannable):
    """The ticks of one subscriber; after one without demand there is no timer, and the next request reads the clock."""

    __slots__ = (
        "__weakref__",
        "_delivered",
        "_demand",
        "_due",
        "_first_at",
        "_number",
        "_period_s",
        "_requested",
        "_scheduler",
        "_subscriber",
        "_thread",
        "_timer",
        "ended",
    )

    operator = "interval"

    def __init__(
        self, subscriber: Subscriber[int], scheduler: Scheduler, first_s: float, period_s: float | None
    ) -> None:
        self._subscriber = subscriber
        self._scheduler = scheduler
        self._first_at = scheduler.now() + first_s
        self._period_s = period_s
        self._number = 0  # of the next tick
        self._due = False  # a tick has found no demand
        self._demand = 0
        self._requested = 0
        self._delivered = 0
        self._thread = get_ident()
        self.ended = False
        self._timer: Cancellable = scheduler.call_later(first_s, self._tick)

    def start(self) -> None:
        try:
            self._subscriber.on_subscribe(self)
        except BaseException:
            self.cancel()
            raise

    def request(self, n: int) -> None:
        if get_ident() != self._thread:
            refuse_thread(f"request({n})", self._thread)
        if self.ended:
            return
        error = demand_error(n)
        if error is not None:
            self.cancel()
            self._subscriber.on_error(error)
            return
        self._requested = add_demand(self._requested, n)
        self._demand = add_demand(self._demand, n)
        if self._due:
            self._due = False
            self._tick()

    def cancel(self) -> None:
        if get_ident() != self._thread:
            refuse_thread("cancel()", self._thread)
        self.ended = True
        self._timer.cancel()

    def hold(self) -> Hold:
        return NO_HOLD

    @property
    def downstream(self) -> object:
        """The subscriber."""
        return self._subscriber

    def counts(self) -> Counts:
        return Counts(self._requested, self._delivered, int(self._due))

    def _tick(self) -> None:
        if not self._demand:
            self._due = True
            return
        number = 0 if self._period_s is None else self._latest(self._period_s)
        self._demand = take_demand(self._demand, 1)
        self._delivered += 1
        try:
            self._subscriber.on_next(number)
        except BaseException:
            self.cancel()  # 2.13
            raise
        if self._period_s is None and not self.ended:
            self.ended = True
            self._subscriber.on_complete()

    def _latest(self, period_s: float) -> int:
        """Return the number of the latest tick, and set the timer for the one after."""
        now = self._scheduler.now()
        number = max(self._number, floor(min((now - self._first_at) / period_s, UNBOUNDED)))
        if self._first_at + (number + 1) * period_s <= now:  # lost in rounding
            number += 1
        self._number = number + 1
        left = self._first_at + self._number * period_s - now
        self._timer = self._scheduler.call_later(max(left, 0.0), self._tick)
        return number
