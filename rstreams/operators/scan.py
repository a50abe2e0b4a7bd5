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
    return with_step(source, Step(_WORK, accumulator, seed))


_WORK: Final = Work("scan", "item = {state} = {function}({state}, item)")
