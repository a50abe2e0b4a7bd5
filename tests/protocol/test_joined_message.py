"""A message in pieces is decoded as the joined one, and its body is not copied."""

from __future__ import annotations

import pytest

from rstreams.errors import RemoteProtocolError
from rstreams.message import Message, decode_body, decode_message, encode_item
from rstreams.net.links.effectively_once import decode_unstamped
from rstreams.protocol.joined_message import JoinedMessage

BODY = bytes(range(256)) * 1024

FULL = Message(
    BODY,
    id="id",
    subject="subject",
    durable=True,
    annotations={"x-opt-a": 1},
    properties={f"name {number}": number for number in range(40)},  # a map whose size has four bytes
)

FOOTER = bytes.fromhex("005378c10100")


def halves(encoded: bytes, body: bytes = BODY) -> JoinedMessage:
    """Return a message as it comes: what is before its body, and the body."""
    return JoinedMessage([encoded[: -len(body)], body])


@pytest.mark.parametrize("item", [BODY, Message(BODY), Message(BODY, id=b"1"), Message(BODY, ttl_s=2.5), FULL])
def test_it_is_decoded_as_the_whole_message(item: object) -> None:
    encoded = encode_item(item)
    assert halves(encoded).bodies() == [decode_body(encoded)]
    assert halves(encoded).messages(decode_message) == [decode_message(encoded)]
    assert JoinedMessage([encoded]).messages(decode_unstamped) == [decode_unstamped(encoded)]
    assert JoinedMessage([encoded[:-1000], encoded[-1000:]]).bodies() == [BODY]


@pytest.mark.parametrize("item", [BODY, FULL])
def test_a_body_that_is_one_piece_is_not_copied(item: object) -> None:
    encoded = encode_item(item)
    joined = halves(encoded)
    assert joined.size == len(encoded)
    bodies, messages = joined.bodies(), joined.messages(decode_message)
    assert bodies is not None
    assert bodies[0] is BODY
    assert messages is not None
    assert messages[0].body is BODY


def test_a_decoder_that_may_look_at_the_body_gets_the_whole_message() -> None:
    class Own:
        __hash__ = None  # type: ignore[assignment]

        def __call__(self, encoded: bytes) -> Message:
            return decode_message(encoded)

    assert halves(encode_item(FULL)).messages(bytes) is None
    assert halves(encode_item(FULL)).messages(Own()) is None


@pytest.mark.parametrize(
    "encoded",
    [
        encode_item("x" * 1000),
        encode_item([1, 2]),
        encode_item(BODY) + FOOTER,
        encode_item(BODY) + encode_item(BODY),
        encode_item(BODY)[:-1],
        encode_item(FULL)[:40],
        FOOTER + encode_item(BODY),
        b"\x00\x53\x73\x45\x00\x53\x70\x45" + encode_item(BODY),  # a header behind the properties
        b"\x00\x53\x73\xc0\x03\x01\xff\xff" + encode_item(BODY),  # properties that cannot be decoded
        b"\x00\x53\x75\x45",  # a Data section that has a list
        b"",
        b"\x00",
        BODY,
    ],
)
def test_any_other_message_is_decoded_as_a_whole(encoded: bytes) -> None:
    joined = JoinedMessage([encoded])
    assert joined.messages(decode_message) is None
    for decode, made in ((decode_body, joined.bodies()), (decode_message, None)):
        try:
            whole = decode(encoded)
        except RemoteProtocolError:
            assert made is None
        else:
            assert made is None or made == [whole]
    assert joined[0] == encoded
