"""Tests of users under asyncio, in pytest runs of their own: the plugin of anyio, and pytest-asyncio."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow  # it starts other programs

ROOT = Path(__file__).parents[2]

FIXTURES = """
import asyncio

import pytest

import rstreams.aio as rstreams
from rstreams.aio import Node, Stream
from rstreams.testing import FaultyNetwork, ProbeSubscriber, VirtualTimeLoop


async def node():
    async with Node() as node:
        node.queue("jobs")
        yield node


async def network(node):
    listener = await node.listen("127.0.0.1:0")
    async with FaultyNetwork(listener.url) as network:
        yield network


async def connection(network):
    async with rstreams.connect(network.url, reconnect=rstreams.Reconnect()) as connection:
        yield connection
"""

TESTS = """
async def test_time_is_virtual():
    began = asyncio.get_running_loop().time()
    assert await Stream.interval(3600.0).take(24).count().to_list() == [24]
    assert asyncio.get_running_loop().time() - began == pytest.approx(86400)


async def test_what_fails_returns(connection, network):
    network.when("transfer").reset()
    await connection.publish("jobs", Stream.range(3))
    assert await connection.stream("jobs").take(3).to_list() == [0, 1, 2]
    assert network.connections == 2


async def test_the_next_one_has_a_connection_too(connection):
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        taken = group.create_task(connection.stream("jobs").first_or_none())
        await asyncio.sleep(10)
        await connection.publish("jobs", Stream.of("late"))
    assert taken.result() == "late"


async def test_a_probe(probe):
    async with rstreams.Scope():
        Stream.range(3).subscribe(probe)
        probe.request(2)
        assert probe.items == [0, 1]
        probe.cancel()


async def test_the_fixture_begins_networks(node, faulty_network):
    listener = await node.listen("127.0.0.1:0")
    network = await faulty_network(listener.url)
    async with rstreams.connect(network.url) as connection:
        assert (await connection.publish("jobs", Stream.of(1))).accepted == 1
    assert network.connections == 1
"""

ANYIO = """
pytestmark = pytest.mark.anyio
node, network, connection = map(pytest.fixture, (node, network, connection))


@pytest.fixture
def anyio_backend():
    return "asyncio", {"loop_factory": VirtualTimeLoop}
"""

PYTEST_ASYNCIO = """
import pytest_asyncio

pytestmark = pytest.mark.asyncio
node, network, connection = map(pytest_asyncio.fixture, (node, network, connection))
"""

HOOK = """
from rstreams.testing import VirtualTimeLoop


def pytest_asyncio_loop_factories(config, item):
    return {"virtual": VirtualTimeLoop}
"""


def outcome(folder: Path, code: str, *options: str) -> str:
    """Run pytest over a file; return its last line, and all it says if something fails."""
    (folder / "test_it.py").write_text(code, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", "-p", "no:cov"]
    command += ["-p", "pytest_rstreams", "-c", "/dev/null", "--rootdir", str(folder), *options, "test_it.py"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=50)
    return done.stdout.splitlines()[-1] if done.returncode == 0 else done.stdout + done.stderr


def test_the_plugin_of_anyio(tmp_path: Path) -> None:
    assert outcome(tmp_path, FIXTURES + ANYIO + TESTS, "-p", "no:asyncio").startswith("5 passed")


def test_pytest_asyncio(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(HOOK, encoding="utf-8")
    options = ["-o", "asyncio_default_fixture_loop_scope=function", "-o", "asyncio_mode=auto"]
    assert outcome(tmp_path, FIXTURES + PYTEST_ASYNCIO + TESTS, *options).startswith("5 passed")


def test_pytest_asyncio_with_one_loop_for_the_file(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(HOOK, encoding="utf-8")
    options = ["-o", "asyncio_default_fixture_loop_scope=module", "-o", "asyncio_default_test_loop_scope=module"]
    options += ["-o", "asyncio_mode=auto"]
    assert outcome(tmp_path, FIXTURES + PYTEST_ASYNCIO + TESTS, *options).startswith("5 passed")
