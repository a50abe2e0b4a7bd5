"""scan: a running result, emitted after each item."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar, overload

from rstreams._checks.functions import require_plain
from rstreams._stages.fusion import Step, Work
from rstreams._stages.steps import with_step
from rstreams.abc import Publisher

T = TypeVar("T")
R = TypeVar("R")


@overload
def scan(source: Publisher[T], accumulator: Callable[[T, T], T]) -> Publisher[T]: ...
@overload
def scan(source: Publisher[T], accumulator: Callable[[R, T], R], seed: R) -> Publisher[R]: ...
def scan(source: Publisher[Any], accumulator: Callable[[Any, Any], Any], seed: Any = ...) -> Publisher[Any]:
    """Emit `accumulator(result so far, item)` for each item of `source`.

        --1--2--3--4--->
           scan(+, 0)
        --1--3--6--10-->

    Args:
        source: The publisher of the items.
        accumulator: Called once for each item, in the task that delivers it; it must not block.
        seed: The result before the first item; it is not emitted. Every subscription starts from this same object.
            Therefore the accumulator must return a new object and not change it. Without a seed the first item is
            emitted as it is, and is the result before the second one. An empty stream stays empty, with and without.

    Demand: Passed up unchanged: one item in, one item out.
    Errors: An exception that `accumulator` raises ends the stream unchanged; the item counts as failed.
    Cancels: The source, when `accumulator` raises.
    Spec: Reactive Streams 2.1, 2.13.

    Example:
        >>> await Stream.of(1, 2, 3, 4).scan(lambda total, x: total + x, 0).to_list()
        [1, 3, 6, 10]
        >>> await Stream.of(1, 3, 2, 4).scan(max).to_list()
        [1, 3, 3, 4]
    """
    require_plain("scan", "accumulator", accumulator)
    step = Step(_WITHOUT_SEED, accumulator, ()) if seed is ... else Step(_WORK, accumulator, seed)
    return with_step(source, step)


_WORK: Final = Work("scan", "item = {state} = {function}({state}, item)")
_WITHOUT_SEED: Final = Work("scan", "{state} = ({function}({state}[0], item) if {state} else item,); item = {state}[0]")
