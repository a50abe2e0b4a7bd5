"""The turns of trio as a guest of asyncio: who calls the next step of trio's loop, and when.

Trio's own guest mode waits for the network in a thread, because it knows nothing of its host. Here the host is known.
Where the system has epoll, trio's epoll is itself a file that becomes readable when one of its sockets is ready. The
asyncio loop waits for that file beside its own, and no thread is needed (decision 21 has the measurements). A call from
asyncio that gives trio work would make the file readable by a byte in a socket. Here it has the next step called soon.

This uses attributes of trio's guest that are not public. A trio that does not have them, and a system or a loop that
cannot wait for the file, get trio's own guest mode.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, Final

import trio
from sniffio import thread_local as sniffio_library

from rstreams._events.table import ASYNCIO_OTHER_THREAD

TURNS_S: Final = 0.001
"""How long trio goes on before asyncio has its turn, although asyncio has nothing to do that is known."""

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


class _TrioIO:
    """Trio's manager of sockets, but with another way to wake the run.

    Args:
        manager: Trio's manager.
        force_wakeup: Called when asyncio has given work to a run that waits.
    """

    def __init__(self, manager: Any, force_wakeup: Callable[[], None]) -> None:  # noqa: ANN401 - it has no public type
        self._manager = manager
        self.force_wakeup = force_wakeup

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - any part of the manager
        part = getattr(self._manager, name)
        if callable(part):
            setattr(self, name, part)  # it is found without this call next time
        return part


class Turns:
    """Calls the steps of a guest run in an asyncio loop.

    Args:
        loop: The loop; `schedule` is given to trio as `run_sync_soon_not_threadsafe`.
        on_done: Called when the run has ended.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, on_done: Callable[[Any], object]) -> None:
        self._loop = loop
        self._on_done = on_done
        self._begun = False
        self._timer: asyncio.TimerHandle | None = None
        self._waiting = False
        self._events: Any = []
        self._now = time.perf_counter
        self._asyncios: Any = getattr(loop, "_ready", ())  # what asyncio has to do, if the loop lets it be seen

    def schedule(self, step: Callable[[], object]) -> None:
        """Have trio's next step called soon; take over the steps at the first call, if that can be done."""
        if not self._begun:
            self._begun = True
            if self._take_over(step):
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
            self._runner.io_manager = _TrioIO(self._io, self._wake)
        except (AttributeError, NotImplementedError, OSError) as error:
            ASYNCIO_OTHER_THREAD.tell(raised=error)
            return False
        return True

    def _step(self) -> None:
        """Let trio take turns, as long as it has work and asyncio has none; then see to the next turn."""
        before, sniffio_library.name = sniffio_library.name, "trio"
        self._waiting = False
        self._runner.guest_tick_scheduled = True
        until = self._now() + TURNS_S
        try:
            while True:
                sleep_s = self._send(self._events)
                self._events = self._io.get_events(0)
                if sleep_s > 0 and not self._events:
                    self._wait(sleep_s)
                    return
                if self._asyncios or self._now() > until:
                    self._loop.call_soon(self._step)
                    return
        except StopIteration:
            self._end(self._runner.main_task_outcome)
        except trio.TrioInternalError as error:
            self._end(error)
        finally:
            sniffio_library.name = before

    def _wait(self, sleep_s: float) -> None:
        """Have the file, or the time, wake trio."""
        self._waiting = True
        self._runner.guest_tick_scheduled = False  # now a call from asyncio that concerns trio calls `_wake`
        if sleep_s >= LONG_S:
            return
        due = self._loop.time() + sleep_s
        if self._timer is not None:
            if self._timer.when() <= due:
                return  # it comes too early, which costs a turn, and less than to set it anew each time
            self._timer.cancel()
        self._timer = self._loop.call_at(due, self._time_is_up)

    def _time_is_up(self) -> None:
        self._timer = None
        if self._waiting:
            self._step()

    def _wake(self) -> None:
        """End the wait soon: asyncio has called into trio."""
        if self._waiting and not self._loop.is_closed():
            self._waiting = False
            self._loop.call_soon(self._step)

    def _ready(self) -> None:
        """End the wait: a socket of trio's is ready."""
        if self._waiting:
            self._events = self._io.get_events(0)
            if self._events:
                self._step()

    def _end(self, outcome: Any) -> None:  # noqa: ANN401 - as `on_done`
        self._loop.remove_reader(self._file)
        if self._timer is not None:
            self._timer.cancel()
        self._on_done(outcome)
