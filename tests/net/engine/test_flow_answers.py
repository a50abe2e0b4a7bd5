"""What a peer asks for with a flow gets an answer: a drain without credit, an echo; and credit of any size is credit.

The frames of go-amqp are written here as its encoder does it: lists of 32 bits, nulls for what is not set.
"""

from __future__ import annotations

import struct
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

import pytest
import trio

from rstreams import Node, Stream
from rstreams._codec.encode import NULL, encode_uint
from rstreams.protocol.refusal import refuse
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.net.engines import Side
from tests.net.peers import ReceivingPeer, SendingPeer
from tests.net.wire import (
    ACCEPT,
    AMQP_HEADER,
    FALSE,
    SOURCE,
    TARGET,
    TRUE,
    Frame,
    Peer,
    attach_frame,
    begin_frame,
    close_frame,
    described,
    detach_frame,
    disposition_frame,
    flow_frame,
    frame,
    open_frame,
    scripted,
    terminus,
    transfer_frame,
)

pytestmark = pytest.mark.usefixtures("autojump_clock")


def asking_flow(
    *,
    handle: int | None = 0,
    delivery_count: int | None = None,
    credit: int | None = None,
    next_incoming: int = 0,
    incoming_window: int = 2**31 - 1,
    drain: bool = False,
    echo: bool = False,
    channel: int = 0,
) -> bytes:
    numbers = [next_incoming, incoming_window, 0, 2**31 - 1, handle, delivery_count, credit, None]
    fields = [NULL if number is None else encode_uint(number) for number in numbers]
    return frame(described(0x13, *fields, TRUE if drain else FALSE, TRUE if echo else FALSE), channel=channel)


def link_state(came: Frame) -> tuple[object, ...]:
    return came["handle"], came["delivery-count"], came["link-credit"], came["drain"]


def session_state(came: Frame) -> tuple[object, ...]:
    return came["next-incoming-id"], came["next-outgoing-id"]


@asynccontextmanager
async def asking(node: Node, *said: bytes) -> AsyncIterator[Peer]:
    """Connect to a node, without SASL, as a peer that says these things at once."""
    listener = await node.listen("127.0.0.1:0")
    async with await trio.open_tcp_stream("127.0.0.1", listener.port) as stream:
        peer = Peer(stream)
        await peer.send(AMQP_HEADER, open_frame(), begin_frame(None), *said)
        assert await peer.take(8) == AMQP_HEADER
        await peer.expect("open")
        await peer.expect("begin")
        yield peer


# a drain that finds no credit left (2.6.7)


async def test_a_drain_without_credit_is_answered() -> None:
    async with Node() as node:
        source = ManualPublisher[bytes]()
        node.serve("prices", source)
        async with asking(node, attach_frame("l", "receiver", source="prices"), flow_frame(credit=2)) as peer:
            await peer.expect("attach")
            await trio.testing.wait_all_tasks_blocked()
            source.next(b"a", b"b")
            for number in range(2):
                assert (await peer.expect("transfer"))["delivery-id"] == number
            for _ in range(3):  # each is answered, and they change nothing
                await peer.send(asking_flow(next_incoming=2, delivery_count=2, credit=0, drain=True))
                came = await peer.expect("flow")
                assert link_state(came) == (0, 2, 0, True)
                assert session_state(came) == (0, 2)
            await peer.send(flow_frame(next_incoming=2, delivery_count=2, credit=1))
            await trio.testing.wait_all_tasks_blocked()
            source.next(b"c")
            assert (await peer.expect("transfer"))["delivery-id"] == 2
            await peer.is_silent()


async def test_a_drain_before_there_was_any_credit_is_answered() -> None:
    async def script(peer: Peer) -> None:
        await peer.opens()
        receiver = ReceivingPeer(peer)
        await receiver.attaches(credit=0)
        await peer.send(asking_flow(delivery_count=0, credit=0, drain=True))
        assert link_state(await peer.expect("flow")) == (0, 0, 0, True)
        await receiver.grant(2)
        await receiver.takes(2)
        await peer.send(asking_flow(next_incoming=2, delivery_count=2, credit=0, drain=True))
        assert link_state(await peer.expect("flow")) == (0, 2, 0, True)
        await peer.is_silent()
        await receiver.grant(1)
        await receiver.takes(1)
        await peer.send(disposition_frame(0, 2, ACCEPT))
        await peer.expect("detach")
        await peer.send(detach_frame())
        await peer.closes()

    async with scripted(script) as connection:
        assert (await connection.publish("a", Stream.range(3))).accepted == 3


@pytest.mark.slow
async def test_a_drain_with_credit_left_is_answered_once_and_gives_it_back() -> None:
    async with Node() as node:
        source = ManualPublisher[bytes]()
        node.serve("prices", source)
        async with asking(node, attach_frame("l", "receiver", source="prices"), flow_frame(credit=5)) as peer:
            await peer.expect("attach")
            await trio.testing.wait_all_tasks_blocked()
            source.next(b"a")
            await peer.expect("transfer")
            await peer.send(asking_flow(next_incoming=1, delivery_count=1, credit=4, drain=True, echo=True))
            assert link_state(await peer.expect("flow")) == (0, 5, 0, True)
            await peer.is_silent()
            await peer.send(asking_flow(next_incoming=1, delivery_count=5, credit=0, drain=True))
            assert link_state(await peer.expect("flow")) == (0, 5, 0, True)


async def test_a_drain_that_the_source_answers_with_less_than_the_credit_is_answered_once() -> None:
    """The engine tells of a flow also when a delivery has gone out. That is no second drain."""
    async with Node() as node:
        source = ManualPublisher[bytes]()
        source.on_request = lambda n: source.next(*[b"x"] * min(n, 2))
        node.serve("prices", source)
        async with asking(node, attach_frame("l", "receiver", source="prices")) as peer:
            await peer.expect("attach")
            await peer.send(asking_flow(delivery_count=0, credit=20, drain=True))
            for number in range(2):
                assert (await peer.expect("transfer"))["delivery-id"] == number
            assert link_state(await peer.expect("flow")) == (0, 20, 0, True)
            await peer.is_silent()
            await peer.send(asking_flow(next_incoming=2, delivery_count=20, credit=0, drain=True))
            assert link_state(await peer.expect("flow")) == (0, 20, 0, True)
            await peer.is_silent()


async def test_a_drain_is_answered_behind_the_transfers_that_use_the_credit_up() -> None:
    """The session's window is shut, so they wait in the engine: the credit is used up only when they have gone."""
    async with Node() as node:
        node.serve("prices", Stream.range(9))
        async with asking(node, attach_frame("l", "receiver", source="prices")) as peer:
            await peer.expect("attach")
            await peer.send(asking_flow(incoming_window=0, delivery_count=0, credit=3))
            await peer.is_silent()
            await peer.send(asking_flow(incoming_window=0, delivery_count=0, credit=3, drain=True))
            await peer.is_silent()
            await peer.send(asking_flow(handle=None, incoming_window=2))
            for number in range(2):
                assert (await peer.expect("transfer"))["delivery-id"] == number
            await peer.is_silent()
            await peer.send(asking_flow(handle=None, next_incoming=2, incoming_window=2))
            assert (await peer.expect("transfer"))["delivery-id"] == 2
            assert link_state(await peer.expect("flow")) == (0, 3, 0, True)


async def test_a_drain_that_new_credit_has_overtaken_gets_no_answer_of_its_own() -> None:
    async with Node() as node:
        source = ManualPublisher[bytes]()
        node.serve("prices", source)
        async with asking(node, attach_frame("l", "receiver", source="prices")) as peer:
            await peer.expect("attach")
            await peer.send(
                asking_flow(delivery_count=0, credit=0, drain=True), asking_flow(delivery_count=0, credit=1)
            )
            await peer.is_silent()
            source.next(b"a")
            await peer.expect("transfer")


def go_amqp_frame(code: int, *fields: bytes, channel: int = 0) -> bytes:
    content = struct.pack(">I", len(fields)) + b"".join(fields)
    body = b"\x00\x53" + bytes([code]) + b"\xd0" + struct.pack(">I", len(content)) + content
    return struct.pack(">IBBH", 8 + len(body), 2, 0, channel) + body


def go_amqp_flow(*, delivery_count: int, credit: int, drain: bool = False, next_incoming: int = 0) -> bytes:
    numbers = (next_incoming, 5000, 0, 5000, 0, delivery_count, credit)
    return go_amqp_frame(0x13, *map(encode_uint, numbers), *([NULL, TRUE] if drain else []))


GO_AMQP: Final[Sequence[bytes]] = (
    AMQP_HEADER,
    go_amqp_frame(0x10, b"\xa1\x02go", b"\xa1\x09localhost", b"\x70\x00\x00\xff\xff", b"\x60\xff\xff", NULL),
    go_amqp_frame(0x11, NULL, encode_uint(0), encode_uint(5000), encode_uint(5000), encode_uint(2**32 - 1)),
    go_amqp_frame(
        0x12,
        b"\xa1\x03abc",
        encode_uint(0),
        TRUE,
        NULL,
        NULL,
        b"\x00\x53\x28\xd0\x00\x00\x00\x0a\x00\x00\x00\x01\xa1\x04work",
        b"\x00\x53\x29\x45",
    ),
)


async def test_what_go_amqp_says_when_it_drains_credit_it_has_used_is_answered_as_it_waits_for() -> None:
    """`Receiver.DrainCredit` returns when a flow of its handle comes with drain, and without echo."""
    async with Node() as node:
        node.queue("work")
        listener = await node.listen("127.0.0.1:0")
        async with await trio.open_tcp_stream("127.0.0.1", listener.port) as stream:
            peer = Peer(stream)
            await peer.send(*GO_AMQP)
            assert await peer.take(8) == AMQP_HEADER
            for name in ("open", "begin", "attach"):
                await peer.expect(name)
            await peer.send(go_amqp_flow(delivery_count=0, credit=0, drain=True))
            raw = await peer.take(8)
            raw += await peer.take(int.from_bytes(raw[:4]) - 8)
            window = encode_uint(2**31 - 1)
            fields = (encode_uint(0), window, encode_uint(0), window, *[encode_uint(0)] * 3, NULL, TRUE)
            assert raw == frame(described(0x13, *fields))


# an echo (2.7.4)


async def test_an_echo_to_a_sender_is_answered_with_the_links_state() -> None:
    async with Node() as node:
        source = ManualPublisher[bytes]()
        for name in "xz":
            node.serve(name, ManualPublisher[bytes]())
        node.serve("y", source)
        attaches = [attach_frame(name, "receiver", source=name, handle=at) for at, name in enumerate("xyz")]
        async with asking(node, *attaches) as peer:
            for handle in range(3):
                assert (await peer.expect("attach"))["handle"] == handle
            await peer.send(asking_flow(handle=1, delivery_count=0, credit=7, echo=True))
            assert link_state(await peer.expect("flow")) == (1, 0, 7, False)
            await trio.testing.wait_all_tasks_blocked()
            source.next(b"a", b"b")
            await peer.expect("transfer")
            await peer.expect("transfer")
            await peer.send(asking_flow(handle=1, next_incoming=2, delivery_count=1, credit=6, echo=True))
            came = await peer.expect("flow")
            assert link_state(came) == (1, 2, 5, False)
            assert session_state(came) == (0, 2)
            await peer.send(asking_flow(handle=2, delivery_count=0, credit=0, echo=True))
            assert link_state(await peer.expect("flow")) == (2, 0, 0, False)
            await peer.is_silent()


async def test_an_echo_with_new_credit_behind_it_tells_of_both() -> None:
    async with Node() as node:
        node.serve("prices", ManualPublisher[bytes]())
        async with asking(node, attach_frame("l", "receiver", source="prices")) as peer:
            await peer.expect("attach")
            await peer.send(asking_flow(delivery_count=0, credit=1, echo=True), asking_flow(delivery_count=0, credit=9))
            assert link_state(await peer.expect("flow")) == (0, 0, 9, False)


async def test_an_echo_behind_transfers_that_wait_for_the_window_tells_of_what_has_gone() -> None:
    async with Node() as node:
        node.serve("prices", Stream.range(9))
        async with asking(node, attach_frame("l", "receiver", source="prices")) as peer:
            await peer.expect("attach")
            await peer.send(asking_flow(incoming_window=1, delivery_count=0, credit=3))
            await peer.expect("transfer")
            await peer.send(asking_flow(next_incoming=1, incoming_window=0, delivery_count=0, credit=3, echo=True))
            assert link_state(await peer.expect("flow")) == (0, 1, 2, False)


async def test_an_echo_to_a_receiver_is_answered_with_its_credit() -> None:
    async def script(peer: Peer) -> None:
        await peer.opens()
        sender = SendingPeer(peer)
        await sender.attaches()
        await sender.hear()
        assert sender.credit == 3
        await sender.send(1)
        await peer.expect("disposition")
        await peer.send(asking_flow(delivery_count=1, credit=2, echo=True))
        came = await peer.expect("flow")
        assert link_state(came)[:3] == (0, 1, 2)
        assert session_state(came) == (1, 0)
        await peer.is_silent()
        await peer.closes()

    probe = ProbeSubscriber[bytes](3)
    async with scripted(script) as connection:
        connection.stream("a", window=16).subscribe(probe)
        await trio.sleep(10)
        assert probe.items == [b"0"]


async def test_an_echo_without_a_handle_is_answered_with_the_sessions_state() -> None:
    async with Node() as node:
        node.queue("work")
        async with asking(node, attach_frame("l", "sender", target="work", initial_delivery_count=0)) as peer:
            await peer.expect("attach")
            await peer.expect("flow")
            await peer.send(transfer_frame(0, b"x", settled=True))
            assert (await peer.expect("flow"))["handle"] == 0  # new credit
            await peer.send(asking_flow(handle=None, echo=True))
            came = await peer.expect("flow")
            assert came["handle"] is None
            assert session_state(came) == (1, 0)
            await peer.is_silent()


async def test_a_flow_that_asks_for_nothing_gets_no_answer() -> None:
    async with Node() as node:
        node.serve("prices", ManualPublisher[bytes]())
        async with asking(node, attach_frame("l", "receiver", source="prices")) as peer:
            await peer.expect("attach")
            await peer.send(asking_flow(handle=None), asking_flow(delivery_count=0, credit=3))
            await peer.is_silent()


async def test_who_asks_and_leaves_at_once_harms_nothing() -> None:
    async with Node() as node:
        node.serve("prices", ManualPublisher[bytes]())
        async with asking(node, attach_frame("l", "receiver", source="prices")) as peer:
            await peer.expect("attach")
            await peer.send(asking_flow(delivery_count=0, credit=0, drain=True, echo=True), detach_frame())
            while (await peer.frame()).name != "detach":
                pass
            await peer.send(attach_frame("m", "receiver", source="prices"), asking_flow(delivery_count=0, credit=2))
            await peer.expect("attach")
            await peer.send(asking_flow(delivery_count=0, credit=2, echo=True))
            assert link_state(await peer.expect("flow")) == (0, 0, 2, False)
            await peer.send(close_frame())
            await peer.expect("close")


# credit of 2^31 and more


@pytest.mark.parametrize("credit", [2**31 - 1, 2**31, 2**31 + 5, 2**32 - 1])
async def test_credit_of_any_size_is_credit(credit: int) -> None:
    async with Node() as node:
        source = ManualPublisher[bytes]()
        node.serve("prices", source)
        async with asking(node, attach_frame("l", "receiver", source="prices")) as peer:
            await peer.expect("attach")
            for round_ in range(3):  # and again with some of it used
                flow = flow_frame(next_incoming=round_, delivery_count=round_, credit=credit)
                await peer.send(*[flow[at : at + 1] for at in range(len(flow))])
                await trio.testing.wait_all_tasks_blocked()
                source.next(b"a")
                await peer.expect("transfer")
            await peer.send(asking_flow(next_incoming=3, delivery_count=3, credit=credit, echo=True))
            assert link_state(await peer.expect("flow")) == (0, 3, min(credit, 2**31 - 1), False)


@pytest.mark.parametrize("credit", [2**31, 2**32 - 1])
async def test_who_publishes_takes_credit_of_any_size(credit: int) -> None:
    async def script(peer: Peer) -> None:
        await peer.opens()
        receiver = ReceivingPeer(peer)
        await receiver.attaches(credit=credit)
        await receiver.takes(300)
        await peer.send(disposition_frame(0, 299, ACCEPT))
        await peer.expect("detach")
        await peer.send(detach_frame())
        await peer.closes()

    async with scripted(script) as connection:
        assert (await connection.publish("a", Stream.range(300))).accepted == 300


async def test_a_peer_that_says_it_all_before_it_is_let_in_gets_what_needs_time_as_well() -> None:
    """The frames that ask come in one piece with the header: the links begin before the connection's own tasks do."""
    async with Node() as node:
        node.serve("ticks", Stream.interval(1.0).map(str))
        listener = await node.listen("127.0.0.1:0")
        async with await trio.open_tcp_stream("127.0.0.1", listener.port) as stream:
            peer = Peer(stream)
            attach = attach_frame("l", "receiver", source="ticks")
            flows = asking_flow(delivery_count=0, credit=2, echo=True), asking_flow(handle=None, echo=True)
            await peer.send(AMQP_HEADER, open_frame(), begin_frame(None), attach, *flows, begin_frame(None, channel=1))
            assert await peer.take(8) == AMQP_HEADER
            names: list[str] = []
            while names.count("transfer") < 2:
                names.append((await peer.frame()).name)
            assert names.count("begin") == 2
            assert 1 <= names.count("flow") <= 2, "one may answer both"


def test_a_link_without_a_name_is_answered() -> None:
    side = Side("node", server=True, max_frame_bytes=65536)
    side.answer = lambda driver, attach: driver.bind(refuse(driver, attach, "amqp:not-found", ""))
    fields = [NULL, encode_uint(0), TRUE, NULL, NULL, terminus(SOURCE, "a"), terminus(TARGET, ""), NULL, NULL, NULL]
    side.engine.feed(AMQP_HEADER + open_frame() + begin_frame(None) + frame(described(0x12, *fields)))
    assert b"amqp:not-found" in side.output()
    assert not side.failures
