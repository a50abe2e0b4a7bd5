"""concat: several sources, one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Self, TypeVar

from rstreams._checks.choices import require_flag
from rstreams._checks.publishers import require_sources
from rstreams._core.subscription import ENDED
from rstreams._stages.arbiter import Arbiter
from rstreams._stages.delayed_errors import Errors, all_of, note_error
from rstreams._stages.many_sources import ManySources
from rstreams.abc import Publisher, Subscriber

T = TypeVar("T")


def concat(*sources: Publisher[T], delay_errors: bool = False) -> Publisher[T]:
    """Emit all items of the first source, then all of the second, and so on.

        --1--2--|
                --3--4--|
             concat
        --1--2----3--4--|

    Args:
        *sources: Subscribed to one at a time, each when the one before it has completed. Without sources the stream is
            empty.
        delay_errors: Hold failures back until all later sources have ended. Several failures end the stream as an
            `ExceptionGroup`, in the order in which they came.

    Demand: Goes to the current source. Demand that a source leaves unmet goes to the next one.
    Errors: `TypeError` at the call if a source is not a publisher. The first source that fails ends the stream with its
        error. Later sources are never subscribed to.
    Cancels: The current source, when the stream is cancelled.
    Spec: Reactive Streams 1.1, 3.3 (any number of empty sources, without recursion), 3.17.

    Example:
        >>> await Stream.of(1, 2).concat(Stream.of(8, 9)).to_list()
        [1, 2, 8, 9]
    """
    require_flag("concat", "delay_errors", delay_errors)
    require_sources("concat", sources)

    def start(downstream: Subscriber[T], sources: Iterator[Publisher[T]]) -> _Concat[T]:
        return _Concat(downstream, sources, delay_errors=delay_errors).start()

    return ManySources(start, sources, "concat", delay_errors, open_out=iter)


class _Concat(Arbiter[T]):
    __slots__ = ("_advancing", "_delay_errors", "_due", "_errors", "_sources")

    operator = "concat"

    def __init__(self, downstream: Subscriber[T], sources: Iterator[Publisher[T]], *, delay_errors: bool) -> None:
        super().__init__(downstream)
        self._sources = sources
        self._due = False
        self._advancing = False
        self._delay_errors = delay_errors
        self._errors: Errors = {}

    def start(self) -> Self:
        self.advance()
        return self

    def on_error(self, error: BaseException) -> None:
        if not self._delay_errors:
            super().on_error(error)
        elif not self._ended:
            note_error(self._errors, error)
            self.advance()

    def on_complete(self) -> None:
        self.advance()

    def advance(self) -> None:
        """Subscribe to the next source; one that completes at once only makes the loop run again (3.3)."""
        self._due = True
        if self._advancing:
            return
        self._advancing = True
        try:
            while self._due and not self._ended:
                self._due = False
                source = next(self._sources, None)
                if source is not None:
                    self._switch_to(source)
                else:
                    self._finish()
        finally:
            self._advancing = False

    def _finish(self) -> None:
        if not self._introduced:  # there were no sources
            self.on_subscribe(ENDED)
        self._upstream = ENDED  # 2.3, 2.4
        if self._errors:
            self._fail(all_of("concat", self._errors))
        else:
            super().on_complete()
