"""The demo's run: what it needs, when it gives up, and how it ends what it started."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import trio
import trio.testing

from examples.airports import processes, requirements
from examples.airports.demo import Demo
from examples.airports.processes import Child, Keeper
from examples.airports.progress import Progress
from examples.airports.results import Result
from examples.airports.watchdog import Watchdog
from tests.examples.runs import EXPECTED, FIRST, all_through, on_queue, on_subscriber

ROOT = Path(__file__).parents[2]


# --------------------------------------------------------------------------------------------------------- the watchdog


def test_each_thing_that_moves_is_a_step() -> None:
    progress = Progress(EXPECTED)
    moves: list[Callable[[], None]] = [
        lambda: on_queue(progress),
        lambda: progress.on_job({"phase": "starts Java"}),
        lambda: progress.on_publisher({"station": "EWR", "sent": 20}),
        lambda: on_queue(progress, enqueued=20, ready=20),
        lambda: on_queue(progress, enqueued=20, unsettled=20),
        lambda: progress.on_job({"batch": 0, "rows": 20, "seconds": 2.5}),
        lambda: on_subscriber(progress, FIRST, Result(40.0, 20, 0)),
        lambda: on_queue(progress, enqueued=20, accepted=20),
        lambda: progress.on_publisher({"station": "EWR", "sent": 24}),
        lambda: progress.on_publisher({"station": "EWR", "sent": 24, "accepted": 24}),
        lambda: on_subscriber(progress, FIRST, Result(40.0, 24, 0)),
    ]
    for move in moves:
        before = progress.steps
        move()
        assert progress.steps > before


def test_messages_that_go_to_and_fro_are_no_steps() -> None:
    progress = Progress(EXPECTED)
    on_queue(progress, enqueued=20, unsettled=20)
    before = progress.steps
    for _ in range(3):
        on_queue(progress, enqueued=20, ready=20)
        on_queue(progress, enqueued=20, unsettled=20)
    assert progress.steps == before


class Watched:
    """A watchdog with a clock that is set by hand, which looks ten times a second."""

    def __init__(self) -> None:
        self.dog = Watchdog(120.0, 0.0)
        self.now = 0.0
        self.steps = 0

    def wait(self, seconds: float) -> bool:
        """Let time pass without a step; return whether the watchdog gives up on the way."""
        until = self.now + seconds
        while self.now < until and not self.dog.gives_up:
            self.now += 0.1
            self.dog.look(self.steps, self.now)
        return self.dog.gives_up

    def step(self) -> None:
        """Let something move."""
        self.steps += 1
        self.dog.look(self.steps, self.now)


def test_the_watchdog_gives_up_when_nothing_has_moved_for_two_minutes() -> None:
    watched = Watched()
    assert not watched.wait(119)
    assert watched.wait(2)
    assert 120 < watched.dog.still_s < 121


def test_a_slow_run_is_not_cut_off_however_long_it_takes() -> None:
    watched = Watched()
    for _ in range(100):  # three hours
        assert not watched.wait(110)
        watched.step()


def test_on_a_slow_machine_the_patience_is_ten_times_the_longest_pause() -> None:
    watched = Watched()
    assert not watched.wait(100)
    watched.step()
    assert not watched.wait(10)
    watched.step()
    assert not watched.wait(990)
    watched.step()
    assert not watched.wait(9000)


def test_the_patience_of_a_slow_machine_has_an_end_as_well() -> None:
    watched = Watched()
    assert not watched.wait(20)
    watched.step()
    assert not watched.wait(199)
    assert watched.wait(2)


def test_time_in_which_the_demo_itself_was_stopped_does_not_count() -> None:
    watched = Watched()
    assert not watched.wait(10)
    watched.now += 3600  # Ctrl-Z, and an hour later fg
    assert not watched.wait(100)
    assert watched.wait(20)


# ---------------------------------------------------------------------------------------------------- what it needs


def java(folder: Path, says: str) -> Path:
    """Make a folder with a `bin/java` that says something."""
    command = folder / "bin" / "java"
    command.parent.mkdir(parents=True)
    command.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    command.chmod(0o755)
    return folder


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requirements, "PACKAGES", ("rich",))
    monkeypatch.delenv("JAVA_HOME", raising=False)


NEEDS_JAVA = "Spark needs Java 17 or later, on the PATH or in JAVA_HOME"


@pytest.mark.usefixtures("installed")
def test_a_missing_java_is_told_in_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert requirements.missing() == f"there is no Java; {NEEDS_JAVA}"
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    assert requirements.missing() == f"there is no Java at JAVA_HOME=/nowhere; {NEEDS_JAVA}"


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("says", "trouble"),
    [
        ('openjdk version "17.0.13" 2024-10-15', None),
        ('openjdk version "25" 2025-09-16', None),
        ('openjdk version "11.0.2" 2019-01-15', "is Java 11"),
        ('java version "1.8.0_401"', "is Java 1"),
        ("Error: could not open jvm.cfg", "-version does not tell its version"),
    ],
)
def test_java_must_be_new_enough(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, says: str, trouble: str | None
) -> None:
    home = java(tmp_path / "home", says)
    monkeypatch.setenv("JAVA_HOME", str(home))
    expected = f"{home / 'bin' / 'java'} {trouble}; {NEEDS_JAVA}" if trouble else ""
    assert requirements.missing() == expected


def test_a_package_that_is_missing_is_named_with_what_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requirements, "PACKAGES", ("rich", "not_there_1", "not_there_2"))
    assert requirements.missing() == (
        "not installed: not_there_1, not_there_2; run: pip install '.[demo]' ./adapters/spark"
    )


@pytest.mark.slow
def test_without_java_the_demo_starts_nothing_and_prints_one_line() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "examples.airports"],
        check=False,
        cwd=ROOT,
        env={**os.environ, "JAVA_HOME": "/nowhere"},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (1, "")
    assert re.fullmatch(r"demo: [^\n]+\n", done.stdout)


# -------------------------------------------------------------------------------------------------------- the processes

STUBBORN = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
wait = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(0, flush=True); time.sleep(600)"
grandchild = subprocess.Popen([sys.executable, "-c", wait], stdout=subprocess.PIPE, process_group=0)
grandchild.stdout.readline()
print(grandchild.pid, flush=True)
time.sleep(600)
"""


def is_alive(pid: int) -> bool:
    """Whether the process runs; one that has ended and waits for its parent to notice does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def test_lines_come_as_they_are_written_and_the_exit_code_last() -> None:
    lines: list[str] = []
    child = await Child.start([sys.executable, "-c", "print('one'); print('two'); raise SystemExit(3)"])
    assert await child.run(lines.append) == 3
    assert lines == ["one", "two"]


async def test_the_tail_is_what_it_wrote_to_standard_error() -> None:
    child = await Child.start([sys.executable, "-c", "import sys; print('out'); sys.exit('what\\nwhy')"])
    assert await child.run(lambda _line: None) == 1
    assert list(child.tail) == ["what", "why"]


async def test_a_process_that_ends_by_itself_is_not_waited_for() -> None:
    child = await Child.start(["true"])
    await child.run(lambda _line: None)
    await child.end()


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self").exists(), reason="descendants are found in /proc")
async def test_what_ignores_sigterm_is_killed_with_all_it_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "GRACE_S", 0.1)
    pids: list[int] = []
    started = trio.Event()

    def on_line(line: str) -> None:
        pids.append(int(line))
        started.set()

    child = await Child.start([sys.executable, "-c", STUBBORN])
    async with trio.open_nursery() as nursery:
        nursery.start_soon(child.run, on_line)
        await started.wait()
        assert is_alive(pids[0])
        await child.end()
    assert not is_alive(pids[0])


async def test_the_keeper_ends_the_children_when_nobody_else_can() -> None:
    lines: list[str] = []
    child = await Child.start(["sh", "-c", "echo ready; exec sleep 600"])
    keeper = await Keeper.start()
    await keeper.keep(child)
    assert keeper._process.stdin is not None
    await keeper._process.stdin.aclose()  # as the end of this process does
    assert await child.run(lines.append) == -signal.SIGTERM
    await keeper.end()


async def test_the_keeper_ends_without_the_children_when_all_is_over() -> None:
    child = await Child.start(["sleep", "600"])
    keeper = await Keeper.start()
    await keeper.keep(child)
    await keeper.end()
    assert is_alive(child.pid)
    await child.end()


# ------------------------------------------------------------------------------------------------------------- the run

PATIENT_S = 3600.0


class DemoOf(Demo):
    """The demo with one process, which is not the node."""

    def __init__(self, code: str) -> None:
        super().__init__(Progress(EXPECTED))
        self.code = code

    async def _run_node(self, _nursery: trio.Nursery, _folder: str) -> None:
        await self._run_child("node", [sys.executable, "-c", self.code], self.on_line)

    def on_line(self, line: str) -> None:
        """Take a line of the process."""


async def test_a_process_that_ends_early_ends_the_demo_and_its_last_line_is_told() -> None:
    demo = DemoOf("import sys; print('hello', file=sys.stderr); sys.exit('no room')")
    await demo.run(PATIENT_S)
    assert demo.trouble == "the node ended early: no room"
    assert demo.traceback == []
    assert demo.signal is None


async def test_the_traceback_of_a_process_that_failed_is_told() -> None:
    demo = DemoOf("import sys; print('hello', file=sys.stderr); 1 / 0")
    await demo.run(PATIENT_S)
    assert demo.trouble == "the node ended early: ZeroDivisionError: division by zero"
    assert demo.traceback[0] == "Traceback (most recent call last):"
    assert "division by zero" not in "".join(demo.traceback)


async def test_a_process_that_ends_early_without_a_word_is_told_with_its_exit_code() -> None:
    demo = DemoOf("import sys; sys.exit(0)")
    await demo.run(PATIENT_S)
    assert demo.trouble == "the node ended early: exit code 0, without a word"


async def test_the_signal_that_killed_a_process_is_named() -> None:
    demo = DemoOf("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    await demo.run(PATIENT_S)
    assert demo.trouble == "the node was ended by SIGKILL"
    assert demo.traceback == []


async def test_when_nothing_moves_the_demo_ends_and_says_for_how_long(
    autojump_clock: trio.testing.MockClock,
) -> None:
    demo = DemoOf("import time; time.sleep(600)")
    await demo.run(120)
    assert demo.trouble == "timed out: nothing has moved for 120 s"
    assert demo.traceback == []


async def test_when_all_is_through_the_demo_ends_without_trouble() -> None:
    class Through(DemoOf):
        def on_line(self, _line: str) -> None:
            self.progress = all_through()

    demo = Through("import time; print('through', flush=True); time.sleep(600)")
    await demo.run(PATIENT_S)
    assert demo.trouble == ""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
async def test_a_signal_ends_the_demo_and_its_process(number: signal.Signals) -> None:
    class Signalled(DemoOf):
        pid = 0

        def on_line(self, line: str) -> None:
            self.pid = int(line)
            os.kill(os.getpid(), number)
            os.kill(os.getpid(), number)  # a second one changes nothing

    demo = Signalled("import os, time; print(os.getpid(), flush=True); time.sleep(600)")
    await demo.run(PATIENT_S)
    assert demo.signal == number
    assert demo.trouble == f"stopped by {number.name}"
    assert not is_alive(demo.pid)
