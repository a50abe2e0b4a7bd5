"""do_on_error: a call when the stream fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from rstreams._checks.functions import require_effect
from rstreams._stages.stage import Lifted, PassingStage, raised_during
from rstreams.abc import Publisher, Subscriber

T = TypeVar("T")


def do_on_error(source: Publisher[T], function: Callable[[BaseException], object]) -> Publisher[T]:
    """Call `function(error)` when `source` fails, then pass the failure on.

        --1--2--X
        do_on_error(log)
        --1--2--X

    Args:
        source: The publisher of the items.
        function: Called at most once, before the error is passed on, in the task that delivers it; it must not block.
            Its result is ignored.

    Demand: Passed up unchanged.
    Errors: An exception that `function` raises replaces the source's error, which becomes its `__context__`.
    Cancels: Nothing by itself.
    Spec: Reactive Streams 1.4, 1.7.

    Example:
        >>> failing = Stream.fail(LookupError("no such thing")).do_on_error(lambda error: print("seen:", error))
        >>> await failing.on_error_resume(lambda _: Stream.of(0)).to_list()
        seen: no such thing
        [0]
    """
    require_effect("do_on_error", "function", function)
    return Lifted(source, lambda downstream: _DoOnError(downstream, function))


class _DoOnError(PassingStage[T]):
    __slots__ = ("_function",)

    operator = "do_on_error"
    only_reacts = True

    def __init__(self, downstream: Subscriber[T], function: Callable[[BaseException], object]) -> None:
        super().__init__(downstream)
        self._function = function

    def on_error(self, error: BaseException) -> None:
        if self._ended:
            return
        try:
            self._function(error)
        except Exception as raised:
            super().on_error(raised_during(raised, error))
        else:
            super().on_error(error)
