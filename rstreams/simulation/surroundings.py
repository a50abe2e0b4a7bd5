"""Makes a run of trio repeat itself: its order, its threads, the clocks and the random numbers of the process.

trio has a switch for the order: with `_ALLOW_DETERMINISTIC_SCHEDULING`, the tasks that may run at one moment run in an
order that its own random numbers decide. The rest that differs from run to run is put aside for the time of the
simulation: threads become calls in the run itself, and the garbage collector waits.

A program that reads the clock of the machine, opens a real socket, or starts a thread or a process would not repeat
itself. It gets a `SimulationError` that names the call.
"""

from __future__ import annotations

import gc
import random
import sys
import sysconfig
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random
from types import FrameType, ModuleType
from typing import Any, Final, NoReturn, TypeVar
from unittest.mock import patch

import outcome
import trio
import trio._core._run

from rstreams import _machine
from rstreams.errors import RStreamsError

R = TypeVar("R")

_OWN: Final = (
    str(Path(__file__).resolve().parent.parent),
    sysconfig.get_path("stdlib"),
    sysconfig.get_path("purelib"),
    sysconfig.get_path("platlib"),
    "<",
)
"""Where code lies that is no program's."""

_CLOCKS: Final = ("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "sleep")

_AUDITED: Final = {
    "socket.__new__": "opens a real socket",
    "socket.connect": "opens a real connection",
    "socket.bind": "opens a real socket",
    "socket.getaddrinfo": "asks the real network for a name",
    "subprocess.Popen": "starts a process",
    "os.fork": "starts a process",
}

_WITH_THREADS: Final = ("trio._path", "anyio._backends._trio")
"""Modules of libraries that have `run_sync` under a name of their own."""

_libraries: Final[set[str]] = set()
"""The modules that are no program's, as far as they were looked at."""

_WORK_S: Final = 0.0002
"""The most that two looks at the clock for the own work are apart, in seconds: some slices end early."""


class SimulationError(RStreamsError):
    """A program did what a simulation cannot repeat, or the simulation was asked for what it cannot do."""


refusals: Final[list[str]] = []
"""What was refused in this run, also if the program has caught the error, as a consumer's failure policy does."""


def _refuse(what: str, way: str = "") -> NoReturn:
    msg = f"{what}, which a simulation cannot repeat{way}"
    refusals.append(msg)
    raise SimulationError(msg)


class _Guard:
    """Refuses what a program may not do in a simulation; a hook of Python's audit, which cannot be removed again."""

    def __init__(self) -> None:
        self.is_on = False
        self._has_hook = False

    def begin(self) -> None:
        if not self._has_hook:
            sys.addaudithook(self._look)
            self._has_hook = True
        self.is_on = True

    def _look(self, event: str, arguments: tuple[Any, ...]) -> None:  # noqa: ARG002 - as Python calls it
        if self.is_on and event in _AUDITED and not _is_of_trio(event, sys._getframe(1)):  # noqa: SLF001 - the caller
            self.is_on = False  # what follows may do such things itself
            try:
                place = _program_place(sys._getframe(1))  # noqa: SLF001 - the only way to the caller
            finally:
                self.is_on = True
            _refuse(f"{place} {_AUDITED[event]} ({event})")


_guard = _Guard()


def _is_of_trio(event: str, frame: FrameType) -> bool:
    """Tell whether trio looks whether a name is an address already; it asks the network by a resolver."""
    caller = frame.f_back
    return event == "socket.getaddrinfo" and caller is not None and caller.f_globals.get("__name__") == "trio._socket"


def is_library(file: str) -> bool:
    """Tell whether a file has no code of a program."""
    return file.startswith(_OWN)


def _program_place(frame: FrameType | None) -> str:
    """Return where the program has made a call: the first place that is in no library."""
    while frame is not None and frame.f_code.co_filename.startswith(_OWN):
        frame = frame.f_back
    if frame is None:
        return "a library"
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno} ({frame.f_code.co_name})"


def _refusing(name: str, real: Callable[..., R]) -> Callable[..., R]:
    """Return a clock of the machine that libraries may read, and no program."""

    def clock(*arguments: Any) -> R:  # noqa: ANN401 - those of the clock
        frame = sys._getframe(1)  # noqa: SLF001 - the only way to the caller
        if not frame.f_code.co_filename.startswith(_OWN):
            told = "sleeps by" if name == "sleep" else "reads"
            way = (
                "use `trio.sleep`" if name == "sleep" else "use `trio.current_time()`, or `world.today()` for the date"
            )
            _refuse(f"{_program_place(frame)} {told} the real clock (time.{name})", f": {way}")
        return real(*arguments)

    return clock


def _kept_by_name(taken: dict[int, Any]) -> Iterator[tuple[ModuleType, str, Any]]:
    """Yield the modules that have a function under a name of their own, as by `from time import time`.

    Args:
        taken: What takes the place of a function, by the identity of the function.

    Yields: The module, the name in it, and what takes its place.
    """
    for key, module in tuple(sys.modules.items()):
        if key in _libraries:
            continue
        file = getattr(module, "__file__", None)
        if not isinstance(file, str) or file.startswith(_OWN):
            _libraries.add(key)
            continue
        yield from _names_in(module, taken)
    for key in _WITH_THREADS:
        if key in sys.modules:
            yield from _names_in(sys.modules[key], taken)


def _names_in(module: ModuleType, taken: dict[int, Any]) -> Iterator[tuple[ModuleType, str, Any]]:
    names = tuple(vars(module).items())
    return ((module, name, taken[identity]) for name, value in names if (identity := id(value)) in taken)


def _events(real: Callable[[Any, float], R]) -> Callable[[Any, float], R | tuple[()]]:
    """Return what asks the machine for events only if it may have some: another thread or a signal has called trio."""

    def get_events(manager: object, timeout: float) -> R | tuple[()]:
        run: Any = trio._core._run  # noqa: SLF001 - see the module's text
        runner = run.GLOBAL_RUN_CONTEXT.runner
        return real(manager, timeout) if timeout or runner.entry_queue.size() else ()

    return get_events


def _start_no_thread(thread: threading.Thread) -> None:
    """Take the place of `Thread.start`, which the audit does not see on Python 3.11."""
    place = _program_place(sys._getframe(1))  # noqa: SLF001 - the only way to the caller
    _refuse(f"{place} starts a thread ({thread.name})")


@contextmanager
def repeatable(seed: str, calendar: Callable[[], float], thread_delay_s: Callable[[], float]) -> Iterator[None]:
    """Let everything in the block depend on `seed` alone.

    Args:
        seed: Any text.
        calendar: The date of the current task, in seconds since 1970.
        thread_delay_s: Draws how long a call in a thread waits before it is made.
    """

    async def run_sync(function: Callable[..., R], *arguments: Any, **_options: Any) -> R:  # noqa: ANN401 - trio's
        await trio.sleep(thread_delay_s())
        return function(*arguments)

    def start_thread_soon(
        function: Callable[[], R], deliver: Callable[[outcome.Outcome[R]], object], name: str | None = None
    ) -> None:
        async def call() -> None:
            await trio.sleep(thread_delay_s())
            deliver(outcome.capture(function))

        trio.lowlevel.spawn_system_task(call, name=name)

    order, numbers, work = (Random(f"{seed}/{what}") for what in ("order", "numbers", "work"))  # noqa: S311 - repeated
    worked = 0.0

    def now() -> float:
        nonlocal worked
        worked += _WORK_S * work.random()
        return worked

    refusals.clear()
    state = random.getstate()
    was_collecting = gc.isenabled()
    with ExitStack() as stack:
        run: Any = trio._core._run  # noqa: SLF001 - see the module's text
        stack.enter_context(patch.multiple(run, _ALLOW_DETERMINISTIC_SCHEDULING=True, _r=order))
        stack.enter_context(patch.object(run.TheIOManager, "get_events", _events(run.TheIOManager.get_events)))
        stack.enter_context(patch.object(trio.lowlevel, "start_thread_soon", start_thread_soon))
        stack.enter_context(
            patch.multiple(
                _machine,
                now=now,
                fresh_bytes=numbers.randbytes,
                monotonic_clock=trio.current_time,
                calendar=calendar,
            )
        )
        for name in ("os.urandom", "random._urandom"):  # the second one is what module `secrets` calls
            stack.enter_context(patch(name, numbers.randbytes))
        stack.enter_context(patch.object(threading.Thread, "start", _start_no_thread))
        clocks: dict[str, Any] = {name: _refusing(name, getattr(time, name)) for name in _CLOCKS}
        taken = {id(getattr(time, name)): clock for name, clock in clocks.items()}
        taken[id(trio.to_thread.run_sync)] = run_sync
        for module, name, other in tuple(_kept_by_name(taken)):
            stack.enter_context(patch.object(module, name, other))
        stack.enter_context(patch.multiple(time, **clocks))
        stack.enter_context(patch.object(trio.to_thread, "run_sync", run_sync))
        random.seed(numbers.random())
        gc.disable()
        try:
            yield
        finally:
            _guard.is_on = False
            random.setstate(state)
            if was_collecting:
                gc.enable()


def forbid_the_machine() -> None:
    """Refuse the real network, threads and processes, until the end of `repeatable`.

    Context: Inside the run: trio itself opens a socket when a run begins.
    """
    _guard.begin()
