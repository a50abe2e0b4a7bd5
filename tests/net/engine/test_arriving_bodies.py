"""A large body in memory of its size: whatever comes behind its beginning, the message is as it was sent."""

from __future__ import annotations

import random
import struct
from itertools import pairwise

import pytest

from rstreams._codec.section_heads import EMPTY_BODY
from rstreams.message import Message, encode_item
from rstreams.net._proton.loops import new_loops
from tests.net.engine.test_messages_arriving import Receiving, attached, both
from tests.net.wire import FALSE, TRUE, described, frame, transfer_frame

LARGE, MOST = 128 * 1024, 4 * 1024 * 1024  # of a body, and of the memory that it gets at once: see `_incoming.h`
PROPERTIES = encode_item(Message(b"", id="id", subject="subject", properties={"a": 1})).removesuffix(EMPTY_BODY)


def section(size: int, told: int | None = None) -> bytes:
    """Return a Data section; it says that its body has `told` bytes."""
    head = b"\x00\x53\x75\xb0" + struct.pack(">I", size if told is None else told)
    return head + random.Random(size).randbytes(size)  # noqa: S311


def in_transfers(message: bytes, *cuts: int) -> bytes:
    """Return the transfers of a message that is cut at these places."""
    frames = transfer_frame(0, b"", payload=message[: cuts[0]], more=True)
    for begin, end in pairwise([*cuts, len(message)]):
        more = TRUE if end < len(message) else FALSE
        frames += frame(described(0x14, b"\x43", b"\x40", b"\x40", b"\x40", b"\x42", more), message[begin:end])
    return frames


@pytest.mark.parametrize("step", [60_000, 10**9])
@pytest.mark.parametrize(
    "cuts", [(50_000, 100_000, 150_000, 200_000, 250_000), (300,), (1, 2, 3, *range(60_000, 300_000, 60_000))]
)
def test_a_body_is_filled_by_its_transfers(step: int, cuts: tuple[int, ...]) -> None:
    message = PROPERTIES + section(cuts[-1] + 30_000)
    assert both(attached(), in_transfers(message, *cuts), step) == [(message, False, False)]


@pytest.mark.slow
@pytest.mark.parametrize("told", [LARGE, 299_999, 300_001, MOST, MOST + 1, 2**32 - 1])
def test_a_message_of_another_size_than_told_comes_as_it_is(told: int) -> None:
    message = section(300_000, told)
    kept = both(attached(), in_transfers(message, 60_000, 120_000, 180_000, 240_000))
    assert kept == [(message, False, False)]


def test_the_body_is_handed_over_without_a_copy() -> None:
    receiving = Receiving(new_loops)
    receiving.feed(attached())
    message = section(300_000)
    receiving.alone.side.engine.feed(in_transfers(message, 60_000, 120_000, 180_000, 240_000))
    (driver,) = receiving.drivers
    _, pieces, _, is_split, _ = driver.arrivals.read(10, 0)  # type: ignore[attr-defined]
    assert is_split
    assert pieces == [message[:8], message[8:]]
