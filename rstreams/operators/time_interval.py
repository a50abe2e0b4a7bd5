"""time_interval: each item with the time since the one before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from rstreams._core.scheduler import bound_scheduler
from rstreams._stages.stage import Lifted, Stage
from rstreams.abc import Publisher, Scheduler, Subscriber

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class TimeInterval(Generic[T]):
    """An item and the time before it.

    Attributes:
        item: The item.
        interval_s: Seconds since the item before; for the first one, since the stream was subscribed to.
    """

    item: T
    interval_s: float


def time_interval(source: Publisher[T]) -> Publisher[TimeInterval[T]]:
    """Emit each item of `source` with the seconds since the one before.

        --a-------b------>
          time_interval
        --(a,2)---(b,8)-->

    Args:
        source: The publisher of the items. For the first item the time counts from the subscription.

    Demand: Passed up unchanged: one item in, one item out.
    Errors: Errors of the source pass through. `ConfigError` outside of a scope.
    Cancels: Nothing by itself.
    Context: The clock is that of the scope that subscribes.
    Spec: Reactive Streams 1.1.

    Example:
        >>> timed = await Stream.interval(2.0, initial_delay_s=1.0).take(3).time_interval().to_list()
        >>> [round(each.interval_s, 3) for each in timed]
        [1.0, 2.0, 2.0]
    """
    return Lifted(source, _TimeIntervals[T])


class _TimeIntervals(Stage[T, TimeInterval[T]]):
    __slots__ = ("_before", "_scheduler")

    operator = "time_interval"
    only_reacts = True

    def __init__(self, downstream: Subscriber[TimeInterval[T]]) -> None:
        super().__init__(downstream)
        self._scheduler: Scheduler = bound_scheduler("time_interval")
        self._before = self._scheduler.now()

    def on_next(self, item: T) -> None:
        if self._ended:
            return
        before, self._before = self._before, self._scheduler.now()
        self._downstream.on_next(TimeInterval(item, self._before - before))
