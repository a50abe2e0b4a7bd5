"""Where a function returns a stream, it may return an iterable or an async iterable of the items."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import nullcontext
from typing import Any

import pytest

from rstreams import Stream
from rstreams.sources.of import of

Function = Callable[[Any], Any]


def _generated() -> Iterator[int]:
    yield 8
    yield 9


async def _awaited() -> AsyncIterator[int]:
    yield 8
    yield 9


RETURNED: dict[str, Callable[[], Any]] = {
    "a list": lambda: [8, 9],
    "a tuple": lambda: (8, 9),
    "a range": lambda: range(8, 10),
    "a generator": _generated,
    "an iterator": lambda: map(int, "89"),
    "a dict": lambda: {8: "", 9: ""},
    "an async generator": _awaited,
    "a stream": lambda: Stream.of(8, 9),
    "a publisher": lambda: of(8, 9),
}

OPERATORS: dict[str, Callable[[Any, Function], Any]] = {
    "flat_map": lambda stream, function: stream.flat_map(function),
    "concat_map": lambda stream, function: stream.concat_map(function),
    "switch_map": lambda stream, function: stream.switch_map(function),
    "expand": lambda stream, function: stream.expand(function, depth=1).skip(1),
    "on_error_resume": lambda stream, function: (
        stream.concat(Stream.fail(LookupError())).skip(1).on_error_resume(function)
    ),
}
SOURCES: dict[str, Callable[[Function], Stream[Any]]] = {
    "defer": lambda function: Stream.defer(lambda: function(1)),
    "using": lambda function: Stream.using(lambda: nullcontext(1), function),
}


@pytest.mark.parametrize("returned", RETURNED)
@pytest.mark.parametrize("operator", OPERATORS)
async def test_operators_take_it_as_the_stream_of_its_items(operator: str, returned: str) -> None:
    assert await OPERATORS[operator](Stream.of(1), lambda _: RETURNED[returned]()).to_list() == [8, 9]


@pytest.mark.parametrize("returned", RETURNED)
@pytest.mark.parametrize("source", SOURCES)
async def test_sources_take_it_as_the_stream_of_its_items(source: str, returned: str) -> None:
    assert await SOURCES[source](lambda _: RETURNED[returned]()).to_list() == [8, 9]


@pytest.mark.parametrize("returned", ["89", b"89", bytearray(b"89"), 7, None], ids=repr)
@pytest.mark.parametrize("name", [*OPERATORS, *SOURCES])
async def test_what_is_no_stream_is_refused(name: str, returned: object) -> None:
    stream = SOURCES[name](lambda _: returned) if name in SOURCES else OPERATORS[name](Stream.of(1), lambda _: returned)

    with pytest.raises(
        TypeError, match=rf"^{name}\((\w+)\): \1 must return a Publisher, an iterable or an async itera"
    ):
        await stream.to_list()
