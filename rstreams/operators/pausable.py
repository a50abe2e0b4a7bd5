"""pausable: a stream that can be paused without loss."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any, TypeVar

from rstreams._checks.numbers import require_count
from rstreams._checks.refusals import refuse_value
from rstreams._core.sight import Asked
from rstreams._core.subscription import ENDED
from rstreams._core.threads import get_ident, refuse_thread
from rstreams._stages.stage import Lifted
from rstreams._stages.waiting_items import WaitingItems
from rstreams.abc import Publisher, Subscriber, Subscription
from rstreams.culprits import Culprit

T = TypeVar("T")


class Valve:
    """Pauses and resumes the streams that go through it: see `pausable`.

    One valve may serve any number of streams, and a stream may go through several. It is open at first.

    Context: Any task of the trio run of its streams; no call blocks. A call from another thread raises
        `SpecViolation`: use a portal in that thread.
    """

    def __init__(self) -> None:
        """Make an open valve."""
        self._paused = False
        self._stages: dict[_Pausable[Any], None] = {}

    @property
    def paused(self) -> bool:
        """Tell whether the streams are paused now."""
        return self._paused

    def pause(self) -> None:
        """Let no more items through, and request none from the sources; does nothing if paused already."""
        self._turn("pause", paused=True)

    def resume(self) -> None:
        """Emit the items kept during the pause, then go on; does nothing if not paused."""
        self._turn("resume", paused=False)

    def _turn(self, call: str, *, paused: bool) -> None:
        for stage in self._stages:
            stage.refuse_other_threads(call)
        self._paused = paused
        with ExitStack() as each:  # an exception of one subscriber must not leave other streams paused
            for stage in reversed(self._stages):
                each.callback(stage.follow)

    def _add(self, stage: _Pausable[Any]) -> None:
        self._stages[stage] = None

    def _remove(self, stage: _Pausable[Any]) -> None:
        self._stages.pop(stage, None)


def pausable(source: Publisher[T], valve: Valve, *, size: int = 256) -> Publisher[T]:
    """Emit the items of `source` while `valve` is open; no item is lost while it is paused.

        --1--2--3--4-------->
           pausable(valve)
        --1-----------2-3-4->

    Args:
        source: The publisher of the items.
        valve: Pauses and resumes the stream; an `rstreams.Valve`, made beforehand.
        size: The most items requested and not yet emitted, and therefore the most that are kept during a pause; at
            least 1.

    Demand: Demand goes up, at most `size` items at a time, and not during a pause. Items that were requested before a
        pause and come during it are kept, and emitted when it ends. A link takes back the credit that its sender has
        not used, and grants it again after the pause.
    Holds: Kept items are held, and share the outcome of their emission; they are given back (released) on a cancel.
    Errors: `ConfigError` at the call for a bad option. The end of the source, completion or error, comes after the kept
        items: if there are some, after the pause.
    Cancels: Nothing by itself.
    Spec: Reactive Streams 1.1, 3.3; AMQP 1.0 section 2.6.7 (drain).

    Example:
        >>> valve = rstreams.Valve()
        >>> async with Stream.range(4).pausable(valve).open() as numbers:
        ...     first = await anext(numbers)
        ...     valve.pause()
        ...     valve.resume()
        ...     print(first, [number async for number in numbers])
        0 [1, 2, 3]
    """
    if not isinstance(valve, Valve):
        refuse_value("pausable", "valve", valve, "a Valve")
    require_count("pausable", "size", size, 1)
    return Lifted(source, lambda downstream: _Pausable(downstream, valve, size))


class _Pausable(WaitingItems[T]):
    __slots__ = ("_low", "_outstanding", "_size", "_suspended", "_valve")

    operator = "pausable"

    def __init__(self, downstream: Subscriber[T], valve: Valve, size: int) -> None:
        super().__init__(downstream)
        self._valve = valve
        self._size = size
        self._low = size // 4
        self._outstanding = 0  # requested, not emitted yet
        self._suspended = False  # by a stage below

    def on_subscribe(self, subscription: Subscription) -> None:
        if self._upstream is ENDED and not self._ended:
            self._shut = self._valve.paused
            self._valve._add(self)  # noqa: SLF001 - the valve's own stage
        super().on_subscribe(subscription)

    def suspend(self) -> None:
        self._suspended = True
        super().suspend()

    def resume(self) -> None:
        self._suspended = False
        if not self._shut:
            super().resume()

    @property
    def waits_for(self) -> str:
        """The reason for waiting that `explain` shows."""
        return "its valve is paused" if self._shut else ""

    def blame(self, asked: Asked) -> Culprit | None:
        """Return that its valve is paused."""
        return asked.blame("paused", f"the valve of {asked.consumer} is paused") if self._shut else None

    @property
    def moves(self) -> bool:
        return super().moves or self._shut or self._suspended

    def refuse_other_threads(self, call: str) -> None:
        """Raise `SpecViolation` if the valve is called from another thread than this stream's."""
        if get_ident() != self._thread:
            refuse_thread(f"Valve.{call}()", self._thread)

    def follow(self) -> None:
        """Take over the state of the valve."""
        if self._shut is self._valve.paused or self._ended:
            return
        self._shut = self._valve.paused
        if self._shut:
            super().suspend()
            return
        self._drain()
        if not self._shut:  # a subscriber may have paused again
            if not self._suspended:
                super().resume()
            self._ask()

    def _ask(self) -> None:
        if self._shut or self._ended:
            return
        room = min(self._demand, self._size) - self._outstanding
        # Demand that fits is passed up at once, larger demand in batches of three quarters.
        if room > 0 and (self._demand <= self._size or self._outstanding <= self._low):
            self._outstanding += room
            self._upstream.request(room)

    def _emitted(self) -> None:
        self._outstanding -= 1
        self._ask()

    def _finish(self) -> None:
        self._valve._remove(self)  # noqa: SLF001
        super()._finish()

    def _let_go(self) -> None:
        self._valve._remove(self)  # noqa: SLF001
        super()._let_go()
