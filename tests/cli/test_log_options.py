"""`rstreams node --log-format`, `--log-level` and `RSTREAMS_LOG`: what a node writes to its log, and wrong values."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rstreams.cli.__main__ import main

NODE = [sys.executable, "-m", "rstreams.cli", "node", "--listen", "127.0.0.1:0", "--queue", "orders"]


def log_of_a_node(*options: str, variable: str = "") -> list[str]:
    """Return the lines that a node writes from its start to its end."""
    environment = os.environ | {"RSTREAMS_LOG": variable}
    process = subprocess.Popen(
        [*NODE, *options], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline().startswith("listening on ")
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    assert (out, process.returncode) == ("", 0)
    return err.splitlines()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "variable"), [(["--log-format", "json"], ""), ([], "json"), (["--log-format", "json"], "text")]
)
def test_a_node_writes_json(options: list[str], variable: str) -> None:
    told = [json.loads(line) for line in log_of_a_node(*options, variable=variable)]
    assert [(each["event"], each["level"], each["logger"]) for each in told] == [
        ("node.drains", "INFO", "rstreams.cli"),
        ("node.drained", "INFO", "rstreams.node"),
    ]
    assert told[0]["seconds"] == 10
    assert (told[1]["lost"], told[1]["message"]) == (0, "the node ends: no messages are left")


@pytest.mark.slow
def test_a_node_writes_text_and_says_so_before_the_environment() -> None:
    for options, variable in ((["--log-format", "text"], "json"), ([], "")):
        drains, drained = log_of_a_node(*options, variable=variable)
        assert drains.endswith("in at most 10 s; another signal ends it at once [node.drains]")
        assert drained.endswith(" INFO the node ends: no messages are left [node.drained]")


@pytest.mark.slow
def test_the_level_of_a_node() -> None:
    assert log_of_a_node("--log-level", "warning") == []


@pytest.mark.parametrize("value", ["xml", "JSON", "", "json\nx", "\x1b[2J"])
def test_a_wrong_option_is_one_line(value: str, capsys: pytest.CaptureFixture[str]) -> None:
    for option, allowed in (
        ("--log-format", "'text' or 'json'"),
        ("--log-level", "'debug', 'info', 'warning' or 'error'"),
    ):
        assert main(["node", option, value]) == 2
        err = capsys.readouterr().err
        assert err == f"rstreams node: {option}={value!r}: {option} must be {allowed}\n"


def test_a_wrong_environment_is_one_line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RSTREAMS_LOG", "yaml")
    assert main(["node"]) == 2
    assert capsys.readouterr().err == "rstreams node: RSTREAMS_LOG='yaml': RSTREAMS_LOG must be 'text' or 'json'\n"


def test_the_options_stand_beside_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "node.toml"
    file.write_text("[queues.a]\n", encoding="utf-8")
    assert main(["node", "--config", str(file), "--log-format", "json", "--log-level", "debug", "--check"]) == 0
    assert "queue 'a'" in capsys.readouterr().out
