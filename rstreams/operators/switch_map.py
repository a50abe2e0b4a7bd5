"""switch_map: each item replaced by a whole stream, until the next item comes."""

from __future__ import annotations

from collections.abc import AsyncIterable, Callable, Iterable
from typing import Any, TypeVar

from rstreams._checks.choices import require_flag
from rstreams._checks.functions import require_plain
from rstreams._core.claims import Claims, claims_on
from rstreams._core.demand import UNBOUNDED
from rstreams._core.subscription import ENDED
from rstreams._stages.carrying import carrying, stream_of_results
from rstreams._stages.inner_stream import Inner, OneInner
from rstreams._stages.stage import Lifted
from rstreams.abc import Publisher, Subscriber
from rstreams.sources._returned import returning_streams

T = TypeVar("T")
R = TypeVar("R")


def switch_map(
    source: Publisher[T],
    function: Callable[[T], Publisher[R] | Iterable[R] | AsyncIterable[R]],
    *,
    delay_errors: bool = False,
) -> Publisher[R]:
    """Emit the items of the stream `function(item)`, until the next item of `source` starts another one.

        --1--------2---------|
        switch_map(x -> x x x)
        --1--1-----2--2--2---|

    Args:
        source: The publisher of the outer items.
        function: Called once for each outer item, in the task that delivers it; it must not block.
            Its result is a publisher, an iterable or an async iterable, but no text.
        delay_errors: Hold failures back until the source and the last inner stream have ended. Several failures end the
            stream as an `ExceptionGroup`, in the order in which they came.

    Demand: The first request asks the source for all items (`UNBOUNDED`), because only one inner stream is kept. The
        inner stream is asked for exactly the items requested and not yet received.
    Holds: An outer item is held until its stream is complete or replaced, and until all holders of its items have
        handled them; then it is done. On cancel, and when the source fails, it is given back (released).
    Errors: The stream ends if `function` raises, if its result is no stream (`TypeError`), or if an inner stream
        fails. The outer item then counts as failed. An error of the source ends the current stream, as an item does;
        but first that stream hands over what it has at hand.
    Cancels: An inner stream, when the next outer item comes; the source and the inner stream, when one of them fails.
    Spec: Reactive Streams 1.1, 1.3, 2.13, 3.3, 3.17.

    Example:
        >>> await Stream.of(2, 3).switch_map(lambda n: Stream.of(n, n * 10)).to_list()
        [2, 20, 3, 30]
    """
    require_flag("switch_map", "delay_errors", delay_errors)
    require_plain("switch_map", "function", function, "use map_async, and flat_map(lambda x: x) behind it")
    streams = returning_streams("switch_map", "function", function)

    def make(items: Publisher[Any], call: Callable[[Any], Publisher[Any]]) -> Publisher[Any]:
        return Lifted(items, lambda downstream: _SwitchMap(downstream, call, delay_errors=delay_errors))

    return carrying(source, streams, make, stream_of_results)


class _SwitchMap(OneInner[T, R]):
    __slots__ = ("_next",)

    operator = "switch_map"

    def __init__(self, downstream: Subscriber[R], function: Callable[[T], Publisher[R]], *, delay_errors: bool) -> None:
        super().__init__(downstream, function, delay_errors=delay_errors)
        self._next: tuple[T, Claims] | None = None  # the outer item that came during an emission

    def on_next(self, item: T) -> None:
        if self._ended:
            return
        current, self._current = self._current, None
        outer = claims_on(self._upstream.hold())
        if current is not None:
            current.outer.done()
            current.upstream.cancel()
        if self._passing is None:
            self._subscribe(item, outer)
            return
        if self._next is not None:
            self._next[1].done()
        self._next = item, outer

    def on_error(self, error: BaseException) -> None:
        super().on_error(error)
        self._fail_if_dry()

    def request(self, n: int) -> None:
        super().request(n)
        self._fail_if_dry()

    def on_complete(self) -> None:
        self._upstream = ENDED  # 2.3, 2.4
        self._outer_complete = True
        self._inner_is_through()

    def pass_on(self, inner: Inner[T, R], item: R) -> None:
        super().pass_on(inner, item)
        if self._next is not None and self._passing is None:  # 1.3: the new stream may answer at once
            due, self._next = self._next, None
            self._subscribe(*due)
        self._fail_if_dry()

    @property
    def moves(self) -> bool:
        return super().moves or self._next is not None

    def _fail_if_dry(self) -> None:
        """Let an error of the source end the current stream, unless that has items for which only demand lacks."""
        if self._failure is not None and self._demand and self._passing is None:
            self._finish()

    def _begin(self) -> None:
        self._upstream.request(UNBOUNDED)

    def _inner_is_through(self) -> None:
        if self._outer_complete and self._current is None and self._next is None:
            self._finish()

    def _kept_items(self) -> int:
        return 0 if self._next is None else 1

    def _let_go(self) -> None:
        super()._let_go()
        due, self._next = self._next, None
        if due is not None:
            due[1].release()
