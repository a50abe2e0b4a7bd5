"""rstreams on the network: one process serves a stream, the other subscribes to it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from itertools import repeat
from typing import Any

import trio

import rstreams
from benchmarks._processes import WINDOW, Counter, Figures, Load, paced
from rstreams import Connection, Node, Stream, tls
from rstreams.abc import Publisher
from rstreams.push import EmitResult, Multicast


def produce(load: Load, ready: Callable[[], None]) -> None:
    """Serve the items to whoever subscribes, until the process is ended."""
    if not load.rate:
        trio.run(run_node, load, ready, serving(Stream.from_iterable(repeat(load.item, load.items))))
        return
    pushed = Multicast[bytes](capacity=load.items)

    async def push() -> None:
        await pushed.send(load.stamped())  # waits for the subscriber
        for count, wait_s in paced(load, 1):
            for _ in range(count):
                assert pushed.emit(load.stamped()) is EmitResult.OK
            await trio.sleep(wait_s)
        pushed.complete()

    trio.run(run_node, load, ready, serving(pushed), push)


def broadcast(load: Load, ready: Callable[[], None]) -> None:
    """Serve one run of the items to all subscribers, once they are there."""
    items = Stream.from_iterable(repeat(load.item, load.items))
    trio.run(run_node, load, ready, serving(items.broadcast(subscribers=load.subscribers, window=WINDOW)))


async def _nothing() -> None: ...


def serving(items: Publisher[Any]) -> Callable[[Node], None]:
    """Return the function that makes a node serve the items."""
    return lambda node: node.serve("items", items)


async def run_node(
    load: Load,
    ready: Callable[[], None],
    add: Callable[[Node], None],
    push: Callable[[], Awaitable[None]] = _nothing,
) -> None:
    """Run a node until the process is ended.

    Args:
        load: Says where it listens.
        ready: Called once it listens.
        add: Adds its addresses.
        push: What goes on in it then.
    """
    context = tls.server_context(load.certificates[0]) if load.certificates else None
    async with Node() as node:
        add(node)
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
    async with connected(load) as connection, trio.open_nursery() as nursery:
        items = connection.stream("items", settlement=load.settlement, pack_items=load.pack_items, window=WINDOW)
        for _ in range(load.subscribers):
            nursery.start_soon(items.for_each, counter)


def connected(load: Load) -> AbstractAsyncContextManager[Connection]:
    """Return the connection to the node of a load."""
    context = tls.client_context(ca_file=load.certificates[1]) if load.certificates else None
    scheme = "amqps" if context else "amqp"
    return rstreams.connect(f"{scheme}://127.0.0.1:{load.port}", tls=context)
