"""retry_backoff: a source that has failed, run again after a wait."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from rstreams._checks.functions import require_effect
from rstreams._checks.numbers import require_count, require_number, require_seconds
from rstreams._core.scheduler import bound_scheduler
from rstreams._stages.resubscription import Resubscribing, worth_it
from rstreams._stages.stage import Lifted
from rstreams.abc import Publisher, Scheduler, Subscriber
from rstreams.errors import ConfigError

T = TypeVar("T")


def retry_backoff(
    source: Publisher[T],
    count: int,
    *,
    first_s: float = 0.1,
    max_s: float = 30.0,
    factor: float = 2.0,
    jitter: float = 0.5,
    predicate: Callable[[Exception], object] | None = None,
) -> Publisher[T]:
    """Emit the items of `source`; if it fails, wait and subscribe to it again, up to `count` times.

        --1--X
                   --1--2--|
          retry_backoff(1)
        --1----------1--2--|

    Args:
        source: Subscribed to again each time. Items emitted before a failure are not taken back.
        count: The most times that it is subscribed to again.
        first_s: The wait before the first retry, in seconds.
        max_s: The longest wait, in seconds; not less than `first_s`.
        factor: The factor by which the wait grows each time; at least 1.
        jitter: The random part of a wait, from 0 to 1: with 0.5 a wait is between half and one and a half times as
            long, but never longer than `max_s`.
        predicate: Called with the error, in the task that delivers it; it must not block. If its result is false, the
            error passes through. By default every `Exception` leads to another try.

    Demand: Demand that is unmet when `source` fails is requested again.
    Errors: `ConfigError` at the call for a bad option, and as `on_error` if there is no scheduler. The error of the
        last try passes through, and also an error that is not an `Exception`. If `predicate` raises, the stream ends
        with that exception, which has the source's error as its `__context__`.
    Cancels: The current subscription or the wait, when the stream is cancelled.
    Context: The waits are timed in the scope that subscribes.
    Spec: Reactive Streams 1.1, 1.4, 3.17.

    Example:
        >>> began = asyncio.get_running_loop().time()
        >>> failing = Stream.fail(ConnectionError("gone")).retry_backoff(3, first_s=1.0, jitter=0)
        >>> await failing.on_error_return("gone").to_list(), round(asyncio.get_running_loop().time() - began, 3)
        (['gone'], 7.0)
    """
    if predicate is not None:
        require_effect("retry_backoff", "predicate", predicate)
    require_count("retry_backoff", "count", count, 0, unit="")
    require_seconds("retry_backoff", "first_s", first_s, zero=True)
    require_seconds("retry_backoff", "max_s", max_s, zero=True)
    if max_s < first_s:
        msg = f"retry_backoff(max_s={max_s!r}): the longest wait is shorter than the first one, first_s={first_s!r}"
        raise ConfigError(msg)
    require_number("retry_backoff", "factor", factor, 1.0)
    require_number("retry_backoff", "jitter", jitter, 0.0, 1.0)
    growth = float(factor)  # powers of a whole number would grow without limit

    def wait_s(tries: int, chance: float) -> float:
        try:
            wait = min(first_s * growth**tries, max_s)
        except OverflowError:
            wait = max_s if first_s else 0.0
        return min(wait * (1 - jitter + 2 * jitter * chance), max_s)

    return Lifted(source, lambda downstream: _RetryBackoff(downstream, source, count, wait_s, predicate))


class _RetryBackoff(Resubscribing[T]):
    __slots__ = ("_clock", "_count", "_predicate", "_tries", "_wait_s")

    operator = "retry_backoff"

    def __init__(
        self,
        downstream: Subscriber[T],
        source: Publisher[T],
        count: int,
        wait_s: Callable[[int, float], float],
        predicate: Callable[[Exception], object] | None,
    ) -> None:
        super().__init__(downstream, source)
        self._clock: Scheduler = bound_scheduler("retry_backoff")
        self._count = count
        self._wait_s = wait_s
        self._predicate = predicate
        self._tries = 0

    @property
    def failure(self) -> BaseException | None:
        """None: that of the source is handled here."""
        return None

    def on_error(self, error: BaseException) -> None:
        if self._ended or self._source_over:
            return
        if self._tries == self._count or not isinstance(error, Exception):
            super().on_error(error)
            return
        end = worth_it(self._predicate, self, error)
        if end is not None:
            super().on_error(end)
        elif not self._ended:  # the predicate may have cancelled
            self._tries += 1
            self._again(self._wait_s(self._tries - 1, self._clock.random()))
