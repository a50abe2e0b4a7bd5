"""The stream classes of asyncio: the sources and operators of `rstreams.Stream`, and terminals that run in asyncio.

`tools/fluent.py` writes most of the methods into the lower part of `Stream`. What each does is told at the method of
`rstreams.Stream` with the same name.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Hashable, Iterable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import TYPE_CHECKING, Any, Concatenate, Generic, Literal, Never, ParamSpec, TypeGuard, TypeVar, overload

from rstreams import operators, sources
from rstreams import stream as trio_stream
from rstreams._checks.argument_names import name_arguments
from rstreams._checks.functions import refuse_unrun, require_effect
from rstreams._checks.publishers import require_publisher
from rstreams._core.windows import require_open_window
from rstreams._stages.connectable import Connectable
from rstreams._stages.extremes import Ordered
from rstreams._stages.map_step import shown_as
from rstreams._stages.overflow import Strategy
from rstreams._stages.stage import Ack, GatherAck
from rstreams.abc import Cancellable, Publisher, Subscriber
from rstreams.aio._scope import ASYNCIO
from rstreams.notifications import Notification
from rstreams.operators.group_by import GroupedPublisher
from rstreams.operators.pausable import Valve
from rstreams.operators.sum import Summable
from rstreams.operators.time_interval import TimeInterval
from rstreams.operators.timestamp import Timestamped
from rstreams.runtime import terminals
from rstreams.sources.from_future import Future
from rstreams.stream import Explanation
from rstreams.stream._explain import explain
from rstreams.stream._misuse import NotIterable, Opening

if TYPE_CHECKING:
    from reactivex import Observable

    from rstreams.observables import Overflow

T_co = TypeVar("T_co", covariant=True)
K = TypeVar("K")
R = TypeVar("R")
P = ParamSpec("P")
# from here on written by tools/fluent.py: change the operator, then run `make format`

C = TypeVar("C", bound=Ordered)
F = TypeVar("F", bound=float)
N = TypeVar("N", bound=Summable)
S = TypeVar("S")
T = TypeVar("T")
V = TypeVar("V")

# written by tools/fluent.py up to here


class Stream(NotIterable, Generic[T_co]):
    """A `rstreams.Stream` for asyncio: the same sources and operators, and terminals for asyncio tasks.

    Async functions given to `map_async`, `for_each`, `defer`, `using` and the like are asyncio coroutines.

    Args:
        publisher: Where the items come from: any object with `subscribe`, such as a `rstreams.Stream`.

    Errors: `TypeError` if `publisher` is not a publisher.
    """

    __slots__ = ("_source",)

    def __init__(self, publisher: Publisher[T_co]) -> None:
        require_publisher("Stream", "publisher", publisher)
        # A stream in a stream would cost every subscription a call more.
        self._source: Publisher[T_co] = publisher
        if isinstance(publisher, Stream | trio_stream.Stream):
            self._source = publisher._source  # noqa: SLF001 - our own

    def subscribe(self, subscriber: Subscriber[T_co]) -> None:
        """See `rstreams.Stream.subscribe`.

        Context: Stages that need time or tasks find them in the scope this is called in; without one they fail.
        """
        self._source.subscribe(subscriber)

    def through(
        self, function: Callable[Concatenate[Stream[T_co], P], Publisher[R]], *args: P.args, **kwargs: P.kwargs
    ) -> Stream[R]:
        """See `rstreams.Stream.through`."""
        return Stream(function(self, *args, **kwargs))

    # operators that give more than a stream, or take one

    def group_by(
        self, key: Callable[[T_co], K], *, prefetch: int = 256, max_groups: int | None = None
    ) -> Stream[GroupedStream[K, T_co]]:
        """See `rstreams.Stream.group_by`."""
        groups = operators.group_by(self._source, key, prefetch=prefetch, max_groups=max_groups)
        return Stream(shown_as(groups, GroupedStream[K, T_co]))

    def publish(self, *, window: int = 256) -> ConnectableStream[T_co]:
        """See `rstreams.Stream.publish`."""
        return ConnectableStream(operators.publish(self._source, window=window))

    def replay(self, count: int, *, window: int = 256) -> ConnectableStream[T_co]:
        """See `rstreams.Stream.replay`."""
        return ConnectableStream(operators.replay(self._source, count, window=window))

    def partition(
        self, key: Callable[[T_co], Hashable], partitions: int, *, window: int = 256
    ) -> tuple[Stream[T_co], ...]:
        """See `rstreams.Stream.partition`."""
        parts = operators.partition(self._source, key, partitions, window=window)
        return tuple(Stream(part) for part in parts)

    def parallel(
        self,
        workers: int,
        function: Callable[[Stream[T_co]], Publisher[R]],
        *,
        window: int = 256,
        delay_errors: bool = False,
    ) -> Stream[R]:
        """See `rstreams.Stream.parallel`."""

        def on_stream(publisher: Publisher[T_co]) -> Publisher[R]:
            return function(Stream(publisher))

        return Stream(operators.parallel(self._source, workers, on_stream, window=window, delay_errors=delay_errors))

    # reactivex

    @staticmethod
    def from_observable(observable: Observable[R], *, overflow: Overflow = "error", size: int = 256) -> Stream[R]:
        """See `rstreams.Stream.from_observable`."""
        from rstreams.observables import from_observable  # noqa: PLC0415 - only who uses it needs reactivex

        return Stream(from_observable(observable, overflow=overflow, size=size))

    def to_observable(self) -> Observable[T_co]:
        """See `rstreams.Stream.to_observable`."""
        from rstreams.observables import to_observable  # noqa: PLC0415 - likewise

        return to_observable(self._source)

    def rx(self, operator: Callable[[Observable[T_co]], Observable[R]], *, max_expansion: int = 1024) -> Stream[R]:
        """See `rstreams.Stream.rx`."""
        from rstreams.observables import rx  # noqa: PLC0415 - likewise

        return Stream(rx(self._source, operator, max_expansion=max_expansion))

    # sight

    def explain(self) -> Explanation:
        """See `rstreams.Stream.explain`.

        Context: Any task of the loop that the stream runs in.
        """
        return explain(self._source)

    # terminals

    def open(self, window: int | None = None) -> AbstractAsyncContextManager[AsyncIterator[T_co]]:
        """Open the stream for `async for`; see `rstreams.Stream.open`.

            async with stream.open() as items:
                async for item in items:
                    ...

        Args:
            window: The most items that have been requested or have come and were not given out yet; at least 1. None:
                256, or as many as the window of its link, up to 1,024.

        Errors: As `rstreams.Stream.open`.
        Cancels: Leaving the block cancels the subscription and all its tasks.
        Context: An asyncio task, which is the one to enter the block, loop and leave it.
        """
        return Opening(terminals.open_items(self._source, require_open_window(window), ASYNCIO))

    async def to_list(self, *, ack: GatherAck = "within_window") -> list[T_co]:
        """Return all items; see `rstreams.Stream.to_list`.

        Args:
            ack: When an item is done: "within_window", "on_result" or "on_receipt".

        Errors: As `rstreams.Stream.to_list`.
        Cancels: The items are given back (released).
        Context: An asyncio task; other tasks run between slices of at most 1,024 items.
        """
        return await terminals.to_list(self._source, ack, ASYNCIO)

    async def first_or_none(self) -> T_co | None:
        """Return the first item, or None if the stream completes without one; see `rstreams.Stream.first_or_none`.

        Errors: Raises what the stream failed with.
        Cancels: An item that has come is given back (released).
        Context: An asyncio task.
        """
        return await terminals.first_or_none(self._source, ASYNCIO)

    async def for_each(self, function: Callable[[T_co], Awaitable[object]] | Callable[[T_co], object]) -> None:
        """Call `function` with each item, or await it if it is a coroutine function; see `rstreams.Stream.for_each`.

        Args:
            function: A plain function must not block. A coroutine function has the items one after the other.

        Errors: As `rstreams.Stream.for_each`.
        Context: An asyncio task; other tasks run between slices of at most 1,024 items.
        """
        if _is_async(function):
            async with self.open() as items:
                async for item in items:
                    refuse_unrun("for_each", "function", await function(item))
        else:
            require_effect("for_each", "function", function)
            await terminals.for_each(self._source, function, ASYNCIO)

    # sources and operators

    # from here on written by tools/fluent.py: change the operator, then run `make format`

    @staticmethod
    def defer(make: Callable[[], Publisher[T]]) -> Stream[T]:
        """See `Stream.defer`."""
        return Stream(sources.defer(make))

    @staticmethod
    def empty() -> Stream[Never]:
        """See `Stream.empty`."""
        return Stream(sources.empty())

    @staticmethod
    def fail(error: BaseException) -> Stream[Never]:
        """See `Stream.fail`."""
        return Stream(sources.fail(error))

    @staticmethod
    def from_async_iterable(iterable: AsyncIterable[T]) -> Stream[T]:
        """See `Stream.from_async_iterable`."""
        return Stream(sources.from_async_iterable(iterable))

    @overload
    @staticmethod
    def from_callable(function: Callable[[], Awaitable[T]]) -> Stream[T]: ...

    @overload
    @staticmethod
    def from_callable(function: Callable[[], T]) -> Stream[T]: ...

    @staticmethod
    def from_callable(function: Callable[[], Any]) -> Stream[Any]:
        """See `Stream.from_callable`."""
        return Stream(sources.from_callable(function))

    @staticmethod
    def from_future(future: Future[T]) -> Stream[T]:
        """See `Stream.from_future`."""
        return Stream(sources.from_future(future))

    @staticmethod
    def from_iterable(iterable: Iterable[T]) -> Stream[T]:
        """See `Stream.from_iterable`."""
        return Stream(sources.from_iterable(iterable))

    @staticmethod
    def generate(initial: S, step: Callable[[S], tuple[T, S] | None]) -> Stream[T]:
        """See `Stream.generate`."""
        return Stream(sources.generate(initial, step))

    @staticmethod
    def interval(period_s: float, *, initial_delay_s: float | None = None) -> Stream[int]:
        """See `Stream.interval`."""
        return Stream(sources.interval(period_s, initial_delay_s=initial_delay_s))

    @staticmethod
    def never() -> Stream[Never]:
        """See `Stream.never`."""
        return Stream(sources.never())

    @staticmethod
    def of(*items: T) -> Stream[T]:
        """See `Stream.of`."""
        return Stream(sources.of(*items))

    @staticmethod
    def range(start: int, stop: int | None = None, step: int = 1) -> Stream[int]:
        """See `Stream.range`."""
        return Stream(sources.range(start, stop, step))

    @staticmethod
    def timer(delay_s: float) -> Stream[int]:
        """See `Stream.timer`."""
        return Stream(sources.timer(delay_s))

    @overload
    @staticmethod
    def unfold(initial: S, step: Callable[[S], Awaitable[tuple[T, S] | None]]) -> Stream[T]: ...

    @overload
    @staticmethod
    def unfold(initial: S, step: Callable[[S], tuple[T, S] | None]) -> Stream[T]: ...

    @staticmethod
    def unfold(initial: Any, step: Any) -> Stream[Any]:
        """See `Stream.unfold`."""
        return Stream(sources.unfold(initial, step))

    @staticmethod
    def using(
        acquire: Callable[[], AbstractContextManager[S] | AbstractAsyncContextManager[S]],
        use: Callable[[S], Publisher[T]],
    ) -> Stream[T]:
        """See `Stream.using`."""
        return Stream(sources.using(acquire, use))

    def all(self, predicate: Callable[[T_co], object]) -> Stream[bool]:
        """See `Stream.all`."""
        return Stream(operators.all(self._source, predicate))

    def any(self, predicate: Callable[[T_co], object] | None = None) -> Stream[bool]:
        """See `Stream.any`."""
        return Stream(operators.any(self._source, predicate))

    def average(self: Stream[F]) -> Stream[float]:
        """See `Stream.average`."""
        return Stream(operators.average(self._source))

    def broadcast(self, *, subscribers: int = 1, window: int = 256) -> Stream[T_co]:
        """See `Stream.broadcast`."""
        return Stream(operators.broadcast(self._source, subscribers=subscribers, window=window))

    def buffer_boundary(self, boundary: Publisher[object], *, max_items: int = 1024) -> Stream[list[T_co]]:
        """See `Stream.buffer_boundary`."""
        return Stream(operators.buffer_boundary(self._source, boundary, max_items=max_items))

    def buffer_count(self, count: int, *, skip: int | None = None) -> Stream[list[T_co]]:
        """See `Stream.buffer_count`."""
        return Stream(operators.buffer_count(self._source, count, skip=skip))

    def buffer_count_or_time(self, count: int, span_s: float) -> Stream[list[T_co]]:
        """See `Stream.buffer_count_or_time`."""
        return Stream(operators.buffer_count_or_time(self._source, count, span_s))

    def buffer_time(self, span_s: float, *, max_items: int = 1024) -> Stream[list[T_co]]:
        """See `Stream.buffer_time`."""
        return Stream(operators.buffer_time(self._source, span_s, max_items=max_items))

    def buffer_until(self, predicate: Callable[[T_co], object], *, max_items: int = 1024) -> Stream[list[T_co]]:
        """See `Stream.buffer_until`."""
        return Stream(operators.buffer_until(self._source, predicate, max_items=max_items))

    def cache(self, *, max_items: int | None = None, ack: Ack = "on_receipt") -> Stream[T_co]:
        """See `Stream.cache`."""
        return Stream(operators.cache(self._source, max_items=max_items, ack=ack))

    def cast(self, kind: type[R]) -> Stream[R]:
        """See `Stream.cast`."""
        return Stream(operators.cast(self._source, kind))

    def checkpoint(self, description: str = "") -> Stream[T_co]:
        """See `Stream.checkpoint`."""
        return Stream(operators.checkpoint(self._source, description))

    def collect(self, *, ack: GatherAck = "within_window") -> Stream[list[T_co]]:
        """See `Stream.collect`."""
        return Stream(operators.collect(self._source, ack=ack))

    @overload
    def combine_latest(self, *, prefetch: int = 32, delay_errors: bool = False) -> Stream[tuple[T_co]]: ...

    @overload
    def combine_latest(
        self, second: Publisher[R], /, *, prefetch: int = 32, delay_errors: bool = False
    ) -> Stream[tuple[T_co, R]]: ...

    @overload
    def combine_latest(
        self, second: Publisher[R], third: Publisher[S], /, *, prefetch: int = 32, delay_errors: bool = False
    ) -> Stream[tuple[T_co, R, S]]: ...

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
    ) -> Stream[tuple[T_co, R, S, K]]: ...

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
    ) -> Stream[tuple[T_co, R, S, K, V]]: ...

    @overload
    def combine_latest(
        self, *others: Publisher[Any], prefetch: int = 32, delay_errors: bool = False
    ) -> Stream[tuple[Any, ...]]: ...

    def combine_latest(self, *others: Publisher[Any], prefetch: Any = 32, delay_errors: Any = False) -> Stream[Any]:
        """See `Stream.combine_latest`."""
        return Stream(operators.combine_latest(self._source, *others, prefetch=prefetch, delay_errors=delay_errors))

    def concat(self, *others: Publisher[R], delay_errors: bool = False) -> Stream[T_co | R]:
        """See `Stream.concat`."""
        return Stream(operators.concat(self._source, *others, delay_errors=delay_errors))

    def concat_map(
        self,
        function: Callable[[T_co], Publisher[R]],
        *,
        prefetch: int = 1,
        delay_errors: bool = False,
        window: int | None = None,
    ) -> Stream[R]:
        """See `Stream.concat_map`."""
        return Stream(
            operators.concat_map(self._source, function, prefetch=prefetch, delay_errors=delay_errors, window=window)
        )

    def contains(self, value: object) -> Stream[bool]:
        """See `Stream.contains`."""
        return Stream(operators.contains(self._source, value))

    def count(self, predicate: Callable[[T_co], object] | None = None) -> Stream[int]:
        """See `Stream.count`."""
        return Stream(operators.count(self._source, predicate))

    def debounce(self, quiet_s: float) -> Stream[T_co]:
        """See `Stream.debounce`."""
        return Stream(operators.debounce(self._source, quiet_s))

    def default_if_empty(self, default: R) -> Stream[T_co | R]:
        """See `Stream.default_if_empty`."""
        return Stream(operators.default_if_empty(self._source, default))

    def delay(self, delay_s: float) -> Stream[T_co]:
        """See `Stream.delay`."""
        return Stream(operators.delay(self._source, delay_s))

    def delay_each(self, delay_s: float) -> Stream[T_co]:
        """See `Stream.delay_each`."""
        return Stream(operators.delay_each(self._source, delay_s))

    def dematerialize(self: Stream[Notification[R]]) -> Stream[R]:
        """See `Stream.dematerialize`."""
        return Stream(operators.dematerialize(self._source))

    def distinct(self, key: Callable[[T_co], object] | None = None) -> Stream[T_co]:
        """See `Stream.distinct`."""
        return Stream(operators.distinct(self._source, key))

    def distinct_until_changed(self, key: Callable[[T_co], object] | None = None) -> Stream[T_co]:
        """See `Stream.distinct_until_changed`."""
        return Stream(operators.distinct_until_changed(self._source, key))

    def distribute(self, *, subscribers: int = 1, window: int = 256) -> Stream[T_co]:
        """See `Stream.distribute`."""
        return Stream(operators.distribute(self._source, subscribers=subscribers, window=window))

    def do_finally(self, function: Callable[[Literal["complete", "error", "cancel"]], object]) -> Stream[T_co]:
        """See `Stream.do_finally`."""
        return Stream(operators.do_finally(self._source, function))

    def do_on_cancel(self, function: Callable[[], object]) -> Stream[T_co]:
        """See `Stream.do_on_cancel`."""
        return Stream(operators.do_on_cancel(self._source, function))

    def do_on_complete(self, function: Callable[[], object]) -> Stream[T_co]:
        """See `Stream.do_on_complete`."""
        return Stream(operators.do_on_complete(self._source, function))

    def do_on_error(self, function: Callable[[BaseException], object]) -> Stream[T_co]:
        """See `Stream.do_on_error`."""
        return Stream(operators.do_on_error(self._source, function))

    def do_on_next(self, function: Callable[[T_co], object]) -> Stream[T_co]:
        """See `Stream.do_on_next`."""
        return Stream(operators.do_on_next(self._source, function))

    def do_on_request(self, function: Callable[[int], object]) -> Stream[T_co]:
        """See `Stream.do_on_request`."""
        return Stream(operators.do_on_request(self._source, function))

    def do_on_subscribe(self, function: Callable[[], object]) -> Stream[T_co]:
        """See `Stream.do_on_subscribe`."""
        return Stream(operators.do_on_subscribe(self._source, function))

    def element_at(self, index: int) -> Stream[T_co]:
        """See `Stream.element_at`."""
        return Stream(operators.element_at(self._source, index))

    def end_with(self, *items: R) -> Stream[T_co | R]:
        """See `Stream.end_with`."""
        return Stream(operators.end_with(self._source, *items))

    def enumerate(self, start: int = 0) -> Stream[tuple[int, T_co]]:
        """See `Stream.enumerate`."""
        return Stream(operators.enumerate(self._source, start))

    def expand(
        self: Stream[R], function: Callable[[R], Publisher[R]], *, depth: int | None = None, max_pending: int = 1024
    ) -> Stream[R]:
        """See `Stream.expand`."""
        return Stream(operators.expand(self._source, function, depth=depth, max_pending=max_pending))

    def filter(self, predicate: Callable[[T_co], object]) -> Stream[T_co]:
        """See `Stream.filter`."""
        return Stream(operators.filter(self._source, predicate))

    def first(self, predicate: Callable[[T_co], object] | None = None) -> Stream[T_co]:
        """See `Stream.first`."""
        return Stream(operators.first(self._source, predicate))

    def flat_map(
        self,
        function: Callable[[T_co], Publisher[R]],
        *,
        concurrency: int = 16,
        prefetch: int = 32,
        delay_errors: bool = False,
        window: int | None = None,
    ) -> Stream[R]:
        """See `Stream.flat_map`."""
        return Stream(
            operators.flat_map(
                self._source,
                function,
                concurrency=concurrency,
                prefetch=prefetch,
                delay_errors=delay_errors,
                window=window,
            )
        )

    def flatten(self: Stream[Iterable[R]]) -> Stream[R]:
        """See `Stream.flatten`."""
        return Stream(operators.flatten(self._source))

    def ignore_elements(self) -> Stream[Never]:
        """See `Stream.ignore_elements`."""
        return Stream(operators.ignore_elements(self._source))

    def last(self, predicate: Callable[[T_co], object] | None = None) -> Stream[T_co]:
        """See `Stream.last`."""
        return Stream(operators.last(self._source, predicate))

    def limit_rate(self, high: int, low: int | None = None) -> Stream[T_co]:
        """See `Stream.limit_rate`."""
        return Stream(operators.limit_rate(self._source, high, low))

    def limit_request(self, count: int) -> Stream[T_co]:
        """See `Stream.limit_request`."""
        return Stream(operators.limit_request(self._source, count))

    def log(self, name: str = "stream", *, level: int = 20) -> Stream[T_co]:
        """See `Stream.log`."""
        return Stream(operators.log(self._source, name, level=level))

    def map(self, function: Callable[[T_co], R]) -> Stream[R]:
        """See `Stream.map`."""
        return Stream(operators.map(self._source, function))

    def map_async(
        self,
        function: Callable[[T_co], Awaitable[R]],
        *,
        concurrency: int = 1,
        ordered: bool = True,
        window: int | None = None,
    ) -> Stream[R]:
        """See `Stream.map_async`."""
        return Stream(
            operators.map_async(self._source, function, concurrency=concurrency, ordered=ordered, window=window)
        )

    def map_blocking(
        self, function: Callable[[T_co], R], *, concurrency: int = 1, ordered: bool = True, window: int | None = None
    ) -> Stream[R]:
        """See `Stream.map_blocking`."""
        return Stream(
            operators.map_blocking(self._source, function, concurrency=concurrency, ordered=ordered, window=window)
        )

    def materialize(self) -> Stream[Notification[T_co]]:
        """See `Stream.materialize`."""
        return Stream(operators.materialize(self._source))

    @overload
    def max(self: Stream[C]) -> Stream[C]: ...

    @overload
    def max(self, key: Callable[[T_co], Ordered]) -> Stream[T_co]: ...

    def max(self: Stream[Any], key: Any = None) -> Stream[Any]:
        """See `Stream.max`."""
        return Stream(operators.max(self._source, key))

    def merge(self, *others: Publisher[R], delay_errors: bool = False) -> Stream[T_co | R]:
        """See `Stream.merge`."""
        return Stream(operators.merge(self._source, *others, delay_errors=delay_errors))

    def merge_priority(self, *others: Publisher[R], prefetch: int = 32, delay_errors: bool = False) -> Stream[T_co | R]:
        """See `Stream.merge_priority`."""
        return Stream(operators.merge_priority(self._source, *others, prefetch=prefetch, delay_errors=delay_errors))

    def merge_sorted(
        self,
        *others: Publisher[R],
        key: Callable[[T_co | R], Any] | None = None,
        prefetch: int = 32,
        delay_errors: bool = False,
    ) -> Stream[T_co | R]:
        """See `Stream.merge_sorted`."""
        return Stream(
            operators.merge_sorted(self._source, *others, key=key, prefetch=prefetch, delay_errors=delay_errors)
        )

    @overload
    def min(self: Stream[C]) -> Stream[C]: ...

    @overload
    def min(self, key: Callable[[T_co], Ordered]) -> Stream[T_co]: ...

    def min(self: Stream[Any], key: Any = None) -> Stream[Any]:
        """See `Stream.min`."""
        return Stream(operators.min(self._source, key))

    def name(self, name: str) -> Stream[T_co]:
        """See `Stream.name`."""
        return Stream(operators.name(self._source, name))

    def on_error_complete(self, predicate: Callable[[Exception], object] | None = None) -> Stream[T_co]:
        """See `Stream.on_error_complete`."""
        return Stream(operators.on_error_complete(self._source, predicate))

    def on_error_map(self, function: Callable[[Exception], BaseException]) -> Stream[T_co]:
        """See `Stream.on_error_map`."""
        return Stream(operators.on_error_map(self._source, function))

    def on_error_resume(self, handler: Callable[[Exception], Publisher[R]]) -> Stream[T_co | R]:
        """See `Stream.on_error_resume`."""
        return Stream(operators.on_error_resume(self._source, handler))

    def on_error_return(self, value: R) -> Stream[T_co | R]:
        """See `Stream.on_error_return`."""
        return Stream(operators.on_error_return(self._source, value))

    def on_overflow_buffer(
        self, size: int, *, strategy: Strategy = "error", on_drop: Callable[[T_co], object] | None = None
    ) -> Stream[T_co]:
        """See `Stream.on_overflow_buffer`."""
        return Stream(operators.on_overflow_buffer(self._source, size, strategy=strategy, on_drop=on_drop))

    def on_overflow_drop(self, on_drop: Callable[[T_co], object] | None = None) -> Stream[T_co]:
        """See `Stream.on_overflow_drop`."""
        return Stream(operators.on_overflow_drop(self._source, on_drop))

    def on_overflow_error(self) -> Stream[T_co]:
        """See `Stream.on_overflow_error`."""
        return Stream(operators.on_overflow_error(self._source))

    def on_overflow_latest(self, on_drop: Callable[[T_co], object] | None = None) -> Stream[T_co]:
        """See `Stream.on_overflow_latest`."""
        return Stream(operators.on_overflow_latest(self._source, on_drop))

    def on_overflow_reduce(
        self, function: Callable[[T_co, T_co], T_co], *, ack: GatherAck = "within_window"
    ) -> Stream[T_co]:
        """See `Stream.on_overflow_reduce`."""
        return Stream(operators.on_overflow_reduce(self._source, function, ack=ack))

    def pairwise(self) -> Stream[tuple[T_co, T_co]]:
        """See `Stream.pairwise`."""
        return Stream(operators.pairwise(self._source))

    def pausable(self, valve: Valve, *, size: int = 256) -> Stream[T_co]:
        """See `Stream.pausable`."""
        return Stream(operators.pausable(self._source, valve, size=size))

    def race(self, *others: Publisher[R]) -> Stream[T_co | R]:
        """See `Stream.race`."""
        return Stream(operators.race(self._source, *others))

    def reduce(self, accumulator: Callable[[R, T_co], R], seed: R, *, ack: GatherAck = "within_window") -> Stream[R]:
        """See `Stream.reduce`."""
        return Stream(operators.reduce(self._source, accumulator, seed, ack=ack))

    def repeat(self, count: int | None = None) -> Stream[T_co]:
        """See `Stream.repeat`."""
        return Stream(operators.repeat(self._source, count))

    def retry(
        self, count: int | None = None, *, predicate: Callable[[Exception], object] | None = None
    ) -> Stream[T_co]:
        """See `Stream.retry`."""
        return Stream(operators.retry(self._source, count, predicate=predicate))

    def retry_backoff(
        self,
        count: int,
        *,
        first_s: float = 0.1,
        max_s: float = 30.0,
        factor: float = 2.0,
        jitter: float = 0.5,
        predicate: Callable[[Exception], object] | None = None,
    ) -> Stream[T_co]:
        """See `Stream.retry_backoff`."""
        return Stream(
            operators.retry_backoff(
                self._source, count, first_s=first_s, max_s=max_s, factor=factor, jitter=jitter, predicate=predicate
            )
        )

    def sample(self, period_s: float) -> Stream[T_co]:
        """See `Stream.sample`."""
        return Stream(operators.sample(self._source, period_s))

    def scan(self, accumulator: Callable[[R, T_co], R], seed: R) -> Stream[R]:
        """See `Stream.scan`."""
        return Stream(operators.scan(self._source, accumulator, seed))

    def sequence_equal(self, other: Publisher[R], *, prefetch: int = 32) -> Stream[bool]:
        """See `Stream.sequence_equal`."""
        return Stream(operators.sequence_equal(self._source, other, prefetch=prefetch))

    def share(self, *, window: int = 256) -> Stream[T_co]:
        """See `Stream.share`."""
        return Stream(operators.share(self._source, window=window))

    def single(self) -> Stream[T_co]:
        """See `Stream.single`."""
        return Stream(operators.single(self._source))

    def skip(self, count: int) -> Stream[T_co]:
        """See `Stream.skip`."""
        return Stream(operators.skip(self._source, count))

    def skip_last(self, count: int) -> Stream[T_co]:
        """See `Stream.skip_last`."""
        return Stream(operators.skip_last(self._source, count))

    def skip_until(self, boundary: Publisher[R]) -> Stream[T_co]:
        """See `Stream.skip_until`."""
        return Stream(operators.skip_until(self._source, boundary))

    def skip_while(self, predicate: Callable[[T_co], object]) -> Stream[T_co]:
        """See `Stream.skip_while`."""
        return Stream(operators.skip_while(self._source, predicate))

    def start_with(self, *items: R) -> Stream[T_co | R]:
        """See `Stream.start_with`."""
        return Stream(operators.start_with(self._source, *items))

    def sum(self: Stream[N]) -> Stream[N | int]:
        """See `Stream.sum`."""
        return Stream(operators.sum(self._source))

    def switch_if_empty(self, other: Publisher[R]) -> Stream[T_co | R]:
        """See `Stream.switch_if_empty`."""
        return Stream(operators.switch_if_empty(self._source, other))

    def switch_map(self, function: Callable[[T_co], Publisher[R]], *, delay_errors: bool = False) -> Stream[R]:
        """See `Stream.switch_map`."""
        return Stream(operators.switch_map(self._source, function, delay_errors=delay_errors))

    def take(self, count: int) -> Stream[T_co]:
        """See `Stream.take`."""
        return Stream(operators.take(self._source, count))

    def take_last(self, count: int) -> Stream[T_co]:
        """See `Stream.take_last`."""
        return Stream(operators.take_last(self._source, count))

    def take_until(self, boundary: Publisher[R]) -> Stream[T_co]:
        """See `Stream.take_until`."""
        return Stream(operators.take_until(self._source, boundary))

    def take_while(self, predicate: Callable[[T_co], object], *, inclusive: bool = False) -> Stream[T_co]:
        """See `Stream.take_while`."""
        return Stream(operators.take_while(self._source, predicate, inclusive=inclusive))

    def throttle(self, period_s: float) -> Stream[T_co]:
        """See `Stream.throttle`."""
        return Stream(operators.throttle(self._source, period_s))

    def time_interval(self) -> Stream[TimeInterval[T_co]]:
        """See `Stream.time_interval`."""
        return Stream(operators.time_interval(self._source))

    def timeout(self, timeout_s: float, *, fallback: Publisher[R] | None = None) -> Stream[T_co | R]:
        """See `Stream.timeout`."""
        return Stream(operators.timeout(self._source, timeout_s, fallback=fallback))

    def timestamp(self) -> Stream[Timestamped[T_co]]:
        """See `Stream.timestamp`."""
        return Stream(operators.timestamp(self._source))

    @overload
    def to_dict(self, key: Callable[[T_co], K], *, ack: GatherAck = "within_window") -> Stream[dict[K, T_co]]: ...

    @overload
    def to_dict(
        self, key: Callable[[T_co], K], value: Callable[[T_co], V], *, ack: GatherAck = "within_window"
    ) -> Stream[dict[K, V]]: ...

    def to_dict(self, key: Any, value: Any = None, *, ack: Any = "within_window") -> Stream[dict[Any, Any]]:
        """See `Stream.to_dict`."""
        return Stream(operators.to_dict(self._source, key, value, ack=ack))

    def to_set(self, *, ack: GatherAck = "within_window") -> Stream[set[T_co]]:
        """See `Stream.to_set`."""
        return Stream(operators.to_set(self._source, ack=ack))

    def window_boundary(self, boundary: Publisher[object], *, prefetch: int = 256) -> Stream[Stream[T_co]]:
        """See `Stream.window_boundary`."""
        return Stream(shown_as(operators.window_boundary(self._source, boundary, prefetch=prefetch), Stream))

    def window_count(self, count: int, *, skip: int | None = None, prefetch: int = 256) -> Stream[Stream[T_co]]:
        """See `Stream.window_count`."""
        return Stream(shown_as(operators.window_count(self._source, count, skip=skip, prefetch=prefetch), Stream))

    def window_count_or_time(self, count: int, span_s: float, *, prefetch: int = 256) -> Stream[Stream[T_co]]:
        """See `Stream.window_count_or_time`."""
        return Stream(shown_as(operators.window_count_or_time(self._source, count, span_s, prefetch=prefetch), Stream))

    def window_time(self, span_s: float, *, prefetch: int = 256) -> Stream[Stream[T_co]]:
        """See `Stream.window_time`."""
        return Stream(shown_as(operators.window_time(self._source, span_s, prefetch=prefetch), Stream))

    def with_latest_from(self, other: Publisher[R]) -> Stream[tuple[T_co, R]]:
        """See `Stream.with_latest_from`."""
        return Stream(operators.with_latest_from(self._source, other))

    @overload
    def zip(self, *, prefetch: int = 32) -> Stream[tuple[T_co]]: ...

    @overload
    def zip(self, second: Publisher[R], /, *, prefetch: int = 32) -> Stream[tuple[T_co, R]]: ...

    @overload
    def zip(self, second: Publisher[R], third: Publisher[S], /, *, prefetch: int = 32) -> Stream[tuple[T_co, R, S]]: ...

    @overload
    def zip(
        self, second: Publisher[R], third: Publisher[S], fourth: Publisher[K], /, *, prefetch: int = 32
    ) -> Stream[tuple[T_co, R, S, K]]: ...

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
    ) -> Stream[tuple[T_co, R, S, K, V]]: ...

    @overload
    def zip(self, *others: Publisher[Any], prefetch: int = 32) -> Stream[tuple[Any, ...]]: ...

    def zip(self, *others: Publisher[Any], prefetch: Any = 32) -> Stream[Any]:
        """See `Stream.zip`."""
        return Stream(operators.zip(self._source, *others, prefetch=prefetch))

    # written by tools/fluent.py up to here


class GroupedStream(Stream[T_co], Generic[K, T_co]):
    """The items of one key; made by `Stream.group_by`.

    Attributes:
        key: The key of all its items.
    """

    __slots__ = ("key",)

    def __init__(self, group: GroupedPublisher[K, T_co]) -> None:
        super().__init__(group)
        self.key: K = group.key


class ConnectableStream(Stream[T_co]):
    """A stream whose subscribers share one run, which `connect` begins; made by `publish` and `replay`."""

    __slots__ = ("_connectable",)

    def __init__(self, connectable: Connectable[T_co]) -> None:
        super().__init__(connectable)
        self._connectable = connectable

    def connect(self) -> Cancellable:
        """Begin the run: subscribe to the source; what it returns ends the run. Calling it again begins nothing."""
        return self._connectable.connect()

    def ref_count(self, subscribers: int = 1) -> Stream[T_co]:
        """Return a stream that begins a run when `subscribers` are there, and cancels it when all have left."""
        return Stream(self._connectable.ref_count(subscribers))

    def auto_connect(self, subscribers: int = 1) -> Stream[T_co]:
        """Return a stream that begins the run when `subscribers` are there, and never cancels it."""
        return Stream(self._connectable.auto_connect(subscribers))


def _is_async(
    function: Callable[[T_co], Awaitable[object]] | Callable[[T_co], object],
) -> TypeGuard[Callable[[T_co], Awaitable[object]]]:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


name_arguments("Stream", Stream)
