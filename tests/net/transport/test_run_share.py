"""Connections take turns to end: however many end at once, other tasks run in between."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest
import trio

from rstreams import Node, Stream
from rstreams.abc import Subscriber
from rstreams.net.transport.listener import Listener
from rstreams.net.transport.run_share import (
    KEPT_BYTES,
    LEAST_ROOM_BYTES,
    MIN_SLOW_FRAMES,
    MOST_SLICES,
    ROOM_BYTES,
    share_of_run,
)
from tests.net.over_tcp import until
from tests.net.wire import AMQP_HEADER, attach_frame, begin_frame, close_frame, open_frame

CLIENTS = 64
ATTACHING = 10
LINKS = 100
MOST = 2 * MOST_SLICES
"""This test may see the end of one round and the beginning of the next as one: trio runs tasks in any order."""


async def test_the_more_input_waits_for_a_turn_the_less_is_taken_from_the_network() -> None:
    """A thousand connections with more than they can read in a slice keep a known number of bytes together."""
    share = share_of_run()
    assert share.room_bytes == ROOM_BYTES
    with ExitStack() as kept:
        for number in range(1000):
            kept.enter_context(share.keeping(number, share.room_bytes))
        assert share.room_bytes == LEAST_ROOM_BYTES
        assert share.kept <= KEPT_BYTES + 1000 * LEAST_ROOM_BYTES
    assert share.room_bytes == ROOM_BYTES


async def test_at_most_so_many_tasks_get_a_slice_before_all_others_have_run() -> None:
    ran: list[int] = []

    async def work(number: int) -> None:
        await share_of_run().next_slice()
        ran.append(number)

    most = 0
    async with trio.open_nursery() as nursery:
        for number in range(10 * MOST_SLICES):
            nursery.start_soon(work, number)
        while len(ran) < 10 * MOST_SLICES:
            before = len(ran)
            await trio.lowlevel.checkpoint()
            most = max(most, len(ran) - before)
    assert most <= MOST
    assert sorted(ran) == list(range(10 * MOST_SLICES))


async def test_who_is_cancelled_while_it_waits_takes_no_slice_away() -> None:
    async with trio.open_nursery() as nursery:
        for _ in range(5 * MOST_SLICES):
            nursery.start_soon(share_of_run().next_slice)
        await trio.lowlevel.checkpoint()
        nursery.cancel_scope.cancel()
    with trio.fail_after(5):
        await share_of_run().next_slice()


def close(client: socket.socket) -> None:
    client.sendall(close_frame())


def hang_up(client: socket.socket) -> None:
    client.shutdown(socket.SHUT_WR)


def reset(client: socket.socket) -> None:
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()


@pytest.mark.parametrize("leave", [close, hang_up, reset])
async def test_clients_that_leave_at_once_end_a_few_at_a_time(leave: Callable[[socket.socket], None]) -> None:
    async with Node() as node:
        listener = await node.listen("127.0.0.1:0")
        clients = [socket.create_connection(("127.0.0.1", listener.port)) for _ in range(CLIENTS)]
        for client in clients:
            client.sendall(AMQP_HEADER + open_frame())
        await until(lambda: listener.connections == CLIENTS and not listener.handshakes)
        for client in clients:  # the node has not noticed the first when the last one leaves
            leave(client)
        assert await most_that_end_in_a_round(listener) <= MOST
        for client in clients:
            client.close()


async def most_that_end_in_a_round(listener: Listener) -> int:
    most = 0
    while before := listener.connections:
        await trio.lowlevel.checkpoint()
        most = max(most, before - listener.connections)
    return most


class Counted:
    """A publisher that never has an item, and counts its subscribers."""

    def __init__(self) -> None:
        self.subscribers = 0

    def subscribe(self, subscriber: Subscriber[Any]) -> None:
        self.subscribers += 1
        Stream[Any].never().subscribe(subscriber)


async def test_connections_that_attach_many_links_at_once_share_a_round() -> None:
    """Each has more frames than it may read in a slice. What waits makes it a busy connection, and the others too."""
    served = Counted()
    async with Node() as node:
        node.serve("items", served)
        listener = await node.listen("127.0.0.1:0")
        clients = [socket.create_connection(("127.0.0.1", listener.port)) for _ in range(ATTACHING)]
        for client in clients:
            client.sendall(AMQP_HEADER + open_frame() + begin_frame(None))
        await until(lambda: listener.connections == ATTACHING and not listener.handshakes)
        frames = [attach_frame(f"link {handle}", "receiver", source="items", handle=handle) for handle in range(LINKS)]
        for client in clients:
            client.sendall(b"".join(frames))
        await until(lambda: served.subscribers >= ATTACHING * LINKS // 4)  # all of them are at it
        most = 0
        while served.subscribers < ATTACHING * LINKS:
            before = served.subscribers
            await trio.lowlevel.checkpoint()
            most = max(most, served.subscribers - before)
        for client in clients:
            client.close()
    assert most <= MOST * MIN_SLOW_FRAMES
