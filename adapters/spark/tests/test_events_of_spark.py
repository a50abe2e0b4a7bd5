"""The events of the source and the sink: the table in the guide, the code that tells them, and their lines."""

from __future__ import annotations

import json
import logging
import re
import subprocess
import sys
from pathlib import Path

import pytest
from rstreams_spark import _log
from rstreams_spark._log import EVENTS, MESSAGES_GONE, say

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/guides/log-events.md").read_text("utf-8").partition("## Events of Spark")[2]
SOURCE = ROOT / "adapters/spark/src/rstreams_spark"


def test_the_guide_has_each_event() -> None:
    rows = re.findall(r"^\| `(spark\.[a-z_]+)` \| (\w+) \|", PAGE, re.MULTILINE)
    assert rows == [(event.name, logging.getLevelName(event.level)) for event in EVENTS]
    assert {event.fields for event in EVENTS} == {("where", "what")}


def test_the_code_tells_each_event_and_nothing_else() -> None:
    text = "".join(file.read_text("utf-8") for file in SOURCE.rglob("*.py") if file.name != "_log.py")
    names = {name for name, value in vars(_log).items() if value in EVENTS}
    assert set(re.findall(r"\bsay\(\s*([A-Z_]+),", text)) == names
    assert not re.search(r"sys\.stderr|\bprint\(|logger\.|say\(\s*f?\"", text)


def test_a_line_is_the_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    say(MESSAGES_GONE, "the source\n", "they are gone\x1b[2J")
    assert capsys.readouterr().err == "the source\\n: they are gone\\x1b[2J\n"


def test_the_environment_chooses_a_format() -> None:
    program = (
        "from rstreams_spark._log import NO_ROWS, ROWS_READ, say; say(NO_ROWS, 'a', 'b'); say(ROWS_READ, 'a', 'c')"
    )
    environment = {"RSTREAMS_LOG": "json"}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    told = [json.loads(line) for line in done.stderr.splitlines()]
    assert [(each["event"], each["where"], each["what"]) for each in told] == [
        ("spark.no_rows", "a", "b"),
        ("spark.rows_read", "a", "c"),
    ]
