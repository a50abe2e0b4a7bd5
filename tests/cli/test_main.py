"""The command line as a whole: exit codes, and one line for what goes wrong."""

import argparse
import subprocess
import sys

import pytest

import rstreams
from rstreams.cli import node
from rstreams.cli.__main__ import main
from rstreams.errors import ConfigError, ConnectFailed, StoreError


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"rstreams {rstreams.__version__}\n"


@pytest.mark.slow
def test_the_package_can_be_run_as_a_module() -> None:
    command = [sys.executable, "-m", "rstreams", "brew"]
    ended = subprocess.run(command, check=False, capture_output=True, text=True, timeout=30)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith("usage: rstreams [-h]")


def test_help_names_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    assert "node" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [[], ["brew"], ["node", "--queues", "a"], ["node", "more"]])
def test_a_mistake_in_the_arguments_is_exit_code_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert "rstreams" in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize("arguments", [["--foo"], ["--foo", "a"], ["--queue", "a", "--foo", "b"]])
def test_an_unknown_option_of_a_command_is_answered_with_the_usage_of_the_command(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["node", *arguments]) == 2
    told = capsys.readouterr().err
    assert told.startswith("usage: rstreams node [-h] [--config FILE]")
    assert told.endswith("\nrstreams node: error: unrecognized arguments: --foo\n")


def test_a_value_with_spaces_may_begin_with_dashes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["node", "--check", "--queue", "--a b"]) == 0
    assert "--a b" in capsys.readouterr().out


def test_an_option_behind_an_inner_command_is_for_that_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["node", "hash-password", "--help"]) == 0
    assert capsys.readouterr().out.startswith("usage: rstreams node hash-password")


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (ConfigError("window=0: no"), 2, "rstreams node: window=0: no\n"),
        (StoreError("store 'x': no"), 2, "rstreams node: store 'x': no\n"),
        (ConnectFailed("nobody\nlistens"), 1, "rstreams node: nobody listens\n"),
        (FileNotFoundError(2, "No such file", "/x"), 1, "rstreams node: /x: No such file\n"),
        (BrokenPipeError(32, "Broken pipe"), 1, "rstreams node: Broken pipe\n"),
        (OSError("no disk"), 1, "rstreams node: no disk\n"),
        (KeyboardInterrupt(), 130, ""),
        (None, 0, ""),
    ],
)
def test_what_goes_wrong_is_one_line_and_an_exit_code(
    error: BaseException | None,
    code: int,
    line: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def run(_: argparse.Namespace) -> None:
        if error is not None:
            raise error

    monkeypatch.setattr(node, "run", run)
    assert main(["node"]) == code
    assert capsys.readouterr().err == line


def test_an_error_of_our_own_making_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(_: argparse.Namespace) -> None:
        raise LookupError

    monkeypatch.setattr(node, "run", run)
    with pytest.raises(LookupError):
        main(["node"])


@pytest.mark.slow
def test_it_runs_as_a_module() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "rstreams.cli", "--version"], capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stdout) == (0, f"rstreams {rstreams.__version__}\n")
