"""do_on_complete: a call when the stream completes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from rstreams._checks.functions import require_effect
from rstreams._stages.stage import Lifted, PassingStage
from rstreams.abc import Publisher, Subscriber

T = TypeVar("T")


def do_on_complete(source: Publisher[T], function: Callable[[], object]) -> Publisher[T]:
    """Call `function()` when `source` completes, then pass the completion on.

        --1--2--|
        do_on_complete(log)
        --1--2--|

    Args:
        source: The publisher of the items.
        function: Called at most once, before the completion is passed on, in the task that delivers it; it must not
            block. Its result is ignored. After a cancel it is not called.

    Demand: Passed up unchanged.
    Errors: An exception that `function` raises ends the stream unchanged, in the place of the completion.
    Cancels: Nothing by itself.
    Spec: Reactive Streams 1.5, 1.7.

    Example:
        >>> await Stream.of(1, 2).do_on_complete(lambda: print("that was all")).to_list()
        that was all
        [1, 2]
    """
    require_effect("do_on_complete", "function", function)
    return Lifted(source, lambda downstream: _DoOnComplete(downstream, function))


class _DoOnComplete(PassingStage[T]):
    __slots__ = ("_function",)

    operator = "do_on_complete"
    only_reacts = True

    def __init__(self, downstream: Subscriber[T], function: Callable[[], object]) -> None:
        super().__init__(downstream)
        self._function = function

    def on_complete(self) -> None:
        if self._ended:
            return
        try:
            self._function()
        except Exception as error:
            super().on_error(error)
        else:
            super().on_complete()
