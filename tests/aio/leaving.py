"""Streams with a task or a timer, and the ways of leaving one, for tests of shared runs over both loops."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
import trio.testing

from rstreams.testing import ProbeSubscriber
from tests.loops import Loop

Source = Callable[[Loop], Any]
Way = Callable[[Loop, Any], Awaitable[None]]

ENOUGH = 6
"""The number of items that the subscriber who stays waits for."""

AT_MOST_S = 200
"""The longest time that it waits, in virtual seconds."""


class Left(Exception):
    """What a subscriber raises in order to leave."""


# what is shared: streams that need a task or a timer for each item


def slowly(on: Loop) -> Callable[[int], Awaitable[int]]:
    async def slow(item: int) -> int:
        await on.sleep(1)
        return item

    return slow


async def ticks(on: Loop) -> AsyncIterator[int]:
    for number in range(1000):
        await on.sleep(1)
        yield number


@asynccontextmanager
async def resource(on: Loop) -> AsyncIterator[float]:
    await on.sleep(1)
    yield 1.0
    await on.sleep(1)


def each(on: Loop) -> Any:  # noqa: ANN401 - a stream of the loop
    return on.Stream.interval(1)


SOURCES: dict[str, Source] = {
    "interval": each,
    "timer": lambda on: on.Stream.timer(1).repeat(),
    "async_generator": lambda on: on.Stream.defer(lambda: on.Stream.from_async_iterable(ticks(on))),
    "from_callable": lambda on: on.Stream.from_callable(lambda: slowly(on)(1)).repeat(),
    "using": lambda on: on.Stream.using(lambda: resource(on), on.Stream.interval),
    "defer": lambda on: on.Stream.defer(lambda: each(on)),
    "map_async": lambda on: on.Stream.range(1000).map_async(slowly(on)),
    "map_async_4": lambda on: on.Stream.range(1000).map_async(slowly(on), concurrency=4, ordered=False),
    "delay": lambda on: each(on).delay(3),
    "delay_each": lambda on: on.Stream.range(1000).delay_each(1),
    "debounce": lambda on: on.Stream.interval(3).debounce(1),
    "sample": lambda on: on.Stream.interval(0.7).sample(1),
    "timeout": lambda on: on.Stream.never().timeout(1, fallback=each(on)),
    "buffer_time": lambda on: each(on).buffer_time(2),
    "buffer_boundary": lambda on: each(on).buffer_boundary(on.Stream.interval(2)),
    "window_time": lambda on: each(on).window_time(2).flat_map(lambda window: window.count()),
    "window_count": lambda on: each(on).window_count(2).flat_map(lambda window: window.count()),
    "group_by": lambda on: each(on).group_by(lambda x: x % 2).flat_map(lambda group: group),
    "retry_backoff": lambda on: (
        on.Stream.of(1).concat(on.Stream.fail(Left())).retry_backoff(1000, first_s=1, max_s=1, jitter=0)
    ),
    "repeat": lambda on: each(on).take(1).repeat(),
    "concat": lambda on: on.Stream.concat(each(on).take(1), each(on).take(1), each(on)),
    "merge": lambda on: each(on).merge(each(on)),
    "zip": lambda on: each(on).zip(each(on)),
    "flat_map": lambda on: on.Stream.range(1000).flat_map(lambda _: on.Stream.timer(1), concurrency=2),
    "concat_map": lambda on: on.Stream.range(1000).concat_map(lambda _: on.Stream.timer(1)),
    "switch_map": lambda on: on.Stream.interval(3).switch_map(lambda _: each(on)),
    "expand": lambda on: on.Stream.of(0).expand(lambda _: on.Stream.timer(1)),
    "on_error_resume": lambda on: each(on).take(1).concat(on.Stream.fail(Left())).on_error_resume(lambda _: each(on)),
    "share": lambda on: each(on).share(),
}
OVER_ASYNCIO = {"interval", "async_generator", "map_async", "delay", "flat_map", "window_time", "using", "share"}


def sources(on: Loop) -> dict[str, Source]:
    return {name: make for name, make in SOURCES.items() if on.name == "trio" or name in OVER_ASYNCIO}


# the ways of leaving


async def take(_: Loop, stream: Any) -> None:  # noqa: ANN401 - a stream of the loop, here and below
    await stream.take(1).to_list()


async def leave_the_loop(_: Loop, stream: Any) -> None:  # noqa: ANN401
    async with stream.open() as items:
        async for _item in items:
            break


async def be_cancelled(on: Loop, stream: Any) -> None:  # noqa: ANN401
    reading = on.Event()

    async def read() -> None:
        async with stream.open() as items:
            await anext(items)
            reading.set()
            await on.sleep_forever()

    task = on.start(read)
    await reading.wait()
    task.cancel()
    await task.ended()


async def be_cancelled_waiting(on: Loop, stream: Any) -> None:  # noqa: ANN401
    task = on.start(stream.to_list)
    await on.sleep(4.5)
    task.cancel()
    await task.ended()


async def fail(_: Loop, stream: Any) -> None:  # noqa: ANN401
    with pytest.raises(Left):
        async with stream.open() as items:
            await anext(items)
            raise Left


async def fail_in_handler(_: Loop, stream: Any) -> None:  # noqa: ANN401
    def handle(_item: object) -> None:
        raise Left

    with pytest.raises(Left):
        await stream.for_each(handle)


async def leave_the_scope(on: Loop, stream: Any) -> None:  # noqa: ANN401
    async with on.Scope():
        stream.subscribe(ProbeSubscriber(2))
        await on.sleep(4.5)


WAYS: list[Way] = [take, leave_the_loop, be_cancelled, be_cancelled_waiting, fail, fail_in_handler, leave_the_scope]


def living_tasks(on: Loop) -> int:
    return trio.lowlevel.current_statistics().tasks_living if on.name == "trio" else len(asyncio.all_tasks())


async def nothing_is_left(on: Loop, before: int) -> None:
    """Fail if there are more tasks than before."""
    for _ in range(5):
        await on.settled()
    assert living_tasks(on) == before


async def stay(on: Loop, stream: Any) -> object:  # noqa: ANN401
    """Return the items, or why there are none."""
    got: list[object] = ["nothing came"]

    async def read() -> None:
        got[0] = await stream.take(ENOUGH).to_list()

    task = on.start(read)
    started = 0
    while got == ["nothing came"] and started < AT_MOST_S:
        await on.sleep(1)
        started += 1
    task.cancel()
    error = await task.ended()
    return got[0] if error is None else error
