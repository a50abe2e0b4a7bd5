"""timestamp: each item with the time it came."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from rstreams._core.scheduler import bound_scheduler
from rstreams._stages.stage import Lifted, Stage
from rstreams.abc import Publisher, Scheduler, Subscriber

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Timestamped(Generic[T]):
    """An item and the time at which it came.

    Attributes:
        item: The item.
        at_s: The time on the scheduler's clock, in seconds from an arbitrary start: good for differences, not for
            dates.
    """

    item: T
    at_s: float


def timestamp(source: Publisher[T]) -> Publisher[Timestamped[T]]:
    """Emit each item of `source` with the time it came.

        --a-------b------->
             timestamp
        --(a,2)---(b,10)-->

    Args:
        source: The publisher of the items.

    Demand: Passed up unchanged: one item in, one item out.
    Errors: Errors of the source pass through. `ConfigError` outside of a scope.
    Cancels: Nothing by itself.
    Context: The clock is that of the scope that subscribes. It starts at an arbitrary value and only goes forward.
    Spec: Reactive Streams 1.1.

    Example:
        >>> stamped = await Stream.interval(2.0).take(2).timestamp().to_list()
        >>> round(stamped[1].at_s - stamped[0].at_s, 3)
        2.0
    """
    return Lifted(source, _Timestamp[T])


class _Timestamp(Stage[T, Timestamped[T]]):
    __slots__ = ("_scheduler",)

    operator = "timestamp"
    only_reacts = True

    def __init__(self, downstream: Subscriber[Timestamped[T]]) -> None:
        super().__init__(downstream)
        self._scheduler: Scheduler = bound_scheduler("timestamp")

    def on_next(self, item: T) -> None:
        if not self._ended:
            self._downstream.on_next(Timestamped(item, self._scheduler.now()))
