"""do_on_next: a look at each item as it passes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from rstreams._stages.fusion import Step
from rstreams._stages.runs import PassesRuns
from rstreams._stages.stage import lifted, require_effect
from rstreams.abc import Publisher, Subscriber

T = TypeVar("T")


def do_on_next(source: Publisher[T], function: Callable[[T], object]) -> Publisher[T]:
    """Call `function(item)` for each item of `source`, then emit the item unchanged.

        --1--2--3-->
        do_on_next(print)
        --1--2--3-->

    Args:
        source: Where the items come from.
        function: Called once an item, before it is emitted, in the task that delivers it; it must not block. What it
            returns is dropped.

    Demand: Passed up unchanged: one item in, one item out.
    Errors: What `function` raises ends the stream with that very exception; the item counts as failed.
    Cancels: The source, when `function` raises.
    Spec: Reactive Streams 2.1, 2.13.

    Example:
        >>> await Stream.of(1, 2).do_on_next(print).to_list()
        1
        2
        [1, 2]
    """
    require_effect("do_on_next", "function", function, "use map_async, and return the item from it")
    return lifted(source, lambda downstream: _DoOnNext(downstream, function), Step("do_on_next", function))


class _DoOnNext(PassesRuns[T, T]):
    __slots__ = ("_function",)

    operator = "do_on_next"
    only_reacts = True

    def __init__(self, downstream: Subscriber[T], function: Callable[[T], object]) -> None:
        super().__init__(downstream)
        self._function = function

    def on_next(self, item: T) -> None:
        if self._ended:
            return
        try:
            self._function(item)
        except Exception as error:
            self._fail_item(error)
            return
        if not self._ended:  # the function may have cancelled
            self._downstream.on_next(item)

    def _through(self, items: Iterator[T]) -> Iterator[T]:
        function = self._function
        for item in items:
            try:
                function(item)
            except Exception as error:
                self._fail_item(error)
                return
            if self._ended:
                return
            yield item
