"""The table of log lines in the guide to monitoring has each line that the node can log, with its level."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TABLE = (ROOT / "docs/guides/monitoring.md").read_text("utf-8").partition("\n## Lines of the log\n")[2]
ROWS = re.findall(r"^\| (INFO|WARNING|ERROR) \| `([^`]*)` \|", TABLE.partition("\n## ")[0], re.MULTILINE)
TRANSPORT = ("listener.py", "listening_place.py", "security.py", "password_line.py")
FILES = [
    *(file for package in ("node", "store", "cli", "web") for file in (ROOT / "rstreams" / package).rglob("*.py")),
    *(ROOT / "rstreams" / "net" / "transport" / name for name in TRANSPORT),
]
LEVELS = {"info": "INFO", "warning": "WARNING", "error": "ERROR", "exception": "ERROR"}


def texts(node: ast.expr, named: dict[str, list[str]]) -> list[str]:
    """Return the texts that an argument may be; none for one that is made elsewhere."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return [node.value]
    return named.get(node.id, []) if isinstance(node, ast.Name) else []


def logged(file: Path) -> Iterator[tuple[str, str]]:
    """Yield the level and the text of each line that a file logs and that begins with words of its own."""
    tree = ast.parse(file.read_text("utf-8"))
    for function in (each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)):
        inside = sorted((each for each in ast.walk(function) if hasattr(each, "lineno")), key=lambda each: each.lineno)
        named: dict[str, list[str]] = {}
        for node in inside:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                named[node.targets[0].id] = texts(node.value, {})
            if not isinstance(node, ast.Call):
                continue
            match node.func:
                case ast.Attribute(value=ast.Name(id="logger"), attr=attr) if attr in LEVELS:
                    level, said = LEVELS[attr], node.args[0]
                case ast.Name(id="log_seldom"):
                    level, said = ast.unparse(node.args[1]).removeprefix("logging."), node.args[2]
                case _:
                    continue
            for text in texts(said, named):
                if level in LEVELS.values() and not text.startswith("%"):
                    yield level, text


LINES = sorted({line for file in FILES for line in logged(file)})


def begins(row: str, text: str) -> bool:
    """Tell whether a row is the beginning of a line that is made of a text with places for its arguments."""
    first, *pieces = re.split(r"%[-+0-9.]*[a-z]", text)
    if not row.startswith(first) and not first.startswith(row):
        return False
    at = len(first)
    for piece in filter(None, pieces):
        found = row.find(piece, at)
        if found < 0:
            cut = (piece[:size] for size in range(4, len(piece)))
            return at >= 20 or any(row.endswith(each, at) for each in cut)  # the row ends before, or inside of it
        at = found + len(piece)
    return True


def test_there_are_lines() -> None:
    assert len(LINES) > 30
    assert len(ROWS) > 40


@pytest.mark.parametrize(("level", "text"), LINES)
def test_the_table_has_the_line(level: str, text: str) -> None:
    assert [row for of, row in ROWS if of == level and begins(row, text)], f"{level} {text}"
