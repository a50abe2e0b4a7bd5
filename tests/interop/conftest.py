"""The peers: each started once a session on free ports, and ended by its pid."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from benchmarks._processes import free_port
from tests.interop.activemq import activemq as prepared_activemq
from tests.interop.activemq import activemq_version
from tests.interop.processes import Server, chrooted, installed, took_part
from tests.interop.rabbitmq import RabbitMQ
from tests.interop.rabbitmq_cluster import Cluster
from tests.interop.rhea_peer import RheaServer
from tests.small_spark import set_environment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUEUES: Final = 80
"""Queues made for the tests of one RabbitMQ; each test takes new ones."""

CANNOT: Final[Mapping[str, Mapping[str, str]]] = {
    "rabbitmq-3.10": {
        "addresses": "it makes no address for a link",
        "drain": "its classic queues end the session on a drain, its quorum queues send nothing more after one",
        "lists": "it hangs up on a list as a body",
        "delivery count": "its classic queues keep no count",
        "missing target": "it accepts what is sent to a queue that is not there",
    },
    "rabbitmq-4.0": {
        "addresses": "it makes no address for a link; RabbitMQ 4.1 does",
        "delivery count": "its classic queues keep no count",
    },
    "proton-broker": {
        "addresses": "it makes no address for a link",
        "drain": "it never answers a drain",
        "parts": "it reads each part of a message that has not come whole over the part before",
        "requeue": "it forgets what it has sent, whatever becomes of it",
        "missing target": "it makes whatever is asked for",
        "missing source": "it makes whatever is asked for",
    },
    "activemq": {
        "delivery count": "it counts the attempts on one link, and forgets them with it",
        "missing target": "it makes whatever is asked for",
        "missing source": "it makes whatever is asked for",
    },
    "artemis": {"missing target": "it makes whatever is asked for", "missing source": "it makes whatever is asked for"},
}
"""What a broker cannot do, seen with it."""

ELSEWHERE: Final = {"artemis": "RSTREAMS_INTEROP_ARTEMIS"}
"""Brokers that are not installed here: the variable that holds the URL of one that runs."""

BROKERS: Final = (
    "rabbitmq-3.10",
    "rabbitmq-4.0",
    "rabbitmq-4.3",
    "activemq",
    "proton-broker",
    *(name for name, variable in ELSEWHERE.items() if os.environ.get(variable)),
)


@dataclass
class Broker:
    """A broker of any kind, with queues that start empty.

    Attributes:
        name: One of `BROKERS`.
        url: Where a client connects to, with credentials if it needs some.
        missing: An address it does not have.
        address: The address of its queue of a number.
    """

    name: str
    url: str
    missing: str
    address: Callable[[int], str]
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def queue(self) -> str:
        """Return the address of a queue nobody has used."""
        return self.address(next(self._numbers))

    def can(self, what: str) -> bool:
        """Return whether this broker can do something."""
        return what not in CANNOT.get(self.name, {})


def pytest_configure(config: pytest.Config) -> None:
    """Make the mark known that names what a broker must be able to do for a test."""
    config.addinivalue_line("markers", "needs(what): skips brokers that cannot do it; `CANNOT` says why")


@pytest.fixture(autouse=True)
def able(request: pytest.FixtureRequest) -> None:
    """Skip a test that needs what its broker cannot do; here, as a skip inside an async test loses its reason."""
    for mark in request.node.iter_markers("needs"):
        name = request.node.callspec.params["broker"]
        why = CANNOT.get(name, {}).get(mark.args[0])
        if why is not None:
            pytest.skip(f"{name}: {why}")


def _rabbitmq(peer: str, root: str, plugins: str = "") -> Iterator[RabbitMQ]:
    server = RabbitMQ(installed(peer, root), plugins=plugins)
    try:
        server.start()
        took_part(f"RabbitMQ {server.version}")
        server.declare(*(f"classic-{number}" for number in range(QUEUES)))
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="session")
def rabbitmq_310() -> Iterator[RabbitMQ]:
    """RabbitMQ 3.10 with its AMQP 1.0 plugin."""
    yield from _rabbitmq("rabbitmq-3.10", "bookworm", "rabbitmq_amqp1_0")


@pytest.fixture(scope="session")
def rabbitmq_40() -> Iterator[RabbitMQ]:
    """RabbitMQ 4.0."""
    yield from _rabbitmq("rabbitmq-4.0", "trixie")


@pytest.fixture(scope="session")
def rabbitmq_43() -> Iterator[RabbitMQ]:
    """RabbitMQ 4.3."""
    yield from _rabbitmq("rabbitmq-4.3", "forky")


@pytest.fixture(scope="session", params=["rabbitmq_40", "rabbitmq_43"])
def rabbitmq_4(request: pytest.FixtureRequest) -> RabbitMQ:
    """Return each RabbitMQ 4 there is."""
    server: RabbitMQ = request.getfixturevalue(request.param)
    return server


@pytest.fixture(scope="session")
def rabbitmq_cluster() -> Iterator[Cluster]:
    """Three brokers of RabbitMQ 4.3 that are one; a test that kills one starts it again, or the next test does."""
    cluster = Cluster(installed("rabbitmq-4.3", "forky"))
    try:
        cluster.start()
        took_part(f"RabbitMQ {cluster.brokers[0].version}, three nodes")
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture(params=["trixie", "forky"])
def killable(request: pytest.FixtureRequest) -> Iterator[RabbitMQ]:
    """A RabbitMQ 4 of its own, for a test that kills it, with a quorum queue `kept` that is on its disk."""
    server = RabbitMQ(installed({"trixie": "rabbitmq-4.0", "forky": "rabbitmq-4.3"}[request.param], request.param))
    try:
        server.start()
        server.declare("kept", type="quorum")
        server.restart()
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="session")
def proton_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The example broker of the proton project, in C."""
    root, port = installed("proton-broker", "bookworm"), free_port()
    command = chrooted(root, "/opt/proton-broker", "127.0.0.1", str(port))
    server = Server(command, port=port, log=tmp_path_factory.mktemp("proton") / "output")
    server.start()
    took_part("proton broker")
    yield server
    server.kill()


@pytest.fixture(scope="session")
def activemq(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """ActiveMQ Classic."""
    root = installed("activemq", "trixie")
    server = prepared_activemq(root, tmp_path_factory.mktemp("activemq") / "output")
    try:
        server.start()
        took_part(f"ActiveMQ {activemq_version(root)}")
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="session")
def rhea() -> Path:
    """Return where rhea is installed."""
    place = installed("rhea", "rhea")
    version = json.loads((place / "node_modules" / "rhea" / "package.json").read_text())["version"]
    took_part(f"rhea {version}")
    return place


@pytest.fixture(scope="session")
def rhea_server(rhea: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RheaServer]:
    """A server of rhea."""
    listener = RheaServer(rhea, tmp_path_factory.mktemp("rhea") / "output")
    listener.server.start()
    yield listener
    listener.server.stop()


@pytest.fixture(scope="session")
def proton_python() -> list[str]:
    """Return the command of Debian's python3-qpid-proton, which takes its program from standard input."""
    root = installed("proton-python", "bookworm")
    asked = chrooted(root, "dpkg-query", "--show", "--showformat", "${Version}", "python3-qpid-proton")
    version = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    took_part(f"python3-qpid-proton {version}")
    return chrooted(root, "/usr/bin/python3", "-")


@pytest.fixture(scope="session")
def go_amqp() -> Path:
    """Return the client of go-amqp, which is one program."""
    place = installed("go-amqp", "forky") / "opt" / "go-amqp"
    took_part(f"go-amqp {(place / 'version').read_text().strip()}")
    return place / "bin" / "client"


@pytest.fixture(scope="session")
def azure_servicebus() -> Path:
    """Return the environment of Azure's Python client."""
    place = installed("azure-servicebus", "azure-servicebus")
    pins = (place / "installed.txt").read_text().split()
    took_part(next(pin for pin in pins if pin.startswith("azure-servicebus==")).replace("==", " "))
    return place


@pytest.fixture(scope="session", params=BROKERS)
def broker(request: pytest.FixtureRequest) -> Broker:
    """Return each broker there is, by what all have in common."""
    name = str(request.param)
    if name.startswith("rabbitmq"):
        server: RabbitMQ = request.getfixturevalue(name.replace("-", "_").replace(".", ""))
        form = "/amq/queue/" if name == "rabbitmq-3.10" else "/queues/"
        return Broker(name, server.url, f"{form}missing", lambda number: f"{form}classic-{number}")
    if name == "proton-broker":
        example: Server = request.getfixturevalue("proton_broker")
        return Broker(name, example.url, "", lambda number: f"queue-{number}")
    if name == "activemq":
        classic: Server = request.getfixturevalue("activemq")
        return Broker(name, classic.url, "", lambda number: f"queue://number-{number}")
    took_part(name)
    return Broker(name, os.environ[ELSEWHERE[name]], "", lambda number: f"rstreams-{os.getpid()}-{number}")


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One Spark for all tests."""
    set_environment()
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    session = builder.config("spark.log.level", "OFF").getOrCreate()
    yield session
    session.stop()
