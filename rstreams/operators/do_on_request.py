"""do_on_request: a call for each request."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from rstreams._checks.functions import require_effect
from rstreams._stages.stage import Lifted, PassingStage
from rstreams.abc import Publisher, Subscriber

T = TypeVar("T")


def do_on_request(source: Publisher[T], function: Callable[[int], object]) -> Publisher[T]:
    """Call `function(n)` for each request, then pass it up unchanged.

          --1--2-->
        do_on_request(log)
          --1--2-->

    Args:
        source: The publisher of the items.
        function: Called with the number of requested items, in the task that requests them; it must not block.
            Unbounded demand is 2^63-1. Its result is ignored.

    Demand: Passed up unchanged. A request that breaks rule 3.9 is not demand, and `function` is not called for it.
    Errors: An exception that `function` raises ends the stream unchanged.
    Cancels: The source, when `function` raises.
    Spec: Reactive Streams 3.9, 3.16.

    Example:
        >>> await Stream.range(10).do_on_request(print).limit_rate(4).take(2).to_list()
        4
        [0, 1]
    """
    require_effect("do_on_request", "function", function)
    return Lifted(source, lambda downstream: _DoOnRequest(downstream, function))


class _DoOnRequest(PassingStage[T]):
    __slots__ = ("_function",)

    operator = "do_on_request"
    only_reacts = True

    def __init__(self, downstream: Subscriber[T], function: Callable[[int], object]) -> None:
        super().__init__(downstream)
        self._function = function

    def request(self, n: int) -> None:
        if not self._accepts(n):
            return
        try:
            self._function(n)
        except Exception as error:
            self._fail(error)
            return
        self._upstream.request(n)  # after a cancel it does nothing (3.6)
