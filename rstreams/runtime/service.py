"""A program that serves until it is told to stop: `run` ends it in order at Ctrl-C or SIGTERM.

Connections and nodes that are open in the run are registered here, by `ends_in_order`. They are drained first: a
handler at work comes to its end. Then the program's own function is cancelled. `rstreams.aio.run` does the same under
asyncio.
"""

from __future__ import annotations

import inspect
import signal
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final, TypeVar, TypeVarTuple

import trio

from rstreams._checks.numbers import require_seconds
from rstreams._checks.refusals import refuse_object, refuse_result
from rstreams._events.table import PROGRAM_ENDS, PROGRAM_NOT_DRAINED
from rstreams.errors import ConfigError, ConnectionLost
from rstreams.runtime.scope import open_nursery

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


INTERRUPTED: Final = 130
"""The exit code of a program that SIGINT has ended, by the convention of shells."""

_running: trio.lowlevel.RunVar[Service | None] = trio.lowlevel.RunVar("rstreams.run")


def run(main: Callable[[*Ts], Awaitable[T]], *args: *Ts, drain_s: float = 5.0) -> T:
    """Run an async function under trio, as `trio.run` does, and end it in order at Ctrl-C (SIGINT) or SIGTERM.

        rstreams.run(main)

    At the first signal every open connection and node is drained, as by its `drain_and_close`: running handlers
    finish, and no new work begins. After that, or when `drain_s` is over, `main` is cancelled: items in hand are
    given back and the connections are closed. A second signal cancels `main` at once. A third one ends the process.

    Args:
        main: The async function itself, not the result of a call.
        *args: Its arguments.
        drain_s: How long handlers and publishers may take to end, in seconds; 0 cancels `main` at once.

    Returns: The result of `main`, if no signal came.

    Errors: The error of `main`; but after a signal, a `ConnectionLost` that the draining has caused is not raised.
        After a signal `SystemExit`, with 130 for SIGINT and 0 for SIGTERM. `ConfigError` outside of the main thread,
        because only the main thread gets signals.
    Context: The main thread, outside of trio.
    """
    begin = beginning(main, args, drain_s, of="rstreams.run", plain="trio.run")
    service = Service(drain_s)
    results = trio.run(_serve, service, begin)
    service.leave()
    return results[0]


def beginning(
    main: Callable[[*Ts], Awaitable[T]], args: tuple[*Ts], drain_s: float, *, of: str, plain: str
) -> Callable[[], Awaitable[T]]:
    """Check what `run` was given, and return a function that begins `main`.

    Args:
        main: The function.
        args: Its arguments.
        drain_s: The option.
        of: The name of `run` for errors.
        plain: The function to use outside of the main thread.
    """
    if inspect.iscoroutine(main):
        main.close()
        msg = f"run(main) takes the async function itself, `{of}(main)`, and not the result of a call of it"
        raise TypeError(msg)
    if not callable(main):
        refuse_object("run", "main", main, "an async function")
    if threading.current_thread() is not threading.main_thread():
        msg = f"run(): only the main thread gets signals; in another thread use `{plain}`"
        raise ConfigError(msg)
    require_seconds("run", "drain_s", drain_s, zero=True)

    def begin() -> Awaitable[T]:
        begun = main(*args)
        if not isinstance(begun, Awaitable):
            refuse_result("run", "main", begun, "an awaitable", "; define it with `async def`")
        return begun

    return begin


def ends_in_order(drain: Callable[[float], Awaitable[object]], *, last: bool = False) -> Callable[[], None]:
    """Have `drain` called when a program that `run` runs is told to stop; return a function that undoes that.

    Args:
        drain: An async function of the seconds it may take.
        last: Whether it is called after the others have ended.
    """
    service = _running.get(None)
    if service is None:
        return _nothing
    key = object()
    service.drains[key] = (last, drain)
    return lambda: service.drains.pop(key, None) and None


def _nothing() -> None:
    """Do nothing: there is nothing to undo."""


class Service:
    """One call of `run`, in either loop.

    Args:
        drain_s: How long the draining may take.

    Attributes:
        signal: The first signal that came.
        drains: The functions that drain open connections and nodes; for each, whether it comes last.
    """

    def __init__(self, drain_s: float) -> None:
        self.signal: int | None = None
        self.drains: dict[object, tuple[bool, Callable[[float], Awaitable[object]]]] = {}
        self._drain_s = drain_s
        self._signals = 0

    @contextmanager
    def listening(
        self, soon: Callable[[Callable[[], object]], object], stop: Callable[[], object], cancel: Callable[[], object]
    ) -> Iterator[None]:
        """Listen to the signals during the block.

        Args:
            soon: Calls a function in the loop.
            stop: Called so at the first signal.
            cancel: Called so at the second one.

        Errors: After a signal, a `ConnectionLost` of the block is not raised: the draining has caused it.
        """

        def on_signal(number: int, _frame: FrameType | None) -> None:
            self._signals += 1
            if self._signals == 1:
                self.signal = number
                soon(stop)
                return
            soon(cancel)
            signal.signal(number, signal.SIG_DFL)  # if the program does not end then, the next signal ends it

        heard = [each for each in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(each) is not signal.SIG_IGN]
        before = {each: signal.signal(each, on_signal) for each in heard}
        try:
            yield
        except (ConnectionLost, BaseExceptionGroup) as error:
            if self.signal is None or not _is_of_the_end(error):
                raise
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)

    def say(self) -> None:
        """Log that the program is about to end."""
        name = signal.Signals(self.signal or 0).name
        PROGRAM_ENDS.tell(signal=name, seconds=self._drain_s)

    def adopt(self) -> None:
        """Drain the connections and nodes of this trio run."""
        _running.set(self)

    async def drain(self) -> None:
        """Say that the program ends, and drain all connections and nodes within the time that they have; in trio."""
        self.say()
        with trio.move_on_after(self._drain_s):
            for late in (False, True):
                async with trio.open_nursery() as nursery:
                    for last, drain in list(self.drains.values()):
                        if last is late and self._drain_s:
                            nursery.start_soon(self._drain, drain)

    def leave(self) -> None:
        """Raise `SystemExit` if a signal has ended the program."""
        if self.signal is not None:
            raise SystemExit(INTERRUPTED if self.signal == signal.SIGINT else 0)

    async def _drain(self, drain: Callable[[float], Awaitable[Any]]) -> None:
        try:
            await drain(self._drain_s)
        except Exception as error:  # the program must end nevertheless
            PROGRAM_NOT_DRAINED.tell(why=error)


def _is_of_the_end(error: BaseException) -> bool:
    """Tell whether a program that was told to stop failed only because connections are gone."""
    return isinstance(error, ConnectionLost) or (
        isinstance(error, BaseExceptionGroup) and error.split(ConnectionLost)[1] is None
    )


async def _serve(service: Service, main: Callable[[], Awaitable[T]]) -> list[T]:
    """Return the result of `main`, in a list; an empty one if it was cancelled."""
    service.adopt()
    told, token = trio.Event(), trio.lowlevel.current_trio_token()
    scope, results = trio.CancelScope(), list[T]()

    async def stop() -> None:
        await told.wait()
        await service.drain()
        scope.cancel()

    with service.listening(token.run_sync_soon, told.set, scope.cancel):
        async with open_nursery() as nursery:
            nursery.start_soon(stop)
            with scope:
                results.append(await main())
            nursery.cancel_scope.cancel()
    return results
