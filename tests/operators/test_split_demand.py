"""The signals of a join do not depend on how its subscriber splits its demand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any, Final

import pytest

from rstreams import Stream, operators
from rstreams.testing import ProbeSubscriber, VirtualScheduler

KINDS: Final[dict[str, Callable[[int], Stream[int]]]] = {
    "iterator": Stream.range,
    "signals": lambda count: Stream.range(count).take(9),
    "generator": lambda count: Stream.from_iterable(number for number in range(count)),
}

JOINS: Final[dict[str, Callable[[list[Stream[int]]], Any]]] = {
    "merge": lambda parts: operators.merge(*parts),
    "merge_priority": lambda parts: operators.merge_priority(*parts),
    "merge_sorted": lambda parts: operators.merge_sorted(*parts),
    "flat_map": lambda parts: Stream.from_iterable(parts).flat_map(lambda part: part),
    "flat_map(concurrency=1)": lambda parts: Stream.from_iterable(parts).flat_map(lambda part: part, concurrency=1),
    "flat_map(concurrency=2)": lambda parts: Stream.from_iterable(parts).take(9).flat_map(lambda p: p, concurrency=2),
    "concat": lambda parts: operators.concat(*parts),
    "concat_map": lambda parts: Stream.from_iterable(parts).concat_map(lambda part: part),
}


def _splits(demand: int) -> Iterator[tuple[int, ...]]:
    if not demand:
        yield ()
    for first in range(1, demand + 1):
        for rest in _splits(demand - first):
            yield first, *rest


def _signals(publisher: Any, requests: tuple[int, ...]) -> tuple[object, ...]:  # noqa: ANN401 - of any items
    with VirtualScheduler() as scheduler:
        probe = ProbeSubscriber[Any](0)
        publisher.subscribe(probe)
        for request in requests:
            probe.request(request)
            scheduler.run()
    return (*probe.items, probe.completed)


@pytest.mark.slow
@pytest.mark.parametrize("join", JOINS.values(), ids=JOINS)
@pytest.mark.parametrize("kinds", list(product(KINDS, repeat=2)), ids=" and ".join)
def test_items_and_completion_are_the_same(join: Callable[[list[Stream[int]]], Any], kinds: tuple[str, ...]) -> None:
    for sizes in product(range(4), repeat=2):
        for demand in range(max(1, sum(sizes) - 1), min(6, sum(sizes) + 2)):
            seen = {
                _signals(join([KINDS[kind](size) for kind, size in zip(kinds, sizes, strict=True)]), requests)
                for requests in _splits(demand)
            }
            assert len(seen) == 1, (sizes, demand, seen)


@pytest.mark.slow
@pytest.mark.parametrize("concurrency", [1, 2, 3])
def test_the_next_stream_begins_at_the_same_place(concurrency: int) -> None:
    for sizes in product(range(4), repeat=3):
        for demand in range(1, min(6, sum(sizes) + 2)):
            parts = [KINDS[kind](size) for kind, size in zip(("iterator", "signals", "iterator"), sizes, strict=True)]
            joined = Stream.from_iterable(parts).flat_map(lambda part: part, concurrency=concurrency)
            seen = {_signals(joined, requests) for requests in _splits(demand)}
            assert len(seen) == 1, (sizes, demand, seen)
