"""unfold: items made from a state, by a function that may be async."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from contextvars import copy_context
from types import coroutine
from typing import Any, Generic, TypeVar, overload

from rstreams._checks.functions import is_async, require_function, require_returned_pair
from rstreams.abc import Publisher
from rstreams.sources.from_async_iterable import from_async_iterable
from rstreams.sources.generate import generate

R = TypeVar("R")
S = TypeVar("S")
T = TypeVar("T")


@overload
def unfold(initial: S, step: Callable[[S], Awaitable[tuple[T, S] | None]]) -> Publisher[T]: ...
@overload
def unfold(initial: S, step: Callable[[S], tuple[T, S] | None]) -> Publisher[T]: ...
def unfold(initial: Any, step: Callable[[Any], Any]) -> Publisher[Any]:
    """Emit items that `step`, which may be async, makes from a state, one in each call, until it returns None.

        unfold(3, lambda s: (s, s - 1) if s else None)
        --3--2--1|

    Args:
        initial: The state of each subscriber's first step; `step` should not change it, but return a new one.
        step: Takes the state and returns the item and the next state, or None to complete. A plain function must not
            block; an async one is awaited, for instance the next page of an API.

    Demand: One call of `step` for each item requested, and none ahead of demand.
    Errors: An error of `step` ends the stream with that very exception; a result that is neither a pair nor None is a
        `TypeError`; an async `step` without a scheduler a `ConfigError`.
    Cancels: The call of an async `step`.
    Context: A plain `step` runs inside the call of `request`, an async one in a task of its own.
    Spec: Reactive Streams 1.1, 1.5, 3.3.

    Example:
        >>> pages = {0: ("first", 1), 1: ("second", 2)}
        >>> async def fetch(number):
        ...     await asyncio.sleep(1)
        ...     return pages.get(number)
        >>> await Stream.unfold(0, fetch).to_list()
        ['first', 'second']
    """
    require_function("unfold", "step", step)
    if is_async(step):
        return from_async_iterable(_Unfolded(initial, step))
    return generate(initial, step)


class _Unfolded(Generic[S, T]):
    """An async iterable that begins anew each time."""

    def __init__(self, initial: S, step: Callable[[S], Awaitable[tuple[T, S] | None]]) -> None:
        self._initial = initial
        self._step = step

    async def __aiter__(self) -> AsyncIterator[T]:
        state = self._initial
        while (made := await _in_own_context(self._step, state)) is not None:
            item, state = require_returned_pair("unfold", "step", made)
            yield item


@coroutine
def _in_own_context(function: Callable[[S], Awaitable[R]], argument: S) -> Generator[Any, Any, R]:
    """Await a call of `function`; the context variables that it sets are not seen after it."""
    run = copy_context().run
    steps: Any = run(function, argument).__await__()
    proceed, given = steps.send, None
    while True:
        try:
            waits_for = run(proceed, given)
        except StopIteration as end:
            returned: R = end.value
            return returned
        try:
            proceed, given = steps.send, (yield waits_for)
        except BaseException as error:
            proceed, given = steps.throw, error
