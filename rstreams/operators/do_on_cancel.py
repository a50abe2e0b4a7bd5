"""do_on_cancel: a call when the stream is cancelled."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from rstreams._checks.functions import require_effect
from rstreams._stages.emission import log_dropped
from rstreams._stages.stage import Lifted, PassingStage
from rstreams.abc import Publisher, Subscriber

T = TypeVar("T")


def do_on_cancel(source: Publisher[T], function: Callable[[], object]) -> Publisher[T]:
    """Call `function()` when the subscriber cancels, then cancel `source`.

          --1--2-->
        do_on_cancel(log)
          --1--2-->

    Args:
        source: The publisher of the items.
        function: Called at most once, in the task that cancels; it must not block. Its result is ignored. It is not
            called for a cancel after the end.

    Demand: Passed up unchanged.
    Errors: An exception that `function` raises is logged: a subscriber that has cancelled gets no more signals (3.12,
        3.15).
    Cancels: Nothing by itself.
    Spec: Reactive Streams 3.5, 3.7, 3.15.

    Example:
        >>> await Stream.range(10).do_on_cancel(lambda: print("enough")).take_while(lambda x: x < 2).to_list()
        enough
        [0, 1]
    """
    require_effect("do_on_cancel", "function", function)
    return Lifted(source, lambda downstream: _DoOnCancel(downstream, function))


class _DoOnCancel(PassingStage[T]):
    __slots__ = ("_cancelling", "_function")

    operator = "do_on_cancel"
    only_reacts = True

    def __init__(self, downstream: Subscriber[T], function: Callable[[], object]) -> None:
        super().__init__(downstream)
        self._function = function
        self._cancelling = False

    def cancel(self) -> None:
        if not self._ended and not self._cancelling:
            self._cancelling = True  # the function may cancel
            self._ended = True
            self._let_go()
            try:
                self._function()
            except Exception as error:
                log_dropped(error, "the function of do_on_cancel failed")
            finally:
                self._ended = False
                super().cancel()
