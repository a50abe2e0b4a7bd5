"""The disks of a simulation: full, broken, and what a failure of the power takes away."""

from __future__ import annotations

import sqlite3
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest
import trio

import rstreams
from rstreams import Reconnect, Stream
from rstreams.node.queue_options import Fsync
from rstreams.simulation import World, faulty_files, simulation
from rstreams.simulation.faulty_files import FilesOfDisk, TablesOverLayer, forget_disk, open_tables

NOW = [0.0]


def opened(folder: Path, seed: int = 0) -> tuple[TablesOverLayer, FilesOfDisk]:
    files = FilesOfDisk(Random(seed), lambda: NOW[0])  # noqa: S311 - it shall be the same each time
    tables = open_tables(folder / "t.db", 1.0, folder, files)
    tables.execute("PRAGMA journal_mode = WAL")
    tables.execute("PRAGMA synchronous = FULL")
    tables.execute("CREATE TABLE IF NOT EXISTS t(a)")
    return tables, files


def values(folder: Path) -> list[int]:
    connection = sqlite3.connect(folder / "t.db")
    found = [value for (value,) in connection.execute("SELECT a FROM t ORDER BY a")]
    connection.close()
    return found


def copied(folder: Path, files: FilesOfDisk, target: Path) -> Path:
    target.mkdir()
    for file in folder.iterdir():
        if not file.name.endswith("-shm"):
            (target / file.name).write_bytes(file.read_bytes())
    files.undo(target)
    return target


def test_a_full_disk_refuses_what_makes_files_longer_and_then_takes_it(tmp_path: Path) -> None:
    tables, files = opened(tmp_path)
    files.fill(NOW[0] + 10)
    with pytest.raises(sqlite3.OperationalError) as caught:
        tables.execute("INSERT INTO t VALUES(?)", (b"x" * 100_000,))
    assert caught.value.sqlite_errorcode & 0xFF == sqlite3.SQLITE_FULL
    files.fill(0)
    assert tables.execute("INSERT INTO t VALUES(1)").rowcount == 1
    tables.close()
    assert values(tmp_path) == [1]


def test_a_broken_disk_fails_some_calls_with_the_errors_of_sqlite(tmp_path: Path) -> None:
    tables, files = opened(tmp_path)
    files.break_down(NOW[0] + 10)
    codes = set()
    for value in range(50):
        try:
            tables.execute("INSERT INTO t VALUES(?)", (value,))
        except sqlite3.OperationalError as error:
            codes.add(error.sqlite_errorcode)
    assert codes >= {sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_FSYNC}
    tables.close()
    forget_disk(tmp_path)


@pytest.mark.parametrize("seed", range(20))
def test_a_failure_of_the_power_takes_what_was_not_synced_and_nothing_else(seed: int, tmp_path: Path) -> None:
    folder = tmp_path / "s"
    folder.mkdir()
    tables, files = opened(folder, seed)
    for value in range(5):
        tables.execute("INSERT INTO t VALUES(?)", (value,))
    tables.execute("PRAGMA synchronous = OFF")
    for value in range(5, 10):
        tables.execute("INSERT INTO t VALUES(?)", (value,))
    found = values(copied(folder, files, tmp_path / "copy"))
    assert found == list(range(len(found)))
    assert len(found) >= 5
    tables.close()


def test_what_is_not_synced_is_lost_in_some_worlds(tmp_path: Path) -> None:
    lost = set()
    for seed in range(12):
        folder = tmp_path / f"s{seed}"
        folder.mkdir()
        tables, files = opened(folder, seed)
        tables.execute("PRAGMA synchronous = OFF")
        tables.execute("INSERT INTO t VALUES(1)")
        lost.add(len(values(copied(folder, files, tmp_path / f"copy{seed}"))))
        tables.close()
    assert lost == {0, 1}


def stored(world: World, fsync: Fsync) -> list[int]:
    """Set up a shop that sends ten items to a durable queue; return those that were accepted."""
    accepted: list[int] = []

    def declare(node: rstreams.Node) -> None:
        node.queue("orders", durable=True, fsync=fsync, fsync_interval_s=60.0)

    url = world.node("node", declare, store=True)

    async def shop() -> None:
        async with rstreams.connect(url, reconnect=Reconnect(at_start=True)) as connection:
            await connection.publish("orders", rstreams.Stream.range(10).do_on_next(lambda _item: None))
            accepted.extend(range(10))

    world.start(shop, name="shop")
    return accepted


def left_after_power(seed: int, fsync: Fsync) -> int:
    """Return how many of ten accepted items are there after a failure of the power."""
    left: list[int] = []

    async def look(url: str) -> None:

        await trio.sleep(10)
        async with rstreams.connect(url, reconnect=Reconnect(at_start=True)) as connection:
            with suppress(TimeoutError), trio.move_on_after(5):
                async with connection.stream("orders").open() as orders:
                    async for order in orders:
                        left.append(order)  # noqa: PERF401 - what came until the time was over counts

    with simulation(seed) as world:
        stored(world, fsync)
        world.start(look, "amqp://node:5672", name="reader")
        world.at(5.0, lambda: world.kill("node", power=True, for_s=1.0))
    return len(left)


def test_accepted_items_outlive_the_power_if_they_were_synced() -> None:
    assert {left_after_power(seed, "always") for seed in range(4)} == {10}


def test_items_that_were_not_synced_are_lost_in_some_worlds() -> None:
    assert len({left_after_power(seed, "never") for seed in range(8)}) > 1


@pytest.mark.parametrize("operations", [1, 3, 6, 9])
def test_a_node_that_is_killed_in_the_middle_of_a_write_opens_its_store_again(operations: int) -> None:
    with simulation(operations) as world:
        accepted = stored(world, "always")
        world.at(0.008, lambda: world.kill_writing("node", operations, for_s=0.2))
    assert accepted == list(range(10))
    assert [event["event"] for event in world.history.events if event["event"] in ("killed", "started")] in (
        ["killed", "started"],
        ["killed"],
    )


def test_no_disk_is_kept_when_the_world_is_over() -> None:
    async def use(url: str) -> None:
        async with rstreams.connect(url, reconnect=Reconnect(at_start=True)) as connection:
            await connection.publish("jobs", Stream.of(1))

    kept = dict(faulty_files._disks)
    with simulation() as world:
        world.start(use, world.node("node", lambda node: node.queue("jobs", durable=True), store=True), name="user")
        world.at(0.05, lambda: world.kill("node", for_s=0.1))
        world.start(trio.sleep, 2.0, name="clock")
    assert kept == faulty_files._disks
