"""Each item replaced by the result of a function: the stage of `map`, and of groups and windows shown as streams."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from rstreams._stages.runs import PassesRuns
from rstreams._stages.stage import Lifted
from rstreams.abc import Publisher, Subscriber

T = TypeVar("T")
R = TypeVar("R")


class Map(PassesRuns[T, R]):
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


def shown_as(parts: Publisher[T], show: Callable[[T], R]) -> Publisher[R]:
    """Emit `show(part)` for each group or window; `show` keeps no part and subscribes to none."""
    return Lifted(parts, lambda downstream: _Shown(downstream, show))


class _Shown(Map[T, R]):
    __slots__ = ()

    passes_unseen = True
