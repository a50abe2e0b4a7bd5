"""The guide to requests and replies: its code is run as it stands, and prints what the guide says it prints."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from rstreams.net.request_reply import properties as _properties
from rstreams.net.request_reply.requester import DEFAULT_MAX_IN_FLIGHT, DEFAULT_TIMEOUT_S

DOCS = Path(__file__).parents[2] / "docs"
GUIDE = (DOCS / "guides" / "request-reply.md").read_text(encoding="utf-8")
WIRE = (DOCS / "wire.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```\n```text\n(.*?)```", GUIDE, re.DOTALL)


def test_every_example_says_what_it_prints() -> None:
    assert len(EXAMPLES) == GUIDE.count("```python") == 3


def test_the_numbers_and_names_are_the_codes() -> None:
    assert f"({DEFAULT_TIMEOUT_S:g} by default;" in GUIDE
    assert f"`max_in_flight` ({DEFAULT_MAX_IN_FLIGHT})" in GUIDE
    rows = "".join(re.findall(r"^\| `rstreams-.*", WIRE, re.MULTILINE))
    assert set(re.findall(r"`([\w-]+)`", rows)) == {
        _properties.REPLIES,
        _properties.ONE,
        _properties.STREAM,
        _properties.MARKED,
        _properties.REPLY,
        _properties.LAST,
        _properties.END,
        _properties.ERROR_CONDITION,
        _properties.ERROR_DESCRIPTION,
    }


@pytest.mark.slow
@pytest.mark.parametrize("example", range(3))
def test_an_example_prints_what_it_says(example: int) -> None:
    code, printed = EXAMPLES[example]
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], check=False, capture_output=True, text=True, timeout=50
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == printed
