"""How many items `map_async`, `flat_map` and `concat_map` ask a link for, beyond those that they work on."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
import trio.testing

from rstreams import Stream
from rstreams._core.demand import UNBOUNDED
from rstreams.abc import Publisher
from rstreams.errors import ConfigError
from rstreams.runtime.scope import Scope
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.net.over_tcp import connected, until


class Later(ManualPublisher[int]):
    """Answers later, as a link does, and has its window."""

    signals_later = True
    window = 32

    async def send(self) -> int:
        """Send all that is asked for; return how many items are asked for then."""
        self.next(*range(len(self.outcomes), self.requested))
        await trio.testing.wait_all_tasks_blocked()
        return self.outstanding


Build = Callable[[Stream[int], Callable[[int], Awaitable[int]], int | None], Publisher[int]]


def ordered(stream: Stream[int], function: Callable[[int], Awaitable[int]], window: int | None) -> Publisher[int]:
    return stream.map_async(function, window=window)


def unordered(stream: Stream[int], function: Callable[[int], Awaitable[int]], window: int | None) -> Publisher[int]:
    return stream.map_async(function, ordered=False, window=window)


def behind_others(stream: Stream[int], function: Callable[[int], Awaitable[int]], window: int | None) -> Publisher[int]:
    return stream.do_on_next(str).map(int).name("work").map_async(function, window=window)


def flat(stream: Stream[int], function: Callable[[int], Awaitable[int]], window: int | None) -> Publisher[int]:
    return stream.flat_map(_one_of(function), concurrency=1, window=window)


def concat(stream: Stream[int], function: Callable[[int], Awaitable[int]], window: int | None) -> Publisher[int]:
    return stream.concat_map(_one_of(function), window=window)


def _one_of(function: Callable[[int], Awaitable[int]]) -> Callable[[int], Stream[int]]:
    def stream(item: int) -> Stream[int]:
        if function is quick:
            return Stream.of(item)
        return Stream.of(item).map_async(function)

    return stream


ALL: list[Build] = [ordered, unordered, behind_others, flat, concat]


@asynccontextmanager
async def worked(
    function: Callable[[int], Awaitable[int]],
    window: int | None = None,
    *,
    demand: int = UNBOUNDED,
    build: Build = ordered,
) -> AsyncIterator[tuple[Later, ProbeSubscriber[Any]]]:
    source, probe = Later(), ProbeSubscriber[Any](demand)
    async with Scope():
        build(Stream(source), function, window).subscribe(probe)
        yield source, probe


async def quick(item: int) -> int:
    return item


@pytest.mark.usefixtures("mock_clock")
@pytest.mark.parametrize("build", ALL)
async def test_a_quick_function_gets_more_each_time_up_to_the_window_of_the_link(build: Build) -> None:
    async with worked(quick, build=build) as (source, probe):
        assert source.requested == 1
        asked = [await source.send() for _ in range(10)]
        assert asked[0] == 2
        assert 16 < max(asked) <= 32
        assert probe.items == [*range(len(source.outcomes))]
        assert set(source.outcomes) == {"done"}


@pytest.mark.usefixtures("mock_clock")
@pytest.mark.parametrize("build", ALL)
async def test_a_window_bounds_what_is_asked_for(build: Build) -> None:
    async with worked(quick, window=8, build=build) as (source, _):
        assert 4 < max([await source.send() for _ in range(10)]) <= 8


@pytest.mark.usefixtures("mock_clock")
@pytest.mark.parametrize("build", ALL)
async def test_a_window_of_the_concurrency_asks_for_none_ahead(build: Build) -> None:
    async with worked(quick, window=1, build=build) as (source, _):
        assert [await source.send() for _ in range(5)] == [1] * 5


@pytest.mark.usefixtures("mock_clock")
async def test_no_more_is_asked_for_than_results_are_wanted() -> None:
    async with worked(quick, demand=11) as (source, probe):
        for _ in range(10):
            await source.send()
        assert source.requested == 11
        assert probe.items == [*range(11)]


@pytest.mark.parametrize("build", ALL)
async def test_a_slow_function_gets_none_ahead(mock_clock: trio.testing.MockClock, build: Build) -> None:
    async def slow(item: int) -> int:
        mock_clock.jump(1.0)
        return item

    async with worked(slow, build=build) as (source, _):
        assert [await source.send() for _ in range(4)] == [1, 1, 1, 1]


async def test_a_function_gets_as_many_as_it_handles_in_5_ms(mock_clock: trio.testing.MockClock) -> None:
    took_s = 0.001

    async def work(item: int) -> int:
        mock_clock.jump(took_s)
        return item

    async with worked(work) as (source, _):
        asked = [await source.send() for _ in range(8)]
        assert 4 <= asked[-1] <= 5
        took_s = 1.0
        asked = [await source.send() for _ in range(8)]
        assert asked[-1] == 1


@pytest.mark.usefixtures("mock_clock")
@pytest.mark.parametrize("concurrency", [1, 3])
@pytest.mark.parametrize("in_order", [True, False])
async def test_never_more_than_the_concurrency_are_in_progress(concurrency: int, in_order: bool) -> None:  # noqa: FBT001
    begun = 0
    most = 0

    async def work(item: int) -> int:
        nonlocal begun, most
        begun += 1
        for _ in range(item % 5):
            await trio.lowlevel.checkpoint()
        return item

    def emitted(_item: int) -> None:
        nonlocal begun, most
        most = max(most, begun)
        begun -= 1

    source, probe = Later(), ProbeSubscriber[int](UNBOUNDED, on_item=emitted)
    async with Scope():
        Stream(source).map_async(work, concurrency=concurrency, ordered=in_order).subscribe(probe)
        for _ in range(8):
            await source.send()
    assert most == concurrency
    assert sorted(probe.items) == [*range(len(source.outcomes))]


@pytest.mark.usefixtures("mock_clock")
@pytest.mark.parametrize("build", ALL)
async def test_a_cancel_releases_items_that_nobody_has_begun_with_and_keeps_those_done(build: Build) -> None:
    stuck_at = 6

    async def work(item: int) -> int:
        if item == stuck_at:
            await trio.sleep_forever()
        return item

    async with worked(work, build=build) as (source, probe):
        while len(source.outcomes) <= stuck_at + 1:
            await source.send()
        probe.cancel()
    released = len(source.outcomes) - stuck_at
    assert source.outcomes == [*["done"] * stuck_at, *["released"] * released]


async def test_an_item_is_settled_after_5_ms_while_others_wait(mock_clock: trio.testing.MockClock) -> None:
    async def work(item: int) -> int:
        if item == 30:
            await trio.sleep_forever()
        return item

    async with worked(work) as (source, _):
        while len(source.outcomes) <= 30:
            await source.send()
        assert source.outcomes[29:31] == [None, None]
        mock_clock.jump(0.006)
        await trio.testing.wait_all_tasks_blocked()
        assert source.outcomes == ["done"] * 30 + [None] * (len(source.outcomes) - 30)


@pytest.mark.parametrize("operator", ["map_async", "map_blocking", "flat_map", "concat_map"])
def test_a_window_below_the_concurrency_is_refused(operator: str) -> None:
    least = "prefetch" if operator == "concat_map" else "concurrency"
    function = quick if operator == "map_async" else Stream.of
    operate = getattr(Stream.range(3), operator)
    with pytest.raises(ConfigError, match=rf"{operator}\({least}=4\): window=3 allows only 3 items in progress"):
        operate(function, **{least: 4}, window=3)
    with pytest.raises(ConfigError, match=rf"{operator}\(window=0\): window must be 1 or more"):
        operate(function, window=0)


@pytest.mark.parametrize("window", [1, None])
async def test_over_a_link_items_come_ahead_unless_the_window_forbids_it(window: int | None) -> None:
    """A function that stands still at the hundredth item had others ahead of it, at least while it was quick."""
    sent = handled = ahead = 0

    def count(_: int) -> None:
        nonlocal sent, ahead
        sent += 1
        ahead = max(ahead, sent - handled)

    async def work(item: int) -> int:
        nonlocal handled
        handled += 1
        if handled == 100:
            await trio.sleep_forever()
        return item

    async with connected() as (node, connection), trio.open_nursery() as nursery:
        node.serve("numbers", Stream.range(1000).do_on_next(count))
        stream = connection.stream("numbers").map_async(work, window=window)
        nursery.start_soon(stream.for_each, lambda _: None)
        await until(lambda: handled == 100)
        assert (ahead > 1) is (window is None)
        assert window is None or sent <= 101
        nursery.cancel_scope.cancel()
