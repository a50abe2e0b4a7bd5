"""Judges a history: what a system of messages promised, and what became of each item.

    python -m rstreams.simulation.checker FILE...

The events and the rules are in the documentation, "Histories and their checker". This package imports nothing else of
rstreams, and knows nothing of it: it sees only the events.

Theory of operation. Each event has a place, its number in the history, and places are compared instead of times. For
each subscription of an address there is one `Arrival` for each item that came: who has it, and what he said of it.
A *cause* is what may make an item come again or late: a fault, a kill, or a consumer that left. It counts until the
last place where it was in force, so that one comparison tells whether it can explain what happened to an item.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rstreams.simulation.checker.accounts import Finding, HistoryError
from rstreams.simulation.checker.judge import Checker
from rstreams.simulation.checker.reading import read

__all__ = ["Checker", "Finding", "HistoryError", "check", "read"]


def check(events: Iterable[Mapping[str, Any]]) -> list[Finding]:
    """Judge a history, and return what is wrong with it.

    Errors: `HistoryError` if an event is not as it must be.
    """
    checker = Checker()
    take = checker.take
    for event in events:
        take(event)
    return checker.end()


def __dir__() -> list[str]:
    return __all__
