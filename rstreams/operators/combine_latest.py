"""combine_latest: the latest items of all sources, each time one of them has a new one."""

from __future__ import annotations

from typing import Any, TypeVar, overload

from rstreams._checks.choices import require_flag
from rstreams._checks.numbers import require_count
from rstreams._checks.publishers import require_sources
from rstreams._core.claims import Claims, claims_on
from rstreams._core.demand import take_demand
from rstreams._stages.inputs import Input, Inputs
from rstreams._stages.stage import Joined, window_of
from rstreams.abc import Publisher, Subscriber, Subscription
from rstreams.errors import ConfigError

T = TypeVar("T")
R = TypeVar("R")
S = TypeVar("S")
K = TypeVar("K")
V = TypeVar("V")


@overload
def combine_latest(
    source: Publisher[T], /, *, prefetch: int = 32, delay_errors: bool = False
) -> Publisher[tuple[T]]: ...
@overload
def combine_latest(
    source: Publisher[T], second: Publisher[R], /, *, prefetch: int = 32, delay_errors: bool = False
) -> Publisher[tuple[T, R]]: ...
@overload
def combine_latest(
    source: Publisher[T],
    second: Publisher[R],
    third: Publisher[S],
    /,
    *,
    prefetch: int = 32,
    delay_errors: bool = False,
) -> Publisher[tuple[T, R, S]]: ...
@overload
def combine_latest(
    source: Publisher[T],
    second: Publisher[R],
    third: Publisher[S],
    fourth: Publisher[K],
    /,
    *,
    prefetch: int = 32,
    delay_errors: bool = False,
) -> Publisher[tuple[T, R, S, K]]: ...
@overload
def combine_latest(
    source: Publisher[T],
    second: Publisher[R],
    third: Publisher[S],
    fourth: Publisher[K],
    fifth: Publisher[V],
    /,
    *,
    prefetch: int = 32,
    delay_errors: bool = False,
) -> Publisher[tuple[T, R, S, K, V]]: ...
@overload
def combine_latest(
    *sources: Publisher[Any], prefetch: int = 32, delay_errors: bool = False
) -> Publisher[tuple[Any, ...]]: ...
def combine_latest(*sources: Publisher[Any], prefetch: int = 32, delay_errors: bool = False) -> Publisher[Any]:
    """Emit a tuple of the latest items of all sources each time one of them has a new one.

        --1-----2--------3-->
        -----a-----b--|
            combine_latest
        -----1a-2a-2b----3b->

    Sources that have all their items ready take turns. reactivex takes the items of one source before those of the
    next one: there `of(1, 2).combine_latest(of("a"))` has only the pair of 2.

    Args:
        *sources: Subscribed to at once, in this order; without sources the stream is empty.
        prefetch: The number of items requested ahead of each source; at least 1. Items of a plain iterator are not
            requested ahead.
        delay_errors: Hold failures back until all other sources have ended. Several failures end the stream as an
            `ExceptionGroup`, in the order in which they came.

    Demand: The first request asks each source for `prefetch` items, and for more as its items leave. No item is
        skipped: where demand is slow, items wait in the queues of their sources, which take turns. Only an item that
        comes before every source has sent one is in no tuple, if another item of the same source follows.
    Holds: The latest item of each source is held until the next one replaces it, or the stream completes. A tuple
        shares the outcome of its newest item. Items that are in no tuple yet on a cancel, or behind the place of an
        error, are given back (released).
    Errors: `TypeError` at the call if a source is not a publisher, `ConfigError` if `prefetch` is less than 1.
        `ConfigError` as `on_error` for a link whose window is 1, because its next item could never come. The first
        source that fails ends the stream; its error takes its turn, behind its items.
    Cancels: All other sources, when one fails, or when one completes without an item.
    Spec: Reactive Streams 1.1, 1.3, 3.3, 3.17.

    Example:
        >>> await Stream.of(1, 2).combine_latest(Stream.of("a")).to_list()
        [(1, 'a'), (2, 'a')]
    """
    require_flag("combine_latest", "delay_errors", delay_errors)
    require_sources("combine_latest", sources)
    require_count("combine_latest", "prefetch", prefetch, 1)
    return Joined(
        lambda downstream: _CombineLatest(downstream, len(sources), prefetch, delay_errors=delay_errors).start(sources)
    )


class _Latest(Input[Any]):
    """An input of which one item is always held."""

    __slots__ = ()

    def on_subscribe(self, subscription: Subscription) -> None:
        window = window_of(subscription)
        if window > 1:
            super().on_subscribe(subscription)
            return
        subscription.cancel()
        msg = "combine_latest needs 2 items of a source at once, but the window of the link it reads is 1"
        self.on_error(ConfigError(msg))


class _CombineLatest(Inputs[tuple[Any, ...]]):
    __slots__ = ("_kept", "_latest", "_missing", "_next")

    operator = "combine_latest"

    def __init__(
        self, downstream: Subscriber[tuple[Any, ...]], count: int, prefetch: int, *, delay_errors: bool
    ) -> None:
        super().__init__(downstream, count, prefetch, delay_errors=delay_errors)
        self.inputs = [_Latest(self, prefetch) for _ in range(count)]
        self._latest: list[Any] = [None] * count
        self._kept: dict[int, Claims] = {}  # the claims on the latest items
        self._missing = set(range(count))  # sources that have not sent anything yet
        self._next = 0  # the source whose turn it is

    def _step(self, most: int) -> int:  # noqa: ARG002, PLR0911 - one at a time; one exit for each state
        if self._ended:
            return 0
        inputs = self.inputs
        if all(i.exhausted for i in inputs) or any(inputs[m].exhausted for m in self._missing):
            self._finish()
            return 0
        for position in (*range(self._next, len(inputs)), *range(self._next)):
            an_input = inputs[position]
            if not self._demand and (an_input.queue or (an_input.drawn and not an_input.complete)):
                return 0
            if an_input.has_item():
                self._next = (position + 1) % len(inputs)
                self._replace(position)
                return 1
            if self._ended:
                return 0
            if self._failing and (failed := self._error_in_turn(an_input)) is not None:
                self._fail(failed)
                return 0
        # No item is there. An iterator may just have reached its end.
        return int(all(i.exhausted for i in inputs) or any(inputs[m].exhausted for m in self._missing))

    def _replace(self, position: int) -> None:
        item, hold = self.inputs[position].take()
        kept = claims_on(hold)
        before = self._kept.get(position)
        self._latest[position], self._kept[position] = item, kept
        self._missing.discard(position)
        if before is not None:
            before.done()
        if not self._missing:
            self._demand = take_demand(self._demand, 1)
            self._emit(tuple(self._latest), claims_on(kept.hold()))
        if not self._ended:
            self.inputs[position].taken()

    def _kept_items(self) -> int:
        return super()._kept_items() + len(self._kept)

    def _let_go(self) -> None:
        super()._let_go()
        all_kept, self._kept = self._kept, {}
        for kept in all_kept.values():
            if self._missing:
                kept.release()
            else:
                kept.done()
