"""rhea as the server, rstreams as the client."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

import pytest
import trio

import rstreams
from rstreams import Message, Stream
from rstreams.errors import AuthenticationFailed, DeliveryFailed, LinkDetached, PublisherFailed
from rstreams.protocol.receiver import LinkSubscription
from rstreams.testing import ProbeSubscriber
from tests.interop.processes import eventually
from tests.interop.rhea_peer import RheaServer
from tests.interop.tap import tapped

pytestmark = pytest.mark.broker


async def test_a_stream_to_its_end(rhea_server: RheaServer) -> None:
    async with rstreams.connect(rhea_server.url) as connection:
        assert await connection.stream("numbers:end", window=7).to_list() == list(range(100))


async def test_it_sends_what_was_asked_for_and_no_more(rhea_server: RheaServer) -> None:
    address = "endless:credit"
    async with tapped(rhea_server.url) as tap, rstreams.connect(tap.url) as connection:
        probe = ProbeSubscriber[int](5)
        connection.stream(address).subscribe(probe)
        await eventually(lambda: len(probe.items) == 5)
        probe.request(3)
        await eventually(lambda: len(probe.items) == 8)
        assert await connection.stream("numbers:between").take(1).to_list() == [0]
        assert rhea_server.events(address, "sent")[-1]["sent"] == 8
        assert probe.items == list(range(8))
        trace = tap.credit(address)
        assert (trace.granted, trace.sent, trace.overdrawn, trace.early) == (8, 8, 0, False)
        probe.cancel()


async def test_take_draws_no_eleventh(rhea_server: RheaServer) -> None:
    async with rstreams.connect(rhea_server.url) as connection:
        assert await connection.stream("endless:take").take(10).to_list() == list(range(10))
        await eventually(lambda: rhea_server.events("endless:take", "sender_close"))
        assert rhea_server.events("endless:take", "sent")[-1]["sent"] == 10


async def test_a_drain_is_answered(rhea_server: RheaServer) -> None:
    drained = trio.Event()
    async with tapped(rhea_server.url) as tap, rstreams.connect(tap.url) as connection:
        probe = ProbeSubscriber[int](50)
        connection.stream("few:drain").subscribe(probe)
        await eventually(lambda: len(probe.items) == 3)
        assert isinstance(probe.subscription, LinkSubscription)
        probe.subscription.drain(drained.set)
        with trio.fail_after(10):
            await drained.wait()
        assert rhea_server.events("few:drain", "draining")[0]["credit"] == 47
        assert tap.credit("few:drain").drained == 1
        probe.cancel()


async def test_a_suspended_stream_has_no_credit(rhea_server: RheaServer) -> None:
    async with tapped(rhea_server.url) as tap, rstreams.connect(tap.url) as connection:
        probe = ProbeSubscriber[int](50)
        connection.stream("few:suspend").subscribe(probe)
        await eventually(lambda: len(probe.items) == 3)
        assert isinstance(probe.subscription, LinkSubscription)
        probe.subscription.suspend()
        await eventually(lambda: tap.credit("few:suspend").drained == 1)
        probe.subscription.resume()
        await eventually(lambda: tap.named("flow", "ours")[-1]["link-credit"] == 47)
        assert not tap.credit("few:suspend").overdrawn
        probe.cancel()


async def test_its_error_is_the_streams_error(rhea_server: RheaServer) -> None:
    async with rstreams.connect(rhea_server.url) as connection:
        probe = ProbeSubscriber[int](100)
        connection.stream("fails:1").subscribe(probe)
        await eventually(lambda: probe.error)
        assert probe.items == [0, 1, 2]
        assert isinstance(probe.error, PublisherFailed)
        assert (probe.error.condition, probe.error.description) == ("rstreams:test", "no more of it")
        assert probe.error.info == {"at": 3}


async def test_a_detach_that_is_no_close_is_no_success(rhea_server: RheaServer) -> None:
    async with rstreams.connect(rhea_server.url) as connection:
        with pytest.raises(LinkDetached) as caught:
            await connection.stream("leaves:1").to_list()
        assert caught.value.condition == "amqp:link:detach-forced"
    assert "without ending it" in caught.value.description


async def test_refusals_say_why(rhea_server: RheaServer) -> None:
    async with rstreams.connect(rhea_server.url) as connection:
        with pytest.raises(LinkDetached) as caught:
            await connection.stream("missing").to_list()
        assert (caught.value.condition, caught.value.description) == ("amqp:not-found", "no missing here")
        with pytest.raises(LinkDetached) as refused:
            await connection.publish("missing", Stream.of(1))
        assert refused.value.condition == "amqp:not-allowed"
        assert await connection.stream("numbers:after").count().to_list() == [100]


async def test_every_body_arrives(rhea_server: RheaServer) -> None:
    async with rstreams.connect(rhea_server.url) as connection:
        came = await connection.stream("bodies:1").to_list()
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    assert came[:13] == ["text", 5, -7, 2.5, True, None, 2**40, 7, 8, "a-symbol", moment, b"binary", UUID(int=5)]
    assert came[13:16] == [[1, "two", None], {"a": 1, "b": "two"}, [1, 2, 3]]
    assert came[16:] == [b"data", b"two parts", [1, 2]]


async def test_all_that_stands_around_a_body_arrives(rhea_server: RheaServer) -> None:
    async with rstreams.connect(rhea_server.url) as connection:
        (came,) = await connection.messages("whole:1").to_list()
    assert came == Message(
        body="degrees",
        id="m-1",
        user_id=b"alice",
        address="here",
        subject="hot",
        reply_to="answers",
        correlation_id="c-1",
        content_type="text/plain",
        content_encoding="identity",
        creation_time=datetime(2026, 1, 1, tzinfo=UTC),
        expiry_time=datetime(2026, 1, 1, 1, tzinfo=UTC),
        group_id="g",
        group_sequence=7,
        reply_to_group_id="h",
        durable=True,
        priority=9,
        ttl_s=60.0,
        first_acquirer=True,
        delivery_count=2,
        annotations={"x-opt-note": "n"},
        properties={"text": "x", "whole": 31, "real": 1.5, "yes": True},
    )


async def test_each_outcome_is_heard_as_it_was_meant(rhea_server: RheaServer) -> None:
    address = "outcomes:1"
    async with rstreams.connect(rhea_server.url) as connection:
        probe = ProbeSubscriber[Message](5, hold=True)
        connection.messages(address).subscribe(probe)
        await eventually(lambda: len(probe.holds) == 5)
        probe.request(1)
        probe.holds[0].done()
        probe.holds[1].fail(DeliveryFailed("rejected", "rstreams:bad-item", "number one"))
        probe.holds[2].release()
        probe.holds[3].fail(ValueError("not today"))
        await eventually(lambda: len(probe.holds) == 6)
        again = probe.items[5]
        assert (again.body, again.delivery_count) == ("again", 1)
        probe.holds[4].done()
        probe.holds[5].done()
        await eventually(lambda: len(rhea_server.events(address, "accepted")) == 3)
        probe.cancel()
    (rejected,) = rhea_server.events(address, "rejected")
    assert (rejected["tag"], rejected["condition"], rejected["description"]) == ("1", "rstreams:bad-item", "number one")
    released = {event["tag"] for event in rhea_server.events(address, "released")}
    assert released == {"2", "3"}, "rhea calls what is modified released, too"
    (modified,) = rhea_server.events(address, "modified")
    assert (modified["tag"], modified["failed"]) == ("3", True)


async def test_what_it_sends_settled(rhea_server: RheaServer) -> None:
    async with rstreams.connect(rhea_server.url) as connection:
        stream = connection.stream("settled:1", settlement="at_most_once", window=9)
        assert await stream.to_list() == list(range(50))


async def test_a_large_message_both_ways(rhea_server: RheaServer) -> None:
    body = b"abc" * 1_000_000
    async with tapped(rhea_server.url) as tap, rstreams.connect(tap.url, max_frame_bytes=20_000) as connection:
        (came,) = await connection.stream("large:1").to_list()
        assert came == body
        assert len(tap.named("transfer", "theirs")) > 100
        await connection.publish("sink:large", Stream.of(body))
        assert len(tap.named("transfer", "ours")) > 100
    (message,) = rhea_server.events("sink:large", "message")
    assert (message["size"], message["body"]) == (3_000_000, "abcabcabcabcabcabcab")


async def test_what_it_is_sent_arrives(rhea_server: RheaServer) -> None:
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    whole = Message("x", id="m-1", subject="hot", properties={"whole": 31}, durable=True, ttl_s=5, creation_time=moment)
    items: list[object] = ["text", 5, 2.5, None, True, [1, "a"], b"data", whole]
    async with rstreams.connect(rhea_server.url) as connection:
        result = await connection.publish("sink:bodies", Stream.from_iterable(items))
    assert result.accepted == 8
    came = rhea_server.events("sink:bodies", "message")
    assert [each["body"] for each in came] == ["text", 5, 2.5, None, True, [1, "a"], "data", "x"]
    last = came[-1]
    assert (last["id"], last["subject"], last["ttl"], last["durable"]) == ("m-1", "hot", 5000, True)
    assert last["properties"] == {"whole": 31}
    assert last["created"] == 1767225600000


async def test_its_credit_is_kept(rhea_server: RheaServer) -> None:
    async with tapped(rhea_server.url) as tap, rstreams.connect(tap.url) as connection:
        assert (await connection.publish("tens:1", Stream.range(100))).accepted == 100
        trace = tap.credit("tens:1", receives=False)
        assert (trace.sent, trace.overdrawn) == (100, 0)
    assert [each["body"] for each in rhea_server.events("tens:1", "message")] == list(range(100))


@pytest.mark.parametrize(
    ("address", "outcome", "condition"),
    [("picky:1", "rejected", "rstreams:bad-item"), ("releases:1", "released", None), ("modifies:1", "modified", None)],
)
async def test_an_item_it_does_not_accept(
    rhea_server: RheaServer, address: str, outcome: str, condition: str | None
) -> None:
    async with rstreams.connect(rhea_server.url) as connection:
        with pytest.raises(DeliveryFailed) as caught:
            await connection.publish(address, Stream.range(10))
    assert (caught.value.outcome, caught.value.condition) == (outcome, condition)
    if outcome == "modified":
        assert caught.value.delivery_failed
        assert caught.value.undeliverable_here


async def test_it_ends_a_link_that_is_published_on(rhea_server: RheaServer) -> None:
    async with rstreams.connect(rhea_server.url) as connection:
        with pytest.raises(LinkDetached) as caught:
            await connection.publish("closes:1", Stream.range(5000))
    assert caught.value.condition == "amqp:link:detach-forced"
    assert caught.value.description == "three are enough"


async def test_our_failure_reaches_it(rhea_server: RheaServer) -> None:
    async with rstreams.connect(rhea_server.url) as connection:
        with pytest.raises(ValueError, match="spilled"):
            await connection.publish(
                "sink:fails", Stream.of(1).concat(Stream.fail(ValueError("spilled"))), expose_errors=True
            )
        await eventually(lambda: rhea_server.events("sink:fails", "receiver_error"))
    (error,) = rhea_server.events("sink:fails", "receiver_error")
    assert error["condition"] == "amqp:internal-error"
    assert "spilled" in error["description"]


async def test_plain_credentials(rhea_server: RheaServer) -> None:
    url = rhea_server.url.replace("amqp://", "amqp://alice:secret@")
    async with rstreams.connect(url) as connection:
        assert await connection.stream("numbers:plain").count().to_list() == [100]
    with pytest.raises(AuthenticationFailed):
        async with rstreams.connect(url.replace("secret", "guessed")):
            pass
