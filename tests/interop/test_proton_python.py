"""The `Container` of Debian's python3-qpid-proton 0.37 as the client, a node of rstreams as the server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

import rstreams
from rstreams import Node, Stream
from rstreams.errors import RequestFailed
from rstreams.net.transport.listener import Listener
from tests.interop.processes import Event, eventually, of, told_by
from tests.interop.tap import tapped
from tests.interop.test_rhea_client import counting

pytestmark = pytest.mark.broker

SCRIPT = (Path(__file__).parent / "proton" / "client.py").read_bytes()


@asynccontextmanager
async def listening(users: dict[str, str] | None = None) -> AsyncIterator[tuple[Node, Listener]]:
    async with Node(users=users) as node:
        yield node, await node.listen("127.0.0.1:0")


async def run(proton: list[str], url: str, what: str, address: str) -> tuple[int, list[Event]]:
    return await told_by([*proton, url, what, address], script=SCRIPT)


async def test_a_stream_to_its_end(proton_python: list[str]) -> None:
    async with listening() as (node, listener):
        node.serve("numbers", Stream.range(500))
        code, events = await run(proton_python, listener.url, "all", "numbers")
    assert code == 0
    assert [event["body"] for event in of(events, "message")] == list(range(500))
    assert events[-1] == {"event": "receiver_close", "condition": None, "description": None}


async def test_a_stream_that_fails(proton_python: list[str]) -> None:
    async with listening() as (node, listener):
        node.serve("numbers", Stream.range(3).concat(Stream.fail(ValueError("a secret"))))
        _, events = await run(proton_python, listener.url, "all", "numbers")
    assert len(of(events, "message")) == 3
    (error,) = of(events, "receiver_error")
    assert error["condition"] == "amqp:internal-error"
    assert "secret" not in error["description"]


async def test_its_credit_is_the_publishers_demand_and_a_drain_takes_the_rest_back(proton_python: list[str]) -> None:
    source = counting(10)
    async with listening() as (node, listener):
        node.serve("numbers", source)
        code, events = await run(proton_python, listener.url, "credit", "numbers")
    assert code == 0
    assert [event["body"] for event in of(events, "message")] == list(range(10))
    assert of(events, "eight") == [{"event": "eight", "credit": 0}], "not one more than was asked for"
    assert source.requests[:2] == [5, 3]
    assert source.requested == 28
    assert of(events, "drained")[0]["credit"] == 0


async def test_it_asks_for_settled_items(proton_python: list[str]) -> None:
    async with listening() as (node, listener):
        node.serve("numbers", Stream.range(50))
        _, events = await run(proton_python, listener.url, "presettled", "numbers")
    assert [event["settled"] for event in of(events, "message")] == [True] * 50


async def test_each_outcome_ends_its_item(proton_python: list[str]) -> None:
    source = counting(1000)
    async with listening() as (node, listener):
        node.serve("numbers", source)
        code, _ = await run(proton_python, listener.url, "outcomes", "numbers")
        await eventually(lambda: source.outcomes.count(None) == 0)
    assert code == 0
    assert source.outcomes == ["done", "failed", "released", "failed"]
    assert "rstreams:bad-item: number two" in str(source.errors[1])
    assert source.errors[3] is not None


async def test_what_fails_comes_again_with_its_count(proton_python: list[str]) -> None:
    async with listening() as (node, listener):
        queue = node.queue("work")
        async with rstreams.connect(listener.url) as connection:
            await connection.publish("work", Stream.of("item"))
        _, events = await run(proton_python, listener.url, "failing", "work")
        await eventually(lambda: queue.statistics().accepted == 1)
    assert [event["count"] for event in of(events, "message")] == [0, 1, 2]


async def test_a_producer_within_the_queues_credit(proton_python: list[str]) -> None:
    async with listening() as (node, listener), tapped(listener.url) as tap:
        queue = node.queue("work", capacity=500)
        code, events = await run(proton_python, tap.url, "sends", "work")
        assert queue.statistics().ready == 200
        trace = tap.credit("work", receives=False)
    assert code == 0
    assert len(of(events, "accepted")) == 200
    assert (trace.sent, trace.overdrawn) == (200, 0)


async def test_bodies_go_through_a_queue_unchanged(proton_python: list[str]) -> None:
    async with listening() as (node, listener):
        node.queue("work")
        code, _ = await run(proton_python, listener.url, "bodies", "work")
        assert code == 0
        async with rstreams.connect(listener.url) as connection:
            came = await connection.messages("work").take(11).to_list()
    assert [each.body for each in came[:10]] == [
        "text", 5, 2.5, True, None, [1, "two", None], {"a": 1}, b"data", b"binary", "a-symbol",
    ]  # fmt: skip
    last = came[10]
    assert (last.id, last.subject, last.properties) == ("m-1", "hot", {"whole": 31, "text": "x"})
    assert (last.durable, last.ttl_s) == (True, 60.0)


async def test_large_messages_both_ways(proton_python: list[str]) -> None:
    async with listening() as (node, listener):
        queue = node.queue("work")
        code, _ = await run(proton_python, listener.url, "large", "work")
        assert (code, queue.statistics().ready) == (0, 1)
        node.serve("large", Stream.of(b"abc" * 1_000_000))
        _, events = await run(proton_python, listener.url, "all", "large")
    (came,) = of(events, "message")
    assert (came["size"], came["body"][:6]) == (3_000_000, "abcabc")


async def test_it_asks_a_node_for_replies_to_an_address_that_the_node_makes(proton_python: list[str]) -> None:
    def shout(item: str) -> str:
        if item == "bad":
            condition = "shop:sold-out"
            raise RequestFailed(condition, "no tea")
        return item.upper()

    async with listening() as (node, listener):
        node.respond("shout", shout)
        code, events = await run(proton_python, listener.url, "asks", "shout")
    assert code == 0
    assert [(event["body"], event["to"]) for event in of(events, "reply")][:2] == [("TEA", "tea"), ("MILK", "milk")]
    assert of(events, "message")[2]["properties"]["rstreams-error-condition"] == "shop:sold-out"


async def test_it_answers_what_comes_to_a_queue(proton_python: list[str]) -> None:
    async with listening() as (node, listener), trio.open_nursery() as nursery:
        node.queue("work")
        nursery.start_soon(run, proton_python, listener.url, "responds", "work")
        async with (
            rstreams.connect(listener.url) as connection,
            connection.requester("work") as requester,
        ):
            with trio.fail_after(20):
                assert [await requester.request(item) for item in ("tea", "milk")] == ["TEA", "MILK"]
        nursery.cancel_scope.cancel()


async def test_refusals_say_why(proton_python: list[str]) -> None:
    async with listening() as (node, listener):
        node.serve("numbers", Stream.range(3))
        _, events = await run(proton_python, listener.url, "attach", "missing")
        (error,) = of(events, "receiver_error")
        assert error["condition"] == "amqp:not-found"
        _, events = await run(proton_python, listener.url, "target", "numbers")
        (error,) = of(events, "sender_error")
        assert error["condition"] == "amqp:not-allowed"


async def test_plain_credentials(proton_python: list[str]) -> None:
    async with listening({"alice": "secret"}) as (node, listener):
        node.serve("numbers", Stream.range(3))
        place = f"127.0.0.1:{listener.port}"
        _, events = await run(proton_python, f"amqp://alice:secret@{place}", "all", "numbers")
        assert len(of(events, "message")) == 3
        _, events = await run(proton_python, f"amqp://alice:guessed@{place}", "all", "numbers")
        assert not of(events, "message")
        (error,) = of(events, "transport_error")
        assert error["condition"] == "amqp:unauthorized-access"
