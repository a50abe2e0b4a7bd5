"""rhea as the client, a node of rstreams as the server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
import trio

import rstreams
from rstreams import Node, Stream
from rstreams.net.transport.listener import Listener
from rstreams.testing import ManualPublisher
from tests.interop.processes import eventually, of
from tests.interop.rhea_peer import rhea_client

pytestmark = pytest.mark.broker


@asynccontextmanager
async def listening(users: dict[str, str] | None = None) -> AsyncIterator[tuple[Node, Listener]]:
    async with Node(users=users) as node:
        yield node, await node.listen("127.0.0.1:0")


def counting(most: int) -> ManualPublisher[int]:
    """Return a source of `most` numbers that sends what it is asked for and says what became of each."""
    source = ManualPublisher[int]()

    def send(n: int) -> None:
        for number in range(len(source.outcomes), min(len(source.outcomes) + n, most)):
            source.next(number)

    source.on_request = send
    return source


async def test_its_credit_is_the_publishers_demand(rhea: Path) -> None:
    source = counting(10)
    async with listening() as (node, listener):
        node.serve("numbers", source)
        code, events = await rhea_client(rhea, listener.port, "credit", "numbers")
    assert code == 0
    assert [event["body"] for event in of(events, "message")] == list(range(10))
    assert of(events, "eight") == [{"event": "eight", "credit": 0}], "not one more than was asked for"
    assert source.requests[:2] == [5, 3]
    assert source.requested == 28
    assert of(events, "drained") == [{"event": "drained", "credit": 0}]


async def test_a_stream_to_its_end(rhea: Path) -> None:
    async with listening() as (node, listener):
        node.serve("numbers", Stream.range(500))
        code, events = await rhea_client(rhea, listener.port, "all", "numbers")
    assert code == 0
    assert [event["body"] for event in of(events, "message")] == list(range(500))
    assert events[-1] == {"event": "receiver_close"}, "the end, and no error"


async def test_a_stream_that_fails(rhea: Path) -> None:
    async with listening() as (node, listener):
        node.serve("numbers", Stream.range(3).concat(Stream.fail(ValueError("a secret"))))
        _, events = await rhea_client(rhea, listener.port, "all", "numbers")
    assert len(of(events, "message")) == 3
    (error,) = of(events, "receiver_error")
    assert error["condition"] == "amqp:internal-error"
    assert "secret" not in error["description"]


async def test_it_asks_for_settled_items(rhea: Path) -> None:
    async with listening() as (node, listener):
        node.serve("numbers", Stream.range(50))
        _, events = await rhea_client(rhea, listener.port, "presettled", "numbers")
    assert [event["settled"] for event in of(events, "message")] == [True] * 50


async def test_each_outcome_ends_its_item(rhea: Path) -> None:
    source = counting(1000)
    async with listening() as (node, listener):
        node.serve("numbers", source)
        await rhea_client(rhea, listener.port, "outcomes", "numbers")
        await eventually(lambda: source.outcomes.count(None) == 0)
    assert source.outcomes == ["done", "failed", "released", "failed"]
    assert "rstreams:bad-item" in str(source.errors[1])
    assert source.errors[3] is not None


async def test_it_ends_a_link_with_an_error_of_its_own(rhea: Path) -> None:
    source = counting(1000)
    async with listening() as (node, listener):
        node.serve("numbers", source)
        code, _ = await rhea_client(rhea, listener.port, "enough", "numbers")
        await eventually(lambda: source.cancelled)
    assert code == 0
    assert source.outcomes[:3] == ["done"] * 3


async def test_what_fails_comes_again_with_its_count(rhea: Path) -> None:
    async with listening() as (node, listener):
        queue = node.queue("work")
        await rhea_client(rhea, listener.port, "large", "work")
        assert queue.statistics().ready == 1
        _, events = await rhea_client(rhea, listener.port, "failing", "work")
        await eventually(lambda: queue.statistics().accepted == 1)
    assert [event["count"] for event in of(events, "message")] == [0, 1, 2]


async def test_a_producer_within_the_queues_credit(rhea: Path) -> None:
    async with listening() as (node, listener):
        queue = node.queue("work", capacity=500)
        code, events = await rhea_client(rhea, listener.port, "send", "work")
        assert queue.statistics().ready == 200
    assert code == 0
    assert len(of(events, "accepted")) == 200


async def test_bodies_go_through_a_queue_unchanged(rhea: Path) -> None:
    async with listening() as (node, listener):
        node.queue("work")
        await rhea_client(rhea, listener.port, "bodies", "work")
        async with rstreams.connect(listener.url) as connection:
            came = await connection.messages("work").take(13).to_list()
    bodies = [each.body for each in came]
    assert bodies[:7] == ["text", 5, 2.5, True, None, [1, "two", None], {"a": 1}]
    assert bodies[7:12] == [b"data", [1, 2], b"binary", "a-symbol", datetime(2026, 1, 1, tzinfo=UTC)]
    last = came[12]
    assert (last.id, last.subject, last.properties) == ("m-1", "hot", {"whole": 31, "text": "x"})


async def test_a_large_message(rhea: Path) -> None:
    async with listening() as (node, listener):
        node.serve("large", Stream.of(b"abc" * 1_000_000))
        _, events = await rhea_client(rhea, listener.port, "all", "large")
    (came,) = of(events, "message")
    assert (came["size"], came["is_data"]) == (3_000_000, True)


async def test_a_producer_that_fails(rhea: Path) -> None:
    async with listening() as (node, listener):
        queue = node.queue("work")
        code, events = await rhea_client(rhea, listener.port, "quits", "work")
        assert queue.statistics().ready == 3
    assert code == 0
    assert of(events, "sender_error") == []


async def test_refusals_say_why(rhea: Path) -> None:
    async with listening() as (node, listener):
        node.serve("numbers", Stream.range(3))
        _, events = await rhea_client(rhea, listener.port, "attach", "missing")
        (error,) = of(events, "receiver_error")
        assert error["condition"] == "amqp:not-found"
        _, events = await rhea_client(rhea, listener.port, "target", "numbers")
        (error,) = of(events, "sender_error")
        assert error["condition"] == "amqp:not-allowed"


async def test_plain_credentials(rhea: Path) -> None:
    async with listening({"alice": "secret"}) as (node, listener):
        node.serve("numbers", Stream.range(3))
        code, events = await rhea_client(rhea, listener.port, "all", "numbers", "alice", "secret")
        assert code == 0
        assert len(of(events, "message")) == 3
        code, events = await rhea_client(rhea, listener.port, "all", "numbers", "alice", "guessed")
        assert code != 0
        assert not of(events, "message")
        code, _ = await rhea_client(rhea, listener.port, "all", "numbers")
        assert code != 0


# every kind of address


async def bodies(rhea: Path, listener: Listener, what: str, address: str) -> list[object]:
    """Return the bodies of the messages that rhea gets."""
    code, events = await rhea_client(rhea, listener.port, what, address)
    assert code == 0
    return [event["body"] for event in of(events, "message")]


async def test_a_durable_queue(rhea: Path, tmp_path: Path) -> None:
    for turn in range(2):
        async with Node(store=tmp_path / "s") as node:
            queue = node.queue("work", durable=True)
            listener = await node.listen("127.0.0.1:0")
            if not turn:
                await rhea_client(rhea, listener.port, "send", "work")
            assert await bodies(rhea, listener, "some:100", "work") == list(range(100 * turn, 100 * turn + 100))
            await eventually(lambda: queue.statistics().accepted == 100)  # noqa: B023


async def test_a_log_from_an_offset(rhea: Path) -> None:
    async with listening() as (node, listener):
        node.log("events", retention_items=1000)
        await rhea_client(rhea, listener.port, "send", "events")
        assert await bodies(rhea, listener, "log:3:first", "events") == [0, 1, 2]
        assert await bodies(rhea, listener, "log:2:150", "events") == [150, 151]
        assert await bodies(rhea, listener, "log:1:last", "events") == [199]
        _, events = await rhea_client(rhea, listener.port, "log:1:900", "events")
        assert of(events, "receiver_error")[0]["condition"] == "amqp:not-found"


async def test_the_last_values(rhea: Path) -> None:
    async with listening() as (node, listener):
        node.latest("rooms", key=lambda message: str(message.body % 2))
        await rhea_client(rhea, listener.port, "send", "rooms")
        assert await bodies(rhea, listener, "some:2", "rooms") == [198, 199]


async def test_a_multicast(rhea: Path) -> None:
    async with listening() as (node, listener), trio.open_nursery() as nursery:
        node.multicast("prices")
        nursery.start_soon(rhea_client, rhea, listener.port, "send", "prices")
        assert await bodies(rhea, listener, "some:200", "prices") == list(range(200))


async def test_a_kept_subscription_goes_on(rhea: Path) -> None:
    async with listening() as (node, listener):
        node.serve("numbers", Stream.range(100), keep_s=30)
        assert await bodies(rhea, listener, "kept:3:detach", "numbers") == [0, 1, 2]
        await eventually(lambda: node.statistics().served["numbers"].away == 1)
        assert await bodies(rhea, listener, "kept:3:close", "numbers") == [3, 4, 5]
        await eventually(lambda: not node.statistics().served["numbers"].subscribers)


@pytest.mark.parametrize("end", ["detach", "only the connection"])
async def test_a_durable_subscription(rhea: Path, tmp_path: Path, end: str) -> None:
    path, expected = tmp_path / "s", list(range(200))
    async with Node(store=path) as node:
        node.multicast("prices", durable=True)
        listener = await node.listen("127.0.0.1:0")
        _, events = await rhea_client(rhea, listener.port, "durable:0", "prices")
        source = of(events, "source")[0]
        assert (source["address"], source["durable"], source["expiry_policy"]) == ("prices", 2, "never")
        await rhea_client(rhea, listener.port, "send", "prices")
        assert await bodies(rhea, listener, f"durable:50:{end}", "prices") == expected[:50]
        await eventually(lambda: node.statistics().multicasts["prices"].named[0].accepted == 50)
    async with Node(store=path) as node:
        node.multicast("prices", durable=True)
        listener = await node.listen("127.0.0.1:0")
        assert await bodies(rhea, listener, "durable:150:close", "prices") == expected[50:]
        await eventually(lambda: not node.statistics().multicasts["prices"].named)
