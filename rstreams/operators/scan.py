"""scan: a running result, emitted after each item."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from rstreams._checks.functions import require_plain
from rstreams._stages.fusion import Step, Work
from rstreams._stages.steps import with_step
from rstreams.abc import Publisher

T = TypeVar("T")
R = TypeVar("R")


def scan(source: Publisher[T], accumulator: Callable[[R, T], R], seed: R) -> Publisher[R]:
    """Emit `accumulator(result so far, item)` for each item of `source`.

        --1--2--3--4--->
           scan(+, 0)
        --1--3--6--10-->

    Args:
        source: The publisher of the items.
        accumulator: Called once for each item, in the task that delivers it; it must not block.
        seed: The result before the first item; it is not emitted. Every subscription starts from this same object.
            Therefore the accumulator must return a new object and not change it.

    Demand: Passed up unchanged: one item in, one item out.
    Errors: An exception that `accumulator` raises ends the stream unchanged; the item counts as failed.
    Cancels: The source, when `accumulator` raises.
    Spec: Reactive Streams 2.1, 2.13.

    Example:
        >>> await Stream.of(1, 2, 3, 4).scan(lambda total, x: total + x, 0).to_list()
        [1, 3, 6, 10]
    """
    require_plain("scan", "accumulator", accumulator)
    return with_step(source, Step(_WORK, accumulator, seed))


_WORK: Final = Work("scan", "item = {state} = {function}({state}, item)")
