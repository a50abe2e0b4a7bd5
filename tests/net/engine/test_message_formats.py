"""A message of a format nobody here knows is refused by name: it is not stored, nor passed on as something else."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

import pytest
import trio

from rstreams import ByteStream, Node
from rstreams._codec.encode import NULL, encode_sized, encode_uint
from rstreams.errors import RemoteProtocolError
from tests.net.peers import SendingPeer
from tests.net.wire import (
    AMQP_HEADER,
    FALSE,
    TRUE,
    Frame,
    Peer,
    attach_frame,
    begin_frame,
    condition_of,
    described,
    detach_frame,
    frame,
    open_frame,
    outcome_of,
    scripted,
)

pytestmark = pytest.mark.usefixtures("autojump_clock")

BATCH: Final = 0x80013700
"""Azure's: each body is a message by itself."""

ZEROS: Final = {"a small zero": b"\x52\x00", "a wide zero": b"\x70\x00\x00\x00\x00", "null": NULL, "zero": b"\x43"}


def transfer(
    number: int | None,
    payload: bytes,
    *,
    message_format: bytes = b"\x43",
    settled: bool = False,
    more: bool = False,
    tag: bytes = b"t",
    aborted: bool = False,
) -> bytes:
    fields = [
        encode_uint(0),
        NULL if number is None else encode_uint(number),
        encode_sized(0xA0, 0xB0, tag, "tag"),
        message_format,
        TRUE if settled else NULL,
        TRUE if more else FALSE,
        *([NULL, NULL, NULL, TRUE] if aborted else []),
    ]
    return frame(described(0x14, *fields), payload)


def body(text: str) -> bytes:
    return b"\x00Su" + encode_sized(0xA0, 0xB0, text.encode(), "body")


def batch(number: int | None, text: str = "batch", **options: Any) -> bytes:  # noqa: ANN401 - those of `transfer`
    return transfer(number, body(text), message_format=encode_uint(BATCH), **options)


@asynccontextmanager
async def producing(node: Node) -> AsyncIterator[Peer]:
    listener = await node.listen("127.0.0.1:0")
    async with await trio.open_tcp_stream("127.0.0.1", listener.port) as stream:
        peer = Peer(stream)
        attach = attach_frame("l", "sender", target="work", initial_delivery_count=0)
        await peer.send(AMQP_HEADER, open_frame(), begin_frame(None), attach)
        assert await peer.take(8) == AMQP_HEADER
        for name in ("open", "begin", "attach", "flow"):
            await peer.expect(name)
        yield peer


async def outcomes(peer: Peer, count: int) -> dict[int, Frame]:
    """Return the dispositions of so many deliveries, from whatever comes."""
    told: dict[int, Frame] = {}
    with trio.fail_after(10):
        while len(told) < count:
            came = await peer.frame()
            if came.name == "disposition":
                last = came["first"] if came["last"] is None else came["last"]
                told.update(dict.fromkeys(range(came["first"], last + 1), came))
    return told


PLAIN: Final = transfer(0, body("a"))
RUNS: Final[dict[str, tuple[Sequence[bytes], list[str]]]] = {
    "alone": ([batch(0)], ["rejected"]),
    "before others": ([batch(0), transfer(1, body("a"))], ["rejected", "accepted"]),
    "behind others": ([PLAIN, transfer(1, body("b")), batch(2)], ["accepted", "accepted", "rejected"]),
    "in between": (
        [PLAIN, batch(1), transfer(2, body("b")), batch(3), batch(4), transfer(5, body("c"))],
        ["accepted", "rejected", "accepted", "rejected", "rejected", "accepted"],
    ),
    "in parts": (
        [
            PLAIN,
            transfer(1, body("batch")[:5], message_format=encode_uint(BATCH), more=True),
            transfer(None, body("batch")[5:], message_format=encode_uint(BATCH)),
            transfer(2, body("b")),
        ],
        ["accepted", "rejected", "accepted"],
    ),
    "in parts, said once": (
        [batch(0, more=True), transfer(None, b"more", more=True), transfer(None, b"end"), transfer(1, body("a"))],
        ["rejected", "accepted"],
    ),
    "with a long tag": ([batch(0, tag=b"t" * 300), transfer(1, body("a"), tag=b"u" * 32)], ["rejected", "accepted"]),
}


@pytest.mark.slow
@pytest.mark.parametrize("by_bytes", [False, True], ids=["at once", "byte by byte"])
@pytest.mark.parametrize("name", RUNS)
async def test_a_queue_rejects_it_by_name_and_takes_the_others(name: str, *, by_bytes: bool) -> None:
    frames, expected = RUNS[name]
    async with Node() as node:
        queue = node.queue("work")
        async with producing(node) as peer:
            said = b"".join(frames)
            for piece in [said[at : at + 1] for at in range(len(said))] if by_bytes else [said]:
                await peer.send(piece)
                if by_bytes:
                    await trio.testing.wait_all_tasks_blocked()
            told = await outcomes(peer, len(expected))
            assert [outcome_of(told[number]["state"]) for number in sorted(told)] == expected
            for came in told.values():
                if outcome_of(came["state"]) == "rejected":
                    condition, text = condition_of(came["state"].value[0])
                    assert condition == "amqp:not-implemented"
                    assert "0x80013700" in text
            assert queue.statistics().ready == expected.count("accepted")


async def test_credit_comes_back_for_what_was_refused() -> None:
    async with Node() as node:
        node.queue("work", capacity=4)
        async with producing(node) as peer:
            for number in range(40):
                await peer.send(batch(number))
                assert outcome_of((await outcomes(peer, 1))[number]["state"]) == "rejected"
            await peer.send(transfer(40, body("a")))
            assert outcome_of((await outcomes(peer, 1))[40]["state"]) == "accepted"


async def test_a_settled_one_ends_its_link_because_nobody_could_be_told_otherwise() -> None:
    async with Node() as node:
        queue = node.queue("work")
        async with producing(node) as peer:
            await peer.send(transfer(0, body("a"), settled=True), batch(1, settled=True), batch(2, settled=True))
            while (came := await peer.frame()).name != "detach":
                assert came.name == "flow"
            condition, text = condition_of(came["error"])
            assert condition == "amqp:not-implemented"
            assert "0x80013700" in text
            await peer.send(detach_frame(), attach_frame("m", "sender", target="work", initial_delivery_count=0))
            await peer.expect("attach")
            assert queue.statistics().ready == 1


async def test_one_that_is_aborted_is_no_message() -> None:
    async with Node() as node:
        queue = node.queue("work")
        async with producing(node) as peer:
            await peer.send(batch(0, more=True), transfer(None, b"", aborted=True), transfer(1, body("a")))
            assert outcome_of((await outcomes(peer, 1))[1]["state"]) == "accepted"
            assert queue.statistics().ready == 1


@pytest.mark.parametrize("name", ZEROS)
async def test_a_format_of_zero_is_amqps_own_however_it_is_written(name: str) -> None:
    async with Node() as node:
        node.queue("work")
        async with producing(node) as peer:
            await peer.send(*[transfer(number, body("a"), message_format=ZEROS[name]) for number in range(3)])
            told = await outcomes(peer, 3)
            assert {outcome_of(came["state"]) for came in told.values()} == {"accepted"}


async def test_a_consumer_rejects_it_too_and_reads_on() -> None:
    rejected: list[int] = []

    async def script(peer: Peer) -> None:
        await peer.opens()
        sender = SendingPeer(peer)
        await sender.attaches()
        await sender.hear()
        await peer.send(transfer(0, body("a")), batch(1), transfer(2, body("b")), detach_frame())
        sender.sent = 3
        while sender.detach is None:
            await sender.hear()
        rejected.extend(number for number, outcome in sender.outcomes.items() if outcome == "rejected")
        await peer.closes()

    async with scripted(script) as connection:
        assert await connection.stream("a", window=16).to_list() == [b"a", b"b"]
    assert rejected == [1]


async def test_a_consumer_whose_messages_come_settled_hears_of_it_as_an_error() -> None:
    async def script(peer: Peer) -> None:
        await peer.opens()
        sender = SendingPeer(peer)
        await sender.attaches()
        await sender.hear()
        await peer.send(batch(0, settled=True))
        assert condition_of((await peer.expect("detach"))["error"])[0] == "amqp:not-implemented"
        await peer.send(detach_frame())
        await peer.closes()

    async with scripted(script) as connection:
        with pytest.raises(RemoteProtocolError, match="message-format 0x80013700"):
            await connection.stream("a", window=16).to_list()
        assert connection.status.state == "connected"


async def test_a_message_that_is_read_in_parts_is_refused_likewise() -> None:
    async def script(peer: Peer) -> None:
        await peer.opens()
        sender = SendingPeer(peer)
        await peer.begins()
        await peer.expect("flow")  # the window of the session
        attach = await peer.expect("attach")
        await peer.send(attach_frame(attach["name"], "sender", source="a", initial_delivery_count=0))
        for number, frames in enumerate(([batch(0, more=True), transfer(None, b"rest")], [transfer(1, body("whole"))])):
            while not sender.credit:
                await sender.hear()
            sender.sent, sender.credit, sender.delivery_count = number + 1, 0, number + 1
            await peer.send(*frames)
        while len(sender.outcomes) < 2:
            await sender.hear()
        assert sender.outcomes == {0: "rejected", 1: "accepted"}
        await peer.send(detach_frame())
        while sender.detach is None:
            await sender.hear()
        await peer.closes()

    async with scripted(script) as connection, connection.streamed_messages("a").open() as messages:
        bodies = [
            await message.body.read() if isinstance(message.body, ByteStream) else message.body
            async for message in messages
        ]
    assert bodies == [b"whole"]


async def test_a_large_one_leaves_the_window_of_its_session_open() -> None:
    """What is thrown away is read first: the engine would count it against the window for ever."""
    part = bytes(30_000)
    async with Node(window_bytes=1_000_000) as node:
        queue = node.queue("work")
        async with producing(node) as peer:
            for number in range(3):
                parts = [transfer(None, part, more=True) for _ in range(40)]
                first = batch(number, more=True)
                await peer.send(first)
                for each in parts:  # 1.2 MB, and the window is an eighth of 1 MB: each goes when it is open
                    await peer.send(each)
                    await trio.testing.wait_all_tasks_blocked()
                await peer.send(transfer(None, b"end"))
                assert outcome_of((await outcomes(peer, 1))[number]["state"]) == "rejected"
            await peer.send(transfer(3, body("a")))
            assert outcome_of((await outcomes(peer, 1))[3]["state"]) == "accepted"
            assert queue.statistics().ready == 1
