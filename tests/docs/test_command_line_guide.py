"""The guide to the command line: its commands, its exit codes, and its lines of a shell."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from rstreams.cli.__main__ import main, root_parser
from rstreams.cli.commands import COMMANDS
from rstreams.cli.contexts import PeerSettings
from rstreams.cli.exit_codes import ExitCode

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "command-line.md"
TEXT = GUIDE.read_text()


def first_cells(title: str) -> list[str]:
    """Return the first cell of each line of the table below a title."""
    part = TEXT.partition(f"## {title}\n")[2].partition("\n## ")[0]
    return re.findall(r"^\| (.*?) \|", part, re.MULTILINE)[1:]


def lines_of_a_shell() -> list[str]:
    blocks: list[str] = re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if line]


def test_it_has_every_command_in_order() -> None:
    listed = re.findall(r"^\| `rstreams ([\w-]+)[^`]*` \|", TEXT, re.MULTILINE)
    assert listed == list(COMMANDS)


def test_it_has_every_exit_code() -> None:
    codes = re.findall(r"\d+", " ".join(first_cells("Exit codes")))
    assert sorted(map(int, codes)) == sorted(ExitCode)


def test_it_has_every_setting_of_a_peer() -> None:
    part = TEXT.partition("\n## Which peer")[2].partition("\n## Contexts")[0]
    options = re.findall(r"^\| (`--.*?`) \|", part, re.MULTILINE)
    named = re.findall(r"--([a-z-]+)", " ".join(options))
    names = [each.replace("-", "_") for each in named if each != "context"]
    assert sorted(set(names)) == sorted(PeerSettings.__dataclass_fields__)


@pytest.mark.parametrize("line", lines_of_a_shell())
def test_its_lines_are_understood(line: str) -> None:
    """Every command of the page is one that the parser takes, whatever it would do then."""
    for piece in re.split(r" \| | >+ | < ", line):
        words = shlex.split(piece)
        if "rstreams" in words:
            mine = words[words.index("rstreams") + 1 :]
            parser, _ = root_parser(mine)
            assert parser.parse_args(mine).command == mine[0]


def test_contexts_as_it_shows_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".secrets").mkdir()
    (tmp_path / ".secrets" / "alice").write_text("sesame\n")
    for line in lines_of_a_shell():
        words = [str(tmp_path) + word[1:] if word.startswith("~") else word for word in shlex.split(line)]
        if words[1] == "context":
            assert main(words[1:]) == 0
    assert "prod" in capsys.readouterr().out
