"""The guide to histories: its examples are judged as it says, and its tables name every event, field and kind."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import get_args

import pytest

from rstreams.simulation.checker import accounts, check, judge
from rstreams.simulation.history import Event

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "histories.md").read_text(encoding="utf-8")
KINDS = set(re.findall(r"^\| `(\w+)` \|", GUIDE.partition("## What is found")[2], re.MULTILINE))


def test_the_history_in_the_guide_is_right() -> None:
    lines = re.findall(r'^\{"at".*$', GUIDE, re.MULTILINE)
    assert len(lines) == 5
    assert check(map(json.loads, lines)) == []


def test_the_code_in_the_guide_finds_what_it_says() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
    exec(compile(code, "histories.md", "exec"), {})  # noqa: S102 - the guide is ours


@pytest.mark.parametrize("event", get_args(Event))
def test_every_event_is_in_the_table_and_is_judged(event: str) -> None:
    table = GUIDE.partition("## The events")[2].partition("An `address` says")[0]
    assert any(f"`{event}`" in row.split("|")[1] for row in table.splitlines() if row.startswith("| `"))
    assert event in judge._HANDLERS


def test_the_table_has_every_event_and_no_other() -> None:
    assert set(get_args(Event)) == set(judge._HANDLERS)


def test_every_kind_is_in_the_table() -> None:
    source = "".join(file.read_text() for file in Path(judge.__file__).parent.glob("*.py"))
    found = set(re.findall(r'(?:_?find\(|append\(\(|return \[\(|\[\()"(\w+)"', source))
    assert found == KINDS


@pytest.mark.parametrize("words", [accounts.PROMISES, accounts.ORDERS, accounts.ACCEPTED, accounts.DROPS])
def test_every_word_of_an_address_is_in_the_table(words: tuple[str, ...]) -> None:
    table = GUIDE.partition("An `address` says")[2].partition("**Subscriptions.**")[0]
    assert all(f"`{word}`" in table for word in words)
