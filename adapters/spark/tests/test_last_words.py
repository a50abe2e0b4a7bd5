"""The witness of a runner, and the setting that shows a reason first; Spark's end of the socket is the test."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from rstreams_spark._first_line import reason_first

from rstreams.errors import ConfigError

CONNECTED = """
import os, socket, sys
place = os.environ.get("PYTHON_WORKER_FACTORY_SOCK_PATH")
channel = socket.socket(socket.AF_UNIX if place else socket.AF_INET)
channel.connect(place or ("127.0.0.1", int(os.environ["PYTHON_WORKER_FACTORY_PORT"])))
"""

RUNNER = f"""{CONNECTED}
from rstreams_spark._last_words import Witness
witness = Witness("it was killed")
print("ready", flush=True)
if sys.stdin.readline() == "end\\n":
    witness.dismiss()
"""

OF_A_LOG = f"""{CONNECTED}
from rstreams_spark._logs.choice import AddressReader
from rstreams_spark._options import SourceOptions
from rstreams_spark._schema import SOURCE_SCHEMA
options = SourceOptions.parse({{"url": "amqp://ada:secret@127.0.0.1", "address": "orders", "readAs": "log"}})
reader = AddressReader(options, SOURCE_SCHEMA)
reader.getDefaultReadLimit()
try:
    print("ready", flush=True)
    sys.stdin.readline()
finally:
    reader.stop()
"""


@contextmanager
def runner(
    listener: socket.socket, variable: str, place: str, code: str = RUNNER
) -> Iterator[tuple[subprocess.Popen[str], socket.socket]]:
    """Run a process that has a witness; the value is the process, and Spark's end of its socket."""
    command = [sys.executable, "-c", code]
    environment = os.environ | {variable: place}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            spark, _ = listener.accept()
            with spark:
                spark.settimeout(30)
                yield process, spark
        finally:
            process.kill()


@pytest.fixture(params=["SOCK_PATH", "PORT"])
def listener(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[socket.socket, str, str]]:
    """Spark's listening socket, and the variable that names it."""
    if request.param == "PORT":
        made = socket.create_server(("127.0.0.1", 0))
        place = str(made.getsockname()[1])
    else:
        made = socket.socket(socket.AF_UNIX)
        place = str(tmp_path / "spark")
        made.bind(place)
        made.listen()
    with made:
        yield made, f"PYTHON_WORKER_FACTORY_{request.param}", place


@pytest.mark.slow
def test_a_runner_that_is_killed_has_a_reason(listener: tuple[socket.socket, str, str]) -> None:
    with runner(*listener) as (process, spark):
        process.kill()
        told = b""
        while len(told) < 8 + len("it was killed"):
            told += spark.recv(100)
        assert told == b"\xff\xff\xff\xfe" + b"\0\0\0\x0d" + b"it was killed"
        spark.sendall(b"a call that nobody answers")  # it breaks nothing


@pytest.mark.slow
def test_the_runner_of_a_log_that_is_killed_has_a_reason(listener: tuple[socket.socket, str, str]) -> None:
    with runner(*listener, OF_A_LOG) as (process, spark):
        process.kill()
        told = b""
        while not told.endswith(b"started again"):
            more = spark.recv(1_000)
            assert more, told
            told += more
        text = told[8:].decode()
        place = "rstreams source, address 'orders' at 127.0.0.1:5672"
        assert text.startswith(f"{place}: its process {process.pid} was killed, for example because the machine had")


@pytest.mark.slow
@pytest.mark.parametrize("how", ["end", "terminate"])
def test_the_runner_of_a_log_that_spark_ends_says_nothing(listener: tuple[socket.socket, str, str], how: str) -> None:
    with runner(*listener, OF_A_LOG) as (process, spark):
        assert process.stdin is not None
        if how == "end":
            process.stdin.write("end\n")
            process.stdin.flush()
        else:
            process.terminate()
        assert spark.recv(100) == b""


@pytest.mark.slow
@pytest.mark.parametrize("how", ["end", "rest"])
def test_a_runner_that_ends_in_order_speaks_for_itself(listener: tuple[socket.socket, str, str], how: str) -> None:
    with runner(*listener) as (process, spark):
        assert process.stdin is not None
        process.stdin.write(f"{how}\n")
        process.stdin.flush()
        told = spark.recv(100)
        assert (told == b"") is (how == "end"), "dismissed, or found dead without a word"


@pytest.mark.slow
def test_without_spark_there_is_no_witness() -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON_WORKER_FACTORY")}
    code = "from rstreams_spark._last_words import Witness; w = Witness('x'); assert w._pipe is None; w.dismiss()"
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)


@pytest.mark.parametrize("of_spark", [True, False])
def test_only_the_processes_of_spark_hide_a_traceback(of_spark: bool, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: FBT001
    monkeypatch.delenv("SPARK_HIDE_TRACEBACK", raising=False)
    if of_spark:
        monkeypatch.setenv("PYTHON_WORKER_FACTORY_SECRET", "x")
    with pytest.raises(ZeroDivisionError), reason_first():
        raise ZeroDivisionError
    assert "SPARK_HIDE_TRACEBACK" not in os.environ, "a mistake of ours keeps its traceback"
    with pytest.raises(ConfigError), reason_first():
        raise ConfigError
    assert ("SPARK_HIDE_TRACEBACK" in os.environ) is of_spark
    monkeypatch.delenv("SPARK_HIDE_TRACEBACK", raising=False)
