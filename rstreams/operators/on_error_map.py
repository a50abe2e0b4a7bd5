"""on_error_map: another error in the place of an error."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from rstreams._checks.functions import require_plain
from rstreams._checks.refusals import refuse_result
from rstreams._stages.stage import Lifted, PassingStage, raised_during
from rstreams.abc import Publisher, Subscriber

T = TypeVar("T")


def on_error_map(source: Publisher[T], function: Callable[[Exception], BaseException]) -> Publisher[T]:
    """Emit the items of `source`; if it fails, fail with `function(error)`.

        --1--2--X(a)
        on_error_map(f)
        --1--2--X(f(a))

    Args:
        source: The publisher of the items.
        function: Called at most once, in the task that delivers the error; it must not block. It returns the error to
            end with, which may be its argument.

    Demand: Passed up unchanged.
    Errors: The result of `function` gets the source's error as its `__cause__`, unless it has one. If `function`
        raises, the stream ends with that exception, which has the source's error as its `__context__`. A result that is
        not an exception is a `TypeError`. An error that is not an `Exception` passes through.
    Cancels: Nothing by itself.
    Spec: Reactive Streams 1.4.

    Example:
        >>> failing = Stream.fail(LookupError("id")).on_error_map(lambda error: ValueError(f"not there: {error}"))
        >>> await failing.on_error_resume(lambda error: Stream.of(repr(error))).to_list()
        ["ValueError('not there: id')"]
    """
    require_plain("on_error_map", "function", function)
    return Lifted(source, lambda downstream: _OnErrorMap(downstream, function))


class _OnErrorMap(PassingStage[T]):
    __slots__ = ("_function",)

    operator = "on_error_map"
    only_reacts = True

    def __init__(self, downstream: Subscriber[T], function: Callable[[Exception], BaseException]) -> None:
        super().__init__(downstream)
        self._function = function

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
            mapped = _require_exception(self._function(error))
        except Exception as raised:
            super().on_error(raised_during(raised, error))
            return
        if mapped is not error and mapped.__cause__ is None:
            mapped.__cause__ = error
        super().on_error(mapped)


def _require_exception(mapped: object) -> BaseException:
    if not isinstance(mapped, BaseException):
        refuse_result("on_error_map", "function", mapped, "an exception")
    return mapped
