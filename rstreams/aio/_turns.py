"""The turns of trio as a guest of asyncio: who calls the next step of trio's loop, and when.

Trio's own guest mode waits for the network in a thread, because it knows nothing of its host. Here the host is known.
Where the system has epoll, trio's epoll is itself a file that becomes readable when one of its sockets is ready. The
asyncio loop waits for that file beside its own, and no thread is needed (decision 21 has the measurements).

This uses attributes of trio's guest that are not public. A trio that does not have them, and a system or a loop that
cannot wait for the file, get trio's own guest mode.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final

import trio
from sniffio import thread_local as sniffio_library

logger = logging.getLogger("rstreams.aio")

LONG_S: Final = 24 * 60 * 60
"""The longest that trio asks to sleep for: there is no deadline."""


class LoopClock(trio.abc.Clock):
    """The clock of the asyncio loop, as trio's: a loop with virtual time has a guest with virtual time."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._time = loop.time

    def start_clock(self) -> None:
        """Do nothing: the loop's clock runs."""

    def current_time(self) -> float:
        """Return the loop's time."""
        return self._time()

    def deadline_to_sleep_time(self, deadline: float) -> float:
        """Return how long it is until `deadline`."""
        return deadline - self._time()


class Turns:
    """Calls the steps of a guest run in an asyncio loop.

    Args:
        loop: The loop; `schedule` is given to trio as `run_sync_soon_not_threadsafe`.
        on_done: Called when the run has ended.
        threadless: Whether to do without trio's thread, where that can be done.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, on_done: Callable[[Any], object], *, threadless: bool = True
    ) -> None:
        self._loop = loop
        self._on_done = on_done
        self._threadless = threadless
        self._begun = False
        self._timer: asyncio.TimerHandle | None = None
        self._reading = False
        self._events: Any = []

    def schedule(self, step: Callable[[], object]) -> None:
        """Have trio's next step called soon; take over the steps at the first call, if that can be done."""
        if not self._begun:
            self._begun = True
            if self._threadless and self._take_over(step):
                self._loop.call_soon(self._step)
                return
        self._loop.call_soon(step)

    def _take_over(self, step: Callable[[], object]) -> bool:
        state: Any = getattr(step, "__self__", None)
        try:
            self._runner: Any = state.runner
            self._io: Any = self._runner.io_manager
            self._send: Callable[[Any], float] = state.unrolled_run_gen.send
            self._events = state.unrolled_run_next_send.unwrap()
            self._file: int = self._io._epoll.fileno()  # noqa: SLF001 - see the module's text
            if not isinstance(self._runner.guest_tick_scheduled, bool) or not callable(self._io.get_events):
                return False
            self._loop.add_reader(self._file, self._ready)
            self._loop.remove_reader(self._file)
        except (AttributeError, NotImplementedError, OSError):
            logger.debug("trio waits for the network in a thread of its own", exc_info=True)
            return False
        return True

    def _step(self) -> None:
        """Let trio take one turn, then see to the next one."""
        before, sniffio_library.name = sniffio_library.name, "trio"
        try:
            sleep_s = self._send(self._events)
        except StopIteration:
            self._on_done(self._runner.main_task_outcome)
            return
        except trio.TrioInternalError as error:
            self._on_done(error)
            return
        finally:
            sniffio_library.name = before
        self._events = self._io.get_events(0)
        if sleep_s <= 0 or self._events:
            self._runner.guest_tick_scheduled = True
            self._loop.call_soon(self._step)
            return
        self._runner.guest_tick_scheduled = False  # now a call from asyncio that concerns trio makes the file readable
        self._loop.add_reader(self._file, self._ready)
        self._reading = True
        if sleep_s < LONG_S:
            self._timer = self._loop.call_later(sleep_s, self._ready)

    def _ready(self) -> None:
        """End the wait: a socket of trio's is ready, a deadline is due, or asyncio has called into trio."""
        if not self._reading:
            return
        self._reading = False
        self._loop.remove_reader(self._file)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._runner.guest_tick_scheduled = True
        self._events = self._io.get_events(0)
        self._step()
