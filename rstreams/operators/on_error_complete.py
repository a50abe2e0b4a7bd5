"""on_error_complete: completion in the place of an error."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from rstreams._checks.functions import require_effect
from rstreams._stages.stage import Lifted, PassingStage, raised_during
from rstreams.abc import Publisher, Subscriber

T = TypeVar("T")


def on_error_complete(source: Publisher[T], predicate: Callable[[Exception], object] | None = None) -> Publisher[T]:
    """Emit the items of `source`; if it fails, complete.

        --1--2--X
        on_error_complete
        --1--2--|

    Args:
        source: The publisher of the items.
        predicate: Called with the error, in the task that delivers it; it must not block. If its result is false, the
            error passes through. By default the stream completes for every `Exception`.

    Demand: Passed up unchanged.
    Errors: If `predicate` raises, the stream ends with that exception, which has the source's error as its
        `__context__`. An error that is not an `Exception` passes through.
    Cancels: Nothing by itself.
    Spec: Reactive Streams 1.4, 1.5.

    Example:
        >>> failing = Stream.range(2).concat(Stream.fail(ConnectionError("gone")))
        >>> await failing.on_error_complete(lambda error: isinstance(error, OSError)).to_list()
        [0, 1]
    """
    if predicate is not None:
        require_effect("on_error_complete", "predicate", predicate)
    return Lifted(source, lambda downstream: _OnErrorComplete(downstream, predicate))


class _OnErrorComplete(PassingStage[T]):
    __slots__ = ("_predicate",)

    operator = "on_error_complete"
    only_reacts = True

    def __init__(self, downstream: Subscriber[T], predicate: Callable[[Exception], object] | None) -> None:
        super().__init__(downstream)
        self._predicate = predicate

    @property
    def failure(self) -> BaseException | None:
        """None: that of the source is handled here."""
        return None

    def request(self, n: int) -> None:
        if self._accepts(n):  # not in the base: a wrong request of the subscriber is not an error of the source (3.9)
            self._upstream.request(n)

    def on_error(self, error: BaseException) -> None:
        if self._ended or not isinstance(error, Exception):
            super().on_error(error)
            return
        try:
            completes = self._predicate is None or bool(self._predicate(error))
        except Exception as raised:
            super().on_error(raised_during(raised, error))
            return
        if completes:
            super().on_complete()
        else:
            super().on_error(error)
