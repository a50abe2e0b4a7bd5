"""Calls of the commands, in this process and as a process."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from rstreams.cli.__main__ import main
from tests.cli.peers import CommandNode, command_node


class Ended(NamedTuple):
    """A command that has ended."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    @property
    def objects(self) -> list[Any]:
        return [json.loads(line) for line in self.lines]


Run = Callable[..., Ended]


@pytest.fixture(scope="session")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommandNode]:
    with command_node(tmp_path_factory.mktemp("node")) as running:
        yield running


@pytest.fixture
def run(node: CommandNode, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """Return a function that runs a command at the node, in this process."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("RSTREAMS_CONTEXT", raising=False)

    def run(*words: str, stdin: bytes = b"", url: str = node.url) -> Ended:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        code = main([*words, *(["--url", url] if url else [])])
        return Ended(code, *capsys.readouterr())

    return run


def started(*words: str, **options: Any) -> subprocess.Popen[bytes]:  # noqa: ANN401 - those of Popen
    """Start a command as a process."""
    return subprocess.Popen([sys.executable, "-m", "rstreams", *words], env={**os.environ}, **options)
