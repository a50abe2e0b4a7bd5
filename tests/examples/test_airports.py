"""The demo: what it makes of the file, how it counts and judges, and how it ends what it started."""

import io
import json
import os
import re
import signal
import sys
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import pytest
import trio
from rich.console import Console

from examples.seattle import chart, processes
from examples.seattle.__main__ import Demo
from examples.seattle.processes import Child
from examples.seattle.progress import Batch, Day, Progress
from examples.seattle.publisher import as_message
from examples.seattle.readings import Reading, daily_maxima, read_file, seattle
from examples.seattle.subscriber import as_result
from examples.seattle.view import LineView, screen
from rstreams import Message
from rstreams.message import decode_message, encode_item

ROWS = 48
MAXIMA = {"2010-01-01": 41.4, "2010-01-02": -3.5}


def at(text: str, temperature: float) -> Reading:
    return Reading(datetime.fromisoformat(text).replace(tzinfo=UTC), temperature)


def all_through() -> Progress:
    """The progress of a run in which all went well."""
    progress = Progress(ROWS, MAXIMA)
    progress.on_publisher({"sent": ROWS, "accepted": ROWS})
    progress.on_node({"queues": {"readings": {"accepted": ROWS}}})
    for day, maximum in MAXIMA.items():
        progress.on_subscriber({"day": day, "maximum": maximum, "readings": ROWS // 2})
    return progress


# ------------------------------------------------------------------------------------------------------------ the input


def test_rows_of_the_file_are_taken_as_utc(tmp_path: Path) -> None:
    (tmp_path / "temps.csv").write_text("date,temp\n2010/01/01 23:00,39.4\n2010/01/02 00:00,-0.5\n")
    assert read_file(tmp_path / "temps.csv") == [at("2010-01-01 23:00", 39.4), at("2010-01-02 00:00", -0.5)]


def test_the_file_is_a_year_with_one_hour_missing() -> None:
    rows = seattle()
    assert len(rows) == 365 * 24 - 1
    assert len(daily_maxima(rows)) == 365
    assert all(one.time < next_one.time for one, next_one in pairwise(rows))


def test_the_maximum_of_a_day_of_frost_is_below_zero() -> None:
    readings = [at("2010-01-01 00:00", -8.0), at("2010-01-01 23:59", -3.5), at("2010-01-02 00:00", -9.0)]
    assert daily_maxima(readings) == {"2010-01-01": -3.5, "2010-01-02": -9.0}


# ------------------------------------------------------------------------------------------------- what goes over links


def test_each_reading_has_an_id_of_its_own_and_always_the_same() -> None:
    rows = seattle()
    ids = [as_message(row).id for row in rows]
    assert len(set(ids)) == len(rows)
    assert ids == [as_message(row).id for row in rows]


def test_a_reading_arrives_as_json_with_its_time_zone() -> None:
    message = decode_message(encode_item(as_message(at("2010-07-01 15:00", 71.2))))
    assert json.loads(message.body) == {"time": "2010-07-01T15:00:00+00:00", "temperature": 71.2}
    assert message.content_type == "application/json"
    assert message.properties == {"place": "Seattle", "unit": "fahrenheit"}


def test_a_result_is_about_the_day_that_is_its_id() -> None:
    result = Message(body='{"maximum":41.4,"readings":24}', id="2010-01-01")
    assert as_result(result) == ("2010-01-01", {"maximum": 41.4, "readings": 24})


# --------------------------------------------------------------------------------------------- counting and judging


def test_nothing_is_through_at_first() -> None:
    progress = Progress(ROWS, MAXIMA)
    assert not progress.is_through
    assert not progress.is_right
    assert progress.last_line() == "demo: 0 of 2 daily maxima right, 0 of 48 readings accounted for"


def test_all_is_right_when_all_agree() -> None:
    progress = all_through()
    assert progress.is_through
    assert progress.is_right
    assert progress.missing() == []
    assert progress.last_line() == "demo: 2 of 2 daily maxima right, 48 of 48 readings accounted for"


def test_while_the_publisher_waits_for_outcomes_nothing_is_through() -> None:
    progress = all_through()
    progress.accepted = 0
    assert not progress.is_through
    assert progress.missing() == ["readings accepted, says the publisher: 0 of 48"]


def test_while_spark_has_not_settled_nothing_is_through() -> None:
    progress = all_through()
    progress.on_node({"queues": {"readings": {"accepted": 40}}})
    assert not progress.is_through
    assert progress.accounted == 40
    assert progress.missing() == ["readings accepted by Spark, says the node: 40 of 48"]


def test_a_reading_that_spark_counted_twice_cannot_hide_a_lost_one() -> None:
    # Spark counts different ids: 48 messages with one of them twice are 47 readings.
    progress = all_through()
    progress.on_subscriber({"day": "2010-01-02", "maximum": -3.5, "readings": 23})
    assert not progress.is_through
    assert progress.last_line() == "demo: 2 of 2 daily maxima right, 47 of 48 readings accounted for"


def test_a_count_beyond_the_file_is_as_wrong_as_one_below() -> None:
    progress = all_through()
    progress.on_node({"queues": {"readings": {"accepted": 50}}})
    assert not progress.is_right
    assert progress.last_line() == "demo: 2 of 2 daily maxima right, 50 of 48 readings accounted for"


def test_the_last_result_of_a_day_counts() -> None:
    progress = Progress(ROWS, MAXIMA)
    progress.on_subscriber({"day": "2010-01-01", "maximum": 40.0, "readings": 10})
    progress.on_subscriber({"day": "2010-01-01", "maximum": 41.4, "readings": 24})
    assert progress.days == {"2010-01-01": Day(41.4, 24)}
    assert progress.seen == 24
    assert progress.right == 1


def test_a_wrong_maximum_is_through_and_not_right() -> None:
    progress = all_through()
    progress.on_subscriber({"day": "2010-01-02", "maximum": -3.4, "readings": 24})
    assert progress.is_through
    assert not progress.is_right
    assert progress.missing() == ["2010-01-02: the maximum is -3.5 in the file, and -3.4 from Spark"]
    assert progress.last_line() == "demo: 1 of 2 daily maxima right, 48 of 48 readings accounted for"


def test_a_day_that_is_not_in_the_file_is_not_right() -> None:
    progress = all_through()
    progress.on_subscriber({"day": "2010-01-02", "maximum": -3.5, "readings": 23})
    progress.on_subscriber({"day": "2009-12-31", "maximum": 30.0, "readings": 1})
    assert progress.is_through
    assert not progress.is_right
    assert progress.missing() == ["2009-12-31: there is a result, and no such day in the file"]


def test_days_without_a_result_are_counted_and_the_first_is_named() -> None:
    progress = Progress(ROWS, MAXIMA)
    assert progress.missing()[-1] == "days without a result: 2 of 2, the first is 2010-01-01"


# ------------------------------------------------------------------------------------------------------------- the view


def test_the_chart_fits_and_its_columns_are_as_high_as_the_days_are_warm() -> None:
    days = [f"2010-01-{day:02}" for day in range(1, 32)]
    maxima = {"2010-01-01": 80.0, "2010-01-02": 55.0}  # of a scale from 30 to 80
    lines = chart.as_text(maxima, days, 40, 10).plain.split("\n")
    assert len(lines) == 11
    assert {len(line) for line in lines} == {5 + 31}  # the axis, and a column a day
    assert [line[5] for line in lines[:10]] == ["█"] * 10
    assert [line[6] for line in lines[:10]] == [" "] * 5 + ["█"] * 5
    assert not any(line[7:].strip() for line in lines[:10])
    assert lines[0].startswith("80°F")
    assert lines[10].split() == ["Jan"]


@pytest.mark.slow
def test_the_png_is_written_into_a_folder_that_was_not_there(tmp_path: Path) -> None:
    path = tmp_path / "new" / "chart.png"
    chart.write_png(path, MAXIMA, ROWS)
    assert path.read_bytes().startswith(b"\x89PNG\r\n")


@pytest.mark.parametrize("fill", ["at first", "at last"])
def test_the_live_view_fits_a_small_terminal(fill: str) -> None:
    rows = seattle()
    progress = Progress(len(rows), daily_maxima(rows))
    if fill == "at last":
        progress.on_publisher({"sent": 8759, "accepted": 8759})
        counters = {"enqueued": 8759, "accepted": 6759, "ready": 1000, "unsettled": 1000, "credit": 2000}
        progress.on_node({"queues": {"readings": counters}})
        progress.batches = [Batch(number, 1000, 110.5) for number in range(20)]
        progress.days = {day: Day(maximum, 24) for day, maximum in progress.maxima.items()}
    console = Console(file=io.StringIO(), width=200)
    with console.capture() as captured:
        console.print(screen(progress, 100.0, 80, 10))
    lines = captured.get().rstrip("\n").split("\n")
    assert len(lines) < 24
    assert max(len(line.rstrip()) for line in lines) <= 80


def test_without_a_terminal_each_batch_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress(ROWS, MAXIMA)
    view = LineView(progress)
    view.update()
    assert capsys.readouterr().out == ""
    progress.on_job({"batch": 0, "rows": 40, "seconds": 1.25})
    view.update()
    view.update()
    assert capsys.readouterr().out.startswith("micro-batch 0: 40 readings in 1.2 s; ")
    progress.on_publisher({"sent": ROWS, "accepted": ROWS})
    view.update()
    view.update()
    assert capsys.readouterr().out == "publisher: 48 sent, 48 accepted\n"


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


async def test_the_tail_has_both_outputs() -> None:
    child = await Child.start([sys.executable, "-c", "import sys; print('out'); sys.exit('why')"])
    assert await child.run(lambda _line: None) == 1
    assert sorted(child.tail) == ["out", "why"]


async def test_a_process_that_ends_by_itself_is_not_waited_for() -> None:
    child = await Child.start(["true"])
    await child.run(lambda _line: None)
    await child.end()


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


# ------------------------------------------------------------------------------------------------------------- the run


class DemoOf(Demo):
    """The demo with one process, which is not the node."""

    def __init__(self, code: str) -> None:
        super().__init__(Progress(ROWS, MAXIMA))
        self.code = code

    async def _run_node(self, _nursery: trio.Nursery, _folder: str) -> None:
        await self._run_child("node", [sys.executable, "-c", self.code], self.on_line)

    def on_line(self, line: str) -> None:
        """Take a line of the process."""


async def test_a_process_that_ends_early_ends_the_demo_and_its_last_lines_are_told() -> None:
    demo = DemoOf("import sys; sys.exit('no room')")
    await demo.run(60)
    assert demo.trouble == ["the node ended early, with exit code 1; its last lines:", "    no room"]
    assert demo.signal is None


async def test_the_signal_that_killed_a_process_is_named() -> None:
    demo = DemoOf("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    await demo.run(60)
    assert demo.trouble == ["the node ended early, by SIGKILL; its last lines:", "    (nothing)"]


async def test_the_time_limit_tells_what_is_missing() -> None:
    demo = DemoOf("import time; time.sleep(600)")
    await demo.run(0.1)
    assert demo.trouble == ["after 0.1 s this is not as it should be:", *demo.progress.missing()]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
async def test_a_signal_ends_the_demo_and_its_process(number: signal.Signals) -> None:
    class Signalled(DemoOf):
        pid = 0

        def on_line(self, line: str) -> None:
            self.pid = int(line)
            os.kill(os.getpid(), number)
            os.kill(os.getpid(), number)  # a second one changes nothing

    demo = Signalled("import os, time; print(os.getpid(), flush=True); time.sleep(600)")
    await demo.run(60)
    assert demo.signal == number
    assert demo.trouble == [f"stopped by {number.name}"]
    assert not is_alive(demo.pid)


# --------------------------------------------------------------------------------------------------------- the tutorial


def test_the_tutorial_shows_the_code_word_for_word() -> None:
    root = Path(__file__).parents[2]
    sources = [path.read_text() for path in (root / "examples" / "seattle").glob("*.py")]
    shown = re.findall(r"^```python\n(.*?)^```", (root / "docs" / "tutorial.md").read_text(), re.MULTILINE | re.DOTALL)
    assert len(shown) == 8
    for code in shown:
        assert any(code in source for source in sources), f"not in the demo's code:\n{code}"
