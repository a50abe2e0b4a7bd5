"""timer: one item after a while."""

from __future__ import annotations

from rstreams._checks.numbers import require_seconds
from rstreams.abc import Publisher
from rstreams.sources.interval import Ticking


def timer(delay_s: float) -> Publisher[int]:
    """Emit 0 after `delay_s` seconds, then complete.

        timer(3)
        ---0|

    Args:
        delay_s: The seconds before the item, from the subscription on; 0 or more.

    Demand: The item waits for demand.
    Errors: `ConfigError` at the call for a bad option, and as `on_error` if there is no scheduler.
    Cancels: A cancel stops the timer.
    Context: Timed in the scope that subscribes.
    Spec: Reactive Streams 1.1, 1.5.

    Example:
        >>> await Stream.timer(3.0).to_list()
        [0]
    """
    require_seconds("timer", "delay_s", delay_s, zero=True)
    return Ticking("timer", delay_s, None)
