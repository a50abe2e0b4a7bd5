"""The small services: each prints what it should, and the worker ends in order."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path

import pytest
import trio

from rstreams import Node, Stream, connect
from tests.loops import in_thread

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples" / "services"

PRINTED = {
    "two_services": """\
too warm: 26 degrees in second 6
too warm: 26 degrees in second 13
too warm: 26 degrees in second 20
""",
    "work_queue": """\
PublishResult(accepted=4)
dead: resize notes.txt: ValueError: notes.txt is no picture
done: resize bird.png, resize cat.png, resize dog.jpg, resize notes.png
""",
    "price_feed": """\
quick: prices rise: True, the last one is 200
slow: prices rise: True, the last one is 200
the slow one saw fewer: True
""",
    "sensor_log": """\
cellar: 10 readings, in order: True
kitchen: 10 readings, in order: True
roof: 10 readings, in order: True
replayed: [('kitchen', 1), ('kitchen', 4), ('kitchen', 7)]
""",
    "ask": """\
tea and milk: [3, 1]
coffee: shop:unknown: no coffee here
gold: no answer in time
""",
}


def test_each_example_is_short_and_stands_in_the_table() -> None:
    table = (ROOT / "examples" / "README.md").read_text(encoding="utf-8")
    programs = {file.stem: file for file in FOLDER.glob("*.py") if file.stem != "__init__"}
    assert programs.keys() == {*PRINTED, "worker"} == set(re.findall(r"\(services/(\w+)\.py\)", table))
    for file in programs.values():
        assert len(file.read_text(encoding="utf-8").splitlines()) < 80, file


@pytest.mark.slow
@pytest.mark.parametrize("name", PRINTED)
def test_an_example_prints_what_it_should(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    example = import_module(f"examples.services.{name}")
    in_thread(lambda: asyncio.run(example.main()))
    assert capsys.readouterr().out == PRINTED[name]


@pytest.mark.slow
async def test_the_worker_finishes_what_it_has_in_hand_at_sigterm(tmp_path: Path) -> None:
    alive = tmp_path / "alive"
    async with Node() as node:
        node.queue("jobs")
        listener = await node.listen("127.0.0.1:0")
        async with connect(listener.url) as connection:
            await connection.publish("jobs", Stream.range(400))
        with subprocess.Popen(  # noqa: ASYNC220 - it only begins here
            (sys.executable, "-W", "error", "-m", "examples.services.worker"),
            cwd=ROOT, env={"AMQP_URL": listener.url, "QUEUE": "jobs", "ALIVE": str(alive)},
            stderr=subprocess.PIPE, text=True,
        ) as worker:  # fmt: skip
            assert worker.stderr is not None
            try:
                told = [await trio.to_thread.run_sync(worker.stderr.readline) for _ in range(20)]  # it is at work
                worker.send_signal(signal.SIGTERM)
                with trio.fail_after(30):
                    rest = await trio.to_thread.run_sync(worker.stderr.read, abandon_on_cancel=True)
            except BaseException:
                worker.kill()
                raise
        assert worker.returncode == 0
        assert "Traceback" not in rest
        assert alive.exists()
        numbers = node.statistics().queues["jobs"]
        done = sum("done:" in line for line in [*told, *rest.splitlines()])
        assert (numbers.accepted, numbers.ready) == (done, 400 - done)
        assert 0 < done < 400


@pytest.mark.slow
def test_the_worker_names_a_variable_that_is_not_set() -> None:
    command = (sys.executable, "-m", "examples.services.worker")
    done = subprocess.run(command, cwd=ROOT, env={"QUEUE": "jobs"}, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "worker: the variable AMQP_URL is not set\n")


def test_the_probe_of_the_worker_fails_if_its_file_is_old(tmp_path: Path) -> None:
    [probe] = re.findall(r"command: \[sh, -c, '(.*)'\]", (FOLDER / "worker.yaml").read_text(encoding="utf-8"))
    alive = tmp_path / "alive"

    def is_alive() -> bool:
        return subprocess.run(("/bin/sh", "-c", re.sub(r"/\S+/alive", str(alive), probe)), check=False).returncode == 0

    assert not is_alive()
    alive.touch()
    assert is_alive()
    os.utime(alive, (time.time() - 60,) * 2)
    assert not is_alive()
