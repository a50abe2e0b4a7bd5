"""Windows that end by time, by another stream, or by count and time: shared by all window operators but window_count.

Theory of operation. A window ends when the operator cuts it. If the next one was requested, it is opened at once, and
may stay empty. Otherwise the next item or the next request opens it. Windows that wait for demand therefore always have
an item, and the bound on items (`splitter`) is also a bound on windows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from rstreams._core.scheduler import call_in
from rstreams._stages.part import Part
from rstreams._stages.span_and_boundary import Boundary, Span
from rstreams._stages.splitter import Splitting
from rstreams.abc import Publisher, Scheduler, Subscriber, Subscription

T = TypeVar("T")


class Windowing(Splitting[T, Publisher[T]]):
    """A stage with one window at a time that gets items."""

    __slots__ = ("_complete_at", "_filled", "_open")

    part_name = "window"

    def __init__(self, downstream: Subscriber[Publisher[T]], prefetch: int, complete_at: int) -> None:
        super().__init__(downstream, prefetch)
        self._complete_at = complete_at  # this number of items ends a window
        self._filled = 0
        self._open: Part[T] | None = None

    # the operator writes this

    def _begin(self) -> None:
        """Note that a window begins."""

    # called by the timer or stream that ends windows

    def cut(self) -> None:
        """End the window, and begin the next one if there is demand for it."""
        if self._over:
            return
        window, self._open = self._open, None
        if window is not None:
            window.close()
            self._stop_if_idle()
        self._open_if_wanted()

    def finish(self) -> None:
        """End the stream, including the open window: nothing can end a window any more."""
        self._end()

    # the stage

    def on_next(self, item: T) -> None:
        if self._over:
            return
        window = self._open
        if window is None:
            if self._ended:  # new windows are not wanted any more
                self._parts.share((), item)
                return
            window = self._open_one()
        self._filled += 1
        full = self._filled == self._complete_at
        self._parts.share((window,), item)
        if self._over:
            return
        self._send_parts()
        if full and self._open is window:
            self.cut()

    def request(self, n: int) -> None:
        super().request(n)
        if self._started:
            self._open_if_wanted()

    def _start(self) -> None:
        self._open_if_wanted()

    def _open_if_wanted(self) -> None:
        if self._open is None and self._demand > len(self._unsent) and not self._ended and not self._over:
            self._open_one()
            self._send_parts()

    def _open_one(self) -> Part[T]:
        window = self._open = Part(self._parts)
        self._filled = 0
        self._add(window, window)
        self._begin()
        return window


class TimedWindowing(Windowing[T]):
    """A stage whose windows end after a span of time, or with `complete_at` items if that comes first."""

    __slots__ = ("_span",)

    def __init__(
        self,
        downstream: Subscriber[Publisher[T]],
        prefetch: int,
        complete_at: int,
        scheduler: Scheduler,
        span_s: float,
    ) -> None:
        super().__init__(downstream, prefetch, complete_at)
        self._span = Span(self.scheduler or scheduler, span_s, self.cut)

    @property
    def moves(self) -> bool:
        return self._span.runs

    def _begin(self) -> None:
        self._span.begin()

    def _stop(self) -> None:
        self._span.stop()


class BoundedWindowing(Windowing[T]):
    """A stage whose windows end with the items of another stream."""

    __slots__ = ("_boundaries", "_boundary")

    def __init__(self, downstream: Subscriber[Publisher[T]], prefetch: int, boundaries: Publisher[object]) -> None:
        super().__init__(downstream, prefetch, 0)
        self._boundaries = boundaries
        self._boundary = Boundary(self, self.cut, self._end, self.finish)

    def upstreams(self) -> Sequence[Subscription]:
        return (*super().upstreams(), *self._boundary.upstreams())

    def _callers(self) -> Sequence[Subscription]:
        return (*super()._callers(), *(self._boundary.caller if self._started else ()))

    def _start(self) -> None:
        super()._start()
        if not self._over:
            call_in(self.scheduler, self._boundaries.subscribe, self._boundary)

    def _stop(self) -> None:
        self._boundary.stop()
