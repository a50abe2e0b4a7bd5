"""The guide to errors has a line for each error and for each condition, and for nothing else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rstreams import errors

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs" / "guides" / "errors.md").read_text(encoding="utf-8")
ROWS = dict(re.findall(r"^\| `([\w:-]+)` \| (.*) \| .+ \|$", GUIDE, re.MULTILINE))
ERRORS = {
    name: kind
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, errors.RStreamsError) and kind is not errors.RStreamsError
}


def test_there_is_a_line_for_each_error() -> None:
    assert {name for name in ROWS if name[0].isupper()} == ERRORS.keys()


KINDS = [(name, told[1]) for name in ROWS if (told := re.search(r"a kind of `(\w+)`", ROWS[name]))]


@pytest.mark.parametrize(("name", "base"), KINDS)
def test_what_is_told_to_be_a_kind_of_another_error_is_one(name: str, base: str) -> None:
    assert issubclass(ERRORS[name], ERRORS[base])


def test_there_is_a_line_for_each_condition_that_the_code_sends() -> None:
    sources = [file.read_text(encoding="utf-8") for file in (ROOT / "rstreams").rglob("*.py")]
    sent = {errors.Condition[name].value for text in sources for name in re.findall(r"\bCondition\.([A-Z_]+)\b", text)}
    assert {name for name in ROWS if name.startswith("amqp:")} == sent
