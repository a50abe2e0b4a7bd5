"""A large body that is lost on its way: nothing of it is left, and no collector finds a file in it."""

from __future__ import annotations

import gc
import subprocess
import sys
import textwrap
from collections.abc import Callable

import pytest
import trio

from rstreams import Node
from rstreams.net._proton.arriving_body import ArrivingBody
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


def bodies() -> int:
    return sum(type(each) is ArrivingBody for each in gc.get_objects())


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
    "sends more than it told": NEXT * 7,
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
                gc.enable()
            gc.collect()


def test_a_body_in_a_cycle_is_collected_without_a_word() -> None:
    """In the developers' mode every Python says what 3.14 says to everyone: that a file could not be closed."""
    script = """
        import gc
        from rstreams.net._proton.arriving_body import ArrivingBody

        def lose(written, part):
            cycle = [ArrivingBody(b"head", 300_000, bytes)]
            cycle[0].skip(written)
            cycle += [cycle, cycle[0].room[:100] if part else None]

        for written in (0, 1000, 300_000):
            lose(written, False)
            lose(written, True)
        gc.collect()
    """
    command = [sys.executable, "-X", "dev", "-c", textwrap.dedent(script)]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ended.stderr == ""


def test_a_view_of_a_body_outlives_it() -> None:
    body = ArrivingBody(b"", 200_000, bytes)
    view = body.room[:10]
    del body
    gc.collect()
    view[:] = b"0123456789"
    assert bytes(view) == b"0123456789"


@pytest.mark.parametrize("left", [0, 1, 100_000])
def test_bytes_that_were_handed_over_cannot_be_written_to(left: int) -> None:
    fill: Callable[[int], bytes] = bytes
    body = ArrivingBody(b"head", 200_000, fill)
    body.fill(b"x" * (200_000 - left))
    room = body.room[:10]
    head, whole = body.pieces()
    room[:] = b"y" * len(room)
    assert (head, whole) == (b"head", b"x" * (200_000 - left))
    with pytest.raises(ValueError, match="released"):
        body.room[0] = 1
