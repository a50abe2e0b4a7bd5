"""The examples of the pages about Spark run as they stand, at a node."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rstreams import Message, Node, Stream, connect
from rstreams.runtime.portal import start_portal
from tests.net.certificates import Files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore"),  # Spark's own, about the versions of others
]
GUIDES = Path(__file__).parents[3] / "docs" / "guides"
PLACE = "amqp://127.0.0.1:5672"
READINGS = [("roof", 91.5), ("cellar", 60.0), ("roof", 97.25)]


class AtNode:
    """A node with the addresses of the pages, and a client for both ends."""

    def __init__(self, portal: Any, url: str) -> None:  # noqa: ANN401 - of a private class
        self.url = url
        self._portal = portal

    def publish(self, address: str) -> None:
        """Send the readings."""

        async def send() -> None:
            async with connect(self.url) as connection:
                bodies = [Message(str(celsius), subject=place) for place, celsius in READINGS]
                await connection.publish(address, Stream.from_iterable(bodies))

        self._portal.run(send)

    def take(self, address: str, count: int) -> list[tuple[str, str]]:
        """Receive messages."""

        async def receive() -> list[Message]:
            async with connect(self.url) as connection:
                return await connection.messages(address).take(count).to_list()

        return [(message.subject, message.body) for message in self._portal.run(receive)]


@pytest.fixture
def at() -> Iterator[AtNode]:
    with start_portal("node") as portal, portal.enter(Node()) as node:
        for name in ("temperature", "alerts", "readings", "maxima"):
            node.queue(name)
        node.log("orders", partitions=2, retention_items=1000)
        yield AtNode(portal, portal.run(node.listen, "127.0.0.1:0").url)


def run(page: str, names: dict[str, Any], at: AtNode, folder: Path) -> None:
    """Run the examples of a page one after the other; its folders and files are in the one given.

    A query has read the readings, and is stopped, before the next example begins.
    """
    blocks = re.findall(r"```python\n(.*?)```", (GUIDES / page).read_text(encoding="utf-8"), re.DOTALL)
    assert blocks
    for block in blocks:
        code = re.sub(r'"/(var/lib|run/secrets|etc/ssl)/', f'"{folder}/', block.replace(PLACE, at.url))
        exec(compile(code, page, "exec"), names)  # noqa: S102 - the page is ours
        query = names.pop("query", None)
        if query is not None:
            at.publish("temperature")
            query.processAllAvailable()
            query.stop()


def test_the_examples_of_the_pages_run(spark: SparkSession, at: AtNode, tmp_path: Path) -> None:
    (tmp_path / "broker").write_text("secret")
    Files(tmp_path)
    (tmp_path / "ca.pem").rename(tmp_path / "broker-ca.pem")
    names: dict[str, Any] = {"spark": spark}

    run("spark.md", names, at, tmp_path)
    assert at.take("alerts", 1) == [("roof", "97.25")]

    names["readings"] = spark.readStream.format("rstreams").options(url=at.url, address="temperature").load()
    run("spark-sink.md", names, at, tmp_path)
    assert sorted(at.take("maxima", 2)) == [("cellar", "60.0"), ("roof", "97.25")]

    run("spark-promises.md", names, at, tmp_path / "logged")
    assert spark.read.parquet(str(tmp_path / "logged" / "alerts" / "table")).count() == len(READINGS)

    run("spark-source.md", names, at, tmp_path)
    assert names["readings"].columns == ["sensor", "at", "celsius", "message_id"]

    at.publish("orders")
    run("spark-logs.md", names, at, tmp_path)
    assert names["orders"].columns == ["body", "partition", "offset"]
    assert names["yesterday"].count() == len(READINGS)
