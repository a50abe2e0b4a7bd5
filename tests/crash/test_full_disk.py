"""A store on a disk of its own that is full, or that cannot be written: a clear state, and nothing accepted is lost."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest
import trio

import rstreams
from rstreams import Connection, Node, Stream
from rstreams.errors import DeliveryFailed, StoreError

ADDRESSES = ("queue", "log")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 12 MB; only root can have one."""
    place = tmp_path / "disk"
    place.mkdir()
    if not succeeds("mount", "-t", "tmpfs", "-o", "size=12m", "tmpfs", str(place)):
        pytest.skip("a small disk cannot be made here")
    yield place
    assert succeeds("umount", "--lazy", str(place))


def succeeds(*command: str) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def node_on(disk: Path) -> Node:
    node = Node(store=disk / "store")
    node.queue("queue", durable=True, capacity=None)
    node.log("log")
    return node


async def publish(connection: Connection, address: str, begin: int) -> None:
    items = Stream.range(begin, begin + 10).map(lambda number: {"number": number, "body": bytes(10_000)})
    await connection.publish(address, items)


async def fill(connection: Connection, address: str, begin: int) -> tuple[int, DeliveryFailed]:
    """Publish until the disk is full; return how many messages were accepted, and the first refusal."""
    for at in range(begin, 10_000, 10):
        try:
            await publish(connection, address, at)
        except DeliveryFailed as error:
            return at, error
    pytest.fail("the disk was never full")


async def numbers(connection: Connection, address: str, most: int) -> list[int]:
    """Return the first numbers of an address; a batch that was refused may be there in part."""
    start: Literal["first"] | None = "first" if address == "log" else None
    items = await connection.stream(address, start=start).take(most).to_list()
    return [item["number"] for item in items]


@pytest.mark.slow
@pytest.mark.parametrize("address", ADDRESSES)
async def test_a_full_disk_refuses_messages_and_loses_none_that_it_accepted(disk: Path, address: str) -> None:
    ballast = disk / "ballast"
    ballast.write_bytes(bytes(9_000_000))
    async with node_on(disk) as node:
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url) as connection:
            accepted, error = await fill(connection, address, 0)
            assert error.condition == "amqp:resource-limit-exceeded"
            assert "full" in str(error)
            ballast.unlink()
            await publish(connection, address, 10_000)
    async with node_on(disk) as node:
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url) as connection:
            with trio.fail_after(10):
                found = await numbers(connection, address, accepted + 10)
            assert found[:accepted] == list(range(accepted))


async def test_a_store_that_cannot_be_written_is_refused_and_comes_back(disk: Path) -> None:
    async with node_on(disk) as node:
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url) as connection:
            for address in ADDRESSES:
                await publish(connection, address, 0)
    assert succeeds("mount", "-o", "remount,ro", str(disk))
    with pytest.raises(StoreError, match=r"store .* cannot be (used|written)"):
        Node(store=disk / "store")
    assert succeeds("mount", "-o", "remount,rw", str(disk))
    async with node_on(disk) as node:
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url) as connection:
            for address in ADDRESSES:
                assert await numbers(connection, address, 10) == list(range(10))
