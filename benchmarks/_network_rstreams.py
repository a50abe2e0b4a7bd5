"""rstreams on the network: one process serves a stream, the other subscribes to it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from itertools import repeat

import trio

import rstreams
from benchmarks._processes import WINDOW, Counter, Figures, Load, paced
from rstreams import Stream, tls
from rstreams.abc import Publisher
from rstreams.push import EmitResult, Multicast


def produce(load: Load, ready: Callable[[], None]) -> None:
    """Serve the items to whoever subscribes, until the process is ended."""
    if not load.rate:
        trio.run(_serve, load, ready, Stream.from_iterable(repeat(load.item, load.items)))
        return
    pushed = Multicast[bytes](capacity=load.items)

    async def push() -> None:
        await pushed.send(load.stamped())  # waits for the subscriber
        for count, wait_s in paced(load, 1):
            for _ in range(count):
                assert pushed.emit(load.stamped()) is EmitResult.OK
            await trio.sleep(wait_s)
        pushed.complete()

    trio.run(_serve, load, ready, pushed, push)


def broadcast(load: Load, ready: Callable[[], None]) -> None:
    """Serve one run of the items to all subscribers, once they are there."""
    items = Stream.from_iterable(repeat(load.item, load.items))
    trio.run(_serve, load, ready, items.broadcast(subscribers=load.subscribers, window=WINDOW))


async def _nothing() -> None: ...


async def _serve(
    load: Load, ready: Callable[[], None], items: Publisher[bytes], push: Callable[[], Awaitable[None]] = _nothing
) -> None:
    context = tls.server_context(load.certificates[0]) if load.certificates else None
    async with rstreams.Node() as node:
        node.serve("items", items)
        await node.listen(f"127.0.0.1:{load.port}", tls=context)
        ready()
        await push()
        await trio.sleep_forever()


def consume(load: Load) -> Figures:
    """Subscribe as often as the load says, and count what comes."""
    counter = Counter(load)
    trio.run(_subscribe, load, counter)
    return counter.figures()


async def _subscribe(load: Load, counter: Counter) -> None:
    context = tls.client_context(ca_file=load.certificates[1]) if load.certificates else None
    scheme = "amqps" if context else "amqp"
    async with (
        rstreams.connect(f"{scheme}://127.0.0.1:{load.port}", tls=context) as connection,
        trio.open_nursery() as nursery,
    ):
        items = connection.stream("items", settlement=load.settlement, pack_items=load.pack_items, window=WINDOW)
        for _ in range(load.subscribers):
            nursery.start_soon(items.for_each, counter)
