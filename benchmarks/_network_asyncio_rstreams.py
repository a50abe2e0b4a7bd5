"""rstreams.aio on the network: one process serves a stream, the other subscribes to it, both under asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from itertools import repeat
from typing import Any, Final

import trio
import uvloop

from benchmarks._network_rstreams import connected as connected_by_trio
from benchmarks._processes import WINDOW, Counter, Figures, Load, paced
from rstreams.aio import Node, Stream, connect
from rstreams.push import EmitResult, Multicast

Run = Callable[[Coroutine[Any, Any, None]], None]


def _run(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(main)


def _run_on_uvloop(main: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main)


def _produce(run: Run, load: Load, ready: Callable[[], None]) -> None:
    pushed = Multicast[bytes](capacity=load.items)

    async def push() -> None:
        await pushed.send(load.stamped())  # waits for the subscriber
        for count, wait_s in paced(load, 1):
            for _ in range(count):
                assert pushed.emit(load.stamped()) is EmitResult.OK
            await asyncio.sleep(wait_s)
        pushed.complete()

    async def serve() -> None:
        async with Node() as node:
            node.serve("items", pushed if load.rate else Stream.from_iterable(repeat(load.item, load.items)))
            await node.listen(f"127.0.0.1:{load.port}")
            ready()
            if load.rate:
                await push()
            await asyncio.get_running_loop().create_future()

    run(serve())


def _consume(run: Run, load: Load, *, by_async_for: bool = False) -> Figures:
    counter = Counter(load)

    async def subscribe() -> None:
        async with connect(f"amqp://127.0.0.1:{load.port}") as connection:
            stream = connection.stream("items", settlement=load.settlement, pack_items=load.pack_items, window=WINDOW)
            if not by_async_for:
                await stream.for_each(counter)
                return
            async with stream.open(WINDOW) as items:
                async for item in items:
                    counter(item)

    run(subscribe())
    return counter.figures()


produce: Final = partial(_produce, _run)
produce_on_uvloop: Final = partial(_produce, _run_on_uvloop)
consume: Final = partial(_consume, _run)
consume_on_uvloop: Final = partial(_consume, _run_on_uvloop)
consume_by_async_for: Final = partial(_consume, _run, by_async_for=True)


def consume_by_async_for_of_trio(load: Load) -> Figures:
    """Subscribe under trio, and count in an `async for` loop."""
    counter = Counter(load)

    async def subscribe() -> None:
        async with connected_by_trio(load) as connection:
            stream = connection.stream("items", settlement=load.settlement, pack_items=load.pack_items, window=WINDOW)
            async with stream.open(WINDOW) as items:
                async for item in items:
                    counter(item)

    trio.run(subscribe)
    return counter.figures()
