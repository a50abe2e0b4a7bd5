"""A stream for threads: the same operators, and terminals that block.

`tools/fluent.py` writes most of the operators' methods into the lower part of the class.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Final,
    Generic,
    Literal,
    Never,
    NoReturn,
    ParamSpec,
    TypeVar,
    overload,
)

from rstreams._checks.argument_names import name_arguments
from rstreams._checks.functions import refuse_unrun, require_effect
from rstreams._checks.other_names import OURS, hint
from rstreams._core.windows import require_open_window
from rstreams._stages.extremes import Ordered
from rstreams._stages.overflow import Strategy
from rstreams._stages.stage import Ack, GatherAck
from rstreams.abc import Publisher, Subscriber
from rstreams.blocking._items import Items, open_items
from rstreams.notifications import Notification
from rstreams.operators.pausable import Valve
from rstreams.operators.sum import Summable
from rstreams.operators.time_interval import TimeInterval
from rstreams.operators.timestamp import Timestamped
from rstreams.runtime.portal import Portal
from rstreams.stream import Explanation, GroupedStream, Stream

if TYPE_CHECKING:
    from reactivex import Observable

T_co = TypeVar("T_co", covariant=True)
K = TypeVar("K")
R = TypeVar("R")
P = ParamSpec("P")
# from here on written by tools/fluent.py: change the operator, then run `make format`

C = TypeVar("C", bound=Ordered)
S = TypeVar("S")
V = TypeVar("V")

# written by tools/fluent.py up to here

AWAITED: Final = (
    "give a plain function, which may block. Async functions are for `rstreams.connect`, under trio; for one of "
    "asyncio give `lambda item: asyncio.run_coroutine_threadsafe(function(item), loop).result()`"
)
"""The advice for an async function: the end of an error's text."""


class BlockingStream(Generic[T_co]):
    """A `rstreams.Stream` for threads: the same operators, run by `for`, `to_list`, `first_or_none` and `for_each`.

    Context: Any thread without trio. Functions given to operators run in the connection's thread.
    """

    __slots__ = ("_portal", "_stream")

    def __init__(self, portal: Portal, stream: Stream[T_co]) -> None:
        self._portal = portal
        self._stream = stream

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            msg = f"'BlockingStream' object has no attribute {name!r}{hint(name, self, OURS)}"
            raise AttributeError(msg, name=name, obj=self)

    def group_by(
        self, key: Callable[[T_co], K], *, prefetch: int = 256, max_groups: int | None = None
    ) -> BlockingStream[GroupedStream[K, T_co]]:
        """See `Stream.group_by`."""
        return self._with(self._stream.group_by(key, prefetch=prefetch, max_groups=max_groups))

    def parallel(
        self,
        workers: int,
        function: Callable[[Stream[T_co]], Publisher[R]],
        *,
        window: int = 256,
        delay_errors: bool = False,
    ) -> BlockingStream[R]:
        """See `Stream.parallel`."""
        return self._with(self._stream.parallel(workers, function, window=window, delay_errors=delay_errors))

    def to_observable(self) -> Observable[T_co]:
        """See `Stream.to_observable`; subscribe to the result in the connection's thread."""
        return self._stream.to_observable()

    def rx(
        self, operator: Callable[[Observable[T_co]], Observable[R]], *, max_expansion: int = 1024
    ) -> BlockingStream[R]:
        """See `Stream.rx`."""
        return self._with(self._stream.rx(operator, max_expansion=max_expansion))

    def explain(self) -> Explanation:
        """Return the state of the runs of this stream, as `Stream.explain` does."""

        async def explain() -> Explanation:
            return self._stream.explain()

        return self._portal.run(explain)

    # terminals

    def open(self, window: int | None = None) -> AbstractContextManager[Items[T_co]]:
        """Open the stream for a `for` loop in a `with` block, as `Stream.open` does for `async for`.

        Args:
            window: The most items that are requested or have come, and are not given out yet. None: as `Stream.open`.

        Errors: The loop raises the error of the stream.
        Context: Any thread without trio; the loop blocks it while it waits. Ctrl-C ends the wait.
        """
        return open_items(self._portal, self._stream, require_open_window(window))

    def __iter__(self) -> Iterator[T_co]:
        """Iterate over the items.

        A bare loop cannot tell `break` from an exception. Therefore leaving it early gives the item in hand back as
        failed: it comes again. Loop inside `with stream.open() as items` to have it accepted.
        """
        with self.open() as items:
            yield from items

    def to_list(self, *, ack: GatherAck = "within_window") -> list[T_co]:
        """Return all items; they are done when the list is returned, as `Stream.to_list` tells."""
        return self._portal.run(partial(self._stream.to_list, ack=ack))

    def first_or_none(self) -> T_co | None:
        """Return the first item, or None if the stream completes without one; no other item is requested."""
        return self._portal.run(self._stream.first_or_none)

    def for_each(self, function: Callable[[T_co], object]) -> None:
        """Call `function` with each item, in the calling thread; an item is done when it has returned."""
        require_effect("for_each", "function", function, AWAITED)
        for item in self:
            refuse_unrun("for_each", "function", function(item))

    def through(
        self, function: Callable[Concatenate[Stream[T_co], P], Publisher[R]], *args: P.args, **kwargs: P.kwargs
    ) -> BlockingStream[R]:
        """See `Stream.through`."""
        return self._with(self._stream.through(function, *args, **kwargs))

    def subscribe(self, subscriber: Subscriber[T_co]) -> None:
        """Start a new run of the stream, so that it can be published or merged; called in the connection's thread."""
        self._stream.subscribe(subscriber)

    def _with(self, stream: Stream[R]) -> BlockingStream[R]:
        return BlockingStream(self._portal, stream)

    # operators

    # from here on written by tools/fluent.py: change the operator, then run `make format`

    def all(self, predicate: Callable[[T_co], object]) -> BlockingStream[bool]:
        """See `Stream.all`."""
        return self._with(self._stream.all(predicate))

    def any(self, predicate: Callable[[T_co], object] | None = None) -> BlockingStream[bool]:
        """See `Stream.any`."""
        return self._with(self._stream.any(predicate))

    def average(self: BlockingStream[float]) -> BlockingStream[float]:
        """See `Stream.average`."""
        return self._with(self._stream.average())

    def broadcast(self, *, subscribers: int = 1, window: int = 256) -> BlockingStream[T_co]:
        """See `Stream.broadcast`."""
        return self._with(self._stream.broadcast(subscribers=subscribers, window=window))

    def buffer_boundary(self, boundary: Publisher[object], *, max_items: int = 1024) -> BlockingStream[list[T_co]]:
        """See `Stream.buffer_boundary`."""
        return self._with(self._stream.buffer_boundary(boundary, max_items=max_items))

    def buffer_count(self, count: int, *, skip: int | None = None) -> BlockingStream[list[T_co]]:
        """See `Stream.buffer_count`."""
        return self._with(self._stream.buffer_count(count, skip=skip))

    def buffer_count_or_time(self, count: int, span_s: float) -> BlockingStream[list[T_co]]:
        """See `Stream.buffer_count_or_time`."""
        return self._with(self._stream.buffer_count_or_time(count, span_s))

    def buffer_time(self, span_s: float, *, max_items: int = 1024) -> BlockingStream[list[T_co]]:
        """See `Stream.buffer_time`."""
        return self._with(self._stream.buffer_time(span_s, max_items=max_items))

    def buffer_until(self, predicate: Callable[[T_co], object], *, max_items: int = 1024) -> BlockingStream[list[T_co]]:
        """See `Stream.buffer_until`."""
        return self._with(self._stream.buffer_until(predicate, max_items=max_items))

    def cache(self, *, max_items: int | None = None, ack: Ack = "on_receipt") -> BlockingStream[T_co]:
        """See `Stream.cache`."""
        return self._with(self._stream.cache(max_items=max_items, ack=ack))

    def cast(self, kind: type[R]) -> BlockingStream[R]:
        """See `Stream.cast`."""
        return self._with(self._stream.cast(kind))

    def checkpoint(self, description: str = "") -> BlockingStream[T_co]:
        """See `Stream.checkpoint`."""
        return self._with(self._stream.checkpoint(description))

    def collect(self, *, ack: GatherAck = "within_window") -> BlockingStream[list[T_co]]:
        """See `Stream.collect`."""
        return self._with(self._stream.collect(ack=ack))

    @overload
    def combine_latest(self, *, prefetch: int = 32, delay_errors: bool = False) -> BlockingStream[tuple[T_co]]: ...

    @overload
    def combine_latest(
        self, second: Publisher[R], /, *, prefetch: int = 32, delay_errors: bool = False
    ) -> BlockingStream[tuple[T_co, R]]: ...

    @overload
    def combine_latest(
        self, second: Publisher[R], third: Publisher[S], /, *, prefetch: int = 32, delay_errors: bool = False
    ) -> BlockingStream[tuple[T_co, R, S]]: ...

    @overload
    def combine_latest(
        self,
        second: Publisher[R],
        third: Publisher[S],
        fourth: Publisher[K],
        /,
        *,
        prefetch: int = 32,
        delay_errors: bool = False,
    ) -> BlockingStream[tuple[T_co, R, S, K]]: ...

    @overload
    def combine_latest(
        self,
        second: Publisher[R],
        third: Publisher[S],
        fourth: Publisher[K],
        fifth: Publisher[V],
        /,
        *,
        prefetch: int = 32,
        delay_errors: bool = False,
    ) -> BlockingStream[tuple[T_co, R, S, K, V]]: ...

    @overload
    def combine_latest(
        self, *others: Publisher[Any], prefetch: int = 32, delay_errors: bool = False
    ) -> BlockingStream[tuple[Any, ...]]: ...

    def combine_latest(
        self, *others: Publisher[Any], prefetch: Any = 32, delay_errors: Any = False
    ) -> BlockingStream[Any]:
        """See `Stream.combine_latest`."""
        return self._with(self._stream.combine_latest(*others, prefetch=prefetch, delay_errors=delay_errors))

    def concat(self, *others: Publisher[R], delay_errors: bool = False) -> BlockingStream[T_co | R]:
        """See `Stream.concat`."""
        return self._with(self._stream.concat(*others, delay_errors=delay_errors))

    def concat_map(
        self,
        function: Callable[[T_co], Publisher[R] | Iterable[R] | AsyncIterable[R]],
        *,
        prefetch: int = 1,
        delay_errors: bool = False,
        window: int | None = None,
    ) -> BlockingStream[R]:
        """See `Stream.concat_map`."""
        return self._with(
            self._stream.concat_map(function, prefetch=prefetch, delay_errors=delay_errors, window=window)
        )

    def contains(self, value: object) -> BlockingStream[bool]:
        """See `Stream.contains`."""
        return self._with(self._stream.contains(value))

    def count(self, predicate: Callable[[T_co], object] | None = None) -> BlockingStream[int]:
        """See `Stream.count`."""
        return self._with(self._stream.count(predicate))

    def debounce(self, quiet_s: float) -> BlockingStream[T_co]:
        """See `Stream.debounce`."""
        return self._with(self._stream.debounce(quiet_s))

    def default_if_empty(self, default: R) -> BlockingStream[T_co | R]:
        """See `Stream.default_if_empty`."""
        return self._with(self._stream.default_if_empty(default))

    def delay(self, delay_s: float) -> BlockingStream[T_co]:
        """See `Stream.delay`."""
        return self._with(self._stream.delay(delay_s))

    def delay_each(self, delay_s: float) -> BlockingStream[T_co]:
        """See `Stream.delay_each`."""
        return self._with(self._stream.delay_each(delay_s))

    def dematerialize(self: BlockingStream[Notification[R]]) -> BlockingStream[R]:
        """See `Stream.dematerialize`."""
        return self._with(self._stream.dematerialize())

    def distinct(self, key: Callable[[T_co], object] | None = None) -> BlockingStream[T_co]:
        """See `Stream.distinct`."""
        return self._with(self._stream.distinct(key))

    def distinct_until_changed(self, key: Callable[[T_co], object] | None = None) -> BlockingStream[T_co]:
        """See `Stream.distinct_until_changed`."""
        return self._with(self._stream.distinct_until_changed(key))

    def distribute(self, *, subscribers: int = 1, window: int = 256) -> BlockingStream[T_co]:
        """See `Stream.distribute`."""
        return self._with(self._stream.distribute(subscribers=subscribers, window=window))

    def do_finally(self, function: Callable[[Literal["complete", "error", "cancel"]], object]) -> BlockingStream[T_co]:
        """See `Stream.do_finally`."""
        return self._with(self._stream.do_finally(function))

    def do_on_cancel(self, function: Callable[[], object]) -> BlockingStream[T_co]:
        """See `Stream.do_on_cancel`."""
        return self._with(self._stream.do_on_cancel(function))

    def do_on_complete(self, function: Callable[[], object]) -> BlockingStream[T_co]:
        """See `Stream.do_on_complete`."""
        return self._with(self._stream.do_on_complete(function))

    def do_on_error(self, function: Callable[[BaseException], object]) -> BlockingStream[T_co]:
        """See `Stream.do_on_error`."""
        return self._with(self._stream.do_on_error(function))

    def do_on_next(self, function: Callable[[T_co], object]) -> BlockingStream[T_co]:
        """See `Stream.do_on_next`."""
        return self._with(self._stream.do_on_next(function))

    def do_on_request(self, function: Callable[[int], object]) -> BlockingStream[T_co]:
        """See `Stream.do_on_request`."""
        return self._with(self._stream.do_on_request(function))

    def do_on_subscribe(self, function: Callable[[], object]) -> BlockingStream[T_co]:
        """See `Stream.do_on_subscribe`."""
        return self._with(self._stream.do_on_subscribe(function))

    def element_at(self, index: int) -> BlockingStream[T_co]:
        """See `Stream.element_at`."""
        return self._with(self._stream.element_at(index))

    def end_with(self, *items: R) -> BlockingStream[T_co | R]:
        """See `Stream.end_with`."""
        return self._with(self._stream.end_with(*items))

    def enumerate(self, start: int = 0) -> BlockingStream[tuple[int, T_co]]:
        """See `Stream.enumerate`."""
        return self._with(self._stream.enumerate(start))

    def expand(
        self: BlockingStream[R],
        function: Callable[[R], Publisher[R] | Iterable[R] | AsyncIterable[R]],
        *,
        depth: int | None = None,
        max_pending: int = 1024,
    ) -> BlockingStream[R]:
        """See `Stream.expand`."""
        return self._with(self._stream.expand(function, depth=depth, max_pending=max_pending))

    def filter(self, predicate: Callable[[T_co], object]) -> BlockingStream[T_co]:
        """See `Stream.filter`."""
        return self._with(self._stream.filter(predicate))

    def first(self, predicate: Callable[[T_co], object] | None = None) -> BlockingStream[T_co]:
        """See `Stream.first`."""
        return self._with(self._stream.first(predicate))

    def flat_map(
        self,
        function: Callable[[T_co], Publisher[R] | Iterable[R] | AsyncIterable[R]],
        *,
        concurrency: int = 16,
        prefetch: int = 32,
        delay_errors: bool = False,
        window: int | None = None,
    ) -> BlockingStream[R]:
        """See `Stream.flat_map`."""
        return self._with(
            self._stream.flat_map(
                function, concurrency=concurrency, prefetch=prefetch, delay_errors=delay_errors, window=window
            )
        )

    def flatten(self: BlockingStream[Iterable[R]]) -> BlockingStream[R]:
        """See `Stream.flatten`."""
        return self._with(self._stream.flatten())

    def ignore_elements(self) -> BlockingStream[Never]:
        """See `Stream.ignore_elements`."""
        return self._with(self._stream.ignore_elements())

    def last(self, predicate: Callable[[T_co], object] | None = None) -> BlockingStream[T_co]:
        """See `Stream.last`."""
        return self._with(self._stream.last(predicate))

    def limit_rate(self, high: int, low: int | None = None) -> BlockingStream[T_co]:
        """See `Stream.limit_rate`."""
        return self._with(self._stream.limit_rate(high, low))

    def limit_request(self, count: int) -> BlockingStream[T_co]:
        """See `Stream.limit_request`."""
        return self._with(self._stream.limit_request(count))

    def log(self, name: str = "stream", *, level: int = 20) -> BlockingStream[T_co]:
        """See `Stream.log`."""
        return self._with(self._stream.log(name, level=level))

    def map(self, function: Callable[[T_co], R]) -> BlockingStream[R]:
        """See `Stream.map`."""
        return self._with(self._stream.map(function))

    def map_async(
        self,
        function: Callable[[T_co], Awaitable[R]],
        *,
        concurrency: int = 1,
        ordered: bool = True,
        window: int | None = None,
    ) -> BlockingStream[R]:
        """See `Stream.map_async`."""
        return self._with(self._stream.map_async(function, concurrency=concurrency, ordered=ordered, window=window))

    def map_blocking(
        self, function: Callable[[T_co], R], *, concurrency: int = 1, ordered: bool = True, window: int | None = None
    ) -> BlockingStream[R]:
        """See `Stream.map_blocking`."""
        return self._with(self._stream.map_blocking(function, concurrency=concurrency, ordered=ordered, window=window))

    def materialize(self) -> BlockingStream[Notification[T_co]]:
        """See `Stream.materialize`."""
        return self._with(self._stream.materialize())

    @overload
    def max(self: BlockingStream[C]) -> BlockingStream[C]: ...

    @overload
    def max(self, key: Callable[[T_co], Ordered]) -> BlockingStream[T_co]: ...

    def max(self: BlockingStream[Any], key: Any = None) -> BlockingStream[Any]:
        """See `Stream.max`."""
        return self._with(self._stream.max(key))

    def merge(self, *others: Publisher[R], delay_errors: bool = False) -> BlockingStream[T_co | R]:
        """See `Stream.merge`."""
        return self._with(self._stream.merge(*others, delay_errors=delay_errors))

    def merge_priority(
        self, *others: Publisher[R], prefetch: int = 32, delay_errors: bool = False
    ) -> BlockingStream[T_co | R]:
        """See `Stream.merge_priority`."""
        return self._with(self._stream.merge_priority(*others, prefetch=prefetch, delay_errors=delay_errors))

    def merge_sorted(
        self,
        *others: Publisher[R],
        key: Callable[[T_co | R], Any] | None = None,
        prefetch: int = 32,
        delay_errors: bool = False,
    ) -> BlockingStream[T_co | R]:
        """See `Stream.merge_sorted`."""
        return self._with(self._stream.merge_sorted(*others, key=key, prefetch=prefetch, delay_errors=delay_errors))

    @overload
    def min(self: BlockingStream[C]) -> BlockingStream[C]: ...

    @overload
    def min(self, key: Callable[[T_co], Ordered]) -> BlockingStream[T_co]: ...

    def min(self: BlockingStream[Any], key: Any = None) -> BlockingStream[Any]:
        """See `Stream.min`."""
        return self._with(self._stream.min(key))

    def name(self, name: str) -> BlockingStream[T_co]:
        """See `Stream.name`."""
        return self._with(self._stream.name(name))

    def on_error_complete(self, predicate: Callable[[Exception], object] | None = None) -> BlockingStream[T_co]:
        """See `Stream.on_error_complete`."""
        return self._with(self._stream.on_error_complete(predicate))

    def on_error_map(self, function: Callable[[Exception], BaseException]) -> BlockingStream[T_co]:
        """See `Stream.on_error_map`."""
        return self._with(self._stream.on_error_map(function))

    def on_error_resume(
        self, handler: Callable[[Exception], Publisher[R] | Iterable[R] | AsyncIterable[R]]
    ) -> BlockingStream[T_co | R]:
        """See `Stream.on_error_resume`."""
        return self._with(self._stream.on_error_resume(handler))

    def on_error_return(self, value: R) -> BlockingStream[T_co | R]:
        """See `Stream.on_error_return`."""
        return self._with(self._stream.on_error_return(value))

    def on_overflow_buffer(
        self, size: int, *, strategy: Strategy = "error", on_drop: Callable[[T_co], object] | None = None
    ) -> BlockingStream[T_co]:
        """See `Stream.on_overflow_buffer`."""
        return self._with(self._stream.on_overflow_buffer(size, strategy=strategy, on_drop=on_drop))

    def on_overflow_drop(self, on_drop: Callable[[T_co], object] | None = None) -> BlockingStream[T_co]:
        """See `Stream.on_overflow_drop`."""
        return self._with(self._stream.on_overflow_drop(on_drop))

    def on_overflow_error(self) -> BlockingStream[T_co]:
        """See `Stream.on_overflow_error`."""
        return self._with(self._stream.on_overflow_error())

    def on_overflow_latest(self, on_drop: Callable[[T_co], object] | None = None) -> BlockingStream[T_co]:
        """See `Stream.on_overflow_latest`."""
        return self._with(self._stream.on_overflow_latest(on_drop))

    def on_overflow_reduce(
        self, function: Callable[[T_co, T_co], T_co], *, ack: GatherAck = "within_window"
    ) -> BlockingStream[T_co]:
        """See `Stream.on_overflow_reduce`."""
        return self._with(self._stream.on_overflow_reduce(function, ack=ack))

    def pairwise(self) -> BlockingStream[tuple[T_co, T_co]]:
        """See `Stream.pairwise`."""
        return self._with(self._stream.pairwise())

    def pausable(self, valve: Valve, *, size: int = 256) -> BlockingStream[T_co]:
        """See `Stream.pausable`."""
        return self._with(self._stream.pausable(valve, size=size))

    def race(self, *others: Publisher[R]) -> BlockingStream[T_co | R]:
        """See `Stream.race`."""
        return self._with(self._stream.race(*others))

    @overload
    def reduce(
        self, accumulator: Callable[[T_co, T_co], T_co], *, ack: GatherAck = "within_window"
    ) -> BlockingStream[T_co]: ...

    @overload
    def reduce(
        self, accumulator: Callable[[R, T_co], R], seed: R, *, ack: GatherAck = "within_window"
    ) -> BlockingStream[R]: ...

    def reduce(
        self: BlockingStream[Any], accumulator: Any, seed: Any = ..., *, ack: Any = "within_window"
    ) -> BlockingStream[Any]:
        """See `Stream.reduce`."""
        return self._with(self._stream.reduce(accumulator, seed, ack=ack))

    def repeat(self, count: int | None = None) -> BlockingStream[T_co]:
        """See `Stream.repeat`."""
        return self._with(self._stream.repeat(count))

    def retry(
        self, count: int | None = None, *, predicate: Callable[[Exception], object] | None = None
    ) -> BlockingStream[T_co]:
        """See `Stream.retry`."""
        return self._with(self._stream.retry(count, predicate=predicate))

    def retry_backoff(
        self,
        count: int,
        *,
        first_s: float = 0.1,
        max_s: float = 30.0,
        factor: float = 2.0,
        jitter: float = 0.5,
        predicate: Callable[[Exception], object] | None = None,
    ) -> BlockingStream[T_co]:
        """See `Stream.retry_backoff`."""
        return self._with(
            self._stream.retry_backoff(
                count, first_s=first_s, max_s=max_s, factor=factor, jitter=jitter, predicate=predicate
            )
        )

    def sample(self, period_s: float) -> BlockingStream[T_co]:
        """See `Stream.sample`."""
        return self._with(self._stream.sample(period_s))

    @overload
    def scan(self, accumulator: Callable[[T_co, T_co], T_co]) -> BlockingStream[T_co]: ...

    @overload
    def scan(self, accumulator: Callable[[R, T_co], R], seed: R) -> BlockingStream[R]: ...

    def scan(self: BlockingStream[Any], accumulator: Any, seed: Any = ...) -> BlockingStream[Any]:
        """See `Stream.scan`."""
        return self._with(self._stream.scan(accumulator, seed))

    def sequence_equal(self, other: Publisher[R], *, prefetch: int = 32) -> BlockingStream[bool]:
        """See `Stream.sequence_equal`."""
        return self._with(self._stream.sequence_equal(other, prefetch=prefetch))

    def share(self, *, window: int = 256) -> BlockingStream[T_co]:
        """See `Stream.share`."""
        return self._with(self._stream.share(window=window))

    def single(self) -> BlockingStream[T_co]:
        """See `Stream.single`."""
        return self._with(self._stream.single())

    def skip(self, count: int) -> BlockingStream[T_co]:
        """See `Stream.skip`."""
        return self._with(self._stream.skip(count))

    def skip_last(self, count: int) -> BlockingStream[T_co]:
        """See `Stream.skip_last`."""
        return self._with(self._stream.skip_last(count))

    def skip_until(self, boundary: Publisher[R]) -> BlockingStream[T_co]:
        """See `Stream.skip_until`."""
        return self._with(self._stream.skip_until(boundary))

    def skip_while(self, predicate: Callable[[T_co], object]) -> BlockingStream[T_co]:
        """See `Stream.skip_while`."""
        return self._with(self._stream.skip_while(predicate))

    def start_with(self, *items: R) -> BlockingStream[T_co | R]:
        """See `Stream.start_with`."""
        return self._with(self._stream.start_with(*items))

    def sum(self: BlockingStream[Summable[R]]) -> BlockingStream[R | int]:
        """See `Stream.sum`."""
        return self._with(self._stream.sum())

    def switch_if_empty(self, other: Publisher[R]) -> BlockingStream[T_co | R]:
        """See `Stream.switch_if_empty`."""
        return self._with(self._stream.switch_if_empty(other))

    def switch_map(
        self, function: Callable[[T_co], Publisher[R] | Iterable[R] | AsyncIterable[R]], *, delay_errors: bool = False
    ) -> BlockingStream[R]:
        """See `Stream.switch_map`."""
        return self._with(self._stream.switch_map(function, delay_errors=delay_errors))

    def take(self, count: int) -> BlockingStream[T_co]:
        """See `Stream.take`."""
        return self._with(self._stream.take(count))

    def take_last(self, count: int) -> BlockingStream[T_co]:
        """See `Stream.take_last`."""
        return self._with(self._stream.take_last(count))

    def take_until(self, boundary: Publisher[R]) -> BlockingStream[T_co]:
        """See `Stream.take_until`."""
        return self._with(self._stream.take_until(boundary))

    def take_while(self, predicate: Callable[[T_co], object], *, inclusive: bool = False) -> BlockingStream[T_co]:
        """See `Stream.take_while`."""
        return self._with(self._stream.take_while(predicate, inclusive=inclusive))

    def throttle(self, period_s: float) -> BlockingStream[T_co]:
        """See `Stream.throttle`."""
        return self._with(self._stream.throttle(period_s))

    def time_interval(self) -> BlockingStream[TimeInterval[T_co]]:
        """See `Stream.time_interval`."""
        return self._with(self._stream.time_interval())

    def timeout(self, timeout_s: float, *, fallback: Publisher[R] | None = None) -> BlockingStream[T_co | R]:
        """See `Stream.timeout`."""
        return self._with(self._stream.timeout(timeout_s, fallback=fallback))

    def timestamp(self) -> BlockingStream[Timestamped[T_co]]:
        """See `Stream.timestamp`."""
        return self._with(self._stream.timestamp())

    @overload
    def to_dict(
        self, key: Callable[[T_co], K], *, ack: GatherAck = "within_window"
    ) -> BlockingStream[dict[K, T_co]]: ...

    @overload
    def to_dict(
        self, key: Callable[[T_co], K], value: Callable[[T_co], V], *, ack: GatherAck = "within_window"
    ) -> BlockingStream[dict[K, V]]: ...

    def to_dict(self, key: Any, value: Any = None, *, ack: Any = "within_window") -> BlockingStream[dict[Any, Any]]:
        """See `Stream.to_dict`."""
        return self._with(self._stream.to_dict(key, value, ack=ack))

    def to_set(self, *, ack: GatherAck = "within_window") -> BlockingStream[set[T_co]]:
        """See `Stream.to_set`."""
        return self._with(self._stream.to_set(ack=ack))

    def window_boundary(self, boundary: Publisher[object], *, prefetch: int = 256) -> BlockingStream[Stream[T_co]]:
        """See `Stream.window_boundary`."""
        return self._with(self._stream.window_boundary(boundary, prefetch=prefetch))

    def window_count(self, count: int, *, skip: int | None = None, prefetch: int = 256) -> BlockingStream[Stream[T_co]]:
        """See `Stream.window_count`."""
        return self._with(self._stream.window_count(count, skip=skip, prefetch=prefetch))

    def window_count_or_time(self, count: int, span_s: float, *, prefetch: int = 256) -> BlockingStream[Stream[T_co]]:
        """See `Stream.window_count_or_time`."""
        return self._with(self._stream.window_count_or_time(count, span_s, prefetch=prefetch))

    def window_time(self, span_s: float, *, prefetch: int = 256) -> BlockingStream[Stream[T_co]]:
        """See `Stream.window_time`."""
        return self._with(self._stream.window_time(span_s, prefetch=prefetch))

    def with_latest_from(self, other: Publisher[R]) -> BlockingStream[tuple[T_co, R]]:
        """See `Stream.with_latest_from`."""
        return self._with(self._stream.with_latest_from(other))

    @overload
    def zip(self, *, prefetch: int = 32) -> BlockingStream[tuple[T_co]]: ...

    @overload
    def zip(self, second: Publisher[R], /, *, prefetch: int = 32) -> BlockingStream[tuple[T_co, R]]: ...

    @overload
    def zip(
        self, second: Publisher[R], third: Publisher[S], /, *, prefetch: int = 32
    ) -> BlockingStream[tuple[T_co, R, S]]: ...

    @overload
    def zip(
        self, second: Publisher[R], third: Publisher[S], fourth: Publisher[K], /, *, prefetch: int = 32
    ) -> BlockingStream[tuple[T_co, R, S, K]]: ...

    @overload
    def zip(
        self,
        second: Publisher[R],
        third: Publisher[S],
        fourth: Publisher[K],
        fifth: Publisher[V],
        /,
        *,
        prefetch: int = 32,
    ) -> BlockingStream[tuple[T_co, R, S, K, V]]: ...

    @overload
    def zip(self, *others: Publisher[Any], prefetch: int = 32) -> BlockingStream[tuple[Any, ...]]: ...

    def zip(self, *others: Publisher[Any], prefetch: Any = 32) -> BlockingStream[Any]:
        """See `Stream.zip`."""
        return self._with(self._stream.zip(*others, prefetch=prefetch))

    # written by tools/fluent.py up to here


name_arguments("BlockingStream", BlockingStream)
