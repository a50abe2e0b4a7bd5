"""The window and the credit that a peer leaves are never exceeded, whatever numbers its flows have (2.5.6, 2.6.7).

The numbers are serial: a flow may be written before the peer has seen what is on its way, and leave less than that.
"""

from __future__ import annotations

import math
import re
from collections.abc import Awaitable, Callable
from typing import Final

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from rstreams import Node, Stream, connect
from rstreams._codec.encode import NULL, encode_uint
from rstreams.net._proton import LinkDriver
from rstreams.net.connection import Connection
from rstreams.net.transport.pump import RUN
from rstreams.operators.concat import concat
from rstreams.protocol.frames import Attach, Role, Settlement
from rstreams.protocol.options import ReceivingOptions, SendingOptions
from rstreams.protocol.receiver import LinkSubscription
from rstreams.protocol.sender import LinkSubscriber
from rstreams.sources.from_iterable import from_iterable
from rstreams.sources.never import never
from rstreams.testing import ProbeSubscriber
from tests.net.engines import Side
from tests.net.foreign import foreign
from tests.net.peers import ReceivingPeer
from tests.net.wire import (
    ACCEPT,
    AMQP_HEADER,
    EMPTY_FRAME,
    MANY_FRAMES,
    U32,
    Frame,
    Peer,
    attach_frame,
    begin_frame,
    described,
    detach_frame,
    disposition_frame,
    frame,
    open_frame,
    read_frame,
    scripted,
    transfer_frame,
    windowed_flow,
)

BORDERS: Final = [0, 1, 2, 5, 40, MANY_FRAMES, MANY_FRAMES + 1, U32 - 5, U32 - 1]
ITEMS: Final = 100


def said_by(side: Side, data: bytes) -> list[Frame]:
    """Give an engine what its peer says; return the frames that it says then."""
    engine, said = side.engine, b""
    engine.feed(data)
    more = True
    while more:
        more = engine.dispatch(RUN, math.inf)
        output = bytes(engine.output())
        more = more or bool(output) or engine.has_work()
        said += output
    frames, at = [], 0
    while at < len(said):
        size = 8 if said[at : at + 4] == b"AMQP" else int.from_bytes(said[at : at + 4])
        came = None if size == 8 else read_frame(said[at : at + size])
        frames += [] if came is None else [came]
        at += size
    return frames


class Receiver:
    """A peer that has attached a link to an engine, and what it got.

    Attributes:
        transfers: How many frames of deliveries.
        deliveries: How many whole ones.
        states: The flows.
    """

    def __init__(
        self, payload: bytes, *, window: int, max_frame: int = 65536, items: int = ITEMS, ends: bool = True
    ) -> None:
        self.side = Side("sender", server=True, max_frame_bytes=65536)
        self.side.answer = self._answer
        self._items = from_iterable([payload] * items)
        if not ends:
            self._items = concat(self._items, never())
        self.transfers = self.deliveries = 0
        self.states: list[Frame] = []
        begin = begin_frame(None, incoming_window=window)
        self.hears(AMQP_HEADER, open_frame(max_frame=max_frame), begin, attach_frame("l", "receiver", source="a"))

    def _answer(self, driver: LinkDriver, attach: Attach) -> None:
        sender = LinkSubscriber(
            self._items, SendingOptions(encode=bytes, settlement=Settlement.AT_MOST_ONCE), lambda _: None
        )
        link = sender.bind(attach.name, driver)
        driver.bind(link)
        link.receive(attach)
        link.send(Attach(attach.name, Role.SENDER, attach.source, attach.target, attach.settlement))
        sender.start()

    def hears(self, *said: bytes) -> None:
        """Say something, in one piece, and take all that comes."""
        for came in said_by(self.side, b"".join(said)):
            if came.name == "transfer":
                self.transfers += 1
                self.deliveries += came["more"] is not True
            elif came.name == "flow":
                self.states.append(came)


@pytest.mark.parametrize("size", [20, 1000])
@pytest.mark.parametrize("window", BORDERS)
@pytest.mark.parametrize("seen", [5, 9, 10, None])
def test_a_window_counts_from_what_the_peer_has_seen(seen: int | None, window: int, size: int) -> None:
    peer = Receiver(bytes(size), window=10)
    peer.hears(windowed_flow(0, 10, count=0, credit=ITEMS))
    assert peer.transfers == 10
    peer.hears(windowed_flow(seen, window))
    left = max(0, (seen or 0) + window - 10)  # without a next-incoming-id: from the first id on
    assert peer.transfers == 10 + min(left, 90)
    peer.hears(windowed_flow(peer.transfers, MANY_FRAMES))
    assert peer.transfers == ITEMS, "it goes on"
    peer.side.engine.free()


@pytest.mark.parametrize("drain", [False, True])
@pytest.mark.parametrize("credit", BORDERS)
@pytest.mark.parametrize("seen", [0, 5, 9, 10])
def test_credit_counts_from_what_the_peer_has_seen(seen: int, credit: int, drain: bool) -> None:  # noqa: FBT001
    """Others wait in the engine, behind the ten that the window let go."""
    peer = Receiver(b"x", window=10)
    peer.hears(windowed_flow(0, 10, count=0, credit=50))
    assert peer.transfers == 10
    peer.hears(windowed_flow(10, MANY_FRAMES, count=seen, credit=credit, drain=drain))
    left = max(0, seen + credit - 10)
    assert peer.transfers == 10 + min(left, 90)
    if drain and left < 90:
        assert all((each["delivery-count"], each["link-credit"]) == (10 + left, 0) for each in peer.states)
        assert peer.states or left
    peer.hears(windowed_flow(peer.transfers, MANY_FRAMES, count=peer.transfers, credit=ITEMS))
    assert peer.transfers == ITEMS, "it goes on"
    peer.side.engine.free()


@pytest.mark.parametrize("window", [0, 3])
@pytest.mark.parametrize("taken_back", [True, False])
def test_a_drain_is_answered_when_what_waits_for_the_window_has_gone_out(window: int, taken_back: bool) -> None:  # noqa: FBT001
    peer = Receiver(b"x", window=10, ends=False)
    peer.hears(windowed_flow(0, 10, count=0, credit=200))
    peer.hears(windowed_flow(10, window, count=10, credit=190, drain=True))
    sent = 10 + window
    assert (peer.transfers, peer.states) == (sent, [])
    if taken_back:
        peer.hears(windowed_flow(sent, 0, count=sent, credit=0))
        peer.hears(windowed_flow(sent, 50))
        assert peer.transfers == sent
        peer.hears(windowed_flow(sent, MANY_FRAMES, count=sent, credit=ITEMS))
    else:
        peer.hears(windowed_flow(sent, MANY_FRAMES))
        assert [(each["delivery-count"], each["link-credit"]) for each in peer.states] == [(200, 0)]
    assert peer.transfers == ITEMS
    peer.side.engine.free()


@given(
    st.lists(
        st.tuples(
            st.integers(0, 30),
            st.sampled_from(BORDERS) | st.integers(0, 30),
            st.integers(0, 30),
            st.none() | st.sampled_from(BORDERS) | st.integers(0, 30),
        ),
        max_size=12,
    ),
    st.sampled_from([1, 200]),
)
def test_random_flows_leave_what_they_say(said: list[tuple[int, int, int, int | None]], size: int) -> None:
    peer = Receiver(bytes(size), window=0)
    window = credit = 0
    for unseen, told_window, uncounted, told_credit in said:
        sent = peer.transfers
        window = max(0, max(0, sent - unseen) + told_window - sent)
        counted = max(0, sent - uncounted)
        if told_credit is not None:
            credit = max(0, counted + told_credit - sent)
        peer.hears(windowed_flow(max(0, sent - unseen), told_window, count=counted, credit=told_credit))
        went = min(window, credit, ITEMS - sent)
        assert peer.transfers == sent + went
        window, credit = window - went, credit - went
    peer.side.engine.free()


@pytest.mark.parametrize("window", [0, 1, 7, 50])
def test_a_message_of_many_frames_stops_where_the_window_does(window: int) -> None:
    peer = Receiver(bytes(20_000), window=3, max_frame=1024, items=5)
    peer.hears(windowed_flow(0, 3, count=0, credit=5))
    assert (peer.transfers, peer.deliveries) == (3, 0)
    peer.hears(windowed_flow(1, window))
    assert peer.transfers == 3 + max(0, 1 + window - 3)
    peer.hears(windowed_flow(peer.transfers, MANY_FRAMES))
    assert peer.deliveries == 5
    peer.side.engine.free()


def test_the_last_flow_counts_of_those_that_come_together() -> None:
    peer = Receiver(b"x", window=10)
    peer.hears(windowed_flow(0, 10, count=0, credit=ITEMS))
    peer.hears(windowed_flow(5, 0), windowed_flow(5, 7), windowed_flow(10, 20), windowed_flow(6, 0))
    assert peer.transfers == 10
    peer.hears(windowed_flow(6, 0), windowed_flow(10, 20))
    assert peer.transfers == 30
    peer.side.engine.free()


def test_ids_that_pass_the_last_number_go_on_with_the_first() -> None:
    """The peer's own numbers begin just below 2**32."""
    side = Side("receiver", server=True, max_frame_bytes=65536)
    probe = ProbeSubscriber[bytes](8)

    def take(driver: LinkDriver, attach: Attach) -> None:
        end = LinkSubscription(probe, ReceivingOptions(decode=bytes, window=8), print)
        link = end.bind(attach.name, driver)
        driver.bind(link, end.intake)
        link.receive(attach)
        link.send(Attach(attach.name, Role.RECEIVER, attach.source, attach.target, attach.settlement))
        end.start()

    side.answer = take
    first = U32 - 3
    begin = frame(described(0x11, NULL, encode_uint(first), encode_uint(MANY_FRAMES), encode_uint(MANY_FRAMES)))
    attach = attach_frame("l", "sender", target="a", initial_delivery_count=first)
    said = said_by(side, AMQP_HEADER + open_frame() + begin + attach)
    assert (said[-1]["delivery-count"], said[-1]["link-credit"]) == (first, 8)
    sent = b"".join(transfer_frame(number % U32, b"x") for number in range(first, first + 8))
    said = said_by(side, sent)
    assert len(probe.items) == 8
    settled: set[int] = set()
    for each in said:
        if each.name == "disposition":
            last = each["first"] if each["last"] is None else each["last"]
            settled |= {(each["first"] + at) % U32 for at in range((last - each["first"]) % U32 + 1)}
    assert settled == {number % U32 for number in range(first, first + 8)}
    probe.request(8)
    (flow,) = said_by(side, EMPTY_FRAME)
    assert (flow["next-incoming-id"], flow["delivery-count"], flow["link-credit"]) == (5, 5, 8)
    side.engine.free()


# from each kind of address, and from each way to send

NODES: Final[dict[str, Callable[[Node], object]]] = {
    "queue": lambda node: node.queue("a"),
    "multicast": lambda node: node.multicast("a"),
    "log": lambda node: node.log("a", retention_items=ITEMS),
    "served": lambda node: node.serve("a", Stream.range(ITEMS)),
    "served from an offset": lambda node: node.serve("a", from_offset=lambda first: Stream.range(first, ITEMS)),
}


@pytest.mark.parametrize("kind", NODES)
async def test_no_address_sends_into_a_closed_window(kind: str, autojump_clock: object) -> None:
    async with Node() as node, trio.open_nursery() as nursery:
        NODES[kind](node)
        listener = await node.listen("127.0.0.1:0")
        async with foreign(listener) as peer:
            await peer.attach("l", "receiver", address="a")
            await peer.send(windowed_flow(0, 10, count=0, credit=1000))
            if "served" not in kind:
                client = await nursery.start(connection_to, listener.url)
                nursery.start_soon(client.publish, "a", Stream.range(ITEMS))
            await checked(peer)
            nursery.cancel_scope.cancel()


@pytest.mark.parametrize("window", [0, 10])
@pytest.mark.parametrize("kind", NODES)
async def test_a_node_explains_that_a_window_is_closed(kind: str, window: int, autojump_clock: object) -> None:
    async with Node() as node, trio.open_nursery() as nursery:
        NODES[kind](node)
        listener = await node.listen("127.0.0.1:0")
        async with foreign(listener) as peer:
            await peer.attach("l", "receiver", address="a")
            await peer.send(windowed_flow(0, window, count=0, credit=1000))
            if "served" not in kind:
                client = await nursery.start(connection_to, listener.url)
                nursery.start_soon(client.publish, "a", Stream.range(ITEMS))
            for _ in range(window):
                await due(peer, "transfer")
            await peer.is_silent()
            (line,) = [f"  {line}" for line in node.explain().lines if "window" in line]
            assert re.fullmatch(r"  to 127\.0\.0\.1:\d+ from 'a': the peer's session window is closed", line)
            await peer.send(windowed_flow(window, MANY_FRAMES))
            for _ in range(window, ITEMS):
                await due(peer, "transfer")
            assert "window" not in str(node.explain())
            nursery.cancel_scope.cancel()


async def connection_to(url: str, task_status: trio.TaskStatus[Connection]) -> None:
    async with connect(url) as connection:
        task_status.started(connection)
        await trio.sleep_forever()


async def checked(peer: Peer) -> None:
    """Check what a sender does that has items and credit enough, and is in a window of 10."""
    for number in range(10):
        assert (await due(peer, "transfer"))["delivery-id"] == number
    for seen, window in ((10, 0), (5, 0), (5, 4), (5, 5), (0, 0)):
        await peer.send(windowed_flow(seen, window))
        await peer.is_silent()
    await peer.send(windowed_flow(8, 5))
    for number in range(10, 13):
        assert (await due(peer, "transfer"))["delivery-id"] == number
    await peer.is_silent()
    await peer.send(windowed_flow(13, MANY_FRAMES))
    for number in range(13, ITEMS):
        assert (await due(peer, "transfer"))["delivery-id"] == number


async def due(peer: Peer, name: str) -> Frame:
    while (came := await peer.frame()).name == "flow" != name:
        pass
    assert came.name == name
    return came


async def published(connection: Connection) -> None:
    assert (await connection.publish("a", Stream.range(ITEMS))).accepted == ITEMS


async def published_with_a_pause(connection: Connection) -> None:
    """The publisher goes on emitting while the window is closed."""
    stream = Stream.range(ITEMS).map(lambda number: bytes(200 * (number % 3)))
    assert (await connection.publish("a", stream)).accepted == ITEMS


async def sent_one_by_one(connection: Connection) -> None:
    async with connection.sender("a") as sender, trio.open_nursery() as nursery:
        for _ in range(ITEMS):
            nursery.start_soon(sender.send, b"x")


async def submitted(connection: Connection) -> None:
    async with connection.sender("a") as sender:
        receipts = [await sender.submit(bytes(300)) for _ in range(ITEMS)]
    assert all(receipt.settled and receipt.error is None for receipt in receipts)


@pytest.mark.parametrize("send", [published, published_with_a_pause, sent_one_by_one, submitted])
async def test_no_way_to_send_goes_into_a_closed_window(
    send: Callable[[Connection], Awaitable[None]],
    autojump_clock: object,
) -> None:
    async def script(peer: Peer) -> None:
        await peer.opens()
        await ReceivingPeer(peer).attaches(credit=0)
        await peer.send(windowed_flow(0, 10, count=0, credit=1000))
        await checked(peer)
        await peer.send(disposition_frame(0, ITEMS - 1, ACCEPT))
        await peer.expect("detach")
        await peer.send(detach_frame())
        await peer.closes()

    async with scripted(script) as connection:
        await send(connection)


async def test_a_session_may_begin_with_its_window_closed(autojump_clock: object) -> None:
    async def script(peer: Peer) -> None:
        await peer.opens()
        begin = await peer.expect("begin")
        await peer.send(begin_frame(begin.channel, incoming_window=0))
        attach = await peer.expect("attach")
        await peer.send(attach_frame(attach["name"], "receiver", target="a"), windowed_flow(0, 0, count=0, credit=1000))
        await peer.is_silent(4)
        assert "to 'a': the peer's session window is closed since 2" in str(connection.explain())
        await peer.send(windowed_flow(0, MANY_FRAMES))
        for _ in range(ITEMS):
            await peer.expect("transfer")
        await peer.send(disposition_frame(0, ITEMS - 1, ACCEPT))
        await peer.expect("detach")
        await peer.send(detach_frame())
        await peer.closes()

    async with scripted(script) as connection:
        await published(connection)
