"""The guide to requests and replies: it names what the code has."""

from __future__ import annotations

import re
from pathlib import Path

from rstreams.net.request_reply import properties as _properties
from rstreams.net.request_reply.requester import DEFAULT_MAX_IN_FLIGHT, DEFAULT_TIMEOUT_S

DOCS = Path(__file__).parents[2] / "docs"
GUIDE = (DOCS / "guides" / "request-reply.md").read_text(encoding="utf-8")
WIRE = (DOCS / "wire.md").read_text(encoding="utf-8")


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
