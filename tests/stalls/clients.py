"""The publishers and consumers of the staged stalls, each a process of its own."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NoReturn

import trio
from proton.reactor import Container
from proton.utils import BlockingConnection

import rstreams
from rstreams import Connection, Message, Stream, Valve
from rstreams.errors import DeliveryFailed
from tests.stalls.answers import WITHIN_S, Answer, of_connection
from tests.stalls.part import Cue
from tests.stalls.slow_network import slow_network

FOREVER_S = 3600.0


@asynccontextmanager
async def connected(cue: Cue, name: str) -> AsyncIterator[Connection]:
    async with rstreams.connect(cue.url, container_id=name) as connection:
        cue.ready(of_connection(connection))
        yield connection


# publishers


async def shop(cue: Cue) -> None:
    """Publish without an end."""
    async with connected(cue, "shop") as connection:
        await connection.publish("orders", Stream.range(10**9), pack_items=1)


async def shop_that_tries_again(cue: Cue) -> None:
    """Publish again what was refused."""
    async with connected(cue, "shop") as connection, connection.sender("orders") as sender:
        while True:
            try:
                await sender.send(bytes(2000))
            except DeliveryFailed:
                await trio.sleep(0.2)


async def shop_with_password(cue: Cue) -> None:
    """Publish as the user who is limited."""
    cue.url = cue.url.replace("//", "//shop:sesame@")
    await shop(cue)


async def appender(cue: Cue) -> None:
    """Append to the log, now and then."""
    async with connected(cue, "shop") as connection, connection.sender("events") as sender:
        for number in range(10**9):
            await sender.send(Message(number, annotations={"x-opt-partition-key": number}))
            await trio.sleep(0.05)


# consumers


async def slow(cue: Cue) -> None:
    """Take an item, and be at work with it for an hour."""

    async def handle(_: int) -> None:
        await trio.sleep(FOREVER_S)

    async with connected(cue, "worker") as connection:
        await connection.consume("orders", handle, window=2)


async def failing(cue: Cue) -> None:
    """Fail at the first message each time that it comes; the others behind it would be handled."""

    async def handle(number: int) -> None:
        await trio.sleep(0.1)
        if number == 0:
            raise ValueError(number)

    async with connected(cue, "worker") as connection:
        await connection.consume("orders", handle, window=1, on_failure="modify")


async def rejecting(cue: Cue) -> None:
    """Reject each message."""

    def handle(number: int) -> NoReturn:
        raise ValueError(number)

    async with connected(cue, "worker") as connection:
        await connection.consume("orders", handle, on_failure="reject")


async def foreign(cue: Cue) -> None:
    """Attach a link of another library, and never grant credit."""

    token = trio.lowlevel.current_trio_token()

    def play() -> None:
        container = Container()
        container.container_id = "foreign"
        connection = BlockingConnection(cue.url, container=container)
        connection.create_receiver("orders", credit=0)
        token.run_sync_soon(cue.ready, None)
        connection.wait(lambda: False, timeout=FOREVER_S)

    await trio.to_thread.run_sync(play, abandon_on_cancel=True)


async def paused(cue: Cue) -> None:
    """Pause the stream behind its first item."""
    valve = Valve()
    async with connected(cue, "worker") as connection:
        await connection.stream("orders", window=2).pausable(valve).for_each(lambda _: valve.pause())


async def far_away(cue: Cue) -> None:
    """Consume quickly, one message at a time, over a network that takes its time."""
    async with slow_network(cue.url, delay_s=0.2) as cue.url, connected(cue, "worker") as connection:
        await connection.stream("orders", window=1).for_each(lambda _: None)


async def blocked(cue: Cue) -> None:
    """Block the only thread with the first item."""
    async with connected(cue, "worker") as connection:
        await connection.consume("orders", lambda _: time.sleep(FOREVER_S), window=2)


async def quick_with_password(cue: Cue) -> None:
    """Handle whatever comes, at once."""
    cue.url = cue.url.replace("//", "//worker:sesame@")
    async with connected(cue, "worker") as connection:
        await connection.stream("orders").for_each(lambda _: None)


async def operator(cue: Cue, address: str) -> None:
    """Neither publish nor consume: ask the node about an address."""
    async with rstreams.connect(cue.url, container_id="operator") as connection, connection.management() as management:

        async def answer() -> Answer:
            return Answer.of(await management.explain(address, within_s=WITHIN_S))

        cue.ready(answer)
        await trio.sleep_forever()


# both


async def doubles(cue: Cue, source: str, target: str) -> None:
    """Answer each message by two messages to the other queue."""
    async with connected(cue, f"from-{source}") as connection:
        items = connection.stream(source, window=2).concat_map(lambda item: Stream.of(item, item))
        await connection.publish(target, items, pack_items=1)


async def first(cue: Cue, address: str) -> None:
    """Publish the one message that begins everything."""
    async with connected(cue, "first") as connection:
        await connection.publish(address, Stream.of(1))
        await trio.sleep_forever()


async def bridge(cue: Cue, way: str = "on") -> None:
    """Carry each message from one node to the other, as two messages; on, or back."""
    ends = [(cue.url, "left"), (str(cue.told["second"]), "right")]
    (source_url, source), (target_url, target) = ends if way == "on" else reversed(ends)
    async with rstreams.connect(source_url, container_id=f"bridge-{way}") as first_node:
        cue.url = target_url
        async with connected(cue, f"bridge-{way}") as connection:
            items = first_node.stream(source, window=2).concat_map(lambda item: Stream.of(item, item))
            await connection.publish(target, items, pack_items=1)


async def beside(cue: Cue) -> None:
    """Send items through another queue of the node, and note the longest time without one."""
    longest_s = 0.0

    async def answer() -> Answer:
        nonlocal longest_s
        found, longest_s = longest_s, 0.0
        return Answer(gap_s=found, text=f"beside it, no item for {found:.3f} s at the longest")

    async with (
        rstreams.connect(cue.url, container_id="beside") as connection,
        connection.sender("other") as sender,
        connection.stream("other", window=1).open(window=1) as items,
    ):
        await sender.send(0)
        await anext(items)
        cue.ready(answer)
        while True:
            began = trio.current_time()
            await sender.send(0)
            await anext(items)
            longest_s = max(longest_s, trio.current_time() - began)
            await trio.sleep(0.02)


# a group


async def member(cue: Cue, name: str) -> None:
    """Read the log with the other members of the group; it plays when its first message has come."""
    async with rstreams.connect(cue.url, container_id=name) as connection:
        is_ready = False

        def handle(_: int) -> None:
            nonlocal is_ready
            if not is_ready:
                is_ready = True
                cue.ready(of_connection(connection))

        await connection.consume("events", handle, group="billing", window=4)
