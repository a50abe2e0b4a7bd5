"""go-amqp as the client, a node of rstreams as the server; what it says is recorded, too, in `tests/node/go_amqp/`."""

from __future__ import annotations

from pathlib import Path

import pytest

import rstreams
from rstreams import Node, Stream
from tests.interop.processes import Event, eventually, of, told_by
from tests.interop.tap import tapped
from tests.interop.test_proton_python import listening
from tests.interop.test_rhea_client import counting

pytestmark = pytest.mark.broker


async def run(client: Path, url: str, what: str, address: str) -> tuple[int, list[Event]]:
    return await told_by([str(client), url, what, address])


def drains(client: Path) -> bool:
    """Whether the installed go-amqp has `DrainCredit`."""
    return (client.parents[1] / "own").exists()


async def test_a_stream_to_its_end(go_amqp: Path) -> None:
    async with listening() as (node, listener):
        node.serve("numbers", Stream.range(200))
        code, events = await run(go_amqp, listener.url, "all", "numbers")
    assert code == 0
    assert [event["body"] for event in of(events, "message")] == list(range(200))
    (end,) = of(events, "end")
    assert end["condition"] is None


async def test_a_stream_that_fails(go_amqp: Path) -> None:
    async with listening() as (node, listener):
        node.serve("numbers", Stream.range(3).concat(Stream.fail(ValueError("a secret"))))
        _, events = await run(go_amqp, listener.url, "all", "numbers")
    (end,) = of(events, "end")
    assert end["condition"] == "amqp:internal-error"
    assert "secret" not in end["description"]


@pytest.fixture
def draining_go_amqp(go_amqp: Path) -> Path:
    """A client that drains; a skip inside an async test loses its reason."""
    if not drains(go_amqp):
        pytest.skip("go-amqp 1.0 has no DrainCredit: name a checkout of a later one with RSTREAMS_INTEROP_GO_AMQP")
    return go_amqp


async def test_a_drain_when_no_credit_is_left_and_one_when_some_is(draining_go_amqp: Path) -> None:
    async with listening() as (node, listener), tapped(listener.url) as tap:
        queue = node.queue("work")
        async with rstreams.connect(listener.url) as connection:
            await connection.publish("work", Stream.range(20))
        code, events = await run(draining_go_amqp, tap.url, "drains", "work")
        trace = tap.credit("work")
        await eventually(lambda: queue.statistics().accepted == 5)
    assert code == 0
    assert [event["left"] for event in of(events, "drained")] == [0, 4]
    assert trace.overdrawn == 0


async def test_each_outcome_ends_its_item(go_amqp: Path) -> None:
    source = counting(1000)
    async with listening() as (node, listener):
        node.serve("numbers", source)
        code, _ = await run(go_amqp, listener.url, "outcomes", "numbers")
        await eventually(lambda: source.outcomes.count(None) == 0)
    assert code == 0
    assert source.outcomes == ["done", "failed", "released", "failed"]
    assert "rstreams:bad-item: number two" in str(source.errors[1])


async def test_what_fails_comes_again_with_its_count(go_amqp: Path) -> None:
    async with listening() as (node, listener):
        queue = node.queue("work")
        async with rstreams.connect(listener.url) as connection:
            await connection.publish("work", Stream.of("item"))
        code, events = await run(go_amqp, listener.url, "fails", "work")
        await eventually(lambda: queue.statistics().accepted == 1)
    assert code == 0
    assert [event["count"] for event in of(events, "message")] == [0, 1, 2]


async def test_it_receives_on_a_mixed_link(go_amqp: Path) -> None:
    async with listening() as (node, listener):
        node.serve("numbers", Stream.range(1000))
        code, events = await run(go_amqp, listener.url, "receives-mixed", "numbers")
    assert (code, [event["body"] for event in of(events, "message")]) == (0, [0, 1, 2])


async def test_it_receives_settled_items(go_amqp: Path) -> None:
    async with listening() as (node, listener):
        node.serve("numbers", Stream.range(1000))
        code, events = await run(go_amqp, listener.url, "receives-settled", "numbers")
    assert (code, [event["body"] for event in of(events, "message")]) == (0, [0, 1, 2])


async def test_it_settles_second(go_amqp: Path) -> None:
    async with listening() as (node, listener):
        node.serve("numbers", Stream.range(1000))
        code, events = await run(go_amqp, listener.url, "receives-second", "numbers")
    assert code == 0
    assert of(events, "attached") == [{"event": "attached", "error": None}]
    assert len(of(events, "settled")) == 3


async def test_a_producer_within_the_queues_credit(go_amqp: Path) -> None:
    async with listening() as (node, listener), tapped(listener.url) as tap:
        queue = node.queue("work", capacity=500)
        code, events = await run(go_amqp, tap.url, "sends", "work")
        assert queue.statistics().ready == 20
        trace = tap.credit("work", receives=False)
    assert code == 0
    assert [event["error"] for event in of(events, "sent")] == [None] * 20
    assert (trace.sent, trace.overdrawn) == (20, 0)


async def test_it_sends_settled_and_unsettled_messages_on_a_mixed_link(go_amqp: Path) -> None:
    async with listening() as (node, listener):
        queue = node.queue("work")
        code, events = await run(go_amqp, listener.url, "sends-mixed", "work")
        await eventually(lambda: queue.statistics().ready == 4)
    assert code == 0
    assert [event["error"] for event in of(events, "sent")] == [None] * 4


async def test_a_large_message(go_amqp: Path) -> None:
    async with listening() as (node, listener):
        node.queue("work")
        code, _ = await run(go_amqp, listener.url, "large", "work")
        async with rstreams.connect(listener.url) as connection:
            assert await connection.stream("work").take(1).to_list() == [b"abc" * 1_000_000]
    assert code == 0


async def test_requests_and_replies(go_amqp: Path) -> None:
    async with listening() as (node, listener):
        node.respond("shout", str.upper)
        code, events = await run(go_amqp, listener.url, "asks", "shout")
    assert code == 0
    assert [(event["body"], event["to"]) for event in of(events, "reply")] == [("TEA", "tea"), ("MILK", "milk")]


async def test_refusals_say_why(go_amqp: Path) -> None:
    async with listening() as (_, listener):
        _, events = await run(go_amqp, listener.url, "refused", "missing")
    assert [(event["event"], event["condition"]) for event in events] == [
        ("receiver", "amqp:not-found"),
        ("sender", "amqp:not-found"),
    ]


async def test_plain_credentials(go_amqp: Path) -> None:
    async with Node(users={"alice": "sesame"}) as node:
        node.serve("numbers", Stream.range(3))
        place = f"127.0.0.1:{(await node.listen('127.0.0.1:0')).port}"
        code, events = await run(go_amqp, f"amqp://alice:sesame@{place}", "all", "numbers")
        assert (code, len(of(events, "message"))) == (0, 3)
        code, events = await run(go_amqp, f"amqp://alice:guessed@{place}", "all", "numbers")
        assert (code, len(of(events, "message"))) == (3, 0)
