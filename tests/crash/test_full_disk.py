"""A store on a disk of its own that is full, or that cannot be written: a clear state, and nothing accepted is lost."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trio

import rstreams
from rstreams import Connection, Node, Stream
from rstreams.errors import DeliveryFailed, StoreError
from rstreams.node import dead_letters
from rstreams.store import store, writer
from tests.net.over_tcp import until

ADDRESSES = ("queue", "multicast", "log")


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


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have everything be tried again soon."""
    for module in (store, writer, dead_letters):
        monkeypatch.setattr(module, "RETRY_S", 0.05)


def node_on(disk: Path, *, secure_delete: bool = False) -> Node:
    node = Node(store=disk / "store", secure_delete=secure_delete)
    node.queue("dead", durable=True, capacity=None)
    node.queue("queue", durable=True, capacity=None, dead_letters="dead")
    node.queue("memory", dead_letters="dead")
    node.multicast("multicast", durable=True, backlog=None)
    node.log("log")
    return node


def trouble(node: Node) -> str:
    found = node._store.store
    assert found is not None
    return str(found.trouble or "")


def fill_up(ballast: Path) -> None:
    """Use all the room that is left."""
    with ballast.open("wb", buffering=0) as file:
        for size in (65536, 4096):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                continue


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


async def begin(connection: Connection) -> None:
    """Begin the named subscription of the multicast."""
    async with connection.stream("multicast", subscription="s").open():
        pass


async def numbers(connection: Connection, address: str, most: int) -> list[int]:
    """Return the first numbers of an address; a batch that was refused may be there in part."""
    options: dict[str, Any] = {"multicast": {"subscription": "s"}, "log": {"start": "first"}}.get(address, {})
    items = await connection.stream(address, **options).take(most).to_list()
    return [item["number"] for item in items]


@pytest.mark.slow
@pytest.mark.parametrize("address", ADDRESSES)
async def test_a_full_disk_refuses_messages_and_loses_none_that_it_accepted(disk: Path, address: str) -> None:
    ballast = disk / "ballast"
    ballast.write_bytes(bytes(9_000_000))
    async with node_on(disk) as node:
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url, container_id="c") as connection:
            await begin(connection)
            accepted, error = await fill(connection, address, 0)
            assert error.condition == "amqp:resource-limit-exceeded"
            assert "full" in str(error)
            assert getattr(node.statistics(), f"{address}s")[address].refused >= 1, "it is counted"
            ballast.unlink()
            await publish(connection, address, 10_000)
    async with node_on(disk) as node:
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url, container_id="c") as connection:
            with trio.fail_after(10):
                found = await numbers(connection, address, accepted + 10)
            assert found[:accepted] == list(range(accepted))


async def test_a_store_that_cannot_be_written_is_refused_and_comes_back(disk: Path) -> None:
    async with node_on(disk) as node:
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url, container_id="c") as connection:
            await begin(connection)
            for address in ADDRESSES:
                await publish(connection, address, 0)
    assert succeeds("mount", "-o", "remount,ro", str(disk))
    with pytest.raises(StoreError, match=r"store .* cannot be (used|written)"):
        Node(store=disk / "store")
    assert succeeds("mount", "-o", "remount,rw", str(disk))
    async with node_on(disk) as node:
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url, container_id="c") as connection:
            for address in ADDRESSES:
                assert await numbers(connection, address, 10) == list(range(10))


@pytest.mark.slow
@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("address", ["queue", "multicast", "log"])
async def test_what_is_settled_while_the_disk_is_full_does_not_come_again(disk: Path, address: str) -> None:
    shared: dict[str, Any] = {"multicast": {"subscription": "s"}, "log": {"group": "g"}}.get(address, {})
    async with node_on(disk) as node:
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url, container_id="c") as connection:
            if address == "multicast":
                await begin(connection)
            await connection.publish(address, Stream.range(100))
            fill_up(disk / "ballast")
            got = await connection.stream(address, **shared).take(100).to_list()
            assert got == list(range(100))
            with pytest.raises(DeliveryFailed, match="full"):
                await connection.publish(address, Stream.of(bytes(3_000_000)))
            assert "the disk is full" in trouble(node)
            (disk / "ballast").unlink()
            await until(lambda: not trouble(node))  # by the clock, without any traffic
    async with node_on(disk) as node:
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url, container_id="c") as connection:
            await connection.publish(address, Stream.of("next"))
            again = await connection.stream(address, **shared).take(1).to_list()
            assert again == ["next"]


@pytest.mark.slow
@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("secure_delete", [False, True])
@pytest.mark.parametrize("start_again", [False, True])
async def test_a_disk_that_the_store_has_filled_is_drained_and_used_again(
    disk: Path, *, start_again: bool, secure_delete: bool
) -> None:
    (disk / "ballast").write_bytes(bytes(6_000_000))
    node = node_on(disk, secure_delete=secure_delete)
    accepted = refused = 0
    async with node:
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url) as connection:
            accepted, _ = await fill(connection, "queue", 0)
            refused = node.statistics().queues["queue"].refused
            assert refused
            if not start_again:
                await drain_and_refill(node, connection, accepted)
    if start_again:
        fill_up(disk / "more ballast")
        async with node_on(disk, secure_delete=secure_delete) as node:
            listener = await node.listen("127.0.0.1:0")
            async with rstreams.connect(listener.url) as connection:
                await drain_and_refill(node, connection, accepted)


async def drain_and_refill(node: Node, connection: Connection, accepted: int) -> None:
    """Have consumers empty the queue; there is room then, though nobody else has made any."""
    left = node.statistics().queues["queue"].ready
    with trio.fail_after(20):
        found = await numbers(connection, "queue", left)
    assert found[:accepted] == list(range(accepted))
    await until(lambda: node._store.store.partition("queue/queue").count == 0)  # type: ignore[union-attr]
    for begin in range(10_000, 10_000 + accepted // 2, 10):
        await publish(connection, "queue", begin)


@pytest.mark.slow
@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("address", ["queue", "memory"])
async def test_dead_letters_arrive_when_there_is_room_again(
    disk: Path, address: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with node_on(disk) as node:
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url) as connection:
            await connection.publish(address, Stream.range(20).map(lambda at: bytes([at]) * 100_000))
            fill_up(disk / "ballast")
            async with connection.stream(address, settlement="manual").take(20).open() as deliveries:
                async for delivery in deliveries:
                    delivery.reject()
            if address == "memory":  # those of a durable queue make room as they leave it
                await until(lambda: node.statistics().queues[address].leaving > 0)
                await until(lambda: "its dead letters are not taken" in caplog.text)
            (disk / "ballast").unlink()
            await until(lambda: node.statistics().queues["dead"].ready == 20)
            assert node.statistics().queues[address].leaving == 0
    assert caplog.text.count("its dead letters are not taken") <= 1, "one line a state"
    async with node_on(disk) as node:
        assert (node.statistics().queues["dead"].ready, node.statistics().queues[address].ready) == (20, 0)
