"""The streams that a user's function returns: publishers, or iterables and async iterables of items."""

from __future__ import annotations

from collections.abc import AsyncIterable, Callable, Iterable
from typing import TypeVar

from rstreams._checks.publishers import hint_for, is_publisher
from rstreams._checks.refusals import refuse_result
from rstreams.abc import Publisher
from rstreams.sources.from_async_iterable import from_async_iterable
from rstreams.sources.from_iterable import from_iterable

T = TypeVar("T")
R = TypeVar("R")


def returned_stream(call: str, option: str, result: Publisher[R] | Iterable[R] | AsyncIterable[R]) -> Publisher[R]:
    """Return `result`, a result of the function `option`, as a publisher; raise `TypeError` if it cannot be one.

    A text is refused, and so are bytes: a stream of its characters is nearly always a mistake.
    """
    if is_publisher(result):
        return result
    if isinstance(result, AsyncIterable):
        return from_async_iterable(result)
    if not isinstance(result, Iterable) or isinstance(result, str | bytes | bytearray | memoryview):
        refuse_result(call, option, result, "a Publisher, an iterable or an async iterable", hint_for(result))
    return from_iterable(result)


def returning_streams(
    call: str, option: str, function: Callable[[T], Publisher[R] | Iterable[R] | AsyncIterable[R]]
) -> Callable[[T], Publisher[R]]:
    """Return `function` with its results made publishers."""

    def made(item: T) -> Publisher[R]:
        result = function(item)
        return result if is_publisher(result) else returned_stream(call, option, result)

    return made
