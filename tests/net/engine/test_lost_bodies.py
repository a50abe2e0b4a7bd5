"""A large body that is lost on its way: nothing of it is left."""

from __future__ import annotations

import gc
import tracemalloc

import pytest
import trio

from rstreams import Node
from tests.net.over_tcp import until
from tests.net.wire import (
    AMQP_HEADER,
    attach_frame,
    begin_frame,
    close_frame,
    detach_frame,
    end_frame,
    next_frame,
    open_frame,
    transfer_frame,
)

BODY = 300_000
PIECE = 50_000
FIRST = b"\x00\x53\x75\xb0" + BODY.to_bytes(4, "big") + bytes(PIECE)
NEXT = transfer_frame(0, b"", payload=bytes(PIECE), more=True)


def bodies() -> bool:
    """Tell whether there is memory of such a size."""
    return any(trace.size >= BODY for trace in tracemalloc.take_snapshot().traces)


WAYS: dict[str, bytes | None] = {  # what the peer sends behind a part of the message; None: it hangs up
    "hangs up": None,
    "hangs up amid a frame": NEXT[: PIECE // 2],
    "aborts the delivery": next_frame(aborted=True),
    "detaches": detach_frame(),
    "ends the session": end_frame(),
    "closes the connection": close_frame(),
    "breaks the protocol": b"\x00\x00\x00\x01\x00\x00\x00\x00",
    "breaks the protocol amid a frame": NEXT[: PIECE // 2] + b"\xff" * PIECE + b"\x00\x00\x00\x01\x00\x00\x00\x00",
    "sends less than it told": NEXT + next_frame(),
    "sends too much": NEXT * 25,
}


@pytest.mark.parametrize("way", WAYS)
async def test_nothing_is_left_of_a_body_that_is_lost(way: str) -> None:
    async with Node(max_message_bytes=1_000_000) as node:
        node.queue("work")
        listener = await node.listen("127.0.0.1:0")
        async with await trio.open_tcp_stream("127.0.0.1", listener.port) as stream:
            attach = attach_frame("link", "sender", target="work", initial_delivery_count=0)
            await stream.send_all(AMQP_HEADER + open_frame() + begin_frame(None) + attach)
            await until(lambda: node.statistics().queues["work"].producers)
            gc.collect()
            gc.disable()  # nothing waits for the collector
            tracemalloc.start()
            try:
                await stream.send_all(transfer_frame(0, b"", payload=FIRST, more=True))
                await until(bodies)
                said = WAYS[way]
                if said is not None:
                    await stream.send_all(said)
                if said is None or way.startswith("hangs up"):
                    await stream.aclose()
                await until(lambda: not bodies())
            finally:
                tracemalloc.stop()
                gc.enable()
