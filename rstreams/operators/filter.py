"""filter: only the items a predicate holds true for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from rstreams._core.gathering import Gathering
from rstreams._stages.filtering_stage import Dropping
from rstreams._stages.fusion import Step
from rstreams._stages.runs import PassesRuns
from rstreams._stages.stage import lifted, require_effect
from rstreams.abc import Publisher, Subscriber

T = TypeVar("T")


def filter(source: Publisher[T], predicate: Callable[[T], object]) -> Publisher[T]:  # noqa: A001 - the field's name
    """Emit each item of `source` for which `predicate(item)` is true.

        --1--2--3--4-->
          filter(even)
        -----2-----4-->

    Args:
        source: Where the items come from.
        predicate: Called once an item, in the task that delivers it; it must not block.

    Demand: Passed up unchanged, plus one for each item dropped, so that a subscriber that asked for n items gets n.
        A dropped item is done.
    Errors: What `predicate` raises ends the stream with that very exception; the item counts as failed.
    Cancels: The source, when `predicate` raises.
    Spec: Reactive Streams 1.1, 3.3 (asking for the replacement does not recurse), 3.17.

    Example:
        >>> await Stream.range(10).filter(lambda x: x % 3 == 0).to_list()
        [0, 3, 6, 9]
    """
    require_effect("filter", "predicate", predicate)
    return lifted(source, lambda downstream: _Filter(downstream, predicate), Step("filter", predicate))


class _Filter(Dropping[T], PassesRuns[T, T]):
    __slots__ = ("_predicate",)

    operator = "filter"
    only_reacts = True

    def __init__(self, downstream: Subscriber[T], predicate: Callable[[T], object]) -> None:
        super().__init__(downstream)
        self._predicate = predicate

    def on_next(self, item: T) -> None:
        if self._ended:
            return
        try:
            passes = bool(self._predicate(item))
        except Exception as error:
            self._fail_item(error)
            return
        if self._ended:  # the predicate may have cancelled
            return
        if passes:
            self._downstream.on_next(item)
        else:
            self._drop()

    def gather(self, *, loose: bool) -> Gathering | None:
        gathering = super().gather(loose=loose)
        if gathering is not None:
            gathering.whole_runs = False  # what is dropped is done
        return gathering

    def _through(self, items: Iterator[T]) -> Iterator[T]:
        predicate = self._predicate
        for item in items:
            try:
                passes = bool(predicate(item))
            except Exception as error:
                self._fail_item(error)
                return
            if self._ended:
                return
            if passes:
                yield item
            else:
                self._drop()
