"""delay_each: a pause before every item."""

from __future__ import annotations

from functools import partial
from typing import TypeVar

from rstreams._checks.numbers import require_seconds
from rstreams._core.scheduler import bound_scheduler
from rstreams._stages.jobs import Jobs
from rstreams._stages.stage import Lifted
from rstreams.abc import Publisher, Scheduler, Subscriber

T = TypeVar("T")


def delay_each(source: Publisher[T], delay_s: float) -> Publisher[T]:
    """Emit each item of `source` after a pause of `delay_s` seconds, one after the other, without loss.

        --1-2-3|
          delay_each(4)
        ------1---2---3|

    The pause of an item begins when the item has come and the one before has been emitted. Items are therefore at least
    that far apart, however fast they come. `delay` moves all items by the same time; `throttle` drops items that come
    too fast.

    Args:
        source: The publisher of the items. It is slowed down: each item is requested when the one before has been
            emitted.
        delay_s: The length of the pause, in seconds; more than 0.

    Demand: Passed up one at a time: at most one item is requested or waits here.
    Holds: The item is held until its emission has been handled by all holders; it is given back (released) on a cancel.
    Errors: `ConfigError` at the call for a bad option, and as `on_error` if there is no scheduler. The end of the
        source, completion or error, comes directly after the last item.
    Cancels: Nothing by itself.
    Context: Timed in the scope that subscribes, in a task for each item.
    Spec: Reactive Streams 1.1, 3.3.

    Example:
        >>> began = asyncio.get_running_loop().time()
        >>> await Stream.of(1, 2, 3).delay_each(4.0).to_list(), round(asyncio.get_running_loop().time() - began, 3)
        ([1, 2, 3], 12.0)
    """
    require_seconds("delay_each", "delay_s", delay_s)

    def stage(downstream: Subscriber[T]) -> Jobs[T, T]:
        scheduler = bound_scheduler("delay_each")
        return _DelayEach(downstream, partial(_after_pause, scheduler, delay_s), 1, scheduler, ordered=True)

    return Lifted(source, stage)


async def _after_pause(scheduler: Scheduler, delay_s: float, item: T) -> T:
    over = scheduler.event()
    timer = scheduler.call_later(delay_s, over.set)
    try:
        await over.wait()
    finally:
        timer.cancel()
    return item


class _DelayEach(Jobs[T, T]):
    __slots__ = ()

    operator = "delay_each"
