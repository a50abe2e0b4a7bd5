"""do_finally: a call at the end of a stream, however it ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias, TypeVar

from rstreams._checks.functions import require_effect
from rstreams._stages.emission import log_dropped
from rstreams._stages.stage import Lifted, PassingStage
from rstreams.abc import Publisher, Subscriber

T = TypeVar("T")

Ending: TypeAlias = Literal["complete", "error", "cancel"]


def do_finally(
    source: Publisher[T], function: Callable[[Literal["complete", "error", "cancel"]], object]
) -> Publisher[T]:
    """Call `function(how)` once when the stream ends: "complete", "error" or "cancel".

        --1--2--|
        do_finally(log)
        --1--2--|

    Args:
        source: The publisher of the items.
        function: Called once, after the end: when the completion or the error has been passed on, or when `source` has
            been cancelled. It must not block. Its result is ignored.

    Demand: Passed up unchanged.
    Errors: An exception that `function` raises is logged: the stream has ended, and no signal may follow (1.7, 3.12).
    Cancels: Nothing by itself.
    Spec: Reactive Streams 1.7, 3.5, 3.12.

    Example:
        >>> await Stream.of(1, 2).do_finally(print).to_list()
        complete
        [1, 2]
    """
    require_effect("do_finally", "function", function)
    return Lifted(source, lambda downstream: _DoFinally(downstream, function))


class _DoFinally(PassingStage[T]):
    __slots__ = ("_function",)

    operator = "do_finally"
    only_reacts = True

    def __init__(self, downstream: Subscriber[T], function: Callable[[Ending], object]) -> None:
        super().__init__(downstream)
        self._function = function

    def on_complete(self) -> None:
        if not self._ended:
            try:
                super().on_complete()
            finally:
                self._call("complete")

    def on_error(self, error: BaseException) -> None:
        if not self._ended:
            try:
                super().on_error(error)
            finally:
                self._call("error")

    def cancel(self) -> None:
        if not self._ended:
            try:
                super().cancel()
            finally:
                if self._ended:
                    self._call("cancel")

    def _fail(self, error: BaseException) -> None:
        if not self._ended:
            try:
                super()._fail(error)
            finally:
                self._call("error")

    def _call(self, how: Ending) -> None:
        try:
            self._function(how)
        except Exception as error:
            log_dropped(error, "the function of do_finally failed")
