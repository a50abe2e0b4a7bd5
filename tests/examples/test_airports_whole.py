"""The demo as its user runs it, with Spark: to its end, interrupted, and with a process that dies."""

import os
import re
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from benchmarks._processes import wait_until

ROOT = Path(__file__).resolve().parents[2]
MARK = "RSTREAMS_DEMO_TEST"

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not Path("/proc/self").exists(), reason="the test finds the demo's processes in /proc"),
]


@dataclass
class Run:
    """A run of the demo, whose processes all carry a mark in their environment."""

    folder: Path
    arguments: tuple[str, ...] = ()
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)

    def __post_init__(self) -> None:
        (self.folder / "tmp").mkdir()
        command = [sys.executable, "-m", "examples.airports", "--output", str(self.folder / "chart.png")]
        command += self.arguments
        environment = os.environ | {MARK: self.mark, "TMPDIR": str(self.folder / "tmp")}
        self.process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)

    def until(self, start: str) -> None:
        """Wait until the demo has printed a line that begins so."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith(start):
                return
        pytest.fail(f"the demo ended before it printed {start!r}")

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

    def signal(self, what: str, number: signal.Signals) -> None:
        """Send a signal to the process that has `what` in its command line."""
        pids = wait_until(lambda: [pid for pid, line in self.processes().items() if what in line], what, 60)
        os.kill(min(pids), number)  # a child that it has just forked has the same command line until it calls exec

    def left_behind(self) -> list[str]:
        """What there is of the run when it is over: processes and temporary files."""
        return [*self.processes().values(), *(path.name for path in (self.folder / "tmp").iterdir())]


@pytest.fixture
def run(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Run]:
    run = Run(tmp_path, getattr(request, "param", ()))
    with run.process:
        yield run
        run.process.kill()
    for pid in run.processes():
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


ALL_RIGHT = "demo: 1092 of 1092 daily maxima right, 26115 of 26115 observations accounted for"
SO_FAR = r"; of 26,115 observations [\d,]+ were published, [\d,]+ processed by Spark, [\d,]+ received in results"


def test_every_maximum_is_right_and_every_observation_accounted_for(run: Run) -> None:
    code, lines = run.end()
    assert lines[-1] == ALL_RIGHT
    assert lines[-2] == "observations without a temperature, which are in no maximum: 1"
    assert code == 0
    assert sum(line.startswith("micro-batch ") for line in lines) >= 13
    assert {line for line in lines if line.startswith("publisher")} == {
        "publisher EWR: 8,703 published, 8,703 accepted",
        "publisher JFK: 8,706 published, 8,706 accepted",
        "publisher LGA: 8,706 published, 8,706 accepted",
    }
    assert (run.folder / "chart.png").read_bytes().startswith(b"\x89PNG")
    assert run.left_behind() == []


def test_interrupted_it_leaves_nothing_behind(run: Run) -> None:
    run.until("micro-batch 0")
    assert len(run.processes()) > 7  # the demo, its keeper, its six processes, and what Spark has started
    run.process.send_signal(signal.SIGINT)
    code, lines = run.end()
    assert code == 130
    assert re.fullmatch("demo: stopped by SIGINT" + SO_FAR, lines[-1])
    assert run.left_behind() == []


FIRST, QUERY = "Spark: starts Java", "Spark: works on its first micro-batch"


@pytest.mark.parametrize(
    ("since", "what", "told"),
    [
        (FIRST, "rstreams.cli node", "the node was ended by SIGKILL"),
        (FIRST, "--station JFK", "the publisher JFK was ended by SIGKILL"),
        (QUERY, "bin/java", "the Spark job ended early: Spark's Java process has ended"),
    ],
)
def test_a_process_that_is_killed_ends_the_demo(run: Run, since: str, what: str, told: str) -> None:
    run.until(since)
    run.signal(what, signal.SIGKILL)
    code, lines = run.end()
    assert code == 1
    assert re.fullmatch(f"demo: {told}" + SO_FAR, lines[-1])
    assert "Traceback (most recent call last):" not in lines
    assert run.left_behind() == []


@pytest.mark.parametrize("run", [("--patience", "20")], indirect=True)
def test_a_job_that_stands_still_is_a_time_out_with_the_true_counts(run: Run) -> None:
    run.until(FIRST)
    run.signal("examples.airports.job", signal.SIGSTOP)
    code, lines = run.end()
    assert code == 1
    counts = "of 26,115 observations 4,000 were published, 0 processed by Spark, 0 received in results"
    assert re.fullmatch(rf"demo: timed out: nothing has moved for \d+ s; {counts}", lines[-1])
    assert run.left_behind() == []


def test_killed_itself_it_leaves_no_process_behind(run: Run) -> None:
    run.until(QUERY)
    run.process.kill()
    ends = time.monotonic() + 30
    while run.processes() and time.monotonic() < ends:  # each ends by itself; one may just have started another
        time.sleep(0.1)
    assert run.processes() == {}
