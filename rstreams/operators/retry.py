"""retry: a source that has failed, run again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from rstreams._checks.functions import require_effect
from rstreams._checks.numbers import require_count
from rstreams._core.demand import SLICE
from rstreams._stages.resubscription import Resubscribing, worth_it
from rstreams._stages.stage import Lifted
from rstreams.abc import Publisher, Subscriber

T = TypeVar("T")


def retry(
    source: Publisher[T], count: int | None = None, *, predicate: Callable[[Exception], object] | None = None
) -> Publisher[T]:
    """Emit the items of `source`; if it fails, subscribe to it again, up to `count` times.

        --1--2--X
                --1--2--3--|
              retry(1)
        --1--2----1--2--3--|

    With `retry(2)` a source is subscribed to three times at most, as in Reactor. In reactivex `count` is the number of
    all subscriptions: two.

    Args:
        source: Subscribed to again each time. Items emitted before a failure are not taken back.
        count: The most times that it is subscribed to again; without limit by default.
        predicate: Called with the error, in the task that delivers it; it must not block. If its result is false, the
            error passes through. By default every `Exception` leads to another try.

    Demand: Demand that is unmet when `source` fails is requested again.
    Errors: `ConfigError` at the call for a bad option. The error of the last try passes through, and also an error that
        is not an `Exception`. If `predicate` raises, the stream ends with that exception, which has the source's error
        as its `__context__`.
    Cancels: The current subscription, when the stream is cancelled.
    Context: In a scope, a source that always fails at once still lets other tasks run. Without a scope and without
        `count`, the 1024th failure in a row that comes at once and without an item is a `ConfigError`.
    Spec: Reactive Streams 1.1, 1.4, 3.3, 3.17.

    Example:
        >>> answers = iter([ConnectionError("gone"), None])
        >>> def ask():
        ...     error = next(answers)
        ...     return Stream.of("hello") if error is None else Stream.fail(error)
        >>> await Stream.defer(ask).retry(3).to_list()
        ['hello']
    """
    if predicate is not None:
        require_effect("retry", "predicate", predicate)
    if count is not None:
        require_count("retry", "count", count, 0, unit="")
    return Lifted(source, lambda downstream: _Retry(downstream, source, count, predicate))


_ENDLESS: Final = (
    f"retry: the source failed without an item {SLICE} times in a row, and no other task can run because there is no "
    "scope: give a count, or be inside `async with rstreams.Scope()`"
)


class _Retry(Resubscribing[T]):
    __slots__ = ("_left", "_predicate")

    operator = "retry"

    def __init__(
        self,
        downstream: Subscriber[T],
        source: Publisher[T],
        count: int | None,
        predicate: Callable[[Exception], object] | None,
    ) -> None:
        super().__init__(downstream, source, endless=_ENDLESS if count is None else None)
        self._left = count
        self._predicate = predicate

    @property
    def failure(self) -> BaseException | None:
        """None: that of the source is handled here."""
        return None

    def on_error(self, error: BaseException) -> None:
        if self._ended or self._source_over:
            return
        if self._left == 0 or not isinstance(error, Exception):
            super().on_error(error)
            return
        end = worth_it(self._predicate, self, error)
        if end is not None:
            super().on_error(end)
        elif not self._ended:  # the predicate may have cancelled
            if self._left is not None:
                self._left -= 1
            self._again()
