"""The walk over frames: where it stops and why, in C as in Python; and what both make of mutated sessions."""

from __future__ import annotations

import math
import random
import struct
from collections.abc import Callable
from functools import partial
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rstreams import Node, Stream
from rstreams._codec.encode import NULL, encode_fields, encode_uint
from rstreams.errors import ConnectionLost
from rstreams.net._proton import host_connection
from rstreams.net._proton.loops import Loops
from rstreams.net.transport.pump import RUN
from rstreams.node import Client
from tests.net.engines import Side
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
from tests.oracles import frame_walk
from tests.oracles.loops import PythonLoops

PASSING: Final = 1 << 4 | 1 << 5  # transfers and dispositions
MOST: Final = 65536
Walk = Callable[..., tuple[int, int]]
TRANSFER: Final = transfer_frame(0, b"x" * 100)


@pytest.fixture(params=["C", "Python"])
def walk(request: pytest.FixtureRequest) -> Walk:
    return Loops.walk if request.param == "C" else frame_walk.walk


def test_it_passes_over_what_is_nearly_all_there_is(walk: Walk) -> None:
    data = TRANSFER + EMPTY_FRAME + disposition_frame(0, 3, NULL) + TRANSFER
    assert walk(data, 0, PASSING, MOST) == (len(data), 0)
    assert walk(memoryview(bytearray(data)), len(TRANSFER), PASSING, MOST) == (len(data), 0)


def test_it_stops_at_what_needs_a_look(walk: Walk) -> None:
    flow = flow_frame()
    assert walk(TRANSFER + flow + TRANSFER, 0, PASSING, MOST) == (len(TRANSFER), len(flow))
    assert walk(TRANSFER + flow[:11], 0, PASSING, MOST) == (len(TRANSFER), 0), "four bytes are needed to know it"
    assert walk(TRANSFER + flow[:12], 0, PASSING, MOST) == (len(TRANSFER), len(flow)), "it may end behind the data"
    assert walk(TRANSFER, 0, 0, MOST) == (0, len(TRANSFER)), "none passes"
    assert walk(open_frame(), 0, 0xFFFF, MOST) == (len(open_frame()), 0)


def test_a_frame_that_passes_may_end_behind_the_data(walk: Walk) -> None:
    for size in range(14, len(TRANSFER)):
        assert walk(TRANSFER[:size], 0, PASSING, MOST) == (len(TRANSFER), 0)


def test_too_little_is_too_little(walk: Walk) -> None:
    for size in range(14):
        assert walk(TRANSFER + TRANSFER[:size], 0, PASSING, MOST) == (len(TRANSFER), 0), size
    assert walk(b"", 0, PASSING, MOST) == (0, 0)
    assert walk(b"", 5, PASSING, MOST) == (5, 0)


@pytest.mark.parametrize(
    "head",
    [b"\0\0\0\x07\x02\0\0\0", b"\0\0\0\x08\x01\0\0\0", b"\0\0\0\x08\x03\0\0\0", b"\0\1\0\1\x02\0\0\0", b"AMQP\0\1\0\0"],
)
def test_what_cannot_be_a_frame_is_none(walk: Walk, head: bytes) -> None:
    assert walk(TRANSFER + head, 0, PASSING, MOST) == (len(TRANSFER), -1)


def test_an_extended_header_is_skipped(walk: Walk) -> None:
    body = bytes(1012) + TRANSFER[8:]
    long = struct.pack(">IBBH", 8 + len(body), 255, 0, 0) + body
    assert walk(long, 0, PASSING, MOST) == (len(long), 0)
    assert walk(long[:1020], 0, PASSING, MOST) == (0, 0)


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
}
PASSED: Final = {
    "no fields": frame(b"\x00\x53\x14\x45"),
    "three fields": transfer_of(HANDLE, HANDLE, NULL),
    "a wide list": frame(b"\x00\x53\x14\xd0\x00\x00\x00\x08\x00\x00\x00\x04\x43\x43\x40\x43", b"payload"),
    "fields of any type": transfer_of(b"\xa1\x01x", HANDLE, HANDLE, b"\x00"),
}


@pytest.mark.parametrize("name", [*LOOKED_AT, *PASSED])
def test_transfers_of_every_kind(walk: Walk, name: str) -> None:
    data = LOOKED_AT.get(name) or PASSED[name]
    expected = (0, len(data)) if name in LOOKED_AT else (len(data), 0)
    assert walk(data, 0, PASSING, MOST) == expected
    for size in range(len(data)):  # with less of it, it may not be known yet, but never is it another one
        assert walk(data[:size], 0, PASSING, MOST) in (expected, (0, 0))


ANY_FIELDS: Final = st.lists(
    st.one_of(
        st.sampled_from([NULL, b"\x43", b"\x52\x00", b"\x52\x07", b"\x70\x80\x01\x37\x00", b"\x41", b"\x45", b"\x00"]),
        st.binary(max_size=12).map(lambda tag: b"\xa0" + bytes((len(tag),)) + tag),
        st.binary(max_size=4).map(lambda tag: b"\xb0" + struct.pack(">I", len(tag)) + tag),
        st.binary(max_size=6),
    ),
    max_size=6,
)
ANY_FRAME: Final = st.one_of(
    st.binary(max_size=40),
    st.builds(
        lambda code, fields, payload, kind: frame(
            b"\x00\x53" + bytes((code,)) + encode_fields(fields), payload, kind=kind
        ),
        st.sampled_from([0x13, 0x14, 0x14, 0x14, 0x15, 0x19]),
        ANY_FIELDS,
        st.binary(max_size=9),
        st.sampled_from([0, 0, 0, 1]),
    ),
    st.builds(
        lambda head, body: head + body,
        st.sampled_from(
            [b"\0\0\0\x20\x02\0\0\0\0S\x14", b"\0\0\0\x30\x03\0\0\0", b"\xff\xff\xff\xff\x02\0\0\0\0S\x14\xd0"]
        ),
        st.binary(max_size=60),
    ),
)


@given(st.lists(ANY_FRAME, max_size=6), st.data(), st.integers(0, 0xFFFF), st.sampled_from([8, 64, MOST, 2**32 - 1]))
def test_both_walk_alike_over_any_bytes(frames: list[bytes], data: st.DataObject, passing: int, most: int) -> None:
    whole = b"".join(frames)
    cut = whole[: data.draw(st.integers(0, len(whole)))]
    at = data.draw(st.integers(0, len(cut) + 9))
    for kind in (bytes, bytearray, memoryview):
        assert Loops.walk(kind(cut), at, passing, most) == frame_walk.walk(kind(cut), at, passing, most)


@pytest.mark.parametrize("arguments", [(), (b"",), ("text", 0, 0, 8), (b"", 0, 0), (None, 0, 0, 8)])
def test_the_module_in_c_takes_nothing_else(arguments: tuple[object, ...]) -> None:
    with pytest.raises((TypeError, OverflowError)):
        Loops.walk(*arguments)


# whole sessions

SEEDS: Final = 60


def _answers(pieces: list[bytes], choice: type[Loops | PythonLoops]) -> tuple[list[bytes], list[tuple[str, str]]]:
    """Return what a node's engine says to these pieces, one after another, and why it gave up."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(host_connection, "Loops", choice)
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
        in_c, in_python = _answers(pieces, Loops), _answers(pieces, PythonLoops)
        assert in_c == in_python, seed


@pytest.mark.parametrize("choice", [Loops, PythonLoops])
def test_bytes_one_by_one_are_the_same_as_all_at_once(choice: type[Loops | PythonLoops]) -> None:
    whole = AMQP_HEADER + open_frame() + begin_frame(None) + frame(described(0x19))
    said, failures = _answers([whole], choice)
    slowly, failures_slowly = _answers([whole[at : at + 1] for at in range(len(whole))], choice)
    assert failures == failures_slowly
    assert b"".join(said) == b"".join(slowly)
