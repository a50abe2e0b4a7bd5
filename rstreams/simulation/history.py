"""Histories: what the parts of a system did and were told, event by event, for `rstreams.simulation.checker`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

Event = Literal[
    "run", "address", "subscribed", "unsubscribed", "sent", "accepted", "refused", "unknown", "unsent", "got", "done",
    "failed", "released", "confirmed", "dropped", "moved", "committed", "resumed", "killed", "started", "fault",
    "healed", "waiting", "level", "left", "end",
]  # fmt: skip
"""The names of the events; the page about histories says what each one means."""


class History:
    """An append-only list of events.

    Args:
        clock: Tells the time of each event; processes that write one history together need the same clock.
        to: A file, to which each event is written at once; the history then keeps none in memory. None: it keeps all.
    """

    def __init__(self, clock: Callable[[], float], to: Path | None = None) -> None:
        self.events: list[dict[str, Any]] = []
        self._clock = clock
        self._file = None if to is None else _opened(to)

    def note(self, event: Event, /, **fields: object) -> None:
        """Append an event, at the present time."""
        noted = {"at": self._clock(), "event": event, **fields}
        if self._file is None:
            self.events.append(noted)
        else:
            self._file.write(json.dumps(noted) + "\n")

    def write(self, path: Path) -> None:
        """Write the events that are kept to a file, one a line."""
        with _opened(path) as file:
            file.writelines(json.dumps(event) + "\n" for event in self.events)

    def close(self) -> None:
        """Close the file to which the events are written, if there is one."""
        if self._file is not None:
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def _opened(path: Path) -> Any:  # noqa: ANN401 - a file of text
    path.parent.mkdir(parents=True, exist_ok=True)
    return path.open("w", encoding="utf-8")


def read_history(path: Path) -> list[dict[str, Any]]:
    """Return the events of a file."""
    with path.open(encoding="utf-8") as file:
        return [json.loads(line) for line in file]
