"""A node against clients written frame by frame, and what a node does with its connections."""

from __future__ import annotations

import logging
import resource
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import trio
from cproton_ffi import lib
from trio.testing import MockClock, memory_stream_pair

import rstreams
from rstreams import Node, Stream
from rstreams.errors import ConfigError, TransportError
from rstreams.message import encode_item
from rstreams.net.connection import Connection
from rstreams.net.links.connection_links import Links
from rstreams.net.options.limits import ConnectionLimits
from rstreams.net.transport.pump import Pump
from rstreams.node import Client
from rstreams.runtime.scope import Scope
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.net.over_tcp import until
from tests.net.wire import (
    ACCEPT,
    AMQP_HEADER,
    Frame,
    Peer,
    attach_frame,
    begin_frame,
    close_frame,
    condition_of,
    described,
    detach_frame,
    disposition_frame,
    end_frame,
    error,
    flow_frame,
    frame,
    open_frame,
    outcome_of,
    transfer_frame,
)

OPENING = AMQP_HEADER + open_frame() + begin_frame(None)


@asynccontextmanager
async def talking(node: Node, *said: bytes) -> AsyncIterator[Peer]:
    """Connect to `node` without SASL, say these things at once, and hear its header, open and begin."""
    listener = await node.listen("127.0.0.1:0")
    stream = await trio.open_tcp_stream("127.0.0.1", listener.port)
    async with stream:
        peer = Peer(stream)
        await peer.send(OPENING, *said)
        assert await peer.take(8) == AMQP_HEADER
        await peer.expect("open")
        await peer.expect("begin")
        yield peer


async def hear(peer: Peer, name: str) -> Frame:
    """Return the next frame that is a `name`; others are passed over."""
    while (came := await peer.frame()).name != name:
        pass
    return came


def consume(address: str, credit: int, *, drain: bool = False) -> bytes:
    """Return an attach and the credit behind it, not waiting for the node's answer: a receiver may (2.6.7)."""
    return attach_frame("consumer", "receiver", source=address) + flow_frame(credit=credit, drain=drain)


def produce(address: str | None) -> bytes:
    return attach_frame("producer", "sender", target=address, initial_delivery_count=0)


# served streams and queues, on the wire


async def test_a_clients_credit_is_the_served_streams_demand() -> None:
    source = ManualPublisher[bytes]()
    async with Node() as node:
        node.serve("prices", source)
        async with talking(node, consume("prices", 3)) as peer:
            attach = await peer.expect("attach")
            assert (attach["role"], attach["name"], attach["delivery-count"]) == (False, "consumer", 0)
            await until(lambda: source.requested)
            assert source.requested == 3
            source.next(b"a", b"b")
            for number, body in enumerate((b"a", b"b")):
                transfer = await peer.expect("transfer")
                assert (transfer["delivery-id"], transfer.payload) == (number, encode_item(body))
            await peer.send(disposition_frame(0, 0, ACCEPT), disposition_frame(1, 1, described(0x26)))
            await until(lambda: None not in source.outcomes)
            assert source.outcomes == ["done", "released"]
            await peer.send(flow_frame(next_incoming=2, delivery_count=2, credit=5))
            await until(lambda: source.requested == 7)
            source.next(b"c")
            source.complete()
            await peer.expect("transfer")
            detach = await peer.expect("detach")
            assert (detach["closed"], detach["error"]) == (True, None)
            await peer.send(disposition_frame(2, 2, ACCEPT), detach_frame())
            await until(lambda: None not in source.outcomes)
            assert source.outcomes == ["done", "released", "done"]
            assert not source.cancelled


@pytest.mark.parametrize(
    ("how", "counter"),
    [(ACCEPT, "accepted"), (described(0x25), "rejected"), (described(0x26), "released"), (described(0x27), "modified")],
    ids=["accepted", "rejected", "released", "modified"],
)
async def test_each_outcome_reaches_the_queue(how: bytes, counter: str) -> None:
    async with Node() as node:
        queue = node.queue("work")
        async with talking(node, produce("work")) as peer:
            await peer.expect("attach")
            assert (await peer.expect("flow"))["link-credit"] > 0
            await peer.send(transfer_frame(0, b"x"))
            came = await hear(peer, "disposition")
            assert (came["first"], came["settled"], outcome_of(came["state"])) == (0, True, "accepted")
            await peer.send(attach_frame("consumer", "receiver", source="work", handle=1))
            await hear(peer, "attach")
            await peer.send(flow_frame(handle=1, credit=1, next_outgoing=1))
            await hear(peer, "transfer")
            before = getattr(queue.statistics(), counter)
            await peer.send(disposition_frame(0, 0, how))
            await until(lambda: getattr(queue.statistics(), counter) > before)
            assert queue.statistics().unsettled == 0


async def test_a_drain_sends_what_is_queued_and_gives_the_rest_of_the_credit_back() -> None:
    async with Node() as node:
        queue = node.queue("work")
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url) as connection:
            await connection.publish("work", Stream.range(3))
        async with talking(node, consume("work", 10, drain=True)) as peer:
            await peer.expect("attach")
            for _ in range(3):
                await peer.expect("transfer")
            flow = await peer.expect("flow")
            assert (flow["link-credit"], flow["delivery-count"], flow["drain"]) == (0, 10, True)
            assert queue.statistics().delivered == 3


async def test_at_most_once_is_the_receivers_choice() -> None:
    attach = attach_frame("consumer", "receiver", source="numbers", settled=True)
    async with Node() as node:
        node.serve("numbers", Stream.range(2))
        async with talking(node, attach, flow_frame(credit=5)) as peer:
            assert (await peer.expect("attach"))["snd-settle-mode"] == 1
            assert (await peer.expect("transfer"))["settled"] is True
            assert (await peer.expect("transfer"))["settled"] is True
            await peer.expect("detach")


async def test_a_producer_that_sends_beyond_its_credit_is_told_and_the_connection_lives() -> None:
    async with Node() as node:
        queue = node.queue("work", capacity=2)
        async with talking(node, produce("work")) as peer:
            await peer.expect("attach")
            credit = (await peer.expect("flow"))["link-credit"]
            await peer.send(*[transfer_frame(number, b"x") for number in range(credit + 3)])
            came = await hear(peer, "detach")
            assert condition_of(came["error"])[0] == "amqp:link:transfer-limit-exceeded"
            await peer.send(detach_frame())
            now = queue.statistics()
            assert now.enqueued <= 2
            assert now.producers == 0
            await peer.send(attach_frame("again", "sender", target="work", initial_delivery_count=0))
            assert (await peer.expect("attach"))["target"] is not None


@pytest.mark.parametrize(
    ("attach", "condition"),
    [
        (attach_frame("c", "receiver", source="nowhere"), "amqp:not-found"),
        (attach_frame("c", "receiver", source=None), "amqp:not-found"),
        (attach_frame("c", "receiver", source=""), "amqp:not-found"),
        (attach_frame("p", "sender", target="nowhere", initial_delivery_count=0), "amqp:not-found"),
        (attach_frame("p", "sender", target="numbers", initial_delivery_count=0), "amqp:not-allowed"),
    ],
    ids=["no such source", "null source", "no source", "no such target", "a served stream"],
)
async def test_what_cannot_be_attached_is_refused_with_a_null_terminus(attach: bytes, condition: str) -> None:
    async with Node() as node:
        node.serve("numbers", Stream.range(3))
        async with talking(node, attach) as peer:
            answer = await peer.expect("attach")
            assert (answer["source"], answer["target"]) == (None, None)
            detach = await peer.expect("detach")
            assert detach["closed"] is True
            assert condition_of(detach["error"])[0] == condition
            late = transfer_frame(0, b"x") if answer["role"] else flow_frame(credit=5)
            await peer.send(late, detach_frame())
            await peer.send(attach_frame("good", "receiver", source="numbers"))
            assert (await peer.expect("attach"))["source"] is not None


async def test_a_transaction_coordinator_is_refused() -> None:
    """A target that is no address but asks for transactions (4.5.1): there are none here."""
    attach = attach_frame("tx", "sender", target=described(0x30), initial_delivery_count=0)
    async with Node() as node, talking(node, attach) as peer:
        assert (await peer.expect("attach"))["target"] is None
        await peer.expect("detach")


# clients that go


async def hear_end(peer: Peer) -> list[Frame]:
    """Return all that comes until the node hangs up."""
    heard: list[Frame] = []
    try:
        while True:
            heard.append(await peer.frame())
    except EOFError:
        return heard


LEAVES = {
    "detach": detach_frame(),
    "detach, not closed": detach_frame(closed=False),
    "detach with an error": detach_frame(why=error("amqp:internal-error")),
    "end": end_frame(),
    "end with an error": end_frame(error("amqp:session:errant-link")),
    "close": close_frame(),
    "close with an error": close_frame(error("amqp:connection:forced")),
    "hang up": b"",
    "hang up in a frame": b"\x00\x00\x00",
    "no AMQP": b"GET / HTTP/1.1\r\n\r\n",
    "no performative": frame(described(0x77)),
    "detach of no link": detach_frame(handle=77),
    "transfer on no link": transfer_frame(0, b"x", handle=99),
}


@pytest.mark.parametrize("how", LEAVES)
async def test_however_a_consumer_leaves_its_subscription_is_cancelled_and_no_other_hears_of_it(how: str) -> None:
    source, other = ManualPublisher[bytes](), ManualPublisher[bytes]()
    async with Node() as node:
        node.serve("prices", source)
        node.serve("other", other)
        listener = await node.listen("127.0.0.1:0")
        probe = ProbeSubscriber[bytes](2)
        async with rstreams.connect(listener.url) as connection:
            connection.stream("other").subscribe(probe)
            await until(lambda: other.requested)
            async with talking(node, consume("prices", 3)) as peer:
                await peer.expect("attach")
                await until(lambda: source.requested)
                source.next(b"a", b"b")
                await peer.expect("transfer")
                await peer.send(disposition_frame(0, 0, ACCEPT), LEAVES[how])
            await until(lambda: source.cancelled)
            await until(lambda: None not in source.outcomes)
            assert source.outcomes[0] == "done"
            assert source.outcomes[1] in {"released", "failed"}
            other.next(b"1", b"2")
            await until(lambda: probe.items == [b"1", b"2"])
        await until(lambda: node.statistics().connections == 0)


@pytest.mark.slow
async def test_a_client_that_hangs_up_anywhere_in_the_conversation_loses_nothing() -> None:
    said = OPENING + consume("work", 2) + disposition_frame(0, 0, ACCEPT)
    async with Node() as node:
        queue = node.queue("work")
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url) as connection:
            await connection.publish("work", Stream.range(2))
            for length in range(len(said)):
                stream = await trio.open_tcp_stream("127.0.0.1", listener.port)
                await stream.send_all(said[:length])
                await stream.aclose()
            await until(lambda: node.statistics().connections == 1)
            assert queue.statistics().ready == 2
            bodies = [message.body for message in await connection.messages("work").take(2).to_list()]
            assert bodies == [0, 1]


def resident_kib() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() // 1024


@pytest.mark.slow  # thousands of links
@pytest.mark.parametrize("what", ["sessions", "links", "refused links"])
async def test_a_client_that_comes_and_goes_on_one_connection_takes_no_memory(what: str) -> None:
    address = "nowhere" if what == "refused links" else "numbers"
    link = attach_frame("again", "receiver", source=address, handle=1) + detach_frame(handle=1)
    session = begin_frame(None, channel=1) + end_frame(channel=1)
    said, answer = (session, "end") if what == "sessions" else (link, "detach")

    async with Node() as node:
        node.serve("numbers", Stream.range(1))
        async with talking(node) as peer:

            async def come_and_go(times: int) -> None:
                for _ in range(times // 50):
                    await peer.send(*[said] * 50)
                    for _ in range(50):
                        await hear(peer, answer)

            await come_and_go(500)
            before = resident_kib()
            await come_and_go(2000)
            assert resident_kib() - before < 2000, "they took 3.4 KiB each, once"


# the node's own end


async def test_a_node_that_closes_tells_each_client_and_waits_for_its_answer() -> None:
    async with trio.open_nursery() as nursery:
        closed = trio.Event()

        async def client(peer: Peer) -> None:
            close = await peer.expect("close")
            assert condition_of(close["error"]) == ("amqp:connection:forced", "the node is closing")
            await peer.send(close_frame())
            assert await hear_end(peer) == []
            closed.set()

        async with Node() as node:
            listener = await node.listen("127.0.0.1:0")
            stream = await trio.open_tcp_stream("127.0.0.1", listener.port)
            peer = Peer(stream)
            await peer.send(OPENING)
            assert await peer.take(8) == AMQP_HEADER
            await peer.expect("open")
            await peer.expect("begin")
            nursery.start_soon(client, peer)
        await closed.wait()
        await stream.aclose()


async def test_a_client_that_does_not_answer_the_close_is_left_after_a_while(autojump_clock: MockClock) -> None:
    started = 0.0
    async with Node() as node:
        listener = await node.listen("127.0.0.1:0")
        stream = await trio.open_tcp_stream("127.0.0.1", listener.port)
        await stream.send_all(OPENING)
        await stream.receive_some()
        started = trio.current_time()
    assert trio.current_time() - started <= 3.1
    await stream.aclose()
    assert autojump_clock.rate == 0


async def test_a_port_in_use_is_named() -> None:
    async with Node() as node, Node() as other:
        listener = await node.listen("127.0.0.1:0")
        with pytest.raises(TransportError, match=f"cannot listen on 127.0.0.1:{listener.port}: .*in use"):
            await other.listen(f"127.0.0.1:{listener.port}")


async def test_a_node_listens_at_several_places() -> None:
    async with Node() as node:
        node.serve("one", Stream.of(1))
        listeners = [await node.listen("127.0.0.1:0") for _ in range(3)]
        assert len({listener.port for listener in listeners}) == 3
        for listener in listeners:
            assert listener.host == "127.0.0.1"
            assert listener.url == f"amqp://127.0.0.1:{listener.port}"
            async with rstreams.connect(listener.url) as connection:
                assert await connection.stream("one").to_list() == [1]
                assert listener.connections == 1


@pytest.mark.slow
@pytest.mark.parametrize("place", ["127.0.0.1", "127.0.0.1:x", ":5672", "", "127.0.0.1:5672/x", "u@127.0.0.1:1"])
async def test_a_place_that_is_none_is_named(place: str) -> None:
    async with Node() as node:
        with pytest.raises(ConfigError, match="listen=") as raised:
            await node.listen(place)
        assert repr(place.replace("u@", "***@")) in str(raised.value), "what may be a password is not shown"


async def test_what_broke_a_connection_is_logged_for_people(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "rstreams.net")
    async with Node() as node, talking(node) as peer:
        await peer.send(b"GET / HTTP/1.1\r\n\r\n")
        await hear_end(peer)
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 1
    assert told[0].startswith("a client is gone: 127.0.0.1:")
    assert "was cut off" in told[0]


# time, between two pumps


@asynccontextmanager
async def quiet(node_idle_s: float, client_idle_s: float) -> AsyncIterator[tuple[Node, Connection, Pump]]:
    """Connect a client's pump to a node's over memory streams, where only virtual time passes."""
    ours, theirs = memory_stream_pair()
    async with Node() as node, Scope() as scope:
        client = Pump(
            ours,
            peer="the node",
            container_id="client",
            limits=ConnectionLimits(idle_timeout_s=client_idle_s),
            on_attach=lambda _driver, _frame: None,
        )
        server = Pump(
            theirs,
            peer="the client",
            container_id="node",
            limits=ConnectionLimits(idle_timeout_s=node_idle_s),
            on_attach=partial(node._on_attach, Client()),
        )
        lib.pn_transport_bind(client.engine._transport, client.engine._connection)
        lib.pn_connection_open(client.engine._connection)
        server.engine.accept()
        scope.nursery.start_soon(client.run)
        scope.nursery.start_soon(server.run)
        await client.opened.wait()
        yield node, Connection(Links(client, "client")), server
        await client.close()


@pytest.mark.slow  # heartbeats in real time
@pytest.mark.parametrize(("node_idle_s", "client_idle_s"), [(4.0, 30.0), (30.0, 0.5), (1.1, 1.3)])
async def test_heartbeats_keep_a_quiet_connection_alive(
    node_idle_s: float, client_idle_s: float, autojump_clock: MockClock
) -> None:
    async with quiet(node_idle_s, client_idle_s) as (node, connection, server):
        source = ManualPublisher[int]()
        node.serve("rare", source)
        probe = ProbeSubscriber[int](2)
        connection.stream("rare").subscribe(probe)
        await trio.sleep(600)
        assert source.requested == 2
        source.next(1)
        await trio.sleep(600)
        assert probe.items == [1]
        assert not probe.ended
        assert server.error is None
        probe.cancel()
    assert autojump_clock.rate == 0


@pytest.mark.slow  # likewise
async def test_a_consumer_that_takes_for_ever_over_an_item_is_kept_alive_by_heartbeats(
    autojump_clock: MockClock,
) -> None:
    async def slowly(item: int) -> int:
        await trio.sleep(1000)
        return item

    async with quiet(4.0, 4.0) as (node, connection, _):
        node.serve("numbers", Stream.range(5))
        assert await connection.stream("numbers").map_async(slowly).to_list() == [0, 1, 2, 3, 4]
    assert autojump_clock.rate == 0


async def test_a_client_that_falls_silent_is_given_up_and_gives_its_messages_back(autojump_clock: MockClock) -> None:
    async with Node(idle_timeout_s=4.0) as node:
        source = ManualPublisher[bytes]()
        node.serve("prices", source)
        async with talking(node, consume("prices", 3)) as peer:
            await peer.expect("attach")
            await trio.testing.wait_all_tasks_blocked()
            source.next(b"a")
            await peer.expect("transfer")
            started = trio.current_time()
            heard = await hear_end(peer)
            assert [each.name for each in heard] == ["close"]
            assert condition_of(heard[0]["error"])[0] == "amqp:resource-limit-exceeded"
            assert 3.9 <= trio.current_time() - started <= 8.1
        assert source.cancelled
        assert source.outcomes == ["failed"]
    assert autojump_clock.rate == 0
