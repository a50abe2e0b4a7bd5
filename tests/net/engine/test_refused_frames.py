"""Frames that no peer may send: the connection ends with a close that says why, where the engine would fall silent."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

import pytest
import trio

import rstreams
from rstreams import Node, Stream
from rstreams._codec.encode import NULL, encode_string, encode_uint
from rstreams.errors import RemoteProtocolError
from rstreams.net._proton import BUFFER_BYTES
from rstreams.protocol.refusal import refuse
from tests.net.engines import Side
from tests.net.over_tcp import until
from tests.net.peers import SendingPeer
from tests.net.wire import (
    AMQP_HEADER,
    FALSE,
    TRUE,
    Frame,
    Peer,
    attach_frame,
    begin_frame,
    close_frame,
    condition_of,
    described,
    end_frame,
    flow_frame,
    frame,
    open_frame,
    scripted,
    transfer_frame,
)

pytestmark = pytest.mark.usefixtures("autojump_clock")

LINK: Final = attach_frame("l", "receiver", source="numbers")
OPENED: Final = (AMQP_HEADER, open_frame(), begin_frame(None), LINK)


def raw_frame(body: bytes, *, kind: int = 0, offset: int = 2) -> bytes:
    return struct.pack(">IBBH", 8 + len(body), offset, kind, 0) + body


NOT_IMPLEMENTED, DECODE_ERROR = "amqp:not-implemented", "amqp:decode-error"
FRAMING_ERROR, ILLEGAL_STATE = "amqp:connection:framing-error", "amqp:illegal-state"

BAD_FRAMES: Final[dict[str, tuple[bytes, str, str]]] = {
    "a performative that is none": (frame(described(0x19)), NOT_IMPLEMENTED, "performative is 0x19"),
    "a performative of SASL": (frame(described(0x40)), NOT_IMPLEMENTED, "0x40"),
    "a performative of eight bytes": (
        frame(b"\x00\x80" + struct.pack(">Q", 2**40) + b"\x45"),
        NOT_IMPLEMENTED,
        "0x10000000000",
    ),
    "a performative of 0": (frame(b"\x00\x44\x45"), NOT_IMPLEMENTED, "0x0"),
    "a performative by another name": (frame(b"\x00\xa3\x0famqp:hello:list\x45"), NOT_IMPLEMENTED, "0x0"),
    "a type of frame that is none": (frame(described(0x13), kind=2), FRAMING_ERROR, "type 2"),
    "a frame of SASL": (frame(described(0x40), kind=1), FRAMING_ERROR, "type 1"),
    "an empty frame of another type": (raw_frame(b"", kind=9), FRAMING_ERROR, "type 9"),
    "a body that is no described value": (frame(b"\xa1\x05hello"), DECODE_ERROR, "cannot be decoded"),
    "a performative that is no list": (frame(b"\x00\x53\x13\xa1\x05hello"), DECODE_ERROR, "cannot be decoded"),
    "a performative that is cut off": (frame(b"\x00\x53"), DECODE_ERROR, "cannot be decoded"),
    "a list that ends behind its frame": (frame(b"\x00\x53\x13\xc0\x20\x01\x43"), DECODE_ERROR, "cannot be decoded"),
    "a long list that ends behind its frame": (
        frame(b"\x00\x53\x14\xd0\xff\xff\xff\xff\x00\x00\x00\x01\x43"),
        DECODE_ERROR,
        "cannot be decoded",
    ),
    "a disposition that ends behind its frame": (frame(b"\x00\x53\x15\xc0\x09\x01\x41"), DECODE_ERROR, "cannot be"),
    "a second open": (open_frame(), ILLEGAL_STATE, "open twice"),
    "a second begin on a channel": (begin_frame(None), ILLEGAL_STATE, "begin on channel 0"),
    "a source with a NUL in its address": (
        attach_frame("m", "receiver", source="numbers\0", handle=1),
        "amqp:invalid-field",
        "NUL in an address",
    ),
    "a target with a NUL in its address": (
        attach_frame("m", "sender", target="numbers\0", handle=1),
        "amqp:invalid-field",
        "NUL in an address",
    ),
    "a begin on a channel that is too high": (begin_frame(None, channel=300), FRAMING_ERROR, "300"),
    "an attach on no channel": (attach_frame("m", "receiver", channel=7), "amqp:not-allowed", "no such channel"),
    "a frame without room for its head": (b"\x00\x00\x00\x07\x02\x00\x00\x00", FRAMING_ERROR, "malformed"),
    "a frame whose body begins behind it": (raw_frame(b"", offset=3), FRAMING_ERROR, "malformed"),
    "a frame whose body begins in its head": (raw_frame(bytes(8), offset=1), FRAMING_ERROR, "malformed"),
    "a frame beyond the limit": (b"\xff\xff\xff\xff\x02\x00\x00\x00", FRAMING_ERROR, "malformed"),
}


async def hear_close(peer: Peer) -> tuple[str, str]:
    """Return why the other side closes, which it must, and then hang up."""
    with trio.fail_after(10):
        while (came := await peer.frame()).name != "close":
            pass
        told = condition_of(came["error"])
        with pytest.raises(EOFError):
            await peer.frame()
    return told


@pytest.mark.slow
@pytest.mark.parametrize("name", BAD_FRAMES)
@pytest.mark.parametrize("by_bytes", [False, True], ids=["at once", "byte by byte"])
async def test_a_node_closes_with_the_reason_and_serves_others(name: str, *, by_bytes: bool) -> None:
    bad, condition, text = BAD_FRAMES[name]
    async with Node() as node:
        node.serve("numbers", Stream.range(3))
        listener = await node.listen("127.0.0.1:0")
        async with await trio.open_tcp_stream("127.0.0.1", listener.port) as stream:
            peer = Peer(stream)
            said = b"".join(OPENED) + bad
            for piece in struct.unpack(f"{len(said)}c", said) if by_bytes else [said]:
                await peer.send(piece)
                if by_bytes:
                    await trio.testing.wait_all_tasks_blocked()
            assert await peer.take(8) == AMQP_HEADER
            told = await hear_close(peer)
            assert told[0] == condition
            assert text in told[1]
        async with rstreams.connect(listener.url) as connection:
            assert await connection.stream("numbers").to_list() == [0, 1, 2]


@pytest.mark.parametrize("name", ["a performative that is none", "a type of frame that is none", "a second open"])
async def test_a_client_closes_with_the_reason_and_its_user_reads_it(name: str) -> None:
    bad, condition, text = BAD_FRAMES[name]
    told: list[tuple[str, str]] = []

    async def script(peer: Peer) -> None:
        await peer.opens()
        sender = SendingPeer(peer)
        await sender.attaches()
        await sender.hear()
        await sender.send(2)
        await peer.send(bad)
        told.append(await hear_close(peer))

    items: list[bytes] = []
    async with scripted(script) as connection:
        with pytest.raises(RemoteProtocolError, match=text) as raised:
            await connection.stream("a", window=2).for_each(items.append)
        assert raised.value.condition == condition
    assert items == [b"0", b"1"], "what came before it came"
    assert told[0][0] == condition


@pytest.mark.parametrize("first", [begin_frame(None), flow_frame(), close_frame()], ids=["begin", "flow", "close"])
async def test_what_comes_before_open_is_refused(first: bytes) -> None:
    async with Node() as node:
        listener = await node.listen("127.0.0.1:0")
        async with await trio.open_tcp_stream("127.0.0.1", listener.port) as stream:
            peer = Peer(stream)
            await peer.send(AMQP_HEADER, first, open_frame())
            assert await peer.take(8) == AMQP_HEADER
            assert (await hear_close(peer))[0] == ILLEGAL_STATE


async def test_an_open_with_a_nul_in_its_container_id_is_refused() -> None:
    """Otherwise two containers would have one name, and take each other's subscriptions."""
    async with Node() as node:
        listener = await node.listen("127.0.0.1:0")
        async with await trio.open_tcp_stream("127.0.0.1", listener.port) as stream:
            peer = Peer(stream)
            await peer.send(AMQP_HEADER, frame(described(0x10, encode_string("one\0other"))))
            assert await peer.take(8) == AMQP_HEADER
            assert (await hear_close(peer))[0] == "amqp:invalid-field"


async def test_a_begin_that_is_answered_twice_is_refused() -> None:
    async def script(peer: Peer) -> None:
        await peer.opens()
        begin = await peer.begins()
        await peer.send(begin_frame(begin.channel, channel=begin.channel + 1))
        assert (await hear_close(peer))[0] == ILLEGAL_STATE

    async with scripted(script) as connection:
        with pytest.raises(RemoteProtocolError, match="twice"):
            await connection.stream("a").to_list()


def symbolic(sent: bytes, name: bytes, *, wide: bool = False) -> bytes:
    """Return a frame with the descriptor of its performative as a symbol."""
    descriptor = b"\xb3" + struct.pack(">I", len(name)) if wide else b"\xa3" + bytes((len(name),))
    body = b"\x00" + descriptor + name + sent[11:]
    return struct.pack(">I", 8 + len(body)) + sent[4:8] + body


@pytest.mark.parametrize("wide", [False, True])
async def test_performatives_may_be_named(*, wide: bool) -> None:
    """Part 1.5: a symbolic descriptor is as good as a numeric one; the engine knows numbers alone."""
    async with Node() as node:
        queue = node.queue("work")
        listener = await node.listen("127.0.0.1:0")
        async with await trio.open_tcp_stream("127.0.0.1", listener.port) as stream:
            peer = Peer(stream)
            await peer.send(
                AMQP_HEADER,
                symbolic(open_frame(), b"amqp:open:list", wide=wide),
                symbolic(begin_frame(None), b"amqp:begin:list", wide=wide),
                symbolic(
                    attach_frame("l", "sender", target="work", initial_delivery_count=0),
                    b"amqp:attach:list",
                    wide=wide,
                ),
            )
            assert await peer.take(8) == AMQP_HEADER
            for name in ("open", "begin", "attach", "flow"):
                await peer.expect(name)
            await peer.send(
                symbolic(transfer_frame(0, b"a"), b"amqp:transfer:list", wide=wide), transfer_frame(1, b"b")
            )
            await until(lambda: queue.statistics().ready == 2)
            await peer.send(
                symbolic(end_frame(), b"amqp:end:list", wide=wide), symbolic(close_frame(), b"amqp:close:list")
            )
            heard: list[Frame] = []
            while not heard or heard[-1].name != "close":
                heard.append(await peer.frame())
            assert heard[-1]["error"] is None
            assert [each.name for each in heard if each.name == "end"] == ["end"]


def _wide_descriptor(sent: bytes) -> bytes:
    body = b"\x00\x80" + struct.pack(">Q", sent[10]) + sent[11:]
    return struct.pack(">I", 8 + len(body)) + sent[4:8] + body


def test_a_descriptor_may_take_eight_bytes() -> None:
    side = Side("node", server=True, max_frame_bytes=65536)
    side.engine.feed(AMQP_HEADER + _wide_descriptor(open_frame()) + _wide_descriptor(begin_frame(None)))
    assert b"\x00\x53\x11" in side.output()
    side.engine.feed(_wide_descriptor(begin_frame(None)))
    assert side.failures == [(ILLEGAL_STATE, "it sent begin on channel 0, where it has a session already")]
    side.engine.free()


@pytest.mark.parametrize(
    "fields",
    [[], [NULL] * 14, [encode_uint(1)] * 14, [b"\x40"] * 3, [b"\x45"] * 10, [b"\x80" + bytes(7) + b"\x05"] * 10],
    ids=["none", "nulls", "numbers", "few", "lists", "ulongs"],
)
@pytest.mark.parametrize("code", range(0x10, 0x19))
def test_fields_of_any_kind_raise_nothing(code: int, fields: Sequence[bytes]) -> None:
    side = Side("node", server=True, max_frame_bytes=65536)
    side.answer = lambda _driver, _frame: None
    side.engine.feed(AMQP_HEADER + open_frame() + begin_frame(None) + frame(described(code, *fields)))
    side.output()
    side.engine.feed(b"")
    side.engine.free()


NO_UINT: Final = {
    "a ubyte": b"\x50\x05",
    "a ushort": b"\x60\x00\x05",
    "a ulong": b"\x53\x05",
    "an int": b"\x54\x05",
    "a long": b"\x55\x05",
    "a text": b"\xa1\x01x",
    "a boolean": b"\x41",
    "a described value": b"\x00\x53\x01\x43",
    "a list": b"\x45",
    "a kind that is none": b"\x01",
}
MUST_BE_UINTS: Final = {
    "attach": (0x12, [b"\xa1\x01m"], [FALSE, NULL, NULL, b"\x40", b"\x40", NULL, NULL, encode_uint(0)]),
    "flow": (0x13, [encode_uint(0)] * 4, [encode_uint(0), encode_uint(1)]),
    "transfer": (0x14, [], [encode_uint(0), b"\xa0\x01t", encode_uint(0), FALSE, FALSE]),
    "detach": (0x16, [], [TRUE]),
}
"""Performatives by their codes, with the fields around the handle."""


@pytest.mark.parametrize("value", NO_UINT)
@pytest.mark.parametrize("name", MUST_BE_UINTS)
def test_a_handle_that_the_engine_reads_as_another_ends_the_connection(name: str, value: str) -> None:
    """Otherwise the engine would have a link whose messages nobody here finds."""
    code, before, behind = MUST_BE_UINTS[name]
    refused_as_undecodable(name, frame(described(code, *before, NO_UINT[value], *behind)))


@pytest.mark.parametrize("value", [each for each in NO_UINT if each != "a ushort"])
def test_a_begin_whose_channel_the_engine_does_not_read_ends_the_connection(value: str) -> None:
    numbers = [encode_uint(0), encode_uint(2**31 - 1), encode_uint(2**31 - 1)]
    refused_as_undecodable("begin", frame(described(0x11, NO_UINT[value], *numbers), channel=1))


def refused_as_undecodable(name: str, bad: bytes) -> None:
    side = Side("node", server=True, max_frame_bytes=65536)
    side.answer = lambda driver, each: driver.bind(refuse(driver, each, "amqp:not-found", "nothing is here"))
    side.engine.feed(AMQP_HEADER + open_frame() + begin_frame(None) + attach_frame("l", "sender", target="numbers"))
    side.output()
    side.engine.feed(bad + transfer_frame(0, b"item", handle=5))
    side.output()
    assert side.failures == [(DECODE_ERROR, f"it sent {name} with fields that cannot be decoded")]
    side.engine.free()


def test_an_error_before_a_frame_that_is_refused_comes_first() -> None:
    side = Side("node", server=True, max_frame_bytes=65536)
    side.engine.feed(AMQP_HEADER + open_frame() + attach_frame("l", "receiver", channel=7) + open_frame())
    output = side.output()
    assert b"no such channel" in output
    assert b"open twice" not in output
    assert side.failures[0][0] == "amqp:not-allowed"
    side.engine.free()


def test_nothing_is_heard_behind_a_frame_that_was_refused() -> None:
    side = Side("node", server=True, max_frame_bytes=65536)
    side.engine.feed(AMQP_HEADER + open_frame() + frame(described(0x19)) + begin_frame(None))
    side.engine.feed(begin_frame(None, channel=1) + bytes(BUFFER_BYTES))
    assert b"\x00\x53\x11" not in side.output()
    assert len(side.failures) == 1
    side.engine.feed(b"")
    side.engine.free()


async def test_a_handle_and_a_channel_may_be_used_again_when_they_are_free() -> None:
    async with Node() as node:
        node.serve("numbers", Stream.range(3))
        listener = await node.listen("127.0.0.1:0")
        async with await trio.open_tcp_stream("127.0.0.1", listener.port) as stream:
            peer = Peer(stream)
            await peer.send(AMQP_HEADER, open_frame())
            assert await peer.take(8) == AMQP_HEADER
            await peer.expect("open")
            for _ in range(3):
                await peer.send(begin_frame(None))
                await peer.expect("begin")
                for _ in range(2):
                    await peer.send(LINK, flow_frame(credit=3))
                    await peer.expect("attach")
                    for _ in range(3):
                        await peer.expect("transfer")
                    await peer.expect("detach")
                    await peer.send(frame(described(0x16, encode_uint(0), b"\x41")))
                await peer.send(end_frame())
                await peer.expect("end")
