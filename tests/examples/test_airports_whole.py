"""The demo as its user runs it, with Spark: to its end, interrupted, and with a process that dies."""

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MARK = "RSTREAMS_DEMO_TEST"

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(240),
    pytest.mark.skipif(not Path("/proc/self").exists(), reason="the test finds the demo's processes in /proc"),
]


@dataclass
class Run:
    """A run of the demo, whose processes all carry a mark in their environment."""

    folder: Path
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)

    def __post_init__(self) -> None:
        (self.folder / "tmp").mkdir()
        command = [sys.executable, "-m", "examples.seattle", "--output", str(self.folder / "chart.png")]
        environment = os.environ | {MARK: self.mark, "TMPDIR": str(self.folder / "tmp")}
        self.process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)

    def until_first_batch(self) -> None:
        """Wait until Spark has done a micro-batch."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("micro-batch 0"):
                return
        pytest.fail("the demo ended before its first micro-batch")

    def end(self) -> tuple[int, list[str]]:
        """Wait for the end; return the exit code and the lines of output since."""
        output, _ = self.process.communicate()
        return self.process.returncode, output.splitlines()

    def processes(self) -> dict[int, str]:
        """The command lines of the demo's processes that run, by their ids."""
        found = {}
        for entry in Path("/proc").iterdir():
            with suppress(OSError, ValueError):
                if f"{MARK}={self.mark}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                    found[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        return found

    def kill(self, what: str) -> None:
        """Kill the process that has `what` in its command line."""
        (pid,) = (pid for pid, command in self.processes().items() if what in command)
        os.kill(pid, signal.SIGKILL)


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    run = Run(tmp_path)
    with run.process:
        yield run
        run.process.kill()
    for pid in run.processes():
        os.kill(pid, signal.SIGKILL)


def test_every_maximum_is_right_and_every_reading_accounted_for(run: Run) -> None:
    code, lines = run.end()
    assert lines[-1] == "demo: 365 of 365 daily maxima right, 8759 of 8759 readings accounted for"
    assert code == 0
    assert sum(line.startswith("micro-batch ") for line in lines) >= 9
    assert (run.folder / "chart.png").read_bytes().startswith(b"\x89PNG")
    assert run.processes() == {}
    assert list((run.folder / "tmp").iterdir()) == []


def test_interrupted_it_leaves_nothing_behind(run: Run) -> None:
    run.until_first_batch()
    assert len(run.processes()) > 5  # the demo, its four processes, and what Spark has started
    run.process.send_signal(signal.SIGINT)
    code, lines = run.end()
    assert code == 130
    assert "stopped by SIGINT" in lines
    assert lines[-1].endswith("of 8759 readings accounted for")
    assert run.processes() == {}
    assert list((run.folder / "tmp").iterdir()) == []


@pytest.mark.parametrize(("what", "name"), [("rstreams.cli node", "node"), ("bin/java", "job")])
def test_a_process_that_is_killed_ends_the_demo(run: Run, what: str, name: str) -> None:
    run.until_first_batch()
    run.kill(what)
    code, lines = run.end()
    assert code == 1
    assert any(line.startswith(f"the {name} ended early") for line in lines)
    assert lines[-1] != "demo: 365 of 365 daily maxima right, 8759 of 8759 readings accounted for"
    assert run.processes() == {}
    assert list((run.folder / "tmp").iterdir()) == []
