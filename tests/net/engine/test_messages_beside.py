"""Messages that go beside the engine."""

from __future__ import annotations

import math
import struct
import sys
from collections.abc import Iterator
from unittest.mock import ANY

import pytest
from cproton_ffi import ffi, lib

from rstreams.message import encode_item
from rstreams.net._proton import BUFFER_BYTES
from rstreams.net._proton.loops import address_of, as_delivery
from rstreams.net.transport.pump import RUN
from tests.net.engine.test_loops import ENOUGH, Pair, read_nothing

MOST = 4000
"""The largest message that may go beside the engine in these tests."""

SIZES = (0, 1, 111, 112, 127, 128, 129, 255, 256, 257, 1024, MOST - 1, MOST, MOST + 1, 40_000)


@pytest.fixture
def pair() -> Iterator[Pair]:
    made = Pair()
    made.most = MOST
    yield made
    made.engines.free()


def send(pair: Pair, messages: list[bytes], first: int = 0, *, settled: bool = False, are_bodies: bool = False) -> None:
    loops, link, done = pair.sending, address_of(pair.sender), 0
    while done < len(messages):
        numbers = range(first + done, first + len(messages))
        done += len(pair.begin_to_send(numbers, messages[done:], settled=settled, are_bodies=are_bodies))
        if done < len(messages):
            loops.begin(link, first + done)
            at = 0
            while at >= 0:
                at = loops.send_part(link, messages[done], at, are_bodies, False, settled, MOST, 10_000)  # noqa: FBT003 - C's
            done += 1


def made(sizes: tuple[int, ...] = SIZES) -> list[bytes]:
    """Return different messages of these sizes."""
    return [bytes((at + each) % 256 for each in range(size)) for at, size in enumerate(sizes)]


@pytest.mark.parametrize("settled", [False, True])
def test_messages_of_any_size_arrive_as_they_were_sent(pair: Pair, *, settled: bool) -> None:
    send(pair, made(), settled=settled)
    pair.move()
    assert pair.read() == (ANY, made(), settled)


@pytest.mark.parametrize("settled", [False, True])
def test_bodies_arrive_as_their_encoded_messages(pair: Pair, *, settled: bool) -> None:
    send(pair, made(), settled=settled, are_bodies=True)
    pair.move()
    assert pair.read() == (ANY, list(map(encode_item, made())), settled)


@pytest.mark.parametrize("settled", [False, True])
def test_each_delivery_has_its_tag(pair: Pair, *, settled: bool) -> None:
    numbers = [0, 1, 255, 256, 2**31, 2**32 + 7, *range(1000, 1300)]
    messages = [bytes(1000 if number % 3 else 10) for number in numbers]
    pair.begin_to_send(numbers, messages, settled=settled)
    pair.move()
    tags = []
    while delivery := lib.pn_link_current(pair.receiver):
        tag = lib.pn_delivery_tag(delivery)
        tags.append(bytes(ffi.buffer(tag.start, tag.size)))
        lib.pn_link_advance(pair.receiver)
    assert tags == [struct.pack(">I", number % 2**32) for number in numbers]


@pytest.mark.slow
@pytest.mark.parametrize("room", [1, 2, 7, 26, 127, 128, 1000, 32 * 1024 + 1])
def test_the_output_may_be_taken_in_pieces_of_any_size(pair: Pair, room: int) -> None:
    sent, outputs = made() * 3, 0
    send(pair, sent[:20])
    while pieces := pair.sending.output(memoryview(bytearray(room)), ENOUGH, 0, read_nothing)[0]:
        pair.engines.one.engine.feed(b"".join(pieces))
        outputs += 1
        if outputs == 2:
            send(pair, sent[20:], first=20)
    pair.move()
    assert pair.read()[1] == sent


def test_an_output_is_full_with_so_many_bytes_of_messages_that_are_not_copied(pair: Pair) -> None:
    size, outputs, engine = 60_000, list[int](), pair.engines.other.engine
    pair.most = size
    engine.limit_parts(200_000)
    pair.begin_to_send(range(20), [bytes(size)] * 20)
    more = True
    while more:
        pieces, _, more = engine.turn(RUN, math.inf, 0.0)
        outputs.append(sum(map(len, pieces)))
        pair.engines.one.engine.feed(b"".join(pieces))
    assert max(outputs) < 200_000 + size + 1000
    assert pair.read()[1] == [bytes(size)] * 20


def test_a_state_for_which_an_output_has_no_room_is_told_in_the_next_turn(pair: Pair) -> None:
    engine, messages = pair.engines.other.engine, [bytes(MOST)] * 130
    (driver,) = engine.links.drivers
    pair.begin_to_send(range(130), messages)
    left = BUFFER_BYTES - len(engine.output())
    pair.begin_to_send(range(130), messages)
    pair.begin_to_send([130], [bytes(left - 300)])
    driver.tell_state()
    pieces, _, more = engine.turn(RUN, math.inf, 0.0)
    assert 0 < BUFFER_BYTES - sum(map(len, pieces)) < 300
    assert more
    assert bytes(engine.output())[8:11] == b"\0S\x13"


def test_messages_that_have_no_credit_wait_and_go_out_in_their_order(pair: Pair) -> None:
    sent = [b"%3d" % at + bytes(500) for at in range(600)]
    lib.pn_link_flow(pair.receiver, -700)
    pair.move()
    for at in range(0, 600, 100):
        send(pair, sent[at : at + 100], first=at)
        pair.move()
    assert pair.read()[1] == sent[:300]
    lib.pn_link_flow(pair.receiver, 1000)
    pair.move()  # the credit,
    pair.move()  # and what it is used for
    assert pair.read()[1] == sent[300:]


def test_the_bytes_of_messages_wait_in_their_session_until_the_output_is_taken(pair: Pair) -> None:
    session = lib.pn_link_session(pair.sender)
    send(pair, [bytes(1000)] * 50)
    assert pair.sending.waiting(address_of(session)) >= 50_000
    pair.move()
    assert pair.sending.waiting(address_of(session)) == 0


def test_messages_that_are_in_the_output_go_out_although_their_link_is_gone(pair: Pair) -> None:
    send(pair, made())
    lib.pn_transport_pending(pair.engines.other.engine._transport)  # now they are
    pair.sending.forget(address_of(pair.sender))
    pair.move()
    assert pair.read()[1] == made()


def test_parts_of_a_delivery_that_was_aborted_are_not_kept(pair: Pair) -> None:
    loops, part, link = pair.sending, bytes(1000), address_of(pair.sender)
    before = sys.getrefcount(part)
    (begun,) = loops.begin(link, 1)
    for _ in range(2):  # the first one is in the output, and the second one in the engine, without credit
        assert loops.send_part(link, part, 0, False, True, False, MOST, 1) == -1  # noqa: FBT003 - C's
        lib.pn_link_flow(pair.receiver, -1000)
        pair.engines.other.engine.feed(pair.engines.one.engine.output())
    loops.forget(begun)
    lib.pn_delivery_abort(as_delivery(begun))
    assert loops.part_bytes() == 2000
    pair.move()
    loops.output(memoryview(bytearray(1)), ENOUGH, 0, read_nothing)
    assert loops.part_bytes() == 0
    assert sys.getrefcount(part) == before


def test_a_frame_that_is_told_may_have_another_in_its_place(pair: Pair) -> None:
    told: list[bytes] = []
    send(pair, [b"x" * 1000])
    lib.pn_session_set_incoming_capacity(lib.pn_link_session(pair.sender), 0)

    def on_frame(frame: bytes) -> bytes:
        told.append(frame)
        return b"y" * 50_000

    pieces, used, _ = pair.sending.output(memoryview(bytearray(100_000)), ENOUGH, 1 << 3, on_frame)
    assert [frame[8:11] for frame in told] == [b"\0S\x13"]
    assert [bytes(each) for each in pieces if each.readonly] == [b"y" * 50_000]
    assert used == sum(len(each) for each in pieces if not each.readonly) > 1000


@pytest.mark.parametrize("wrong", ["text", 1, RuntimeError])
def test_an_error_of_who_is_told_comes_out(pair: Pair, wrong: object) -> None:
    lib.pn_session_set_incoming_capacity(lib.pn_link_session(pair.sender), 0)

    def on_frame(_frame: bytes) -> object:
        if wrong is RuntimeError:
            raise RuntimeError
        return wrong

    with pytest.raises((TypeError, RuntimeError)):
        pair.sending.output(memoryview(bytearray(1000)), ENOUGH, 1 << 3, on_frame)


def test_messages_of_a_link_that_is_gone_are_not_kept(pair: Pair) -> None:
    lib.pn_link_flow(pair.receiver, -1000)
    pair.move()
    message = bytes(1000)
    before = sys.getrefcount(message)
    send(pair, [message] * 10)
    lib.pn_link_detach(pair.sender)
    pair.move()
    pair.sending.forget(address_of(pair.sender))
    pair.move()
    pair.sending.output(memoryview(bytearray(1)), ENOUGH, 0, read_nothing)
    assert sys.getrefcount(message) == before
    assert pair.sending.waiting(address_of(lib.pn_link_session(pair.sender))) == 0


def test_messages_are_let_go_with_their_connection() -> None:
    pair, message = Pair(), bytes(1000)
    before = sys.getrefcount(message)
    send(pair, [message] * 10)
    pair.engines.free()
    del pair
    assert sys.getrefcount(message) == before
