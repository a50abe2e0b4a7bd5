"""How many items `consume` asks for ahead, and what becomes of them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing

from rstreams import Stream
from rstreams.net.links.handler_calls import Handling
from rstreams.runtime.at_work import AtWork
from rstreams.testing import ManualPublisher


@asynccontextmanager
async def handled(
    handler: Callable[[int], object], concurrency: int = 1, window: int = 16
) -> AsyncIterator[ManualPublisher[int]]:
    """Handle what the test sends."""
    source = ManualPublisher[int]()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(Handling(handler, "work", "reject", AtWork()).of, source, concurrency, window)
        await trio.testing.wait_all_tasks_blocked()
        yield source
        nursery.cancel_scope.cancel()


async def send(source: ManualPublisher[int]) -> int:
    """Send all that is asked for; return how many items are asked for then."""
    sent = len(source.outcomes)
    source.next(*range(source.requested - sent))
    await trio.testing.wait_all_tasks_blocked()
    return source.requested - len(source.outcomes)


@pytest.mark.usefixtures("mock_clock")
async def test_quick_handlers_are_given_more_each_time_up_to_the_window() -> None:
    async with handled(lambda _: None) as source:
        assert source.requested == 1
        asked = [await send(source) for _ in range(10)]
        assert asked == sorted(asked)
        assert asked[-3:] == [16, 16, 16]
        assert set(source.outcomes) == {"done"}


async def test_slow_handlers_are_given_none_ahead(mock_clock: trio.testing.MockClock) -> None:
    def handle(_item: int) -> None:
        mock_clock.jump(1.0)

    async with handled(handle) as source:
        assert [await send(source) for _ in range(4)] == [1, 1, 1, 1]


async def test_handlers_are_given_as_many_as_they_handle_in_5_ms(mock_clock: trio.testing.MockClock) -> None:
    took_s = 0.001

    def handle(_item: int) -> None:
        mock_clock.jump(took_s)

    async with handled(handle) as source:
        asked = [await send(source) for _ in range(8)]
        assert 4 <= asked[-1] <= 5
        took_s = 1.0
        asked = [await send(source) for _ in range(8)]
        assert asked[-1] == 1


async def test_time_without_items_does_not_count(mock_clock: trio.testing.MockClock) -> None:
    async with handled(lambda _: None) as source:
        asked = []
        for _ in range(5):
            mock_clock.jump(60.0)
            asked.append(await send(source))
        assert asked == [2, 4, 8, 16, 16]


@pytest.mark.usefixtures("mock_clock")
async def test_a_window_of_the_concurrency_asks_for_none_ahead() -> None:
    async with handled(lambda _: None, concurrency=2, window=2) as source:
        for _ in range(5):
            assert await send(source) <= 2


@pytest.mark.usefixtures("mock_clock")
async def test_items_ahead_that_nobody_has_begun_with_are_released() -> None:
    async def handle(item: int) -> None:
        if stuck:
            await trio.sleep_forever()

    stuck = False
    async with handled(handle) as source:
        for _ in range(3):
            await send(source)
        stuck = True
        await send(source)
    assert source.outcomes == [*["done"] * 6, "failed", *["released"] * 5]


@pytest.mark.usefixtures("mock_clock")
async def test_items_ahead_are_handled_where_the_stream_completes() -> None:
    got: list[int] = []
    source = ManualPublisher[int]()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(Handling(got.append, "work", "fail", AtWork()).of, source, 1, 16)
        await trio.testing.wait_all_tasks_blocked()
        for _ in range(3):
            await send(source)
        source.next(*range(6))
        source.complete()
    assert len(got) == 1 + 2 + 4 + 6
    assert source.outcomes == ["done"] * len(got)


@pytest.mark.slow
@pytest.mark.parametrize("every", [1, 2, 3, 1000])
@pytest.mark.parametrize("count", [*range(1, 9), 100])
async def test_items_that_come_while_they_are_asked_for_are_handled(count: int, every: int) -> None:
    got: list[int] = []

    async def later(item: int) -> None:
        await trio.sleep(0.001)
        got.append(item)

    def handle(item: int) -> object:
        if item % every == 0:
            return later(item)
        got.append(item)
        return item

    with trio.fail_after(5):
        await Handling(handle, "work", "fail", AtWork()).of(
            Stream.from_iterable(number for number in range(count)), 1, 16
        )
    assert got == list(range(count))


@pytest.mark.usefixtures("mock_clock")
async def test_a_handler_may_return_a_value_but_no_stream_that_does_not_run() -> None:
    async with handled(lambda item: Stream.of(item) if item == 1 else item) as source:
        await send(source)
        await send(source)
    assert source.outcomes == ["done", "done", "failed"]


@pytest.mark.usefixtures("mock_clock")
@pytest.mark.parametrize("concurrency", [1, 3])
async def test_never_more_than_the_concurrency_are_in_hand(concurrency: int) -> None:
    inside = most = 0

    async def handle(_item: int) -> None:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        await trio.lowlevel.checkpoint()
        inside -= 1

    async with handled(handle, concurrency=concurrency) as source:
        for _ in range(6):
            await send(source)
        assert most == concurrency
        assert set(source.outcomes) == {"done"}


@pytest.mark.usefixtures("mock_clock")
async def test_an_item_that_comes_between_two_ends_leaves_no_handler_idle() -> None:
    ends = [trio.Event() for _ in range(6)]

    async def handle(item: int) -> None:
        await ends[item].wait()

    async with handled(handle, concurrency=3) as source:
        source.next(0, 1, 2)
        for first in range(3):
            ends[first].set()
            await trio.testing.wait_all_tasks_blocked()
            if not first:
                source.next(3)
                await trio.testing.wait_all_tasks_blocked()
        assert source.requested - source.outcomes.count("done") >= 3
