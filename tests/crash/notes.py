"""The history of a crash harness, and what it came to; see the guide about histories."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from rstreams.simulation.checker import Checker, Finding, read
from rstreams.simulation.history import Event, History

NODE: Final = "node"
"""The part that is killed."""


class Notes:
    """A history in a file.

    Args:
        path: The file.

    Attributes:
        counts: How often each event was noted, for each address.
    """

    def __init__(self, path: Path) -> None:
        self.counts: dict[str, Counter[str]] = defaultdict(Counter)
        self._path = path
        self._history = History(time.monotonic, to=path)

    def note(self, event: Event, **fields: Any) -> None:  # noqa: ANN401 - of an event
        """Note an event."""
        self._history.note(event, **fields)
        if "address" in fields:
            self.counts[fields["address"]][event] += 1

    @contextmanager
    def sending(self, by: str, items: Iterable[dict[str, object]]) -> Iterator[None]:
        """Note that items are sent, and at the end that they are accepted, or that this is not known."""
        items = list(items)
        for item in items:
            self.note("sent", by=by, **item)
        outcome: Event = "unknown"
        try:
            yield
            outcome = "accepted"
        finally:
            for item in items:
                self.note(outcome, by=by, address=item["address"], item=item["item"])

    def judge(self) -> list[Finding]:
        """Return what is wrong with the history."""
        self._history.close()
        checker = Checker()
        for event in read(self._path):
            checker.take(event)
        return checker.end()
