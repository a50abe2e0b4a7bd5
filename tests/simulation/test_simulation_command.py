"""The command of the simulation: what it prints, finds, shrinks, and says to a mistake."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import trio

from rstreams.simulation import World, overtime
from rstreams.simulation.__main__ import main
from rstreams.simulation.running import find, make, names, run, shrink, write_failure

HERE = "tests.simulation.test_simulation_command"


def two_of_a_kind(world: World) -> None:
    """Lose an item if the connections between two parts are cut, and one of them is killed."""
    happened: set[str] = set()

    async def watch() -> None:
        world.note("address", address="q")
        world.note("sent", by="p", address="q", item=1)
        world.note("accepted", by="p", address="q", item=1)
        while world.now() < 5:
            await trio.sleep(0.1)
            happened.update(event["kind"] for event in world.history.events if event["event"] == "fault")
        if not {"cut", "kill"} <= happened:
            world.note("subscribed", by="c", address="q", **{"from": "first"})
            world.note("got", by="c", address="q", item=1)
            world.note("done", by="c", address="q", item=1)
        await trio.sleep(2)

    world.start(watch, name="watcher")
    world.start(trio.sleep_forever, name="one", service=True)
    world.start(trio.sleep_forever, name="other", service=True)
    world.weather(parts=["one"], pairs=[("one", "other")], kinds=["kill", "cut", "jump", "reset"], most=40)


def well(world: World) -> None:
    """Do nothing for a while."""
    world.start(trio.sleep, 1, name="sleeper")


def test_a_failure_is_shrunk_to_the_fewest_faults() -> None:
    failing = next(result for seed in range(50) if (result := run("it", two_of_a_kind, seed)).findings)
    assert len(failing.plan) > 2
    smallest = shrink(failing, two_of_a_kind)
    assert sorted(each.partition(" ")[0] for each in smallest.plan) == ["cut", "kill"]
    assert smallest.kinds == failing.kinds == {"early"}


def counted(world: World) -> None:
    """Draw numbers and faults, and tell how many there are."""
    well(world)
    for _ in range(100):
        world.note("level", of="things", value=world.how_many(3, 12), most=12)
    world.start(trio.sleep_forever, name="one", service=True)
    world.weather(parts=["one"], kinds=["kill"])


def test_a_small_world_has_few_things_and_few_faults() -> None:
    things, faults = {}, {}
    for name in (f"{HERE}:counted", f"{HERE}:counted/small"):
        worlds = [make(find(name), seed) for seed in range(30)]
        things[name] = sorted(event["value"] for event in worlds[0].history.events if event["event"] == "level")
        faults[name] = max(len(world.plan) for world in worlds)
    usual, small = things.values()
    assert small[0] == usual[0] == 3
    assert max(small) <= 12
    assert small[50] < usual[50]
    assert list(faults.values()) == [1000, 6]


def test_a_failure_in_a_small_world_comes_again_by_its_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--workload", f"{HERE}:lost/small", "--jobs", "1", "--folder", str(tmp_path)]
    assert main(arguments) == 1
    assert f"--workload {HERE}:lost/small --seed 0" in capsys.readouterr().out
    assert [*tmp_path.glob("*.jsonl")] == [tmp_path / f"{HERE}.lost.small-0.jsonl"]


def lost(world: World) -> None:
    """Lose an item."""
    well(world)
    world.note("address", address="q")
    world.note("sent", by="p", address="q", item=1)
    world.note("accepted", by="p", address="q", item=1)
    world.note("subscribed", by="c", address="q", **{"from": "first"})
    world.weather(until_s=1.0)


def test_the_command_tells_what_failed_and_how_to_have_it_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    figures = tmp_path / "figures.json"
    command = ["--workload", f"{HERE}:two_of_a_kind", "--seeds", "30", "--jobs", "1"]
    assert main([*command, "--until-failure", "--json", str(figures), "--folder", str(tmp_path)]) == 1
    told = capsys.readouterr().out.splitlines()
    (failed,) = json.loads(figures.read_text())["failed"]
    assert told[0] == f"{HERE}:two_of_a_kind fails with seed {failed['seed']}: {failed['findings'][0]}"
    assert told[-1].startswith("simulate: ")
    assert told[-1].endswith(", 1 failed")


def test_the_command_runs_seeds_twice_and_counts_faults(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--workload", f"{HERE}:well", "--seeds", "3", "--twice", "2", "--jobs", "1"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("simulate: 3 runs of 1 workloads in ")
    assert line.endswith("2 runs the same twice, 0 failed")


def test_the_frames_of_a_seed_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--workload", "queues", "--seed", "1", "--frames"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any("producer0 -> node attach" in line for line in lines)
    assert any("node -> producer0 disposition" in line for line in lines)
    times = [float(line.split()[0]) for line in lines[:-2] if line]
    assert times == sorted(times)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--workload", "quues"], "--workload quues: there is no such workload; it may be all, MODULE:FUNCTION, or "),
        (["--workload", "queues/smaller"], "--workload queues/smaller: there is no such workload"),
        (["--workload", "all/smal"], "--workload all/smal: there is no such workload"),
        (["--workload", "nowhere:workload"], "--workload nowhere:workload: it cannot be imported: No module named"),
        (["--workload", f"{HERE}:nothing"], f"--workload {HERE}:nothing: there is no such workload"),
        (
            ["--workload", f"queues,{HERE}:well", "--frames"],
            "--frames: it prints the frames of one workload: give its name",
        ),
    ],
)
def test_a_mistake_is_told_in_one_line(words: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"rstreams.simulation: {told}")


def test_a_number_that_is_none_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--seeds", "-1"])
    assert "argument --seeds: '-1': it must be a whole number of 1 or more" in capsys.readouterr().err


def test_every_workload_is_found_by_its_name() -> None:
    assert "queues" in names()
    assert all(callable(find(name)) for name in names())


def raises(_world: World) -> None:
    """Fail in the set-up."""
    msg = "not today"
    raise LookupError(msg)


async def later(world: World) -> None:
    """Be async, as no workload may be."""


def leaves(world: World) -> None:
    """Have a program that ends the process in order."""

    async def leave() -> None:
        await trio.sleep(1)
        sys.exit(3)

    world.start(leave, name="leaver")


def dies(world: World) -> None:
    """Have a program that ends the process at once."""

    async def die() -> None:
        os._exit(9)

    world.start(die, name="dying")


@pytest.mark.slow  # each begins a process
@pytest.mark.parametrize(
    ("workload", "text"),
    [
        ("raises", "its set-up has failed with seed 4: test_simulation_command.py:"),
        ("later", "its set-up has failed with seed 4: running.py:"),
        ("dies", "its process has ended in the run with seed 4\n"),
    ],
)
def test_a_workload_that_cannot_run_is_told_in_one_line(
    workload: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--workload", f"{HERE}:{workload}", "--jobs", "1", "--seed", "4"]) == 2
    told = capsys.readouterr().err
    assert told.startswith(f"rstreams.simulation: --workload {HERE}:{workload}: {text}")
    assert told.count("\n") == 1


def test_a_program_that_leaves_has_failed_and_each_failure_has_its_own_history(tmp_path: Path) -> None:
    for seed in (0, 1):
        result = run(f"{HERE}:leaves", leaves, seed)
        assert result.findings[0] == "failed: SystemExit: 3"
        assert result.digest
        write_failure(tmp_path, leaves, result)
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        f"{HERE}.leaves-{seed}.{kind}" for seed in (0, 1) for kind in ("jsonl", "log")
    ]


@pytest.mark.parametrize("options", [["--jobs", "0"], ["--seeds", "0"]])
def test_nothing_at_all_is_no_run(options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(options)
    assert "'0': it must be a whole number of 1 or more" in capsys.readouterr().err


def loops(world: World) -> None:
    """Have a program that never waits."""
    world.processor_s = 0.02

    async def loop() -> None:
        await trio.sleep(1)
        while True:
            pass

    world.start(loop, name="looping")


def never_rests(world: World) -> None:
    """Have a program that never comes to rest."""
    world.processor_s = 0.02

    async def poll() -> None:
        for _ in range(10**9):
            await trio.sleep(0.001)

    world.start(poll, name="restless")


@pytest.mark.parametrize(("workload", "time"), [(loops, "1 s"), (never_rests, "")])
def test_a_run_that_takes_the_processor_for_too_long_is_ended(
    workload: Callable[[World], None], time: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overtime, "_AGAIN_S", 0.02)
    before = signal.getsignal(signal.SIGPROF)
    result = run("it", workload, 0)
    (found,) = result.findings
    assert found.startswith(f"late: the simulation has ended at {time}")
    assert ": it has taken 0.02 s of the processor, and is at " in found
    if workload is loops:
        assert "is at test_simulation_command.py:" in found
        assert "(loop); still running: looping" in found
    assert shrink(result, workload) is result
    assert signal.getsignal(signal.SIGPROF) is before
    assert signal.getitimer(signal.ITIMER_PROF) == (0.0, 0.0)
    assert run("it", well, 0).findings == []


def test_the_command_tells_of_a_run_that_takes_too_long(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overtime, "_AGAIN_S", 0.02)
    assert main(["--workload", f"{HERE}:loops", "--seed", "3", "--frames", "--folder", str(tmp_path)]) == 1
    assert "late: the simulation has ended at 1 s: it has taken 0.02 s" in capsys.readouterr().out
