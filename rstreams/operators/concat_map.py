"""concat_map: each item replaced by a whole stream, one after the other."""

from __future__ import annotations

from collections.abc import AsyncIterable, Callable, Iterable
from typing import Any, TypeVar

from rstreams._checks.choices import require_flag
from rstreams._checks.functions import require_plain
from rstreams._checks.publishers import require_subscription
from rstreams._core.claims import claims_on
from rstreams._core.run import Run
from rstreams._core.sight import Scannable
from rstreams._core.subscription import ENDED
from rstreams._core.windows import require_ahead
from rstreams._stages.carrying import carrying, stream_of_results
from rstreams._stages.deadlock import comes_from, takes_too_few
from rstreams._stages.in_turns import InTurns
from rstreams._stages.inner_stream import OneInner
from rstreams._stages.intake import Intake
from rstreams._stages.stage import Lifted, failure_of
from rstreams.abc import Publisher, Subscriber, Subscription
from rstreams.sources._returned import returning_streams

T = TypeVar("T")
R = TypeVar("R")


def concat_map(
    source: Publisher[T],
    function: Callable[[T], Publisher[R] | Iterable[R] | AsyncIterable[R]],
    *,
    prefetch: int = 1,
    delay_errors: bool = False,
    window: int | None = None,
) -> Publisher[R]:
    """Emit all items of the stream `function(item)` for each item of `source`, one stream after the other.

        --1--------2---------|
        concat_map(x -> x x)
        --1--1-----2--2------|

    Args:
        source: The publisher of the outer items.
        function: Called once for each outer item, when its turn comes; it must not block.
            Its result is a publisher, an iterable or an async iterable, but no text.
        prefetch: The most outer items kept, including the one whose stream is running; at least 1.
        delay_errors: Hold failures back until all other streams have ended. Several failures end the stream as an
            `ExceptionGroup`, in the order in which they came.
        window: The most outer items kept here and asked for, directly over a link; not less than `prefetch`. None: 256,
            or `prefetch` if that is more. With `window=prefetch` no more items are asked for ahead.

    Demand: The first request asks the source for `prefetch` items, and each end of an inner stream for one more.
        Directly over a link, more items are asked for if inner streams end quickly: as many as end in 5 ms, up to
        `window`. The inner stream is asked for exactly the items requested and not yet received.
    Holds: An outer item is held until its stream is complete and all holders of its items have handled them. On cancel,
        and when the stream fails, the outer items that are not done are given back (released).
    Errors: `ConfigError` at the call if `prefetch` is less than 1. The stream ends if `function` raises, if its result
        is no stream (`TypeError`), or if an inner stream fails. The outer item then counts as failed. An error of
        the source comes behind the streams of the items before it, as its completion does.
    Cancels: The source and the inner stream, when one fails.
    Spec: Reactive Streams 1.1, 1.3, 2.13, 3.3, 3.17.

    Example:
        >>> await Stream.of(2, 3).concat_map(lambda n: Stream.range(n)).to_list()
        [0, 1, 0, 1, 2]
    """
    require_flag("concat_map", "delay_errors", delay_errors)
    require_plain("concat_map", "function", function, "use map_async, and flat_map(lambda x: x) behind it")
    most = require_ahead("concat_map", "prefetch", prefetch, window)
    streams = returning_streams("concat_map", "function", function)

    def make(items: Publisher[Any], call: Callable[[Any], Publisher[Any]]) -> Publisher[Any]:
        return Lifted(
            items,
            lambda downstream: _ConcatMap(downstream, call, prefetch, delay_errors=delay_errors, window=most),
        )

    return carrying(source, streams, make, stream_of_results)


class _ConcatMap(OneInner[T, R]):
    __slots__ = ("_due", "_intake", "_loop")

    operator = "concat_map"

    def __init__(
        self,
        downstream: Subscriber[R],
        function: Callable[[T], Publisher[R]],
        prefetch: int,
        *,
        delay_errors: bool,
        window: int,
    ) -> None:
        super().__init__(downstream, function, delay_errors=delay_errors)
        self._intake = Intake[T](prefetch, window)
        self._loop = InTurns(self._go_on)
        self._due = 0  # ended streams whose places have not been requested again yet

    def on_subscribe(self, subscription: Subscription) -> None:
        require_subscription(subscription)
        if self._upstream is ENDED and not self._ended:
            self._intake.come_from(subscription)
        super().on_subscribe(subscription)

    def on_next(self, item: T) -> None:
        if not self._ended:
            self._intake.put_held(item)  # its stream may begin now
            self._loop.run()

    def on_run(self, run: Run[T]) -> None:
        """Keep many outer items."""
        if self._ended:
            return
        try:
            self._intake.put_run(run)
        finally:
            self._loop.run()

    def on_complete(self) -> None:
        self._upstream = ENDED  # 2.3, 2.4
        self._outer_complete = True
        self._loop.run()

    @property
    def failure(self) -> BaseException | None:
        inner = None if self._current is None else failure_of(self._current.upstream)
        return super().failure if inner is None else inner

    # called by `explain` and the search for a deadlock, see `_core.sight`

    @property
    def moves(self) -> bool:
        return super().moves or self._loop.moves or (self._current is None and bool(self._intake.items))

    def takes(self, blocked: Scannable) -> tuple[str, int] | None:
        """Return its state, and that it takes one stream at a time."""
        read = self._current is not None and comes_from(self._current.upstream, blocked)
        return (takes_too_few(blocked, self.label, 1), 1) if read else None

    # inside

    def _begin(self) -> None:
        self._upstream.request(self._intake.more())

    def _inner_is_through(self) -> None:
        self._due += 1
        self._loop.run()

    def _go_on(self) -> bool:
        """Go to the next stream, or ask for more outer items; return whether there was something to do."""
        intake = self._intake
        if self._ended or self._current is not None or intake.receives:
            return False
        if intake.asks_ahead and self._ask():
            return True
        if intake.items:
            intake.note_work(goes_on=True)
            item = intake.items.popleft()
            self._subscribe(item, claims_on(intake.take_hold()))
        elif self._outer_complete:
            self._finish()
        else:
            return self._ask()
        return True

    def _ask(self) -> bool:
        """Ask for more items, if it is time; return whether that was so."""
        if not self._due or self._outer_complete:
            return False
        intake = self._intake
        intake.note_work(goes_on=False)
        intake.end(self._due)
        self._due = 0
        n = intake.more()
        if n:
            self._upstream.request(n)
        return n > 0

    def _kept_items(self) -> int:
        return len(self._intake.items)

    def _let_go(self) -> None:
        self._loop.stop()
        super()._let_go()
        self._intake.release()
