"""One source that is shared, and joined again: all its ways fail by its error, behind the items of all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import pytest
import trio

from rstreams import Stream, operators
from rstreams._core.demand import UNBOUNDED
from rstreams.abc import Publisher
from rstreams.sources.from_iterable import from_iterable
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.operators.test_errors_in_place import ITEMS, JOINS, Iterated, Numbers, joined, numbers, run, until_it_fails

BRANCHES: dict[str, Callable[[Numbers], Publisher[Any]]] = {
    "combine_latest": lambda s: s.delay(1.0).combine_latest(Stream.of(9)),
    "concat_map": lambda s: Stream.of(9).concat_map(lambda _: s.delay(1.0)),
    "merge": lambda s: s.delay(1.0).merge(Stream.of(9)),
    "parallel": lambda s: s.parallel(2, lambda each: Stream(each).delay(1.0)),
    "share": lambda s: s.delay(1.0).share(),
    "shared and joined": lambda s: joined(s.broadcast(subscribers=2)),
    "zip": lambda s: s.delay(1.0).zip(Stream.range(9)),
}
"""Ways to a join on which the error is behind items for a time, and not in the stage next to the join."""


@pytest.mark.parametrize("name", ["combine_latest", "flat_map", "merge", "merge_priority", "merge_sorted", "zip"])
@pytest.mark.parametrize("slow_first", [True, False])
async def test_the_parts_of_one_source_come_whole_through_every_join(
    name: str, autojump_clock: trio.testing.MockClock, *, slow_first: bool
) -> None:
    assert autojump_clock is not None
    seen: list[list[str]] = []
    for fails in (False, True):
        shared = Stream.from_iterable(numbers(fails=fails)).broadcast(subscribers=2)
        parts = (shared.delay(1.0), shared) if slow_first else (shared, shared.delay(1.0))
        got, failed = await run(JOINS[name](*parts), None)
        assert failed is fails
        seen.append(list(map(str, got)))
    assert seen[0]
    assert seen[1] == seen[0]


@pytest.mark.parametrize("name", BRANCHES)
async def test_a_source_that_is_joined_again_fails_behind_all_its_items(
    name: str, autojump_clock: trio.testing.MockClock
) -> None:
    assert autojump_clock is not None
    seen: list[list[str]] = []
    for fails in (False, True):
        shared = Stream.from_iterable(numbers(fails=fails)).broadcast(subscribers=2)
        got, failed = await run(shared.merge(Stream(BRANCHES[name](shared))), None)
        assert failed is fails
        seen.append(sorted(map(str, got)))
    assert seen[1] == seen[0]


def test_zip_completes_with_a_source_that_ends_before_the_error_of_two_others() -> None:
    probe = ProbeSubscriber[Any](UNBOUNDED)
    shared = operators.broadcast(from_iterable(until_it_fails(4)), subscribers=2)
    operators.zip(shared, shared, from_iterable([7, 8])).subscribe(probe)
    assert probe.items == [(0, 0, 7), (1, 1, 8)]
    assert probe.signals[-1] == "on_complete"


HANDLED: dict[str, Callable[[Numbers], Publisher[Any]]] = {
    "materialize": lambda s: s.materialize().concat(Stream.never()),
    "on_error_complete": lambda s: s.on_error_complete().concat(Stream.never()),
    "on_error_map": lambda s: s.on_error_map(lambda _: ValueError()).on_error_resume(lambda _: Stream.never()),
    "on_error_resume": lambda s: s.on_error_resume(lambda _: Stream.never()),
    "on_error_return": lambda s: s.on_error_return(9).concat(Stream.never()),
    "retry": lambda s: s.retry(1).concat(Stream.never()),
    "retry_backoff": lambda s: s.retry_backoff(10**6, first_s=1, max_s=1),
}
"""Operators that go on after an error, here for ever."""


@pytest.mark.parametrize("name", HANDLED)
async def test_an_error_that_is_handled_on_one_way_does_not_wait_for_that(
    name: str, autojump_clock: trio.testing.MockClock
) -> None:
    assert autojump_clock is not None
    shared = Stream.from_iterable(numbers(fails=True)).broadcast(subscribers=2)
    with trio.fail_after(1000):
        got, failed = await run(shared.merge(Stream(HANDLED[name](shared.delay(1.0)))), None)
    assert got == ITEMS
    assert failed


# a source that sends all its items, and fails, inside of the first request of the first way

SHARES: dict[str, Callable[[Numbers, int], Sequence[Numbers]]] = {
    "auto_connect": lambda s, ways: [s.publish().auto_connect(ways)] * 2,
    "auto_connect, window=2": lambda s, ways: [s.publish(window=2).auto_connect(ways)] * 2,
    "broadcast": lambda s, ways: [s.broadcast(subscribers=ways)] * 2,
    "cache": lambda s, _: [s.cache()] * 2,
    "distribute": lambda s, ways: [s.distribute(subscribers=ways)] * 2,
    "partition": lambda s, _: s.partition(lambda item: item, 2),
    "ref_count": lambda s, ways: [s.publish().ref_count(ways)] * 2,
    "replay, auto_connect": lambda s, ways: [s.replay(2).auto_connect(ways)] * 2,
    "replay, ref_count": lambda s, ways: [s.replay(2).ref_count(ways)] * 2,
    "share": lambda s, _: [s.share()] * 2,
}

AT_ONCE: dict[str, Callable[[int], Numbers]] = {
    "handed over": lambda items: Stream(Iterated(until_it_fails(items))),
    "in one loop": lambda items: Stream.from_iterable(until_it_fails(items)).map(lambda x: x),
    "followed by another": lambda items: Stream.range(items).concat(Stream.fail(LookupError())),
}

WAYS: dict[str, Callable[[Numbers], Numbers]] = {
    "plain": lambda s: s,
    "map": lambda s: s.map(lambda x: x),
    "limit_rate": lambda s: s.limit_rate(2),
    "flat_map": lambda s: Stream.of(9).flat_map(lambda _: s),
}

PAIRS = [("plain", "map"), ("limit_rate", "plain"), ("flat_map", "plain"), ("plain", "flat_map")]

ONE_AFTER_THE_OTHER = "concat_map"
NOT_TRIED = {("share", "flat_map"), ("partition", ONE_AFTER_THE_OTHER)}
"""An inner stream comes after the end of a short run, and begins another; both parts must have subscribers."""


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("join", JOINS)
def test_a_source_that_fails_in_the_first_request_is_joined_again_whole(share: str, join: str) -> None:
    for (first, second), kind, step in product(PAIRS, AT_ONCE, (1, UNBOUNDED)):
        if NOT_TRIED & {(share, first), (share, second), (share, join)}:
            continue
        seen: list[list[Any]] = []
        for fails in (False, True):
            source = AT_ONCE[kind](3)
            subscribers = 1 if join == ONE_AFTER_THE_OTHER else 2
            one, two = SHARES[share](source if fails else source.on_error_complete(), subscribers)
            probe = ProbeSubscriber[Any]()
            JOINS[join](WAYS[first](one), WAYS[second](two)).subscribe(probe)
            for _ in range(12 if step == 1 else 1):
                probe.request(step)
            seen.append(probe.items)
        expected = [0, 1, 2] if join == ONE_AFTER_THE_OTHER else seen[0]
        assert (seen[1], type(probe.error)) == (expected, LookupError), f"{first}, {second}, {kind}, {step}"


def test_merge_priority_ends_once_if_several_sources_fail_in_the_first_request() -> None:
    sources = [ManualPublisher[int]() for _ in range(4)]
    errors = [LookupError(number) for number in range(4)]
    for source, error in zip(sources, errors, strict=True):
        source.on_request = lambda _, source=source, error=error: source.error(error)
    probe = ProbeSubscriber[int](1)
    operators.merge_priority(*sources).subscribe(probe)
    assert probe.error is errors[0]
