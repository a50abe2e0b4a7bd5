"""Worlds: the same seed gives the same run; time, parts, kills, and what a program may not do."""

from __future__ import annotations

# ruff: noqa: S311 - module random is what is tested
import contextlib
import logging
import os
import random
import re
import secrets
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
import trio

import rstreams
from rstreams import Reconnect, Stream
from rstreams.simulation import SimulationError, World, simulation
from rstreams.simulation import world as world_module
from rstreams.simulation.checker import check
from rstreams.simulation.running import run

AGAIN = Reconnect(at_start=True)


def exchange(world: World, count: int = 20) -> list[int]:
    """Set up a node with a store, who publishes, and who consumes; return what arrives."""
    url = world.node("node", lambda node: node.queue("numbers", durable=True), store=True)
    arrived: list[int] = []

    async def publish() -> None:
        async with rstreams.connect(url, reconnect=AGAIN) as connection:
            await connection.publish("numbers", Stream.range(count))

    async def consume() -> None:
        async with (
            rstreams.connect(url, reconnect=AGAIN) as connection,
            connection.stream("numbers").open() as numbers,
        ):
            async for number in numbers:
                arrived.append(number)
                if len(set(arrived)) == count:
                    break

    world.start(publish, name="publisher")
    world.start(consume, name="consumer")
    return arrived


def digest(seed: int) -> str:
    with simulation(seed) as world:
        exchange(world)
        world.weather(parts=["node"], pairs=[("node", "consumer"), ("node", "publisher")], until_s=1.0)
    return world.digest


def test_a_seed_gives_the_same_bytes_each_time_and_another_one_other_bytes() -> None:
    assert digest(3) == digest(3) != digest(4)


@pytest.mark.slow
def test_a_seed_gives_the_same_bytes_in_processes_with_other_orders_of_sets() -> None:
    code = "from tests.simulation.test_world import digest; print([digest(seed) for seed in range(5)])"
    told = {
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": order}, capture_output=True, text=True, check=True
        ).stdout
        for order in ("1", "2", "3")
    }
    assert len(told) == 1


def test_nothing_is_lost_when_the_node_is_killed_and_begins_again() -> None:
    with simulation(1) as world:
        arrived = exchange(world)
        for at_s in (0.01, 0.02, 0.5):
            world.at(at_s, lambda: world.kill("node", for_s=0.1))
    assert set(arrived) == set(range(20))
    assert world.faults == [event["event"] for event in world.history.events].count("killed") > 0


def test_an_hour_passes_at_once() -> None:
    began = time.perf_counter()
    with simulation() as world:
        world.start(trio.sleep, 3600, name="sleeper")
    assert world.now() == 3600
    assert time.perf_counter() - began < 60


def test_random_numbers_come_from_the_seed_and_those_of_the_process_go_on_as_before() -> None:
    drawn: list[object] = []

    async def draw() -> None:
        drawn.append(
            (random.randbytes(4), uuid.uuid4(), secrets.token_hex(), await trio.to_thread.run_sync(random.randbytes, 4))
        )

    random.seed(1)
    expected = random.randbytes(4)
    random.seed(1)
    for seed in (5, 5, 6):
        with simulation(seed) as world:
            world.start(draw, name="drawer")
    assert drawn[0] == drawn[1] != drawn[2]
    assert random.randbytes(4) == expected


def test_the_calendar_of_a_part_jumps_and_no_other_clock_does() -> None:
    seen: list[float] = []

    async def look() -> None:
        seen.extend((world.today(), trio.current_time()))
        await trio.sleep(2)
        seen.extend((world.today(), trio.current_time()))

    with simulation() as world:
        world.start(look, name="clock")
        world.start(trio.sleep, 3, name="other")
        world.at(1.0, world.jump, "clock", -3600)
    assert seen[2] - seen[0] == 2 - 3600
    assert seen[3] - seen[1] == 2


def test_a_part_that_is_killed_notes_nothing_more_and_reaches_nothing() -> None:
    ran = []

    async def work() -> None:
        try:
            await trio.sleep_forever()
        finally:
            ran.append("finally")
            world.note("killed", part="a lie")
            with trio.CancelScope(shield=True), pytest.raises(OSError, match="Connection refused"):
                await trio.open_tcp_stream("127.0.0.1", 80)

    with simulation() as world:
        world.start(work, name="worker", service=True)
        world.start(trio.sleep, 2, name="clock")
        world.at(1.0, world.kill, "worker")
    assert ran == ["finally"]
    assert [event["part"] for event in world.history.events if event["event"] == "killed"] == ["worker"]


def test_what_a_program_raises_ends_the_run_and_the_seed_is_told() -> None:
    async def fail() -> None:
        await trio.sleep(1)
        raise LookupError

    with pytest.raises(LookupError) as caught, simulation(17) as world:
        world.start(fail, name="failing")
    assert caught.value.__notes__ == ["this was the simulation with seed 17"]


def test_what_a_planned_call_raises_ends_the_run() -> None:
    def fail() -> None:
        msg = "not today"
        raise LookupError(msg)

    with pytest.raises(LookupError, match="not today"), simulation() as world:
        world.start(trio.sleep, 10, name="sleeper")
        world.at(1.0, fail)
    assert world.now() == 1.0


def test_a_run_that_does_not_end_in_time_tells_who_still_runs() -> None:
    with (
        pytest.raises(SimulationError, match="at 10 s: it was not through after 10 s; still running: sleeper"),
        simulation(limit_s=10) as world,
    ):
        world.start(trio.sleep_forever, name="sleeper")


def test_a_run_in_which_no_time_passes_ends() -> None:
    async def turn() -> None:
        while True:
            await trio.lowlevel.checkpoint()

    with pytest.raises(SimulationError, match="no time passes any more"), simulation() as world:
        world.start(turn, name="turning")


def test_a_name_is_used_once_and_a_missing_one_is_named() -> None:
    world = World(0, 1.0)
    world.start(trio.sleep, 1, name="one")
    with pytest.raises(SimulationError, match="name='one': a part of that name is in the simulation already"):
        world.node("one", lambda node: node.queue("q"))
    with pytest.raises(SimulationError, match="'two': the simulation has no such part, only 'one'"):
        world.kill("two")


async def _time() -> None:
    time.time()


async def _own_name() -> None:
    monotonic()


async def _sleep() -> None:
    time.sleep(0.01)  # noqa: ASYNC251 - it is refused


async def _socket() -> None:
    socket.socket()


async def _thread() -> None:
    threading.Thread(target=print).start()


async def _process() -> None:
    subprocess.run(["true"], check=False)  # noqa: ASYNC221, S607 - it is refused


@pytest.mark.parametrize(
    ("program", "told"),
    [
        (_time, r"reads the real clock \(time.time\)"),
        (_own_name, r"reads the real clock \(time.monotonic\)"),
        (_sleep, r"sleeps by the real clock \(time.sleep\)"),
        (_socket, r"opens a real socket"),
        (_thread, r"starts a thread"),
        (_process, r"starts a process"),
    ],
)
def test_what_cannot_be_repeated_is_named_with_its_place(program: Callable[[], Any], told: str) -> None:
    expected = rf"test_world.py:\d+ \({program.__name__}\) {told}"
    with pytest.raises(SimulationError, match=expected), simulation() as world:
        world.start(program, name="program")
    time.time()
    socket.socket().close()


def test_the_history_of_a_part_is_judged() -> None:
    async def lose() -> None:
        world.note("address", address="orders")
        world.note("sent", by="shop", address="orders", item=1)
        world.note("accepted", by="shop", address="orders", item=1)
        await trio.sleep(1)

    with simulation() as world:
        world.start(lose, name="shop")
    assert [finding.kind for finding in check(world.history.events)] == ["lost"]


def test_a_world_runs_until_its_weather_is_over() -> None:
    with simulation() as world:
        world.start(trio.sleep, 0.1, name="quick")
        world.start(trio.sleep_forever, name="other", service=True)
        world.weather(parts=["other"], until_s=4.0, most=40)
    assert world.now() == world.calms_at_s == 5.0
    assert [event["event"] for event in world.history.events][-2:] == ["healed", "end"]


def test_it_ends_at_once_when_everything_waits() -> None:
    with (
        pytest.raises(SimulationError, match=r"nothing is to happen any more.*still running: waiter"),
        simulation() as w,
    ):
        w.start(trio.sleep_forever, name="waiter")


NOT_YET = "'one': the world does not run yet: say when"

SET_UP: dict[str, tuple[Callable[[World], object], str]] = {
    "kill": (lambda world: world.kill("one"), NOT_YET),
    "restart": (lambda world: world.restart("one"), NOT_YET),
    "cut": (lambda world: world.cut("one", "other"), NOT_YET),
    "slow": (lambda world: world.slow("one", "other", 1), NOT_YET),
    "reset": (lambda world: world.reset("one", "other"), NOT_YET),
    "connections": (lambda world: world.connections("one", "other"), NOT_YET),
    "disk": (lambda world: world.fill_disk("one", for_s=1.0), NOT_YET),
    "writing": (lambda world: world.kill_writing("one", 1, for_s=1.0), NOT_YET),
    "kinds": (lambda world: world.weather(kinds=["kil"]), "kinds='kil': there is no such kind of fault, only kill, "),  # type: ignore[list-item]
    "pairs": (lambda world: world.weather(pairs=["one"]), "pairs='one': give pairs of names"),  # type: ignore[list-item]
    "part": (lambda world: world.weather(pairs=[("one", "no")]), "'no': the simulation has no such part"),
    "host": (lambda world: world.node("a/b", print), "name='a/b': it is a name of a host"),
    "twice": (lambda world: world.start(trio.sleep, 1, name="one"), "name='one': a part of that name is in"),
}


@pytest.mark.parametrize(("mistake", "text"), SET_UP.values(), ids=SET_UP)
def test_a_mistake_in_the_set_up_gets_an_error(mistake: Callable[[World], object], text: str) -> None:
    with simulation() as world:
        world.start(trio.sleep, 1, name="one")
        world.start(trio.sleep, 1, name="other")
        with pytest.raises(SimulationError, match=re.escape(text)):
            mistake(world)


def test_a_part_that_is_added_while_the_world_runs_gets_an_error() -> None:
    async def add() -> None:
        with pytest.raises(SimulationError, match=r"name='late': all parts are added before the world runs"):
            world.start(trio.sleep, 1, name="late")

    with simulation() as world:
        world.start(add, name="adder")


def test_files_of_trio_are_read_without_a_thread(tmp_path: Path) -> None:
    read = []

    async def work() -> None:
        await trio.Path(tmp_path / "file").write_text("text")
        async with await trio.open_file(tmp_path / "file") as file:
            read.append(await file.read())

    with simulation() as world:
        world.start(work, name="worker")
    assert read == ["text"]


def test_a_refused_call_is_told_although_the_program_has_caught_it() -> None:
    async def catch() -> None:
        with contextlib.suppress(SimulationError):
            time.time()

    with pytest.raises(SimulationError, match="reads the real clock"), simulation() as world:
        world.start(catch, name="catching")
    assert run("catching", lambda world: world.start(catch, name="catching"), 0).kinds >= {"refused"}


def test_a_second_weather_draws_other_faults_and_all_heals_behind_the_last_one() -> None:
    with simulation(4) as world:
        world.start(trio.sleep, 1, name="sleeper")
        world.weather(parts=["sleeper"], kinds=["jump"], until_s=0.5)
        first = [*world.plan]
        world.weather(parts=["sleeper"], kinds=["jump"], until_s=1.5)
        others = world.plan[len(first) :]
    assert {fault.draw for fault in first}.isdisjoint(fault.draw for fault in others)
    assert [event["at"] for event in world.history.events if event["event"] == "healed"] == [2.5]


def test_a_world_without_programs_is_refused() -> None:
    with pytest.raises(SimulationError, match="has no program that ends, and no weather"), simulation():
        pass
    with pytest.raises(SimulationError, match="has no program that ends, and no weather"), simulation() as world:
        world.node("node", lambda node: node.queue("orders"))


def test_a_logger_of_a_program_is_in_the_log_and_its_errors_are_no_failures() -> None:
    async def program() -> None:
        await trio.sleep(1)
        try:
            raise LookupError  # noqa: TRY301 - it is logged
        except LookupError:
            logging.getLogger("shop").exception("an order has failed")

    with simulation() as world:
        world.start(program, name="shop")
    (line,) = world.log
    assert line.startswith("1.000000 ERROR shop: an order has failed")
    assert not world.failures
    assert not [each for each in logging.getLogger().handlers if type(each).__name__ == "_LogLines"]


def test_a_socket_tells_its_place() -> None:
    told: list[str] = []

    async def program() -> None:
        (listener,) = await trio.open_tcp_listeners(7000, host="127.0.0.1")
        stream = await trio.open_tcp_stream("127.0.0.1", 7000)
        told.append(repr(stream.socket))
        await stream.aclose()
        told.append(repr(stream.socket))
        await listener.aclose()

    with simulation() as world:
        world.start(program, name="shop")
    assert told == [
        "<MemorySocket of 'shop', at 127.0.0.2:49152, with 127.0.0.1:7000>",
        "<MemorySocket of 'shop', closed, with 127.0.0.1:7000>",
    ]


def test_the_folders_of_killed_processes_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world_module, "_memory", lambda: str(tmp_path))
    (ended := subprocess.Popen([sys.executable, "-c", ""])).wait()
    for process in (ended.pid, os.getpid()):
        (tmp_path / f"rstreams-simulation-{process:010}-x" / "node").mkdir(parents=True)
    world_module._remove_left.cache_clear()
    with simulation() as world:
        world.start(trio.sleep, 1, name="shop")
    assert [each.name for each in tmp_path.iterdir()] == [f"rstreams-simulation-{os.getpid():010}-x"]
