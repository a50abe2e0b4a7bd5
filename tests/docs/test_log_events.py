"""The table of events, the code that tells them, and the page that explains them say the same."""

from __future__ import annotations

import ast
import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from rstreams._events import table
from rstreams._events.event import LogEvent
from rstreams.logs import EVENTS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/guides/log-events.md").read_text("utf-8")
ROWS = re.findall(r"^\| `([a-z_.]+)` \| ([A-Z]+) \| (.*) \| (.*) \| (.+) \|$", PAGE, re.MULTILINE)
OF_USERS = {"operators/log.py"}
"""Files that write what a user wants to be written."""

FILES = sorted(
    file
    for file in (ROOT / "rstreams").rglob("*.py")
    if not {"_events", "simulation", "testing"} & set(file.relative_to(ROOT).parts)
    and str(file.relative_to(ROOT / "rstreams")) not in OF_USERS
)
NAMES = {value: name for name, value in vars(table).items() if isinstance(value, LogEvent)}
GIVEN_TO_HANDLERS = {"time", "level", "logger", "event", "message", "more", "traceback", "about", "raised"}


def shown(event: LogEvent) -> tuple[str, str, str, str]:
    line = re.sub(r"%\((\w+)\)[-+0-9.]*[a-z]", r"{\1}", event.sentence)
    return event.name, logging.getLevelName(event.level), line, ", ".join(f"`{each}`" for each in event.fields)


def told_events(file: Path) -> Iterator[tuple[str, ast.Call]]:
    """Yield the calls that tell an event by its name in the table."""
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="tell")) if name.isupper():
                yield name, node


def test_the_page_has_each_event_in_the_order_of_the_table() -> None:
    assert [row[:4] for row in ROWS] == [shown(event) for event in EVENTS]


def test_names_are_of_one_kind() -> None:
    assert len({event.name for event in EVENTS}) == len(EVENTS) == len(NAMES)
    for event in EVENTS:
        assert re.fullmatch(r"[a-z_]+\.[a-z_]+", event.name)
        assert not GIVEN_TO_HANDLERS & set(event.fields), event
        assert event.logger.name.split(".")[0] == "rstreams"
        assert "%%" not in event.sentence
        assert event.sentence % dict.fromkeys(event.fields, 1), "it has no other places"


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.name)
def test_the_code_tells_it_with_its_fields(event: LogEvent) -> None:
    uses = 0
    for file in FILES:
        if NAMES[event] not in file.read_text("utf-8"):
            continue
        uses += 1
        for name, call in told_events(file):
            if name == NAMES[event]:
                given = [each.arg for each in call.keywords if each.arg != "raised"]
                assert sorted(map(str, given)) == sorted(event.fields), f"{file}:{call.lineno}"
    assert uses, "no file tells it"


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_the_code_logs_nothing_else(file: Path) -> None:
    text = file.read_text("utf-8")
    assert file.name == "logs.py" or "logging.getLogger" not in text or file.parent.name == "cli"
    assert not re.search(r"\b_?logger\.(debug|info|warning|error|exception|log|critical)\(", text)
