"""scan: a running result, emitted after each item."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from rstreams._stages.fusion import Step
from rstreams._stages.runs import PassesRuns
from rstreams._stages.stage import lifted, require_plain
from rstreams.abc import Publisher, Subscriber

T = TypeVar("T")
R = TypeVar("R")


def scan(source: Publisher[T], accumulator: Callable[[R, T], R], seed: R) -> Publisher[R]:
    """Emit `accumulator(result so far, item)` for each item of `source`.

        --1--2--3--4--->
           scan(+, 0)
        --1--3--6--10-->

    Args:
        source: Where the items come from.
        accumulator: Called once an item, in the task that delivers it; it must not block.
        seed: The result before the first item; not emitted. Every subscription starts from this same object, so
            the accumulator must return a new one rather than change it.

    Demand: Passed up unchanged: one item in, one item out.
    Errors: What `accumulator` raises ends the stream with that very exception; the item counts as failed.
    Cancels: The source, when `accumulator` raises.
    Spec: Reactive Streams 2.1, 2.13.

    Example:
        >>> await Stream.of(1, 2, 3, 4).scan(lambda total, x: total + x, 0).to_list()
        [1, 3, 6, 10]
    """
    require_plain("scan", "accumulator", accumulator)
    return lifted(source, lambda downstream: _Scan(downstream, accumulator, seed), Step("scan", accumulator, seed))


class _Scan(PassesRuns[T, R]):
    __slots__ = ("_accumulator", "_result")

    operator = "scan"
    only_reacts = True

    def __init__(self, downstream: Subscriber[R], accumulator: Callable[[R, T], R], seed: R) -> None:
        super().__init__(downstream)
        self._accumulator = accumulator
        self._result = seed

    def on_next(self, item: T) -> None:
        if self._ended:
            return
        try:
            self._result = result = self._accumulator(self._result, item)
        except Exception as error:
            self._fail_item(error)
            return
        if not self._ended:  # the accumulator may have cancelled
            self._downstream.on_next(result)

    def _through(self, items: Iterator[T]) -> Iterator[R]:
        accumulator = self._accumulator
        for item in items:
            try:
                self._result = result = accumulator(self._result, item)
            except Exception as error:
                self._fail_item(error)
                return
            if self._ended:
                return
            yield result
