"""The page about conformance: every rule of the specification, and nothing named in it that is not there."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "conformance.md").read_text(encoding="utf-8")
ROWS = [
    tuple(cell.strip() for cell in line.strip("|").split("|"))
    for line in PAGE.splitlines()
    if re.match(r"\| \d\.\d+ \|", line)
]


@cache
def names_in(path: Path) -> set[str]:
    """The functions and classes of a file, those of a class with its name before them."""
    found: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            functions = (each for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef))
            found |= {f"{node.name}.{function.name}" for function in functions}
    return found


@cache
def known_tests() -> set[str]:
    files = [*(ROOT / "tests").rglob("test_*.py"), *(ROOT / "rstreams" / "testing" / "verification").glob("*.py")]
    return {name.split(".")[-1] for path in files for name in names_in(path)}


def test_each_of_the_43_rules_has_a_row() -> None:
    rules = [
        f"{chapter}.{rule}" for chapter, last in ((1, 11), (2, 13), (3, 17), (4, 2)) for rule in range(1, last + 1)
    ]
    assert [row[0] for row in ROWS] == rules
    assert len(rules) == 43


@pytest.mark.slow
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_what_a_row_names_is_there(row: tuple[str, ...]) -> None:
    _, _, enforced, shown = row
    names = re.findall(r"`([^`]+)`", enforced)
    assert names[0].endswith(".py")
    path = ROOT / names[0]
    named = 0
    for name in names:
        if name.endswith(".py"):
            path = ROOT / name
        else:
            assert name in names_in(path), f"{name} is not in {path}"
            named += 1
    assert named
    shown_by = re.findall(r"`(test_[^`]+)`", shown)
    assert shown_by
    assert set(shown_by) <= known_tests()
