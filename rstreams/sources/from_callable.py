"""from_callable: the one result of a function."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, cast, overload

from rstreams.abc import Publisher
from rstreams.operators.map import map as map_
from rstreams.operators.map_async import map_async
from rstreams.sources.of import of

T = TypeVar("T")


@overload
def from_callable(function: Callable[[], Awaitable[T]]) -> Publisher[T]: ...
@overload
def from_callable(function: Callable[[], T]) -> Publisher[T]: ...
def from_callable(function: Callable[[], Any]) -> Publisher[Any]:
    """Call `function` for each subscriber when it requests, emit what it returns, and complete.

        from_callable(now)
        --7|

    Args:
        function: Takes nothing. A plain function must not block; an async function is awaited in a task of its own.

    Demand: The first request calls it.
    Errors: What `function` raises ends the stream with that very exception. A plain function that returns a coroutine
        is a `TypeError`; an async one without a scheduler a `ConfigError`.
    Cancels: An async function, when cancelled itself.
    Context: A plain function runs inside the call of `request`.
    Spec: Reactive Streams 1.1, 1.5.

    Example:
        >>> await Stream.from_callable(lambda: 7).to_list()
        [7]
        >>> async def answer():
        ...     await trio.sleep(60)
        ...     return 42
        >>> await Stream.from_callable(answer).to_list()
        [42]
    """
    if inspect.iscoroutinefunction(function):
        call = cast("Callable[[], Awaitable[Any]]", function)
        return map_async(of(None), lambda _: call())
    return map_(of(None), lambda _: _result(function))


def _result(function: Callable[[], Any]) -> Any:  # noqa: ANN401 - as the function has it
    result = function()
    if inspect.iscoroutine(result):
        result.close()
        msg = "from_callable(function): function returned a coroutine; define it with `async def` to have it awaited"
        raise TypeError(msg)
    return result
