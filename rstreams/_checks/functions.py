"""The checks of functions that the user gives, and of what they return."""

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

F = TypeVar("F", bound=Callable[..., Any])
S = TypeVar("S")
T = TypeVar("T")

_INSTEAD: Final = "do what takes time in map_async before, and give a plain function here"


def require_function(call: str, option: str, function: F) -> F:
    """Return `function` if it can be called, else raise `TypeError`."""
    if not callable(function):
        refuse_object(call, option, function, "a function")
    return function


def require_plain(call: str, option: str, function: F, instead: str = _INSTEAD) -> F:
    """Return `function` if it is a function that is not async, else raise `TypeError`: nobody would await the result.

    Args:
        call: The name of the call.
        option: The name of the option.
        function: The user's function.
        instead: What to do with an async function: the end of the text.
    """
    require_function(call, option, function)
    if is_async(function):
        msg = f"{call}({option}): nobody would await {option}, but {function!r} is async: {instead}"
        raise TypeError(msg)
    return function


def require_effect(call: str, option: str, function: F, instead: str = _INSTEAD) -> F:
    """Return `function` if `require_plain` does and it is not a generator function, else raise `TypeError`."""
    require_plain(call, option, function, instead)
    refuse_generator(call, option, function)
    return function


def refuse_generator(call: str, option: str, function: object) -> None:
    """Raise `TypeError` for a generator function: nobody would iterate over its result, and its body would not run."""
    if is_generator(function):
        msg = f"{call}({option}): nobody would run {option}, but {function!r} is a generator: give one without `yield`"
        raise TypeError(msg)


def refuse_unrun(call: str, option: str, result: object) -> None:
    """Raise `TypeError` if `result`, which the function `option` has returned, is a body that nobody would run."""
    if iscoroutine(result):
        result.close()
        msg = f"{call}({option}): {option} returned a coroutine that nobody would await; define it with `async def`"
        raise TypeError(msg)
    if isgenerator(result) or isasyncgen(result):
        msg = f"{call}({option}): {option} returned a generator that nobody would iterate over, and so run"
        raise TypeError(msg)


def require_returned_pair(call: str, option: str, result: tuple[T, S]) -> tuple[T, S]:
    """Return `result`, which the function `option` has returned, if it is a pair, else raise `TypeError`."""
    if not isinstance(result, tuple) or len(result) != 2:
        refuse_result(call, option, result, "a pair (item, next state), or None")
    return result


_GENERATOR: Final = CO_GENERATOR | CO_ASYNC_GENERATOR


def is_generator(function: object) -> bool:
    """Tell whether calling `function` returns a generator, async or not, and runs nothing of it."""
    code = getattr(function, "__code__", None)
    if code is not None:
        return bool(code.co_flags & _GENERATOR) and not code.co_flags & CO_ITERABLE_COROUTINE  # which can be awaited
    call = getattr(type(function), "__call__", None)  # noqa: B004 - looked at, not called
    return any(isgeneratorfunction(each) or isasyncgenfunction(each) for each in (function, call))


def is_async(function: object) -> TypeGuard[Callable[..., Awaitable[Any]]]:
    """Tell whether calling `function` returns a coroutine."""
    code = getattr(function, "__code__", None)
    if code is not None:  # a function or a method, as most are
        return bool(code.co_flags & CO_COROUTINE)
    call = getattr(type(function), "__call__", None)  # noqa: B004 - looked at, not called
    return iscoroutinefunction(function) or iscoroutinefunction(call)
