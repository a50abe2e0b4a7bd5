"""What a message loses on its way through a node, and what it keeps."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from proton import Message as ProtonMessage

from rstreams import Message
from rstreams._codec import Symbol, encode_value
from rstreams._codec.asking import COPIES, DELAYS, Wish, asked_by
from rstreams._codec.decode import FUNCTIONS, IN_PYTHON, Functions, Malformed
from rstreams._codec.encode import encode_fields
from rstreams._codec.forwarding import address_of, once_acquired, without_delivery_annotations
from rstreams.errors import RemoteProtocolError
from rstreams.message import ULong, decode_message, encode_item
from rstreams.net.links.effectively_once import PRODUCER, SEQUENCE
from tests.message.strategies import messages

NOTES = b"\x00\x53\x71" + encode_value({Symbol("x-opt-hop"): "one"})
LONG_NAME = b"\x00" + encode_value(Symbol("amqp:delivery-annotations:map")) + NOTES[3:]
HEADER = b"\x00\x53\x70"


@pytest.mark.slow
@given(messages, st.sampled_from([NOTES, LONG_NAME]))
def test_delivery_annotations_are_for_one_hop_and_all_else_stays(message: Message, notes: bytes) -> None:
    encoded = encode_item(message)
    assert without_delivery_annotations(encoded) is encoded
    at = 0
    if encoded.startswith(HEADER):
        at = 5 + encoded[4]
    assert without_delivery_annotations(encoded[:at] + notes + encoded[at:]) == encoded


def test_those_that_proton_writes() -> None:
    theirs = ProtonMessage(body="b", id="1", durable=True)
    theirs.instructions = {"x-opt-hop": 1}
    theirs.annotations = {"x-opt-stays": 2}
    theirs.first_acquirer = True
    encoded = theirs.encode()
    kept = without_delivery_annotations(encoded)
    assert kept != encoded
    back = ProtonMessage()
    back.decode(kept)
    assert back.instructions is None
    assert (back.annotations, back.body, back.id, back.durable) == ({"x-opt-stays": 2}, "b", "1", True)


@pytest.mark.slow
@given(messages)
def test_the_second_one_who_gets_it_is_not_the_first_acquirer(message: Message) -> None:
    once = once_acquired(encode_item(message))
    later = decode_message(encode_item(replace(message, first_acquirer=False)))
    assert repr(decode_message(once)) == repr(later), "equal, but for a NaN, which nothing equals"
    assert once_acquired(once) is once


@pytest.mark.slow
@given(messages)
def test_where_a_message_is_to_go_is_what_it_says(message: Message) -> None:
    assert address_of(encode_item(message)) == (message.address or None)


@given(st.binary(max_size=40), st.sampled_from([b"", HEADER, HEADER + b"\xc0", NOTES, b"\x00\x53\x73", b"\x00\x80"]))
def test_nonsense_stays_as_it_is(rest: bytes, beginning: bytes) -> None:
    encoded = beginning + rest
    for function in (without_delivery_annotations, once_acquired):
        assert isinstance(function(encoded), bytes)
    with suppress(RemoteProtocolError):
        assert address_of(encoded) != ""


@pytest.mark.parametrize("flag", [b"\x41", b"\x56\x01"])
def test_each_way_to_write_the_flag_is_known(flag: bytes) -> None:
    fields = [b"\x41", b"\x40", b"\x40", flag, b"\x52\x03"]
    encoded = HEADER + encode_fields(fields) + encode_item("b")
    message = decode_message(once_acquired(encoded))
    assert (message.first_acquirer, message.durable, message.delivery_count) == (False, True, 3)


@pytest.mark.slow
@given(st.lists(messages, max_size=3), st.binary(max_size=20), st.integers(0, 60), st.sampled_from([list, tuple]))
def test_messages_that_cannot_expire_have_no_lifetime(
    some: list[Message], noise: bytes, at: int, kind: type[list[bytes]]
) -> None:
    run = [encode_item(message) for message in some]
    for functions in (FUNCTIONS, IN_PYTHON):
        for encoded in (*run, *(each[:at] + noise + each[at:] for each in run), noise):
            with suppress(*Malformed):
                lifetime = functions.lifetime_of(encoded)
                assert functions.may_expire([encoded]) or lifetime == (math.inf, None)
        assert functions.may_expire(kind(run)) is any(functions.may_expire([encoded]) for encoded in run)


@pytest.mark.parametrize("functions", [FUNCTIONS, IN_PYTHON])
def test_messages_that_can_expire_are_found_among_others(functions: Functions) -> None:
    now = datetime.now(UTC)
    for lasting in (
        Message(ttl_s=1.5),
        Message(ttl_s=0.0),
        Message(id="a", expiry_time=now),
        Message(b"x" * 999, ttl_s=3.0),
    ):
        assert functions.may_expire([encode_item(b"body"), encode_item(lasting), encode_item("text")])
    assert not functions.may_expire([encode_item(b"body"), encode_item(Message(properties={"a": 1}))])
    assert not functions.may_expire(())
    assert functions.may_expire([b""])


def test_fields_before_and_behind_the_lifetime_do_not_matter_in_c() -> None:
    message = Message(b"x", id="i", subject="s", priority=3, durable=True, group_id="g", annotations={"x-opt-a": 1})
    assert not FUNCTIONS.may_expire([encode_item(message)] * 3)


# wishes

ALL = sum(Wish)


@pytest.mark.slow
@given(messages, st.binary(max_size=20), st.integers(0, 60), st.integers(0, ALL))
def test_a_message_that_may_not_ask_does_not_ask(message: Message, noise: bytes, at: int, among: int) -> None:
    encoded = encode_item(message)
    for each in (encoded, encoded[:at] + noise + encoded[at:], encoded[:at], noise):
        for functions in (FUNCTIONS, IN_PYTHON):
            assert functions.may_ask(each, among) or not asked_by(each) & among


@pytest.mark.parametrize("functions", [FUNCTIONS, IN_PYTHON])
def test_each_wish_is_found_and_no_other(functions: Functions) -> None:
    asking: dict[Wish, list[Message]] = {
        Wish.DURABLE: [Message(durable=True), Message(durable=True, id="a", delivery_count=3)],
        Wish.PRIORITY: [Message(priority=0), Message(priority=5), Message(priority=255)],
        Wish.LIFETIME: [Message(ttl_s=0.0), Message(ttl_s=9.5), Message(expiry_time=datetime.now(UTC), id="a")],
        Wish.GROUP: [Message(group_id="g"), Message(b"x" * 999, id="a", group_id="g" * 300)],
        Wish.DELAY: [Message(annotations={"x-opt-a": [1], name: 7}) for name in DELAYS],
        Wish.COPIES: [Message(annotations={COPIES: ["b"]}, properties={"a": 1})],
    }
    for wish, some in asking.items():
        for message in some:
            encoded = encode_item(message)
            assert asked_by(encoded) == wish
            assert functions.may_ask(encoded, int(wish))
            assert functions.may_ask(encoded, ALL)
            assert not FUNCTIONS.may_ask(encoded, ALL - wish)


def test_what_most_messages_have_asks_for_nothing_in_c() -> None:
    usual = [
        Message(b"x", id="i", subject="s", creation_time=datetime.now(UTC), user_id=b"u", reply_to="r", address="a"),
        Message(b"x", annotations={"x-opt-partition-key": "k", "x-opt-a": None, "x": [1], "x-c": 1}),
        Message(b"x", annotations={PRODUCER: "p", SEQUENCE: ULong(1)}, properties={"priority": 9}),
        Message(b"x", first_acquirer=True, delivery_count=7),
    ]
    encoded = [encode_item(each) for each in usual]
    fields = [
        [b"\x42", b"\x50\x04"],
        [b"\x40", b"\x40", b"\x40"],
        [b"\x40", b"\x50\x04", b"\x40", b"\x42", b"\x43"],
        [],
    ]
    encoded += [
        HEADER + encode_fields(each) + encode_item("b") for each in fields
    ]  # as clients of other makes write it
    assert [each for each in encoded if FUNCTIONS.may_ask(each, ALL) or asked_by(each)] == []
