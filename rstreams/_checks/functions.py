"""The checks of the user's functions, and of their results."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from inspect import (
    CO_ASYNC_GENERATOR,
    CO_COROUTINE,
    CO_GENERATOR,
    CO_ITERABLE_COROUTINE,
    isasyncgen,
    isasyncgenfunction,
    iscoroutine,
    iscoroutinefunction,
    isgenerator,
    isgeneratorfunction,
)
from typing import Any, Final, TypeGuard, TypeVar

from rstreams._checks.refusals import refuse_object, refuse_result
from rstreams.abc import Publisher

F = TypeVar("F", bound=Callable[..., Any])
S = TypeVar("S")
T = TypeVar("T")

_INSTEAD: Final = "do the slow part in map_async before it, and give a plain function here"


def is_to_be_awaited(made: object) -> TypeGuard[Awaitable[Any]]:
    """Tell whether a result of a function is awaited; a stream never is, although it has `__await__` to refuse that."""
    return isinstance(made, Awaitable) and not isinstance(made, Publisher)


def require_function(call: str, option: str, function: F) -> F:
    """Return `function` if it can be called, else raise `TypeError`."""
    if not callable(function):
        refuse_object(call, option, function, "a function")
    return function


def require_plain(call: str, option: str, function: F, instead: str = _INSTEAD) -> F:
    """Return `function` if it is a function that is not async, else raise `TypeError`.

    Args:
        call: The name of the call.
        option: The name of the option.
        function: The user's function.
        instead: The advice for an async function: the end of the text.
    """
    require_function(call, option, function)
    if is_async(function):
        msg = f"{call}({option}): {option} must not be an async function, but {function!r} is one: {instead}"
        raise TypeError(msg)
    return function


def require_effect(call: str, option: str, function: F, instead: str = _INSTEAD) -> F:
    """Return `function` if `require_plain` accepts it and it is not a generator function, else raise `TypeError`."""
    require_plain(call, option, function, instead)
    refuse_generator(call, option, function)
    return function


def refuse_generator(call: str, option: str, function: object) -> None:
    """Raise `TypeError` for a generator function, because its body would never run."""
    if is_generator(function):
        msg = f"{call}({option}): {option} must not be a generator function, but {function!r} is one: avoid `yield`"
        raise TypeError(msg)


def refuse_unrun(call: str, option: str, result: object) -> None:
    """Raise `TypeError` if `result`, a result of the function `option`, is a body that would never run."""
    if iscoroutine(result):
        result.close()
        msg = f"{call}({option}): {option} returned a coroutine that nobody would await; define it with `async def`"
        raise TypeError(msg)
    if isgenerator(result) or isasyncgen(result):
        msg = f"{call}({option}): {option} returned a generator that nobody would iterate over"
        raise TypeError(msg)


def require_returned_pair(call: str, option: str, result: tuple[T, S]) -> tuple[T, S]:
    """Return `result`, a result of the function `option`, if it is a pair, else raise `TypeError`."""
    if not isinstance(result, tuple) or len(result) != 2:
        refuse_result(call, option, result, "a pair (item, next state), or None")
    return result


_GENERATOR: Final = CO_GENERATOR | CO_ASYNC_GENERATOR


def is_generator(function: object) -> bool:
    """Tell whether a call of `function` returns a generator, async or not, and does not run its body."""
    code = getattr(function, "__code__", None)
    if code is not None:
        return bool(code.co_flags & _GENERATOR) and not code.co_flags & CO_ITERABLE_COROUTINE  # it can be awaited
    call = getattr(type(function), "__call__", None)  # noqa: B004 - looked at, not called
    return any(isgeneratorfunction(each) or isasyncgenfunction(each) for each in (function, call))


def is_async(function: object) -> TypeGuard[Callable[..., Awaitable[Any]]]:
    """Tell whether a call of `function` returns a coroutine."""
    code = getattr(function, "__code__", None)
    if code is not None:  # a function or a method, the usual case
        return bool(code.co_flags & CO_COROUTINE)
    call = getattr(type(function), "__call__", None)  # noqa: B004 - looked at, not called
    return iscoroutinefunction(function) or iscoroutinefunction(call)
