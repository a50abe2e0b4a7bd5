"""Each event is caused once, by a test that does what causes it, and has its name, level, sentence and fields."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rstreams._events.event import LogEvent
from rstreams.logs import EVENTS
from tests.event_causes import CAUSES

ROOT = Path(__file__).parents[1]
OF_EACH_LINE = {"time", "level", "logger", "event", "message", "traceback"}


def caused(file: Path) -> dict[str, list[dict[str, Any]]]:
    """Run the tests that cause the events, in a process of their own; return the events by name."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.event_recorder", "-p", "no:cacheprovider", "-n", "0"]
    done = subprocess.run(
        [*command, *dict.fromkeys(CAUSES.values())],
        cwd=ROOT,
        env=os.environ | {"RSTREAMS_EVENTS": str(file)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    told: dict[str, list[dict[str, Any]]] = {}
    text = file.read_text("ascii")
    assert "sesame" not in text, "the password of these tests"
    for line in text.splitlines():
        event = json.loads(line)
        told.setdefault(event["event"], []).append(event)
    return told


def wrong(event: LogEvent, told: list[dict[str, Any]]) -> str:
    """Return what is wrong with the lines of an event; "" for nothing."""
    if not told:
        return f"{CAUSES[event.name]} does not cause it"
    for each in told:
        if each["level"] != logging.getLevelName(event.level):
            return f"it has the level {each['level']}"
        if set(each) - OF_EACH_LINE != set(event.fields):
            return f"it has the fields {set(each) - OF_EACH_LINE}"
        if each["message"] != event.sentence % each or not each["message"].isprintable():
            return f"it says {each['message']}"
    return ""


def test_each_event_has_a_cause() -> None:
    assert set(CAUSES) == {event.name for event in EVENTS}


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_each_event_is_caused_and_has_its_fields(tmp_path: Path) -> None:
    told = caused(tmp_path / "events.json")
    found = {event.name: wrong(event, told.get(event.name, [])) for event in EVENTS}
    assert {name: text for name, text in found.items() if text} == {}
