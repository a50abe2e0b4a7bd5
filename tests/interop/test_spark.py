"""Spark against quorum queues of RabbitMQ 4 over TLS: a broker that restarts, a checkpoint, dead letters."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import trio
import trustme

import rstreams
from rstreams import Message, Stream
from rstreams.net.rabbitmq_management import rabbitmq_management
from rstreams.tls import client_context
from tests.interop.processes import installed
from tests.interop.rabbitmq import RabbitMQ

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamReader

pytestmark = [
    pytest.mark.broker,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore"),  # Spark's own, about the versions of others
]

QUEUE, DEAD = "readings", "dead"


class Broker:
    """A RabbitMQ 4 with TLS, and a client of it."""

    def __init__(self, server: RabbitMQ, ca_file: Path) -> None:
        self.server = server
        self.url = f"amqps://guest:guest@localhost:{server.tls_port}"
        self.ca_file = ca_file

    def use(self, function: Callable[[rstreams.Connection], Any]) -> Any:  # noqa: ANN401 - what it returns
        async def main() -> Any:  # noqa: ANN401
            with trio.fail_after(60):
                tls = client_context(ca_file=self.ca_file)
                async with rstreams.connect(self.url, tls=tls) as connection:
                    return await function(connection)

        return trio.run(main)

    def publish(self, *messages: Message) -> None:
        self.use(lambda connection: connection.publish(QUEUE, Stream.from_iterable(messages)))

    def counts(self) -> tuple[int, int]:
        """Return how many messages each queue has."""

        async def ask(connection: rstreams.Connection) -> tuple[int, int]:
            async with rabbitmq_management(connection) as management:
                queues = [await management.queue(name) for name in (QUEUE, DEAD)]
                return queues[0]["message_count"], queues[1]["message_count"]

        counts: tuple[int, int] = self.use(ask)
        return counts


@pytest.fixture(params=["trixie", "forky"])
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Broker]:
    """Each RabbitMQ 4, with a quorum queue whose rejected messages go to another one."""
    authority = trustme.CA()
    leaf = authority.issue_cert("localhost")
    files = [tmp_path / name for name in ("ca.pem", "broker.pem", "broker.key")]
    authority.cert_pem.write_to_path(str(files[0]))
    files[1].write_bytes(b"".join(each.bytes() for each in leaf.cert_chain_pems))
    leaf.private_key_pem.write_to_path(str(files[2]))
    name = {"trixie": "rabbitmq-4.0", "forky": "rabbitmq-4.3"}[request.param]
    server = RabbitMQ(installed(name, request.param), certificates=files)

    async def declare(connection: rstreams.Connection) -> None:
        async with rabbitmq_management(connection) as management:
            await management.declare_queue(DEAD)
            letters = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": DEAD}
            await management.declare_queue(QUEUE, arguments=letters)

    try:
        server.start()
        broker = Broker(server, files[0])
        broker.use(declare)
        yield broker
    finally:
        server.stop()


def numbered(first: int, last: int) -> list[Message]:
    return [Message(body=b"%d" % n, id=f"m-{n}", durable=True) for n in range(first, last)]


def ids(last: int) -> Counter[str]:
    return Counter(f"m-{n}" for n in range(last))


def reading(spark: SparkSession, broker: Broker, folder: Path, **options: str | int) -> DataStreamReader:
    given: dict[str, str | int] = {
        "url": broker.url,
        "tlsCaFile": str(broker.ca_file),
        "address": QUEUE,
        "maxMessagesPerTrigger": 50,
        "maxTriggerDelay": "20ms",
        "walDir": str(folder / "wal"),
    }
    reader = spark.readStream.format("rstreams")
    for name, value in (given | options).items():
        reader = reader.option(name, value)
    return reader


def into(reader: Any, folder: Path) -> Any:  # noqa: ANN401 - a writer of Spark
    table, checkpoint = str(folder / "table"), str(folder / "checkpoint")
    return reader.load().writeStream.format("json").option("path", table).option("checkpointLocation", checkpoint)


def copied(spark: SparkSession, folder: Path) -> Counter[str]:
    if not (folder / "table" / "_spark_metadata" / "0").exists():
        return Counter()
    rows = spark.read.schema("message_id string").json(str(folder / "table")).collect()
    return Counter(row.message_id for row in rows)


def wait(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + 180
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


def test_a_restart_of_the_broker_and_one_of_the_query(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    broker.publish(*numbered(0, 400))
    query = into(reading(spark, broker, tmp_path), tmp_path).start()
    wait(lambda: copied(spark, tmp_path).total() >= 100, "some batches")
    broker.server.restart()
    wait(lambda: copied(spark, tmp_path).total() >= 400 or not query.isActive, "all of them")
    assert query.exception() is None
    query.stop()
    assert copied(spark, tmp_path) == ids(400), "each once"

    broker.publish(*numbered(400, 470))
    query = into(reading(spark, broker, tmp_path), tmp_path).trigger(availableNow=True).start()
    assert query.awaitTermination(180)
    assert copied(spark, tmp_path) == ids(470)
    wait(lambda: broker.counts() == (0, 0), "all are accepted")


def test_available_now_takes_what_the_broker_has_counted(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    broker.publish(*numbered(0, 120))

    def publish_more(_batch: object, _number: int) -> None:
        broker.publish(*numbered(1_000, 1_060))  # faster than they are read

    taken: list[int] = []

    def count(batch: Any, number: int) -> None:  # noqa: ANN401 - a DataFrame
        taken.append(batch.count())
        publish_more(batch, number)

    rows = reading(spark, broker, tmp_path).load()
    query = (
        rows.writeStream.foreachBatch(count)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(180)
    assert taken == [50, 50, 20]


def test_a_rejected_message_is_a_dead_letter(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    broker.publish(*numbered(0, 3), Message(body=bytes(5_000), id="large"), *numbered(3, 5))
    reader = reading(spark, broker, tmp_path, maxMessageSize="1k", onUnparsable="reject")
    query = into(reader, tmp_path).trigger(availableNow=True).start()
    assert query.awaitTermination(180)
    assert copied(spark, tmp_path) == ids(5)
    wait(lambda: broker.counts() == (0, 1), "the message is in the other queue")


def test_a_queue_that_is_deleted_and_declared_again(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    async def replace(connection: rstreams.Connection) -> None:
        async with rabbitmq_management(connection) as management:
            await management.delete_queue(QUEUE)
            await management.declare_queue(QUEUE)

    broker.publish(*numbered(0, 60))
    query = into(reading(spark, broker, tmp_path), tmp_path).start()
    wait(lambda: copied(spark, tmp_path).total() >= 60, "the first messages")
    broker.use(replace)
    broker.publish(*numbered(60, 100))
    wait(lambda: copied(spark, tmp_path).total() >= 100 or not query.isActive, "the messages of the new queue")
    assert query.exception() is None
    query.stop()
    assert copied(spark, tmp_path) == ids(100)
