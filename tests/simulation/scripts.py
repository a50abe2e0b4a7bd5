"""Histories of one address "q", from scripts.

    p sent 1 key=a; p accepted 1; c got 1 offset=3; c done 1; killed node; fault; healed; left ready=1

Each step is an event at the next second, who it is of before its name, and behind it an item, or what else it is about.
"""

from __future__ import annotations

import json
from typing import Any, Final

ALONE: Final = {"run", "killed", "started", "fault", "healed", "level", "left", "end", "dropped", "moved", "address"}
"""Events that nobody is named for."""

ABOUT: Final = {
    "killed": "part",
    "started": "part",
    "fault": "name",
    "healed": "name",
    "waiting": "count",
} | dict.fromkeys(("committed", "resumed"), "offset")


def events(script: str, **promises: object) -> list[dict[str, Any]]:
    """Return the events of a script, behind that of the address, which promises this."""
    found: list[dict[str, Any]] = [{"at": 0, "event": "address", "address": "q", **promises}]
    for at, step in enumerate(script.split(";"), 1):
        words = step.split()
        event: dict[str, Any] = {"at": at, "address": "q"}
        if words[0] not in ALONE:
            event["by"] = words.pop(0)
        event["event"] = name = words.pop(0)
        if words and "=" not in words[0]:
            event[ABOUT.get(name, "item")] = _value(words.pop(0))
        event |= {field: _value(value) for field, _, value in (word.partition("=") for word in words)}
        found.append(event)
    return found


def _value(text: str) -> Any:  # noqa: ANN401 - JSON, or a word
    try:
        return json.loads(text)
    except ValueError:
        return text
