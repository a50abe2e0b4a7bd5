"""An inner stream that has ended is freed at once: no circle of references leaves it to the collector of garbage.

The search of the collector costs a part of the time of each item, and it stops all tasks.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from rstreams import Stream
from tests.garbage import only_new_objects

ITEMS = [1, 2, 3]


def generated() -> Iterator[int]:
    yield from ITEMS


INNER: dict[str, Callable[[], Stream[Any]]] = {
    "a list": lambda: Stream.from_iterable(ITEMS),
    "a generator": lambda: Stream.from_iterable(generated()),
    "one item": lambda: Stream.of(1),
    "empty": Stream.empty,
    "mapped": lambda: Stream.from_iterable(ITEMS).map(str),
    "filtered": lambda: Stream.from_iterable(ITEMS).filter(bool),
    "lists": lambda: Stream.from_iterable(ITEMS).buffer_count(2),
    "joined": lambda: Stream.of(1).concat(Stream.of(2)),
    "later": lambda: Stream.of(1).delay(0.001),
}

OUTER: dict[str, Callable[[Callable[[], Stream[Any]], int], Stream[Any]]] = {
    "flat_map": lambda make, n: Stream.range(n).flat_map(lambda _: make()),
    "concat_map": lambda make, n: Stream.range(n).concat_map(lambda _: make()),
    "merge": lambda make, n: Stream.merge(*(make() for _ in range(n))),
    "concat": lambda make, n: Stream.concat(*(make() for _ in range(n))),
}


async def left_to_the_collector(stream: Stream[Any]) -> int:
    gc.collect()
    gc.disable()
    try:
        await stream.for_each(lambda _: None)
        return gc.collect()
    finally:
        gc.enable()


@pytest.mark.usefixtures("autojump_clock")
@pytest.mark.parametrize("outer", OUTER)
@pytest.mark.parametrize("inner", INNER)
async def test_more_inner_streams_leave_no_more_garbage(inner: str, outer: str) -> None:
    with only_new_objects():
        few = await left_to_the_collector(OUTER[outer](INNER[inner], 20))
        many = await left_to_the_collector(OUTER[outer](INNER[inner], 220))
    assert many - few < 100, f"{many - few} objects of 200 inner streams"
