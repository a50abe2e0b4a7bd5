"""Ends a run that takes the processor for too long: a loop that never waits, or one that never comes to rest."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Final

from rstreams.simulation.surroundings import is_library

_WORKLOADS: Final = str(Path(__file__).parent / "workloads")

_AGAIN_S: Final = 1.0


class OvertimeError(BaseException):
    """Ends a program that goes on although the run is to end; it is no `Exception`, so that no program catches it."""


@contextmanager
def processor_limit(seconds: float, late: Callable[[str], object]) -> Iterator[None]:
    """Watch how long the block takes the processor.

    Args:
        seconds: How long it may.
        late: Called when it has taken longer, with the place of the program. If the block then goes on for another
            second, it gets an `OvertimeError` where it is.

    Context: The main thread; in another one, and on systems without such a timer, there is no limit.
    """
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        yield
        return
    is_late = False

    def ring(_number: int, frame: FrameType | None) -> None:
        nonlocal is_late
        if is_late:
            raise OvertimeError
        is_late = True
        late(_place(frame))

    before = signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, seconds, _AGAIN_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)


def _place(frame: FrameType | None) -> str:
    """Return the innermost line of a program; of a library if no program is at work."""
    innermost = frame
    while frame is not None and frame.f_code.co_qualname != "World.run":
        file = frame.f_code.co_filename
        if not is_library(file) or file.startswith(_WORKLOADS):
            return _told(frame)
        frame = frame.f_back
    return "an unknown place" if innermost is None else f"{_told(innermost)}, in no program"


def _told(frame: FrameType) -> str:
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno} ({frame.f_code.co_name})"
