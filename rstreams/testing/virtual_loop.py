"""An asyncio event loop with virtual time: when all tasks wait, the clock jumps to the next timer.

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(test())

It does for asyncio what `trio.testing.MockClock(autojump_threshold=0)` does for trio. `rstreams.aio` takes its time
from the loop, also for connections and nodes. docs/guides/testing.md shows it with pytest-asyncio and with anyio.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable
from typing import Any, TypeVarTuple

Ts = TypeVarTuple("Ts")


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock begins at 0 and moves only when there is nothing else to do.

    While a function runs in a thread of an executor, the clock stands still.
    """

    def __init__(self) -> None:
        """Make a loop whose clock shows 0."""
        self._virtual_now = 0.0
        self._threads = 0
        super().__init__(_JumpingSelector(self._jump))

    def time(self) -> float:
        """Return the virtual clock, in seconds."""
        return self._virtual_now

    def run_in_executor(self, executor: Any, func: Callable[[*Ts], Any], *args: *Ts) -> asyncio.Future[Any]:  # noqa: ANN401 - as in asyncio
        """Run `func` in a thread; the clock stands still meanwhile."""
        self._threads += 1
        future = super().run_in_executor(executor, func, *args)
        future.add_done_callback(self._thread_ended)
        return future

    def _thread_ended(self, _: object) -> None:
        self._threads -= 1

    def _jump(self, seconds: float) -> bool:
        if self._threads:
            return False
        self._virtual_now += seconds
        return True


class _JumpingSelector(selectors.DefaultSelector):
    """A selector that tells how long it would have waited, and does not wait."""

    def __init__(self, jump: Callable[[float], bool]) -> None:
        super().__init__()
        self._jump = jump

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout <= 0:
            return super().select(timeout)
        events = super().select(0)
        if events or self._jump(timeout):
            return events
        return super().select(None)  # a thread is at work, and its end is an event
