"""map: each item replaced by what a function makes of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from rstreams._fusion import Step
from rstreams.abc import Publisher, Subscriber
from rstreams.operators._passing_runs import PassesRuns
from rstreams.operators._stage import lifted, require_plain

T = TypeVar("T")
R = TypeVar("R")


def map(source: Publisher[T], function: Callable[[T], R]) -> Publisher[R]:  # noqa: A001 - the field's name
    """Emit `function(item)` for each item of `source`.

        --1--2--3-->
          map(x * 10)
        --10-20-30->

    Args:
        source: Where the items come from.
        function: Called once an item, in the task that delivers it; it must not block.

    Demand: Passed up unchanged: one item in, one item out.
    Errors: What `function` raises ends the stream with that very exception; the item counts as failed.
    Cancels: The source, when `function` raises.
    Spec: Reactive Streams 2.1, 2.13.

    Example:
        >>> await Stream.of(1, 2, 3).map(lambda x: x * 10).to_list()
        [10, 20, 30]
    """
    require_plain("map", "function", function, "use map_async")
    return lifted(source, lambda downstream: _Map(downstream, function), Step("map", function))


class _Map(PassesRuns[T, R]):
    __slots__ = ("_function",)

    operator = "map"
    only_reacts = True

    def __init__(self, downstream: Subscriber[R], function: Callable[[T], R]) -> None:
        super().__init__(downstream)
        self._function = function

    def on_next(self, item: T) -> None:
        if self._ended:
            return
        try:
            result = self._function(item)
        except Exception as error:
            self._fail_item(error)
            return
        if not self._ended:  # the function may have cancelled
            self._downstream.on_next(result)

    def _through(self, items: Iterator[T]) -> Iterator[R]:
        function = self._function
        for item in items:
            try:
                result = function(item)
            except Exception as error:
                self._fail_item(error)
                return
            if self._ended:
                return
            yield result
