"""Lines of the log that are told once a second, in a trio run and in threads; see `rstreams._events.seldom`."""

from __future__ import annotations

import atexit
from collections.abc import Mapping
from threading import RLock
from typing import Final

import trio

from rstreams import _machine
from rstreams._events.seldom import LOOPS, PERIOD_S, Line, SeldomLines

_lines: Final = trio.lowlevel.RunVar["SeldomLines | None"]("seldom lines", None)


def lines_of_trio() -> SeldomLines | None:
    """Return the lines of the trio run that runs here; None if none does."""
    try:
        lines = _lines.get()
    except RuntimeError:  # no trio run
        return None
    if lines is None:
        lines = SeldomLines(trio.current_time, trio.sleep, trio.lowlevel.spawn_system_task)
        _lines.set(lines)
    return lines


class _LinesOfThreads(SeldomLines):
    """The lines of threads without a loop: no task tells a count, but the next line, or the end of the process."""

    def __init__(self) -> None:
        super().__init__(_machine.monotonic, trio.sleep, lambda _: None)
        self._lock = RLock()  # a handler of `logging` may have something to tell, too

    def is_first(self, line: Line, about: str, fields: Mapping[str, object], raised: BaseException | None) -> bool:
        """Return whether it is the first of its kind in this second; another one is counted.

        Context: Any thread.
        """
        with self._lock:
            self._end_past(counted=False)
            first = super().is_first(line, about, fields, raised)
            self._end_past(counted=True)
            return first

    def forget(self) -> None:
        """Tell all counts, and begin anew."""
        with self._lock:
            super().forget()

    def _end_past(self, *, counted: bool) -> None:
        """End the seconds that are over: those with counts, which are told, or those without."""
        now = self.now()
        past = [key for key, kind in self.kinds.items() if not kind.until - PERIOD_S <= now < kind.until]
        for key in past:
            if self.kinds[key].has_counted is counted:
                self.end(key)


LINES_OF_THREADS: Final = _LinesOfThreads()

atexit.register(LINES_OF_THREADS.forget)
LOOPS.extend((lines_of_trio, lambda: LINES_OF_THREADS))
