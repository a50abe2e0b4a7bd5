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
from tests.stalls.answers import of_connection
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
    async with connected(cue, "shop") as connection:
        while True:
            try:
                await connection.publish("orders", Stream.range(10**9).map(lambda number: b"%2000d" % number))
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

    def play() -> None:
        container = Container()
        container.container_id = "foreign"
        connection = BlockingConnection(cue.url, container=container)
        connection.create_receiver("orders", credit=0)
        cue.ready(None)
        connection.wait(lambda: False, timeout=FOREVER_S)

    await trio.to_thread.run_sync(play, abandon_on_cancel=True)


async def paused(cue: Cue) -> None:
    """Pause the stream behind its first item."""
    valve = Valve()
    async with connected(cue, "worker") as connection:
        await connection.stream("orders", window=2).pausable(valve).for_each(lambda _: valve.pause())


async def far_away(cue: Cue) -> None:
    """Consume quickly, one message at a time, over a network that takes its time."""
    async with slow_network(cue.url, delay_s=0.4) as cue.url, connected(cue, "worker") as connection:
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


# both


async def doubles(cue: Cue, source: str, target: str) -> None:
    """Answer each message by two messages to the other queue."""
    async with connected(cue, f"from-{source}") as connection:
        items = connection.stream(source, window=2).concat_map(lambda item: Stream.of(item, item))
        await connection.publish(target, items, pack_items=1)


async def from_left(cue: Cue) -> None:
    await doubles(cue, "left", "right")


async def from_right(cue: Cue) -> None:
    async with rstreams.connect(cue.url) as connection:
        await connection.publish("left", Stream.of(1))
    await doubles(cue, "right", "left")


# a group


async def member(cue: Cue, name: str) -> None:
    async with connected(cue, name) as connection:
        await connection.consume("events", lambda _: None, group="billing")


async def living(cue: Cue) -> None:
    await member(cue, "living")


async def dead(cue: Cue) -> None:
    """A member whose process the harness stops."""
    await member(cue, "dead")
