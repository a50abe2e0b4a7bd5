"""The node's side of SASL, byte by byte: who is let in, what strangers are answered, and that no password shows."""

from __future__ import annotations

import logging
import struct
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import memory_stream_pair

from rstreams import Node
from rstreams._codec import Described, decode_value
from rstreams._codec.encode import NULL, encode_sized, encode_string, encode_symbol
from rstreams.errors import AuthenticationFailed, RemoteProtocolError, RStreamsError
from rstreams.net.transport.security import MAX_SASL_FRAME_BYTES, Admission, authenticate
from rstreams.tls import ClientCertificate
from tests.net.wire import AMQP_HEADER, SASL_HEADER, described, frame, open_frame

USERS = {"alice": "sesame", "bob": "", "jürgen": "über"}

pytestmark = pytest.mark.usefixtures("autojump_clock")


def init(mechanism: str = "PLAIN", response: bytes | None = None, *, hostname: bool = True) -> bytes:
    answer = NULL if response is None else encode_sized(0xA0, 0xB0, response, "response")
    fields = [encode_symbol(mechanism), answer, *([encode_string("localhost")] if hostname else [])]
    return frame(described(0x41, *fields), kind=1)


def plain(user: str | bytes, password: str | bytes, authzid: bytes = b"") -> bytes:
    parts = [part.encode() if isinstance(part, str) else part for part in (user, password)]
    return init(response=b"\x00".join([authzid, *parts]))


async def talk(users: Mapping[str, str] | None, *said: bytes) -> tuple[Any, list[Any]]:
    """Have a client say things, each in a piece of its own; return what became of it and what it was answered.

    The answers are the headers as bytes, the mechanisms offered, and the outcome's code.
    """
    client, server = memory_stream_pair()
    result: Any = None

    async def serve() -> None:
        nonlocal result
        try:
            result = await authenticate(server, Admission(users))
        except RStreamsError as error:
            result = error
        await server.send_eof()

    async def say() -> None:
        for piece in said:
            await client.send_all(piece)
        await client.send_eof()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve)
        nursery.start_soon(say)
        heard = b"".join([data async for data in client])
    return result, answers(heard)


def answers(heard: bytes) -> list[Any]:
    found: list[Any] = []
    while heard:
        if heard.startswith(b"AMQP"):
            found.append(heard[:8])
            heard = heard[8:]
            continue
        size, offset, kind, _ = struct.unpack(">IBBH", heard[:8])
        assert (offset, kind) == (2, 1)
        value = decode_value(heard[8:size])
        assert isinstance(value, Described)
        assert value.descriptor in {0x40, 0x44}
        found.append(value.value[0])
        heard = heard[size:]
    return found


# who is let in


@pytest.mark.parametrize(("user", "password"), USERS.items())
async def test_the_right_password_lets_a_user_in(user: str, password: str) -> None:
    result, told = await talk(USERS, SASL_HEADER, plain(user, password), AMQP_HEADER, open_frame())
    name, rest = result
    assert name == user
    assert (AMQP_HEADER + open_frame()).startswith(rest)
    assert rest.startswith(AMQP_HEADER)
    assert told == [SASL_HEADER, ["PLAIN"], 0]


@pytest.mark.parametrize(
    "response",
    [
        b"\x00alice\x00wrong",
        b"\x00alice\x00",
        b"\x00alice\x00sesame\x00",
        b"\x00alice\x00sesam",
        b"\x00alice\x00sesamee",
        b"\x00Alice\x00sesame",
        b"\x00eve\x00sesame",
        b"\x00eve\x00",
        b"\x00\x00",
        b"\x00alice",
        b"alice\x00sesame",
        b"",
        b"\x00\xff\xfe\x00\xff",
        b"\x00" * 100,
    ],
)
async def test_everyone_else_is_refused(response: bytes) -> None:
    result, told = await talk(USERS, SASL_HEADER, init(response=response), AMQP_HEADER)
    assert isinstance(result, AuthenticationFailed)
    assert told == [SASL_HEADER, ["PLAIN"], 1]
    assert "sesame" not in str(result)


@pytest.mark.parametrize("mechanism", ["ANONYMOUS", "EXTERNAL", "plain", "SCRAM-SHA-256", ""])
async def test_a_mechanism_that_was_not_offered_is_refused(mechanism: str) -> None:
    result, told = await talk(USERS, SASL_HEADER, init(mechanism, b"\x00alice\x00sesame"))
    assert isinstance(result, AuthenticationFailed)
    assert told[-1] == 1


async def test_a_response_that_is_missing_or_no_binary_is_refused() -> None:
    for said in (init(), frame(described(0x41, encode_symbol("PLAIN"), encode_string("\0alice\0sesame")), kind=1)):
        result, told = await talk(USERS, SASL_HEADER, said)
        assert isinstance(result, AuthenticationFailed)
        assert told[-1] == 1


async def test_an_init_without_fields_is_refused() -> None:
    result, told = await talk(USERS, SASL_HEADER, frame(described(0x41), kind=1))
    assert isinstance(result, AuthenticationFailed)
    assert told[-1] == 1


async def test_a_node_without_users_lets_everyone_in() -> None:
    result, told = await talk(None, SASL_HEADER, init("ANONYMOUS", b"me"), AMQP_HEADER)
    assert result == (None, AMQP_HEADER)
    assert told == [SASL_HEADER, ["ANONYMOUS"], 0]
    result, told = await talk(None, AMQP_HEADER + open_frame())
    assert result == (None, AMQP_HEADER + open_frame())
    assert told == [], "the engine answers the rest"


async def test_a_node_with_users_lets_nobody_in_without_sasl() -> None:
    result, told = await talk(USERS, AMQP_HEADER + open_frame())
    assert isinstance(result, RemoteProtocolError)
    assert "skipped SASL" in str(result)
    assert told == [SASL_HEADER]


@pytest.mark.parametrize("users", [None, USERS])
async def test_mechanisms_are_an_array_also_a_single_one(users: Mapping[str, str] | None) -> None:
    """Some clients read a single symbol letter by letter."""
    client, server = memory_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(authenticate, server, Admission(users))
        await client.send_all(SASL_HEADER)
        heard = b""
        while len(heard) < 8 + 20:
            heard += await client.receive_some()
        nursery.cancel_scope.cancel()
    fields = heard[8 + 8 + 3 :]  # behind the header, the frame's header and the descriptor
    assert fields[0] == 0xC0, "a list"
    assert fields[3] in {0xE0, 0xF0}, "whose field is an array"


@pytest.mark.parametrize(
    ("authzid", "accepted"), [(b"", True), (b"alice", True), (b"bob", False), (b"Alice", False), (b"eve", False)]
)
async def test_a_user_acts_for_itself_alone(authzid: bytes, accepted: bool) -> None:  # noqa: FBT001
    """RFC 4616: the authorization identity is the user for whom the client wants to act."""
    result, told = await talk(USERS, SASL_HEADER, plain("alice", "sesame", authzid), AMQP_HEADER)
    assert told[-1] == (0 if accepted else 1)
    if accepted:
        assert result == ("alice", AMQP_HEADER)
    else:
        assert isinstance(result, AuthenticationFailed)
        assert str(result) == "user 'alice' was refused: it may not act for another user"


# bytes in any pieces


@pytest.mark.parametrize("size", [1, 2, 3, 7, 8, 9, 1000])
async def test_the_pieces_it_comes_in_make_no_difference(size: int) -> None:
    said = SASL_HEADER + plain("alice", "sesame") + AMQP_HEADER
    pieces = [said[at : at + size] for at in range(0, len(said), size)]
    result, told = await talk(USERS, *pieces)
    assert result == ("alice", AMQP_HEADER)
    assert told == [SASL_HEADER, ["PLAIN"], 0]


async def test_what_comes_behind_is_for_the_engine_to_the_last_byte() -> None:
    (name, rest), _ = await talk(USERS, SASL_HEADER + plain("alice", "sesame") + AMQP_HEADER + open_frame() + b"more")
    assert (name, rest) == ("alice", AMQP_HEADER + open_frame() + b"more")


async def test_a_client_that_hangs_up_anywhere_is_an_error() -> None:
    said = SASL_HEADER + plain("alice", "sesame") + AMQP_HEADER
    for length in range(len(said)):
        result, _ = await talk(USERS, said[:length])
        assert isinstance(result, RemoteProtocolError), length
        assert "hung up" in str(result)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ([b"GET / HTTP/1.1\r\n\r\n"], "no AMQP header"),
        ([b"AMQP\x00\x00\x09\x01"], "no AMQP header"),
        ([b"AMQP\x02\x01\x00\x00"], "no AMQP header"),
        ([b"\x16\x03\x01\x02\x00\x01\x00\x01"], "no AMQP header"),
        ([SASL_HEADER, plain("alice", "sesame"), SASL_HEADER], "no AMQP header came after SASL"),
        ([SASL_HEADER, struct.pack(">IBBH", MAX_SASL_FRAME_BYTES + 1, 2, 1, 0)], "at most 512 bytes"),
        ([SASL_HEADER, b"\xff\xff\xff\xff\x02\x01\x00\x00"], "at most 512 bytes"),
        ([SASL_HEADER, struct.pack(">IBBH", 4, 2, 1, 0)], "no SASL frame"),
        ([SASL_HEADER, struct.pack(">IBBH", 16, 1, 1, 0), b"x" * 8], "no SASL frame"),
        ([SASL_HEADER, struct.pack(">IBBH", 16, 200, 1, 0), b"x" * 8], "no SASL frame"),
        ([SASL_HEADER, frame(described(0x41, encode_symbol("PLAIN")), kind=0)], "no SASL frame"),
        ([SASL_HEADER, frame(described(0x42, encode_symbol("PLAIN")), kind=1)], "not a sasl-init"),
        ([SASL_HEADER, frame(encode_string("PLAIN"), kind=1)], "not a sasl-init"),
        ([SASL_HEADER, frame(b"", kind=1)], "decode"),
        ([SASL_HEADER, frame(b"\x00\x53\x41\xc0\xff\xff", kind=1)], "decode"),
    ],
)
async def test_what_is_no_sasl_is_answered_with_the_header_and_named(said: Sequence[bytes], why: str) -> None:
    result, told = await talk(USERS, *said)
    assert isinstance(result, RemoteProtocolError)
    assert why in str(result)
    assert told[0] == SASL_HEADER, "2.2: who gets a header it does not take answers with its own"


async def test_a_frame_with_an_extended_header_is_read_over_it() -> None:
    whole = plain("alice", "sesame")
    extended = struct.pack(">IBBH", len(whole) + 8, 4, 1, 0) + b"whatever" + whole[8:]
    result, _ = await talk(USERS, SASL_HEADER, extended, AMQP_HEADER)
    assert result == ("alice", AMQP_HEADER)


@given(noise=st.binary(max_size=600), behind=st.booleans())
def test_whatever_comes_no_one_is_let_in_by_chance_and_nothing_else_is_raised(noise: bytes, behind: bool) -> None:  # noqa: FBT001
    async def main() -> object:
        result, _ = await talk(USERS, SASL_HEADER + noise if behind else noise)
        return result

    assert isinstance(trio.run(main), RStreamsError)


# certificates


@pytest.mark.parametrize(
    ("response", "accepted"), [(None, True), (b"", True), (b"Alice", True), (b"bob", False), (b"alice", False)]
)
async def test_the_owner_of_a_certificate_acts_for_itself_alone(response: bytes | None, accepted: bool) -> None:  # noqa: FBT001
    admission = Admission(certificate_users={"CN=alice": "Alice"})
    client, server = memory_stream_pair()
    await client.send_all(SASL_HEADER + init("EXTERNAL", response) + AMQP_HEADER)
    shown = ClientCertificate("CN=alice", "alice")
    if accepted:
        assert await authenticate(server, admission, shown) == ("Alice", AMQP_HEADER)
    else:
        with pytest.raises(AuthenticationFailed, match="may not act for another"):
            await authenticate(server, admission, shown)
    await server.send_eof()
    told = answers(b"".join([data async for data in client]))
    assert told == [SASL_HEADER, ["EXTERNAL"], 0 if accepted else 1]


async def test_external_without_a_certificate_is_refused() -> None:
    client, server = memory_stream_pair()
    await client.send_all(SASL_HEADER + init("EXTERNAL", b"") + AMQP_HEADER)
    with pytest.raises(AuthenticationFailed, match="has shown no certificate"):
        await authenticate(server, Admission(certificate_users={}))


# a whole node


async def test_no_password_in_any_log_or_error_of_a_node(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    attempts = [
        SASL_HEADER + plain("alice", "hush"),
        SASL_HEADER + plain("eve", "hush"),
        SASL_HEADER + plain("alice", "hush", b"hush"),
        SASL_HEADER + init("EXTERNAL", b"hush"),
        SASL_HEADER + init(response=b"hush"),
        SASL_HEADER + plain("alice", "sesame") + b"HTTP/1.1",
    ]
    async with Node(users={"alice": "sesame"}) as node:
        listener = await node.listen("127.0.0.1:0")
        for said in attempts:
            stream = await trio.open_tcp_stream("127.0.0.1", listener.port)
            async with stream:
                await stream.send_all(said)
                while await stream.receive_some():
                    pass
            await trio.sleep(1.1)  # lines of one kind are counted for a second
        assert node.statistics().connections == 0
    told = [record.getMessage() for record in caplog.records if record.name.startswith("rstreams")]
    assert len(told) == len(attempts)
    assert "'alice' was refused" in caplog.text
    assert "hush" not in caplog.text
    assert "sesame" not in caplog.text


async def test_a_client_that_does_not_say_who_it_is_is_left_after_a_while(caplog: pytest.LogCaptureFixture) -> None:
    async with Node(users=USERS) as node:
        listener = await node.listen("127.0.0.1:0")
        started = trio.current_time()
        stream = await trio.open_tcp_stream("127.0.0.1", listener.port)
        async with stream:
            await stream.send_all(SASL_HEADER[:5])
            assert await stream.receive_some() == b""
        assert trio.current_time() - started == pytest.approx(10, abs=1.1)
    assert "it took too long" in caplog.text
