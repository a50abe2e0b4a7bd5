"""generate: each item made from a state when it is requested."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeVar

from rstreams._checks.functions import require_plain, require_returned_pair
from rstreams._stages.emission import IteratorPublisher
from rstreams.abc import Publisher

S = TypeVar("S")
T = TypeVar("T")


def generate(initial: S, step: Callable[[S], tuple[T, S] | None]) -> Publisher[T]:
    """Emit items that `step` makes from a state, one in each call, until it returns None.

        generate((0, 1), lambda s: (s[0], (s[1], s[0] + s[1])))
        --0--1--1--2--3--5--8-->

    For anything longer write a generator function `f` and use `defer(lambda: from_iterable(f()))`.

    Args:
        initial: The state of each subscriber's first step. All subscribers start from this very object: `step` should
            return a new state, and not change this one.
        step: Takes the state and returns the item and the next state, or None to complete; it must not block.

    Demand: One call of `step` for each item requested, and none ahead of demand.
    Errors: An error of `step` ends the stream with that very exception; a result that is neither a pair nor None is a
        `TypeError`.
    Cancels: Nothing follows a cancel, also in the middle of a request.
    Context: Emits inside the call of `request`, in its task.
    Spec: Reactive Streams 1.1, 1.5, 3.3.

    Example:
        >>> fibonacci = Stream.generate((0, 1), lambda s: (s[0], (s[1], s[0] + s[1])))
        >>> await fibonacci.take(8).to_list()
        [0, 1, 1, 2, 3, 5, 8, 13]
    """
    require_plain("generate", "step", step, "use unfold")
    return IteratorPublisher(partial(_unfold, initial, step))


def _unfold(state: S, step: Callable[[S], tuple[T, S] | None]) -> Iterator[T]:
    while (made := step(state)) is not None:
        item, state = require_returned_pair("generate", "step", made)
        yield item
