"""Azure's Python client as the client, a node of rstreams as the server: the AMQP client inside it, then all of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

import rstreams
from rstreams import Message, Node, Stream
from rstreams.node.queue import Queue
from rstreams.tls import server_context
from tests.interop.azure_peer import ServiceBus, azure_client
from tests.interop.processes import Event, of
from tests.interop.tap import tapped
from tests.interop.test_proton_python import listening
from tests.net.certificates import Files

pytestmark = pytest.mark.broker


async def pyamqp(installed: Path, port: int, what: str, address: str, **options: object) -> tuple[int, list[Event]]:
    return await azure_client(installed, "pyamqp", port, what, address, **options)


# `_pyamqp`, the AMQP client inside


async def test_a_producer_within_the_queues_credit(azure_servicebus: Path) -> None:
    async with listening() as (node, listener), tapped(listener.url) as tap:
        queue = node.queue("work", capacity=8)
        node.queue("other")
        port = int(tap.url.rpartition(":")[2])
        async with trio.open_nursery() as nursery:
            nursery.start_soon(consume, listener.url, 20)
            code, events = await pyamqp(azure_servicebus, port, "send", "work")
        trace = tap.credit("work", receives=False)
        assert queue.statistics().accepted == 20
    assert code == 0
    assert [event["number"] for event in of(events, "sent")] == list(range(20))
    assert (trace.sent, trace.overdrawn) == (20, 0)


async def test_a_producer_at_a_full_queue_sends_without_credit_and_loses_its_link(azure_servicebus: Path) -> None:
    async with listening() as (node, listener), tapped(listener.url) as tap:
        queue = node.queue("work", capacity=4)
        _, events = await pyamqp(azure_servicebus, int(tap.url.rpartition(":")[2]), "overfill", "work")
        assert queue.statistics().ready == 4
        assert tap.credit("work", receives=False).overdrawn == 1
    assert [event["number"] for event in of(events, "sent")] == [0, 1, 2, 3]
    assert of(events, "failed")[0]["condition"] == "amqp:link:transfer-limit-exceeded"


async def consume(url: str, count: int) -> None:
    async with rstreams.connect(url) as connection:
        came: list[bytes] = []
        await connection.stream("work").take(count).for_each(came.append)  # accepts each: the queue is never full
        assert came == [b"%d" % number for number in range(count)]


async def test_bodies_go_through_a_queue_unchanged(azure_servicebus: Path) -> None:
    async with listening() as (node, listener):
        node.queue("work")
        code, _ = await pyamqp(azure_servicebus, listener.port, "bodies", "work")
        assert code == 0
        async with rstreams.connect(listener.url) as connection:
            came = await connection.messages("work").take(4).to_list()
    assert [each.body for each in came] == ["text", [1, "two"], b"data", [1, 2]]


async def test_large_messages_both_ways(azure_servicebus: Path) -> None:
    async with listening() as (node, listener):
        queue = node.queue("work")
        code, events = await pyamqp(azure_servicebus, listener.port, "large", "work")
        assert (code, len(of(events, "sent")), queue.statistics().ready) == (0, 1, 1)
        code, events = await pyamqp(azure_servicebus, listener.port, "receive_large", "work")
    assert (code, of(events, "message")[0]["size"]) == (0, 3_000_000)


async def test_its_credit_is_the_publishers_demand(azure_servicebus: Path) -> None:
    asked: list[int] = []
    numbers = Stream.range(1000).do_on_request(asked.append).map(lambda number: b"%d" % number)
    async with listening() as (node, listener), tapped(listener.url) as tap:
        node.serve("numbers", numbers)
        code, events = await pyamqp(azure_servicebus, int(tap.url.rpartition(":")[2]), "credit", "numbers")
        trace = tap.credit("numbers")
    assert code == 0
    assert of(events, "first")[0]["bodies"] == [str(number) for number in range(5)]
    assert of(events, "more")[0]["bodies"] == ["5", "6", "7"]
    assert asked[0] == 5
    assert trace.overdrawn == 0
    assert trace.sent <= trace.granted


async def test_a_stream_to_its_end(azure_servicebus: Path) -> None:
    async with listening() as (node, listener):
        node.serve("numbers", Stream.range(50).map(lambda number: b"%d" % number))
        _, events = await pyamqp(azure_servicebus, listener.port, "to_the_end", "numbers")
        node.serve("fails", Stream.of(b"one").concat(Stream.fail(ValueError("a secret"))))
        _, failed = await pyamqp(azure_servicebus, listener.port, "to_the_end", "fails")
    assert of(events, "bodies")[0]["bodies"] == [str(number) for number in range(50)]
    assert of(failed, "bodies")[0]["bodies"] == ["one"]
    assert of(failed, "end")[0]["condition"] == "amqp:internal-error"


async def test_refusals_say_why(azure_servicebus: Path) -> None:
    async with listening() as (_, listener):
        code, events = await pyamqp(azure_servicebus, listener.port, "refused", "missing")
    assert code == 0
    assert [(event["event"], event["condition"]) for event in events] == [
        ("receiver", "amqp:not-found"),
        ("sender", "amqp:not-found"),
    ]


async def test_plain_credentials(azure_servicebus: Path) -> None:
    async with listening({"alice": "sesame"}) as (node, listener):
        node.queue("work")
        _, events = await pyamqp(azure_servicebus, listener.port, "login", "work", user="alice:sesame")
        assert of(events, "opened")
        _, events = await pyamqp(azure_servicebus, listener.port, "login", "work", user="alice:guessed")
        assert not of(events, "opened")
        _, events = await pyamqp(azure_servicebus, listener.port, "login", "work")
        assert not of(events, "opened")


async def test_over_tls(azure_servicebus: Path, tmp_path: Path) -> None:
    files = Files(tmp_path)
    async with Node(users={"alice": "sesame"}) as node:
        queue = node.queue("work", capacity=100)
        listener = await node.listen("127.0.0.1:0", tls=server_context(files.node, files.node_key))
        code, events = await pyamqp(azure_servicebus, listener.port, "send", "work", user="alice:sesame", ca=files.ca)
        assert (code, len(of(events, "sent")), queue.statistics().ready) == (0, 20, 20)


# `ServiceBusClient`


@asynccontextmanager
async def service_bus(*orders: Message, letters: int = 0) -> AsyncIterator[tuple[ServiceBus, int, Queue]]:
    """Run a node in the part of Service Bus, with a queue that holds `orders`, and one for its dead letters."""
    async with ServiceBus() as node:
        node.queue("orders/$DeadLetterQueue")
        queue = node.queue("orders", dead_letters="orders/$DeadLetterQueue")
        listener = await node.listen("127.0.0.1:0")
        if orders:
            node.tokens.holding[0, "orders"] = float("inf")
            async with rstreams.connect(listener.url) as connection:
                await connection.publish("orders", Stream.of(*orders))
        yield node, listener.port, queue


async def client(installed: Path, port: int, what: str, entity: str = "orders") -> tuple[int, list[Event]]:
    return await azure_client(installed, "service_bus", port, what, entity)


def orders(count: int) -> list[Message]:
    return [Message(b"order %d" % number, id=f"m-{number}") for number in range(count)]


async def test_it_sends_to_a_queue(azure_servicebus: Path) -> None:
    async with service_bus() as (node, port, queue):
        code, events = await client(azure_servicebus, port, "send")
        assert (code, len(of(events, "sent"))) == (0, 1)
        assert queue.statistics().ready == 3
        node.tokens.holding[1, "orders"] = float("inf")
        async with rstreams.connect(f"amqp://127.0.0.1:{port}") as connection:
            one, two, large = await connection.messages("orders").take(3).to_list()
    assert (one.body, one.id, one.subject, one.properties) == (b"one", "m-1", "hot", {"n": 1})
    assert (two.body, len(large.body)) == (b"two", 1_200_000)


async def test_it_settles_each_message_in_its_own_way(azure_servicebus: Path) -> None:
    async with service_bus(*orders(3)) as (_, port, queue):
        code, events = await client(azure_servicebus, port, "settle")
        assert code == 0
        told = [event.get("id", event["event"]) for event in events]
        assert told == ["m-0", "completed", "m-1", "abandoned", "m-1", "dead-lettered", "m-2", "deferred"]
        assert [event["count"] for event in of(events, "message")] == [None, None, 1, None]
        numbers = queue.statistics()
        assert (numbers.accepted, numbers.modified, numbers.rejected, numbers.dead_lettered) == (1, 2, 1, 1)
        code, events = await client(azure_servicebus, port, "dead_letters")
        assert (code, of(events, "message")[0]["id"]) == (0, "m-1")


async def test_receive_and_delete(azure_servicebus: Path) -> None:
    async with service_bus(*orders(3)) as (_, port, queue):
        code, events = await client(azure_servicebus, port, "delete")
        assert [event["id"] for event in of(events, "message")] == ["m-0", "m-1", "m-2"]
        assert (code, queue.statistics().accepted, queue.statistics().ready) == (0, 3, 0)


async def test_it_receives_several_at_once(azure_servicebus: Path) -> None:
    async with service_bus(*orders(10)) as (_, port, queue):
        code, events = await client(azure_servicebus, port, "several")
        assert events == [{"event": "got", "count": 10, "more": 0}]
        assert (code, queue.statistics().accepted) == (0, 10)


async def test_it_receives_in_a_loop(azure_servicebus: Path) -> None:
    async with service_bus(*orders(5)) as (_, port, queue):
        code, events = await client(azure_servicebus, port, "iterate")
        assert [event["body"] for event in of(events, "body")] == [f"order {number}" for number in range(5)]
        assert (code, queue.statistics().accepted) == (0, 5)


async def test_what_is_not_there_is_refused(azure_servicebus: Path) -> None:
    async with service_bus() as (_, port, _):
        code, events = await client(azure_servicebus, port, "refused", "missing")
    assert code == 0
    assert [event["event"] for event in events] == ["receiver", "sender"]
    assert all("no address 'missing' here" in event["text"] for event in events)


async def test_requests_for_management_are_refused(azure_servicebus: Path) -> None:
    async with service_bus(*orders(1)) as (_, port, _):
        code, events = await client(azure_servicebus, port, "peek")
    assert code == 0
    assert of(events, "peeked")


async def test_a_batch_is_refused_and_says_why(azure_servicebus: Path) -> None:
    async with service_bus() as (_, port, queue):
        code, events = await client(azure_servicebus, port, "batch")
        assert (code, queue.statistics().ready) == (0, 0)
    (refused,) = of(events, "refused")
    assert "0x80013700" in refused["text"]
