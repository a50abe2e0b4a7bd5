"""A node's engine fed frames that are well formed and make no sense: nothing is raised, and no message is lost."""

from __future__ import annotations

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rstreams import Node, Stream
from rstreams._codec.encode import NULL
from rstreams.node import Client
from tests.net.engines import Alone
from tests.net.wire import (
    AMQP_HEADER,
    attach_frame,
    begin_frame,
    close_frame,
    described,
    detach_frame,
    disposition_frame,
    end_frame,
    error,
    flow_frame,
    next_frame,
    open_frame,
    transfer_frame,
)

HANDLES = st.integers(0, 2)
CHANNELS = st.sampled_from([0, 0, 0, 1])
ADDRESSES = st.sampled_from(["queue", "served", "multicast", "nowhere", "$statistics", None])
NUMBERS = st.integers(0, 6)
REASONS = st.sampled_from([NULL, error("amqp:internal-error"), described(0x1D), b"\x54\x05"])
OUTCOMES = st.sampled_from([NULL, *map(described, (0x23, 0x24, 0x25, 0x26, 0x27, 0x34))])

FRAMES = st.one_of(
    st.builds(
        attach_frame,
        st.sampled_from("abc"),
        st.sampled_from(["sender", "receiver"]),
        source=ADDRESSES,
        target=ADDRESSES,
        settled=st.booleans(),
        initial_delivery_count=st.sampled_from([None, 0, 0xFFFFFFFB]),
        handle=HANDLES,
        channel=CHANNELS,
    ),
    st.builds(
        flow_frame,
        next_incoming=NUMBERS,
        handle=HANDLES,
        delivery_count=NUMBERS,
        credit=st.sampled_from([0, 1, 3, 100, 2**31 - 1, 2**32 - 1]),
        drain=st.booleans(),
        channel=CHANNELS,
    ),
    st.builds(
        transfer_frame,
        NUMBERS,
        st.binary(max_size=20),
        settled=st.booleans(),
        more=st.booleans(),
        handle=HANDLES,
        channel=CHANNELS,
    ),
    st.builds(next_frame, more=st.booleans(), aborted=st.booleans(), handle=HANDLES),
    st.builds(disposition_frame, NUMBERS, NUMBERS, OUTCOMES, settled=st.booleans(), channel=CHANNELS),
    st.builds(detach_frame, closed=st.booleans(), why=REASONS, handle=HANDLES, channel=CHANNELS),
    st.builds(end_frame, REASONS, channel=CHANNELS),
    st.builds(begin_frame, st.none(), channel=CHANNELS),
    st.builds(close_frame, REASONS),
)
PIECES = st.one_of(FRAMES, st.lists(FRAMES, min_size=1, max_size=4).map(b"".join))


@pytest.mark.slow
@given(st.lists(PIECES, max_size=25))
def test_random_frames_harm_nothing(pieces: list[bytes]) -> None:
    node = Node()
    queue = node.queue("queue", capacity=4)
    node.multicast("multicast")
    node.serve("served", Stream.range(20))
    engine = Alone()
    engine.side.answer = partial(node._on_attach, Client())
    try:
        engine.feed(AMQP_HEADER + open_frame() + begin_frame(None))
        for piece in pieces:
            engine.feed(piece)
        engine.feed(b"")
    finally:
        engine.free()
    now = queue.statistics()
    assert now.enqueued == now.ready + now.accepted + now.rejected
    assert (now.unsettled, now.consumers, now.producers, now.credit) == (0, 0, 0, 0)
