"""Reads histories from files."""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterator
from operator import itemgetter
from pathlib import Path
from typing import Any

from rstreams.simulation.checker.accounts import HistoryError


def read(*paths: Path) -> Iterator[dict[str, Any]]:
    """Return the events of files that belong together, in the order of their times.

    Errors: `HistoryError` names the file and the line that is no event; `OSError` if a file cannot be read.
    """
    return _lines(paths[0]) if len(paths) == 1 else heapq.merge(*map(_lines, paths), key=itemgetter("at"))


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8", errors="replace") as file:
        for number, line in enumerate(file, 1):
            try:
                event = json.loads(line)
            except ValueError:
                event = None
            if not isinstance(event, dict) or not isinstance(event.get("at"), int | float):
                shown = line.rstrip("\n")
                msg = f"{path}:{number} is no event, an object of JSON with a number `at`: {shown[:80]}"
                raise HistoryError(msg)
            yield event
