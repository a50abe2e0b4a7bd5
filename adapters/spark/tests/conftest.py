"""What the tests with Spark share: one session, a node in a process of its own, and a client for both ends."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import pytest
import trio

import rstreams
from benchmarks._processes import wait_until
from rstreams import Message, Stream
from rstreams.runtime.seldom import LINES_OF_THREADS
from tests.generated_examples import load_settings
from tests.small_spark import set_environment

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

T = TypeVar("T")

# tests/conftest.py is not read if only tests of this folder are run
set_environment()
load_settings()


class NodeProcess:
    """A running node and, through a client, its ends."""

    def __init__(self, process: subprocess.Popen[str], port: int, credentials: str) -> None:
        self.process = process
        self.port = port
        self.url = f"amqp://{credentials}127.0.0.1:{port}"

    def publish(self, address: str, messages: Iterable[object]) -> None:
        """Send messages, until all are accepted."""

        async def send(connection: rstreams.Connection) -> None:
            await connection.publish(address, Stream.from_iterable(messages))

        self._with(send)

    def take(self, address: str, count: int) -> list[Message]:
        """Receive the next messages, and accept them."""
        return self._with(lambda connection: connection.messages(address).take(count).to_list())

    def first(self, address: str) -> Any:  # noqa: ANN401 - whatever the body is
        """Return the body of the next message."""
        return self._with(lambda connection: connection.stream(address).first_or_none())

    def queue(self, name: str) -> dict[str, int]:
        """Return a queue's counters."""
        counters: dict[str, int] = self.first("$statistics")["queues"][name]
        return counters

    def kill(self) -> None:
        """End the process as a crash would."""
        self.process.kill()
        self.process.wait()

    def _with(self, use: Callable[[rstreams.Connection], Awaitable[T]]) -> T:
        async def main() -> T:
            with trio.fail_after(30):
                async with rstreams.connect(self.url) as connection:
                    return await use(connection)

        return trio.run(main)


@contextmanager
def running_node(*arguments: str, program: str = "node_process.py") -> Iterator[NodeProcess]:
    command = [sys.executable, str(Path(__file__).with_name(program)), *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            port = int(process.stdout.readline())
            yield NodeProcess(process, port, "ada:se%2Fcr%40et@" if "--users" in arguments else "")
        finally:
            process.terminate()


@pytest.fixture
def node() -> Iterator[NodeProcess]:
    """A node with the queues `in` and `out`."""
    with running_node("in", "out") as node:
        yield node


@pytest.fixture
def log_node(tmp_path: Path) -> Iterator[NodeProcess]:
    """A node with the log `in`, which has 4 partitions."""
    with running_node("0", str(tmp_path), "in=4", program="log_process.py") as node:
        yield node


@pytest.fixture
def guarded_node() -> Iterator[NodeProcess]:
    """A node that wants a password."""
    with running_node("--users", "in") as node:
        yield node


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One Spark for all tests: it takes ten seconds to start."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Spark's own, about the versions of others
        from pyspark.sql import SparkSession

        session = (
            SparkSession.builder.master("local[2]")
            .config("spark.ui.enabled", "false")
            .config("spark.sql.shuffle.partitions", "2")
            .config("spark.sql.session.timeZone", "UTC")
            .config("spark.log.level", "OFF")
            .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
            .getOrCreate()
        )
        yield session
        session.stop()


@pytest.fixture
def source(spark: SparkSession, node: NodeProcess) -> Callable[..., DataFrame]:
    """Return a function that makes the stream of queue `in`, with the options given."""

    def make(**options: object) -> DataFrame:
        reader = spark.readStream.format("rstreams")
        for name, value in ({"url": node.url, "address": "in"} | options).items():
            reader = reader.option(name, value)
        return reader.load()

    return make


class Eventually(Protocol):
    """Waits for what another process does, which gives no event to wait for."""

    def __call__(self, condition: Callable[[], T], what: str, within_s: float = 30.0) -> T:
        """Return what `condition` returns, once that is true."""
        ...


@pytest.fixture
def eventually() -> Eventually:
    """Return the function that waits."""

    def wait(condition: Callable[[], T], what: str, within_s: float = 30.0) -> T:
        return wait_until(condition, what, within_s)

    return wait


@pytest.fixture(autouse=True)
def told_anew() -> None:
    """Let the log tell what it has told in an earlier test."""
    LINES_OF_THREADS.forget()
