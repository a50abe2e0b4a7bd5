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


YAML = (FOLDER / "worker.yaml").read_text(encoding="utf-8")
DOCKERFILE = (ROOT / "examples" / "docker" / "service.Dockerfile").read_text(encoding="utf-8")


def is_alive(file: Path) -> bool:
    """Run the probe of worker.yaml with another file."""
    [probe] = re.findall(r"command: \[sh, -c, '(.*)'\]", YAML)
    return subprocess.run(("/bin/sh", "-c", re.sub(r"/\S+/alive", str(file), probe)), check=False).returncode == 0


def command_in_image(folder: Path) -> list[str]:
    """Copy what the Dockerfile copies of this folder; return the command of worker.yaml, and its variables."""
    [pattern] = re.findall(r"^COPY (\S+) \./$", DOCKERFILE, re.MULTILINE)
    for file in FOLDER.glob(pattern):
        (folder / file.name).write_bytes(file.read_bytes())
    [command] = re.findall(r"^ +command: \[python, (.*)\]$", YAML, re.MULTILINE)
    assert f'CMD ["python", "{command}"]' in DOCKERFILE
    return [sys.executable, "-W", "error", *command.split(", ")]


@pytest.mark.slow
async def test_the_worker_runs_as_its_yaml_says_and_finishes_what_it_has_in_hand_at_sigterm(tmp_path: Path) -> None:
    alive = tmp_path / "alive"
    given = dict(re.findall(r"\{name: (\w+), value: (\S+)\}", YAML))
    assert (given.keys(), given["ALIVE"]) == ({"QUEUE", "ALIVE"}, "/tmp/alive")  # noqa: S108 - in a container
    async with Node() as node:
        node.queue(given["QUEUE"])
        listener = await node.listen("127.0.0.1:0")
        async with connect(listener.url) as connection:
            await connection.publish(given["QUEUE"], Stream.range(400))
        with subprocess.Popen(  # noqa: ASYNC220 - it only begins here
            command_in_image(tmp_path), cwd=tmp_path, env={**given, "AMQP_URL": listener.url, "ALIVE": str(alive)},
            stderr=subprocess.PIPE, text=True,
        ) as worker:  # fmt: skip
            assert worker.stderr is not None
            try:
                told = [await trio.to_thread.run_sync(worker.stderr.readline) for _ in range(20)]  # it is at work
                assert is_alive(alive)
                worker.send_signal(signal.SIGTERM)
                with trio.fail_after(30):
                    rest = await trio.to_thread.run_sync(worker.stderr.read, abandon_on_cancel=True)
            except BaseException:
                worker.kill()
                raise
        assert worker.returncode == 0
        assert "Traceback" not in rest
        numbers = node.statistics().queues[given["QUEUE"]]
        done = sum("done:" in line for line in [*told, *rest.splitlines()])
        assert (numbers.accepted, numbers.ready) == (done, 400 - done)
        assert 0 < done < 400


@pytest.mark.slow
def test_the_worker_names_a_variable_that_is_not_set() -> None:
    command = (sys.executable, "-m", "examples.services.worker")
    done = subprocess.run(command, cwd=ROOT, env={"QUEUE": "jobs"}, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "worker: the variable AMQP_URL is not set\n")


def test_the_probe_of_the_worker_fails_if_its_file_is_old(tmp_path: Path) -> None:
    alive = tmp_path / "alive"
    assert not is_alive(alive)
    alive.touch()
    assert is_alive(alive)
    os.utime(alive, (time.time() - 60,) * 2)
    assert not is_alive(alive)
