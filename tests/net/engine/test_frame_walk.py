"""The walk over frames: where it stops and why; and what C and Python make of mutated sessions."""

from __future__ import annotations

import math
import random
import struct
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import pytest

from rstreams import Node, Stream
from rstreams._codec.encode import NULL, encode_uint
from rstreams.errors import ConnectionLost
from rstreams.net._proton import host_connection
from rstreams.net._proton.loops import Loops, address_of, new_loops
from rstreams.net._proton.pointers import Pointer
from rstreams.net.transport.pump import RUN
from rstreams.node import Client
from tests.net.engines import Alone, Side
from tests.net.recorded import mutated, recorded
from tests.net.wire import (
    AMQP_HEADER,
    EMPTY_FRAME,
    begin_frame,
    described,
    disposition_frame,
    flow_frame,
    frame,
    open_frame,
    transfer_frame,
)
from tests.oracles.loops import PythonLoops

MOST: Final = 65536
Take = Callable[..., tuple[int, int]]
FIELDS: Final = (encode_uint(0), NULL, b"\xa0\x01t", encode_uint(0), b"\x42", b"\x42")
TRANSFER: Final = frame(described(0x14, *FIELDS), b"\x00\x53\x75\xa0\x64" + b"x" * 100)  # without a delivery-id


@pytest.fixture
def take() -> Iterator[Take]:
    """Takes frames, for a connection on which the peer has two links, and has sent a message."""
    alone = Alone()
    loops = alone.side.engine._host.loops
    loops.begin_session(0)
    for handle in (0, 300):
        loops.expect(0, handle, loops.arrivals(address_of(alone.side.engine._connection), False))  # noqa: FBT003 - C's
    first = transfer_frame(2**32 - 1, b"")
    assert loops.take(first, 0, MOST) == (len(first), 0)
    yield loops.take
    alone.free()


def test_it_passes_over_what_is_nearly_all_there_is(take: Take) -> None:
    data = TRANSFER + EMPTY_FRAME + disposition_frame(0, 3, NULL) + TRANSFER
    assert take(data, 0, MOST) == (len(data), 0)
    assert take(memoryview(bytearray(data)), len(TRANSFER), MOST) == (len(data), 0)


def test_it_stops_at_what_needs_a_look(take: Take) -> None:
    flow = flow_frame()
    assert take(TRANSFER + flow + TRANSFER, 0, MOST) == (len(TRANSFER), len(flow))
    assert take(TRANSFER + flow[:11], 0, MOST) == (len(TRANSFER), 0), "four bytes are needed to know it"
    assert take(TRANSFER + flow[:12], 0, MOST) == (len(TRANSFER), len(flow)), "it may end behind the data"
    assert take(open_frame(), 0, MOST) == (0, len(open_frame()))


def test_a_frame_that_passes_may_end_behind_the_data(take: Take) -> None:
    assert take(TRANSFER[:18], 0, MOST) == (0, 0), "its fields have not come"
    assert take(TRANSFER[:60], 0, MOST) == (60, 0)
    assert take(TRANSFER[60:] + TRANSFER, 0, MOST) == (2 * len(TRANSFER) - 60, 0)
    assert take(b"", 0, MOST) == (0, 0)


@pytest.mark.parametrize(
    "head",
    [b"\0\0\0\x07\x02\0\0\0", b"\0\0\0\x08\x01\0\0\0", b"\0\0\0\x08\x03\0\0\0", b"\0\1\0\1\x02\0\0\0", b"AMQP\0\1\0\0"],
)
def test_what_cannot_be_a_frame_is_none(take: Take, head: bytes) -> None:
    assert take(TRANSFER + head, 0, MOST) == (len(TRANSFER), -1)


def test_an_extended_header_is_skipped(take: Take) -> None:
    body = bytes(1012) + TRANSFER[8:]
    long = struct.pack(">IBBH", 8 + len(body), 255, 0, 0) + body
    assert take(long[:1020], 0, MOST) == (0, 0)
    assert take(long, 0, MOST) == (len(long), 0)


def transfer_of(*fields: bytes) -> bytes:
    return frame(described(0x14, *fields), b"payload")


HANDLE: Final = encode_uint(300)
LOOKED_AT: Final = {
    "a list that ends behind its frame": frame(b"\x00\x53\x14\xc0\x20\x04\x43\x43\x40\x43"),
    "a list without room for its count": frame(b"\x00\x53\x14\xc0\x00\x04\x43\x43\x40\x43"),
    "no list": frame(b"\x00\x53\x14\xa1\x02xx"),
    "a descriptor of eight bytes": frame(b"\x00\x80" + struct.pack(">Q", 0x14) + b"\x45"),
    "a body of three bytes": frame(b"\x00\x53\x14"),
    "another type": frame(described(0x14), kind=1),
    "no fields": frame(b"\x00\x53\x14\x45"),
    "a handle that no link has": transfer_of(encode_uint(1), encode_uint(0), NULL),
    "another delivery-id than is due": transfer_of(HANDLE, encode_uint(1), NULL),
    "fields of any type": transfer_of(b"\xa1\x01x", HANDLE, HANDLE, b"\x00"),
}
PASSED: Final = {
    "three fields": transfer_of(HANDLE, encode_uint(0), NULL),
    "a wide list": frame(b"\x00\x53\x14\xd0\x00\x00\x00\x08\x00\x00\x00\x04\x43\x43\x40\x43", b"payload"),
}


@pytest.mark.parametrize("name", [*LOOKED_AT, *PASSED])
def test_transfers_of_every_kind(take: Take, name: str) -> None:
    data = LOOKED_AT.get(name) or PASSED[name]
    expected = (0, len(data)) if name in LOOKED_AT else (len(data), 0)
    for size in range(len(data)):  # with less of it, it may not be known yet, but never is it another one
        if name in LOOKED_AT:
            assert take(data[:size], 0, MOST) in (expected, (0, 0))
    assert take(data, 0, MOST) == expected


@pytest.mark.parametrize("arguments", [(), (b"",), ("text", 0, 8), (b"", 1, 8), (b"", -1, 8), (None, 0, 8)])
def test_the_module_in_c_takes_nothing_else(take: Take, arguments: tuple[Any, ...]) -> None:
    with pytest.raises((TypeError, ValueError)):
        take(*arguments)


# whole sessions

SEEDS: Final = 60


def _answers(pieces: list[bytes], choice: Callable[[Pointer], Loops]) -> tuple[list[bytes], list[tuple[str, str]]]:
    """Return what a node's engine says to these pieces, one after another, and why it gave up."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(host_connection, "new_loops", choice)
        side = Side("node", server=True, max_frame_bytes=65536)
        node = Node(container_id="node")
        node.queue("work", capacity=100)
        node.serve("numbers", Stream.range(5))
        side.answer = partial(node._on_attach, Client())
        said = []
        try:
            for piece in pieces:
                side.engine.feed(piece)
                while side.engine.dispatch(RUN, math.inf):
                    pass
                while output := bytes(side.engine.output()):
                    said.append(output)
            side.engine.feed(b"")
            side.output()
            said.append(repr(node.statistics().queues["work"].ready).encode())
        finally:
            side.engine.links.lose(ConnectionLost("the end"))
            side.engine.free()
    return said, side.failures


@pytest.mark.slow
@pytest.mark.parametrize("session", ["publish", "publish packs", "consume", "a refusal"])
def test_both_make_the_same_of_mutated_sessions(session: str) -> None:
    script = [chunk for chunk in recorded(session, "to_peer") if chunk.data]
    start = next(at for at, chunk in enumerate(script) if AMQP_HEADER in chunk.data)  # SASL is not the engine's
    for seed in range(SEEDS):
        choose = random.Random(seed)  # noqa: S311 - to come again, not to be secret
        changed = b"".join(chunk.data for chunk in (mutated(script[start:], choose) if seed else script[start:]))
        changed = changed[changed.find(AMQP_HEADER) :] if AMQP_HEADER in changed else AMQP_HEADER + changed
        pieces = []
        while changed:
            size = choose.choice([1, 7, 60, 1000, 100_000])
            pieces.append(changed[:size])
            changed = changed[size:]
        in_c, in_python = _answers(pieces, new_loops), _answers(pieces, PythonLoops)
        assert in_c == in_python, seed


@pytest.mark.parametrize("choice", [new_loops, PythonLoops])
def test_bytes_one_by_one_are_the_same_as_all_at_once(choice: Callable[[Pointer], Loops]) -> None:
    whole = AMQP_HEADER + open_frame() + begin_frame(None) + frame(described(0x19))
    said, failures = _answers([whole], choice)
    slowly, failures_slowly = _answers([whole[at : at + 1] for at in range(len(whole))], choice)
    assert failures == failures_slowly
    assert b"".join(said) == b"".join(slowly)
