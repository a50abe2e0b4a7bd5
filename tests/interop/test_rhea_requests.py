"""Requests and replies between rhea and rstreams: each asks, each answers."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

import rstreams
from rstreams import Node, Stream
from rstreams.errors import RequestFailed
from rstreams.net.request_reply.requester import Requester
from rstreams.testing import ProbeSubscriber
from tests.interop.processes import eventually, of
from tests.interop.rhea_peer import RheaServer, rhea_client
from tests.interop.tap import Tap, tapped

pytestmark = pytest.mark.broker


async def ask_all(requester: Requester[object], tap: Tap) -> None:
    """Ask a rhea that answers as `rhea/replies.js` says: at once, what fails, and several replies under credit."""
    got: dict[str, object] = {}

    async def ask(item: str) -> None:
        got[item] = await requester.request(item)

    async with trio.open_nursery() as nursery:
        for number in range(20):
            nursery.start_soon(ask, f"item {number}")
    assert got == {f"item {number}": f"ITEM {number}" for number in range(20)}
    with pytest.raises(RequestFailed, match="no tea") as caught:
        await requester.request("bad")
    assert caught.value.condition == "shop:sold-out"
    probe = ProbeSubscriber[object](2)
    requester.stream(5).subscribe(probe)
    await eventually(lambda: len(probe.items) == 2)
    assert await requester.request("between") == "BETWEEN"
    trace = tap.credit(None)
    assert (trace.granted, trace.sent) == (2, 2)
    probe.request(10)
    await eventually(lambda: probe.completed)
    assert probe.items == [0, 1, 2, 3, 4]
    assert not tap.credit(None).overdrawn
    assert requester.late == 0


async def test_it_answers_to_an_address_that_it_makes(rhea_server: RheaServer) -> None:
    async with (
        tapped(rhea_server.url) as tap,
        rstreams.connect(tap.url) as connection,
        connection.requester("answers:1") as requester,
    ):
        await ask_all(requester, tap)


async def test_it_answers_what_comes_to_a_queue_of_a_node(rhea: Path) -> None:
    async with Node() as node, trio.open_nursery() as nursery:
        node.queue("work")
        listener = await node.listen("127.0.0.1:0")
        nursery.start_soon(rhea_client, rhea, listener.port, "responds", "work")
        async with (
            tapped(listener.url) as tap,
            rstreams.connect(tap.url) as connection,
            connection.requester("work") as requester,
        ):
            await ask_all(requester, tap)
        nursery.cancel_scope.cancel()


async def test_it_asks_a_node(rhea: Path) -> None:
    def shout(item: str) -> str:
        if item == "bad":
            condition = "shop:sold-out"
            raise RequestFailed(condition, "no tea")
        return item.upper()

    async with Node() as node:
        node.respond("shout", shout)
        listener = await node.listen("127.0.0.1:0")
        code, events = await rhea_client(rhea, listener.port, "ask", "shout")
    assert code == 0
    replies = {event["to"]: event for event in of(events, "reply")}
    assert (replies["m-1"]["body"], replies["c-2"]["body"]) == ("TEA", "MILK")
    assert replies["m-3"]["properties"] == {
        "rstreams-error-condition": "shop:sold-out",
        "rstreams-error-description": "no tea",
    }


async def test_it_asks_a_node_for_many_replies_as_it_wants_them(rhea: Path) -> None:
    asked: list[int] = []
    async with Node() as node:
        node.respond("count", lambda most: Stream.range(most).do_on_request(asked.append))
        listener = await node.listen("127.0.0.1:0")
        code, events = await rhea_client(rhea, listener.port, "asks_for_ten", "count")
    assert code == 0
    assert [event["body"] for event in of(events, "reply")] == list(range(10))
    assert [event["event"] for event in events].index("three") == 3, "not one more than was asked for"
    assert asked[0] == 3
    assert events[-1] == {"event": "receiver_close"}, "the end, and no error"


async def test_it_answers_on_one_link_for_all_replies(rhea: Path) -> None:
    async with Node() as node, trio.open_nursery() as nursery:
        node.queue("work")
        listener = await node.listen("127.0.0.1:0")
        nursery.start_soon(rhea_client, rhea, listener.port, "responds_over_a_relay", "work")
        async with (
            rstreams.connect(listener.url) as one,
            rstreams.connect(listener.url) as other,
            one.requester("work") as first,
            other.requester("work") as second,
        ):
            assert [await each.request("tea") for each in (first, second, first)] == ["TEA"] * 3
        nursery.cancel_scope.cancel()


async def test_it_asks_a_node_over_a_relay(rhea: Path) -> None:
    async with Node() as node:
        node.respond("shout", str.upper)
        listener = await node.listen("127.0.0.1:0")
        code, events = await rhea_client(rhea, listener.port, "ask_over_a_relay", "shout")
    assert code == 0
    assert "ANONYMOUS-RELAY" in of(events, "open")[0]["offered"]
    assert of(events, "reply") == [{"event": "reply", "body": "TEA", "to": "m-1"}]
    assert of(events, "rejected") == [{"event": "rejected", "condition": "amqp:not-found"}]
