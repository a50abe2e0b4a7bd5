"""Spark's log mode against streams and super streams of RabbitMQ 4, on one broker and on three that are one."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest
import trio

import rstreams
from adapters.spark.tests.crash.matrix import rows_in_table
from benchmarks._processes import wait_until
from rstreams import Connection, Message, Stream
from rstreams.net.rabbitmq_management import RabbitMQManagement, rabbitmq_management
from tests.interop.rabbitmq import RabbitMQ
from tests.interop.rabbitmq_cluster import Cluster, declare_super_stream

if TYPE_CHECKING:
    from pyspark.errors import StreamingQueryException
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = [
    pytest.mark.broker,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore"),  # Spark's own, about the versions of others
]

DAY = 86_400
"""A reading for each second of a day."""

SMALL = {"x-max-length-bytes": 1_000_000, "x-stream-max-segment-size-bytes": 250_000}
"""What makes a stream forget its first messages soon."""


def use(url: str, function: Callable[[Connection, RabbitMQManagement], Any]) -> Any:  # noqa: ANN401 - what it returns
    """Return what `function` returns with a connection."""

    async def main() -> Any:  # noqa: ANN401
        with trio.fail_after(120):
            async with rstreams.connect(url) as connection, rabbitmq_management(connection) as management:
                return await function(connection, management)

    return trio.run(main)


def readings(first: int, last: int, step: int = 1) -> Stream[Message]:
    return Stream.range(first, last, step).map(lambda n: Message(b"%d" % (n % 40), id=f"m-{n}", durable=True))


def number_of(message_id: object) -> int:
    return int(str(message_id).removeprefix("m-"))


def started(
    spark: SparkSession, url: str, address: str | None, folder: Path, *, now: bool = True, **options: object
) -> StreamingQuery:
    """Start a query that copies a log into a table, up to the end that the log has now, or until it is stopped."""
    reader = spark.readStream.format("rstreams").option("url", url)
    given: dict[str, object] = {"address": address, "startingOffsets": "earliest", "maxMessagesPerTrigger": 10_000}
    for name, value in (given | {"columns": "message_id,address,partition,offset"} | options).items():
        if value is not None:
            reader = reader.option(name, str(value))
    writer = reader.load().writeStream.format("json").option("path", str(folder / "table"))
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    return (writer.trigger(availableNow=True) if now else writer).start()


def failure_of(query: StreamingQuery) -> str:
    """Wait for the end of a query; return why it failed, empty if it did not."""
    from pyspark.errors import StreamingQueryException

    failure: StreamingQueryException | None = None
    try:
        assert query.awaitTermination(300), "it ends"
    except StreamingQueryException as error:
        failure = error
    return "" if failure is None else str(failure)


def assert_in_order(rows: list[dict[str, Any]]) -> None:
    """Check that the numbers of the messages grow with the offsets of each partition."""
    by_partition: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for row in rows:
        by_partition[row["partition"]].append((row["offset"], number_of(row["message_id"])))
    for places in by_partition.values():
        places.sort()
        assert [number for _, number in places] == sorted(number for _, number in places)


async def make_stream(connection: Connection, management: RabbitMQManagement, *, name: str) -> str:
    await management.declare_queue(name, type="stream")
    await connection.publish(name, readings(0, DAY))
    return name


async def make_super_stream(connection: Connection, management: RabbitMQManagement, *, name: str) -> str:
    streams = await declare_super_stream(management, name, 3)
    for partition in range(len(streams)):
        await connection.publish(f"/exchanges/{name}/{partition}", readings(partition, DAY, len(streams)))
    return streams[0]


@pytest.mark.parametrize("make", [make_stream, make_super_stream])
def test_a_day_is_replayed_while_the_leader_dies(
    spark: SparkSession, rabbitmq_cluster: Cluster, tmp_path: Path, make: Callable[..., Any]
) -> None:
    rabbitmq_cluster.heal()
    name = make.__name__
    stream = use(rabbitmq_cluster.brokers[0].url, partial(make, name=name))
    leader = rabbitmq_cluster.leader(stream)
    others = [broker.url for broker in rabbitmq_cluster.brokers if broker is not leader]
    query = started(spark, ",".join([leader.url, *others]), name, tmp_path)
    try:
        second = tmp_path / "checkpoint" / "commits" / "1"
        wait_until(lambda: second.exists() or not query.isActive, "some batches", 120)
        assert query.isActive
        leader.kill()
        assert failure_of(query) == ""
    finally:
        query.stop()
    rows = rows_in_table(tmp_path / "table")
    assert Counter(row["message_id"] for row in rows) == Counter(f"m-{n}" for n in range(DAY)), "each once"
    assert_in_order(rows)


@pytest.mark.parametrize("fails", [True, False])
def test_a_checkpoint_from_before_the_retention(
    spark: SparkSession, rabbitmq_4: RabbitMQ, tmp_path: Path, *, fails: bool
) -> None:
    """After a pause in which the stream was truncated: a failure that names what is gone, or the rest."""
    name = f"paused-{fails}"
    rabbitmq_4.declare(name, type="stream", arguments=SMALL)
    use(rabbitmq_4.url, lambda connection, _: connection.publish(name, readings(0, 100)))
    options = {"failOnDataLoss": fails}
    assert failure_of(started(spark, rabbitmq_4.url, name, tmp_path, **options)) == ""
    last = use(rabbitmq_4.url, partial(publish_until_truncated, name=name))

    failure = failure_of(started(spark, rabbitmq_4.url, name, tmp_path, **options))
    rows = rows_in_table(tmp_path / "table")
    numbers = sorted(number_of(row["message_id"]) for row in rows)
    assert numbers[:100] == list(range(100))
    if fails:
        assert "messages are gone" in failure
        assert f"{name}/0 from offset 100 to " in failure
        assert numbers == list(range(100))
    else:
        assert failure == ""
        assert 1_000 <= numbers[100] < last - 500, "some are gone, and some are left"
        assert numbers[100:] == list(range(numbers[100], last)), "the messages that are left, each once"
        assert_in_order(rows)


def test_a_partition_of_a_super_stream_that_is_added_while_the_query_runs(
    spark: SparkSession, rabbitmq_4: RabbitMQ, tmp_path: Path
) -> None:
    async def publish(connection: Connection, management: RabbitMQManagement, *, partitions: int) -> None:
        await declare_super_stream(management, "growing", partitions)
        for partition in range(partitions):
            first = 300 * (partition + 3 * (partitions - 2))
            await connection.publish(f"/exchanges/growing/{partition}", readings(first, first + 300))

    use(rabbitmq_4.url, partial(publish, partitions=2))
    query = started(spark, rabbitmq_4.url, "growing", tmp_path, now=False)
    try:
        query.processAllAvailable()
        use(rabbitmq_4.url, partial(publish, partitions=3))
        wait_until(lambda: len(rows_in_table(tmp_path / "table")) >= 1_500 or not query.isActive, "all rows", 120)
    finally:
        query.stop()
    rows = rows_in_table(tmp_path / "table")
    assert Counter(row["message_id"] for row in rows) == Counter(f"m-{n}" for n in [*range(600), *range(900, 1_800)])
    assert {(row["partition"], row["offset"]) for row in rows if row["partition"] == 2} == {(2, n) for n in range(300)}
    assert_in_order(rows)


def test_streams_by_their_names_from_a_time_on_in_batches_of_so_many_bytes(
    spark: SparkSession, rabbitmq_4: RabbitMQ, tmp_path: Path
) -> None:
    names = ("timed-one", "timed-two")

    async def publish(connection: Connection, management: RabbitMQManagement, *, first: int) -> None:
        for number, name in enumerate(names):
            await management.declare_queue(name, type="stream")
            at = first + number
            large = Stream.range(at, at + 1_000, 2).map(lambda n: Message(bytes(1_000), id=f"m-{n}", durable=True))
            await connection.publish(name, large)

    use(rabbitmq_4.url, partial(publish, first=0))
    second = int(time.time()) + 1
    wait_until(lambda: time.time() > second, "the next second: the broker knows no shorter times", 10)
    use(rabbitmq_4.url, partial(publish, first=1_000))

    at = f"{second}999"  # it is rounded down
    options: dict[str, Any] = {"addresses": ",".join(names), "startingOffsets": None, "startingTimestamp": at}
    query = started(spark, rabbitmq_4.url, None, tmp_path, **options, maxBytesPerTrigger="300k")
    assert failure_of(query) == ""
    sizes = [each["numInputRows"] for each in query.recentProgress if each["numInputRows"]]
    assert len(sizes) >= 3
    assert max(sizes) <= 320, "of 1 KB"
    rows = rows_in_table(tmp_path / "table")
    assert Counter((row["address"], row["message_id"]) for row in rows) == Counter(
        (names[n % 2], f"m-{n}") for n in range(1_000, 2_000)
    )

    reader = spark.read.format("rstreams").options(url=rabbitmq_4.url, address=names[0], columns="message_id")
    before = reader.option("endingTimestamp", at).load().collect()
    assert sorted(number_of(row.message_id) for row in before) == list(range(0, 1_000, 2))


async def publish_until_truncated(connection: Connection, _management: RabbitMQManagement, *, name: str) -> int:
    """Publish until the first 1,000 messages are gone; return the number behind the last one.

    These are several of the broker's files. A link that has one of them open reads it to its end, also when it is
    deleted. The broker tells a later beginning for a moment before it has deleted the messages before it.
    """

    async def first_from(start: Literal["first"] | int) -> int:
        return number_of((await connection.messages(name, start=start).take(1).to_list())[0].id)

    last = 100
    while last == 100 or min(await first_from("first"), await first_from(100)) < 1_000:
        large = Stream.range(last, last + 1_000).map(lambda n: Message(bytes(1_000), id=f"m-{n}", durable=True))
        await connection.publish(name, large)
        last += 1_000
    return last
