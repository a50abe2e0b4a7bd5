"""A large body in memory of its size: whatever comes behind its beginning, the message is as it was sent."""

from __future__ import annotations

import random
import struct
from itertools import pairwise

import pytest

from rstreams._codec.section_heads import EMPTY_BODY
from rstreams.message import Message, encode_item
from rstreams.net._proton.arriving_body import (
    LARGE_BODY_BYTES,
    MOST_BODY_BYTES,
    ArrivingBody,
    large_body_at,
)
from rstreams.net._proton.parts import _Beside

HEAD = b"\x00\x53\x75\xb0"
PROPERTIES = encode_item(Message(b"", id="id", subject="subject", properties={"a": 1})).removesuffix(EMPTY_BODY)


def section(size: int, told: int | None = None) -> bytes:
    """Return a Data section; it says that its body has `told` bytes."""
    return HEAD + struct.pack(">I", size if told is None else told) + random.Random(size).randbytes(size)  # noqa: S311


def begun(payload: bytes) -> _Beside:
    """Return what is kept of a delivery whose first transfer has this payload."""
    beside = _Beside()
    body = ArrivingBody.begun_by(payload, len(payload), bytes)
    if body is None:
        beside.put(0, payload)
    else:
        body.fill(payload[body.head_bytes :])
        beside.body, beside.size = body, len(payload)
    return beside


def joined(message: bytes, cuts: list[int], engine: int = 0) -> bytes:
    """Return what becomes of a message that comes in pieces, cut at these places, with its end by the engine."""
    end = len(message) - engine
    beside = begun(message[: cuts[0]])
    for begin, stop in pairwise([*cuts, end]):
        beside.put(0, message[begin:stop])
    assert beside.size == end
    return beside.message([message[end:]])[0]


@pytest.mark.parametrize("engine", [0, 1, 2000])
def test_a_body_is_filled_by_pieces_and_by_the_engine(engine: int) -> None:
    message = PROPERTIES + section(300_000)
    assert large_body_at(message) == (len(PROPERTIES) + 8, 300_000)
    assert joined(message, [65_000, 130_000, 200_000], engine) == message


@pytest.mark.parametrize("told", [LARGE_BODY_BYTES, 299_999, 300_001, MOST_BODY_BYTES, MOST_BODY_BYTES + 1, 2**32 - 1])
@pytest.mark.parametrize("engine", [0, 2000])
def test_a_message_of_another_size_than_told_comes_as_it_is(told: int, engine: int) -> None:
    message = section(300_000, told)
    assert joined(message, [65_000, 130_000, 200_000], engine) == message


def test_bytes_that_the_engine_gets_between_pieces_keep_their_place() -> None:
    message = section(300_000)
    beside = begun(message[:100_000])
    beside.put(0, message[100_000:150_000])
    beside.put(70, message[150_070:290_000])
    assert beside.message([message[150_000:150_070], message[290_000:]])[0] == message


def test_the_body_is_handed_over_without_a_copy() -> None:
    beside = begun(section(300_000))
    assert beside.body is not None
    bodies = beside.message([]).bodies()
    assert bodies is not None
    assert bodies[0] is beside.body._bytes
