"""flat_map: each item replaced by a whole stream, several of them at once."""

from __future__ import annotations

from collections.abc import AsyncIterable, Callable, Iterable
from typing import Any, TypeVar

from rstreams._checks.choices import require_flag
from rstreams._checks.functions import require_plain
from rstreams._checks.numbers import require_count
from rstreams._checks.publishers import require_subscription
from rstreams._core.claims import claims_on
from rstreams._core.run import Run
from rstreams._core.subscription import ENDED
from rstreams._core.windows import require_ahead
from rstreams._stages.carrying import carrying, stream_of_results
from rstreams._stages.emission import log_dropped
from rstreams._stages.intake import Intake
from rstreams._stages.merger import Merging
from rstreams._stages.stage import Lifted
from rstreams.abc import Hold, Publisher, Subscriber, Subscription
from rstreams.sources._returned import returning_streams
from rstreams.sources.fail import fail

T = TypeVar("T")
R = TypeVar("R")


def flat_map(
    source: Publisher[T],
    function: Callable[[T], Publisher[R] | Iterable[R] | AsyncIterable[R]],
    *,
    concurrency: int = 16,
    prefetch: int = 32,
    delay_errors: bool = False,
    window: int | None = None,
) -> Publisher[R]:
    """Emit the items of the streams `function(item)`, at most `concurrency` of which run at the same time.

        --1-----2-----------|
         flat_map(x -> x x x)
        --1--1--2--1--2--2--|

    Args:
        source: The publisher of the outer items.
        function: Called once for each outer item, in the task that delivers it; it must not block.
            Its result is a publisher, an iterable or an async iterable, but no text.
        concurrency: The most inner streams subscribed to at the same time; at least 1. With 1 they run one after the
            other, in order.
        prefetch: The number of items requested ahead of demand from an inner stream; at least 1. Items of a plain
            iterator are not requested ahead: they are drawn as they are emitted.
        delay_errors: Hold failures back until all other streams have ended. Several failures end the stream as an
            `ExceptionGroup`, in the order in which they came.
        window: The most outer items kept here and asked for, directly over a link; not less than `concurrency`. None:
            256, or `concurrency` if that is more. With `window=concurrency` no item is asked for ahead.

    Demand: The first request asks the source for `concurrency` items, and each end of an inner stream for one more.
        Directly over a link, more items are asked for if inner streams end quickly: as many as end in 5 ms, up to
        `window`. They wait here until other inner streams have ended. Each inner stream is asked for `prefetch` items,
        and for more as its items leave. Items are emitted only on demand. If several inner streams have items waiting,
        they take turns.
    Holds: An outer item is done when its inner stream is complete and all holders of its items have handled them. An
        inner item that must wait is held, and shares the outcome of its emission. On cancel, and when the stream fails,
        all outer and inner items that are not done are given back (released).
    Errors: `ConfigError` at the call if an option is less than 1. The stream ends if `function` raises, if its result
        is no stream (`TypeError`), or if an inner stream fails. The outer item then counts as failed. The error
        of an inner stream takes its turn, behind the items of that stream. An error of the source comes behind the
        streams of the items before it, as its completion does.
    Cancels: The source and all inner streams, when one fails.
    Spec: Reactive Streams 1.1, 1.3, 2.13, 3.3, 3.17.

    Example:
        >>> await Stream.of(1, 2).flat_map(lambda x: Stream.of(x, x * 10)).to_list()
        [1, 10, 2, 20]
    """
    require_flag("flat_map", "delay_errors", delay_errors)
    require_plain("flat_map", "function", function, "use map_async, and flat_map(lambda x: x) behind it")
    most = require_ahead("flat_map", "concurrency", concurrency, window)
    require_count("flat_map", "prefetch", prefetch, 1)
    streams = returning_streams("flat_map", "function", function)

    def make(items: Publisher[Any], call: Callable[[Any], Publisher[Any]]) -> Publisher[Any]:
        return Lifted(
            items,
            lambda downstream: _FlatMap(
                downstream, call, concurrency, prefetch, delay_errors=delay_errors, window=most
            ),
        )

    return carrying(source, streams, make, stream_of_results)


class _FlatMap(Merging[T, R]):
    __slots__ = ("_concurrency", "_function", "_intake")

    operator = "flat_map"

    def __init__(
        self,
        downstream: Subscriber[R],
        function: Callable[[T], Publisher[R]],
        concurrency: int,
        prefetch: int,
        *,
        delay_errors: bool,
        window: int,
    ) -> None:
        super().__init__(downstream, prefetch, delay_errors=delay_errors)
        self._function = function
        self._concurrency = concurrency
        self._intake = Intake[T](concurrency, window)

    def on_subscribe(self, subscription: Subscription) -> None:
        require_subscription(subscription)
        if self._upstream is ENDED and not self._ended:
            self._intake.come_from(subscription)
        super().on_subscribe(subscription)

    def on_next(self, item: T) -> None:
        if self._ended:
            return
        if self._intake.items or len(self._active) >= self._concurrency:
            self._intake.put(item)
        else:
            self._begin_inner(item, self._upstream.hold)

    def on_run(self, run: Run[T]) -> None:
        """Keep many outer items."""
        if self._ended:
            return
        before, self._draining = self._draining, True  # the source may end while the items are made
        try:
            self._intake.put_run(run)
        finally:
            self._draining = before
            self._drain()

    def _begin_inner(self, item: T, hold: Callable[[], Hold]) -> None:
        if self._intake.asks_ahead:
            self._intake.note_work(goes_on=True)
        try:
            inner = self._function(item)
        except Exception as error:
            if self._ended:
                log_dropped(error, "a function failed")
                return
            inner = fail(error)
        if self._ended:  # the function has cancelled
            return
        self._subscribe(inner, claims_on(hold()))

    def _fill(self) -> bool:
        intake, ended = self._intake, self._slots
        if ended:
            self._slots = 0
            intake.end(ended)
            if intake.asks_ahead:
                intake.note_work(goes_on=bool(self._active))
        if intake.items and len(self._active) < self._concurrency:
            self._begin_inner(intake.items.popleft(), intake.take_hold)
            return True
        n = intake.more() if self.started and not self._outer_complete else 0
        if n:
            self._upstream.request(n)
        return n > 0

    def _kept_items(self) -> int:
        return super()._kept_items() + len(self._intake.items)

    def _let_go(self) -> None:
        super()._let_go()
        self._intake.release()
