"""Streams of RabbitMQ 4, as a reader of a log needs them: where they begin and end, and what becomes of a reader."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
import trio

import rstreams
from rstreams import Connection, Message, Stream
from rstreams.errors import LinkDetached, RStreamsError, SessionEnded
from rstreams.net.rabbitmq_management import ManagementRefused, rabbitmq_management
from rstreams.testing import ProbeSubscriber
from tests.interop.processes import eventually
from tests.interop.rabbitmq import RabbitMQ
from tests.interop.rabbitmq_cluster import Cluster, declare_super_stream

pytestmark = pytest.mark.broker

NO_REPLICA = (
    "stream queue 'led' in vhost '/' does not have a running replica on the local node (amqp:precondition-failed)"
)


async def there(connection: Connection, stream: str, start: Any, credit: int) -> list[int]:  # noqa: ANN401 - an offset
    """Return the offsets of the messages that are there now, beginning at `start`: as many as `credit`, or all."""
    probe = ProbeSubscriber[Message](credit)
    connection.messages(stream, start=start, window=max(credit, 1)).subscribe(probe)
    await eventually(lambda: probe.subscription)
    drained = trio.Event()
    subscription: Any = probe.subscription
    subscription.drain(drained.set)
    with trio.fail_after(10):
        await drained.wait()
    probe.cancel()
    return [message.annotations["x-stream-offset"] for message in probe.items]


async def test_a_drain_behind_the_last_chunk_finds_the_end(rabbitmq_4: RabbitMQ) -> None:
    rabbitmq_4.declare("ended", type="stream")
    async with rstreams.connect(rabbitmq_4.url) as connection:
        assert await there(connection, "ended", "last", 10) == [], "an empty stream"
        await connection.publish("ended", Stream.range(2_000))
        assert (await there(connection, "ended", "last", 4_000))[-1] == 1_999
        assert await there(connection, "ended", "first", 1) == [0]
        assert await there(connection, "ended", 1_990, 4) == [1_990, 1_991, 1_992, 1_993]
        assert await there(connection, "ended", "next", 10) == []


async def test_an_offset_beyond_the_end_is_not_refused(rabbitmq_4: RabbitMQ) -> None:
    rabbitmq_4.declare("short", type="stream")
    async with rstreams.connect(rabbitmq_4.url) as connection:
        await connection.publish("short", Stream.range(10))
        assert await there(connection, "short", 15, 10) == []
        await connection.publish("short", Stream.range(10))
        assert await there(connection, "short", 15, 10) == [15, 16, 17, 18, 19]
        later = datetime.now(UTC) + timedelta(hours=1)
        assert await there(connection, "short", later, 10) == []


async def test_a_truncated_stream_begins_later_and_says_nothing(rabbitmq_4: RabbitMQ) -> None:
    small = {"x-max-length-bytes": 1_000_000, "x-stream-max-segment-size-bytes": 250_000}
    rabbitmq_4.declare("truncated", type="stream", arguments=small)
    async with rstreams.connect(rabbitmq_4.url) as connection:
        begins = 0
        with trio.fail_after(30):
            while not begins:
                await connection.publish("truncated", Stream.from_iterable([bytes(1_000)] * 1_000))
                begins = (await there(connection, "truncated", "first", 1))[0]
        offsets = await there(connection, "truncated", 0, 10_000)
        assert offsets[0] >= begins, "older segments are still being deleted"
        gaps = [after - before - 1 for before, after in pairwise(offsets) if after != before + 1]
        assert gaps, "each segment begins with a record that is not a message, and has an offset"
        assert set(gaps) == {1}


async def test_a_super_stream_is_streams_that_are_bound_to_an_exchange(rabbitmq_4: RabbitMQ) -> None:
    async with rstreams.connect(rabbitmq_4.url) as connection, rabbitmq_management(connection) as management:
        names = await declare_super_stream(management, "super", 3)
        for partition in range(3):
            await connection.publish(f"/exchanges/super/{partition}", Stream.range(5 + partition))
        for partition, name in enumerate(names):
            assert (await management.queue(name))["type"] == "stream"
            assert await there(connection, name, "first", 100) == list(range(5 + partition))
        with pytest.raises(ManagementRefused) as caught:
            await management.queue("super-3")
        assert caught.value.status == 404
        with pytest.raises(RStreamsError) as refused:
            await connection.stream("super", start="first").first_or_none()
        assert refused.value.condition == "amqp:not-found", "it has no address of its own"  # type: ignore[attr-defined]


@pytest.mark.parametrize("kind", ["classic", "quorum"])
async def test_a_queue_ignores_filters_and_the_management_tells_it_from_a_stream(
    rabbitmq_4: RabbitMQ, kind: str
) -> None:
    queue = f"no-stream-{kind}"
    rabbitmq_4.declare(queue, type=kind)
    async with rstreams.connect(rabbitmq_4.url) as connection, rabbitmq_management(connection) as management:
        await connection.publish(queue, Stream.range(3))
        dialect = connection.dialect
        for filters in (dialect.selector("a = 1"), dialect.properties({"a": 1})):
            with pytest.raises(LinkDetached, match=f"has not put the filter '{next(iter(filters))}' in force"):
                await connection.stream(queue, filters=filters).to_list()
        with pytest.raises(LinkDetached, match="has not put the filter 'rabbitmq:stream-offset-spec' in force"):
            await connection.stream(queue, start=2).to_list()
        left = await connection.messages(queue).take(3).map(lambda each: (each.body, each.delivery_count)).to_list()
        assert left == [(0, 0), (1, 0), (2, 0)]
        assert (await management.queue(queue))["type"] == kind


async def test_a_stream_has_the_filters_of_its_version(rabbitmq_4: RabbitMQ) -> None:
    rabbitmq_4.declare("filtered-or-not", type="stream")
    async with rstreams.connect(rabbitmq_4.url) as connection:
        for number in range(4):
            await connection.publish("filtered-or-not", Stream.of(Message(number, properties={"a": number % 2})))
        dialect = connection.dialect
        for filters in (dialect.selector("a = 1"), dialect.properties({"a": 1})):
            stream = connection.stream("filtered-or-not", filters={**filters, **dialect.offset("first")}).take(2)
            if rabbitmq_4.version.startswith("4.0"):
                with pytest.raises(LinkDetached, match=f"has not put the filter '{next(iter(filters))}' in force"):
                    await stream.to_list()
            else:
                assert await stream.to_list() == [1, 3]


@pytest.mark.timeout(300)
async def test_a_replay_from_a_follower_goes_on_when_the_leader_dies(rabbitmq_cluster: Cluster) -> None:
    leader, follower = await published(rabbitmq_cluster, "followed", 20_000)
    async with rstreams.connect(follower.url) as connection:
        replayed = await replayed_through(leader.kill, connection, "followed", 20_000)
    assert replayed == list(range(20_000))
    assert await new_leader(rabbitmq_cluster, "followed") is not leader


@pytest.mark.timeout(300)
async def test_a_replay_from_the_leader_goes_on_at_another_broker(rabbitmq_cluster: Cluster) -> None:
    """For about a second the brokers that remain refuse the stream."""
    leader, follower = await published(rabbitmq_cluster, "led", 20_000)
    async with rstreams.connect(leader.url) as connection:
        with pytest.raises(RStreamsError):
            await replayed_through(leader.kill, connection, "led", 20_000)
    refusals: list[str] = []
    async with rstreams.connect(follower.url) as connection:
        rest = await with_patience(connection.stream("led", start=5_000).take(15_000).to_list, refusals)
    assert rest == list(range(5_000, 20_000))
    assert all(NO_REPLICA in each for each in refusals)


async def published(cluster: Cluster, stream: str, messages: int) -> tuple[RabbitMQ, RabbitMQ]:
    """Make a stream on all brokers with numbered messages; return its leader and another broker."""
    await trio.to_thread.run_sync(cluster.heal)
    async with rstreams.connect(cluster.brokers[0].url) as connection:
        async with rabbitmq_management(connection) as management:
            made = await management.declare_queue(stream, type="stream")
        assert len(made["replicas"]) == 3
        await connection.publish(stream, Stream.range(messages))
    leader = await trio.to_thread.run_sync(cluster.leader, stream)
    return leader, next(broker for broker in cluster.brokers if broker is not leader)


async def replayed_through(act: Callable[[], None], connection: Connection, stream: str, messages: int) -> list[int]:
    """Return all items of a stream; when some have come, `act`.

    The broker may then fail while it reads its copy of the stream. Another link goes on.
    """
    items: list[int] = []
    while len(items) < messages:
        try:
            async with connection.stream(stream, start=len(items)).take(messages - len(items)).open() as came:
                async for item in came:
                    items.append(item)
                    if len(items) == 5_000:
                        await trio.to_thread.run_sync(act)
        except SessionEnded as error:
            if "osiris_log" not in str(error):
                raise
    return items


async def with_patience(read: Callable[[], Awaitable[list[int]]], refusals: list[str]) -> list[int]:
    """Return what is read, when the brokers that live have chosen a leader; add the refusals until then."""
    for _ in range(100):
        try:
            return await read()
        except LinkDetached as error:
            refusals.append(str(error))
            await trio.sleep(0.1)
    msg = f"the stream is still refused: {refusals[-1]}"
    raise AssertionError(msg)


async def new_leader(cluster: Cluster, stream: str) -> RabbitMQ:
    """Return the leader, when the brokers that live have chosen one."""
    for _ in range(100):
        try:
            return await trio.to_thread.run_sync(cluster.leader, stream)
        except LookupError:
            await trio.sleep(0.1)
    msg = f"stream {stream!r} still has no leader"
    raise AssertionError(msg)
