"""The sources and operators as methods of `Stream`.

Written by `tools/fluent.py`: change the operator, then run `make format`.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Generic, Never, TypeVar

from rstreams import operators, sources
from rstreams.abc import Publisher
from rstreams.operators._merging import PREFETCH

if TYPE_CHECKING:
    from rstreams.stream import Stream

T_co = TypeVar("T_co", covariant=True)
R = TypeVar("R")
S = TypeVar("S")
T = TypeVar("T")


class StreamMethods(Generic[T_co]):
    """The methods of `Stream` that stand for the function of their name."""

    __slots__ = ("_source",)

    _source: Publisher[T_co]

    @staticmethod
    def _stream(publisher: Publisher[R]) -> Stream[R]:
        """Return the stream over a publisher."""
        raise NotImplementedError

    @classmethod
    def defer(cls, make: Callable[[], Publisher[T]]) -> Stream[T]:
        """Subscribe each subscriber to a publisher that `make` returns for it.

        Args:
            make: Called once a subscriber, when it subscribes.

        Demand, holds, errors: `rstreams.sources.defer`.
        """
        return cls._stream(sources.defer(make))

    @classmethod
    def empty(cls) -> Stream[Never]:
        """Complete at once.

        Demand, holds, errors: `rstreams.sources.empty`.
        """
        return cls._stream(sources.empty())

    @classmethod
    def fail(cls, error: BaseException) -> Stream[Never]:
        """Signal `error` at once.

        Args:
            error: What each subscriber receives, one object for all. Give `defer(lambda: fail(make()))` for one each.

        Demand, holds, errors: `rstreams.sources.fail`.
        """
        return cls._stream(sources.fail(error))

    @classmethod
    def from_async_iterable(cls, iterable: AsyncIterable[T]) -> Stream[T]:
        """Emit the items of `iterable`, then complete.

        Args:
            iterable: Iterated over anew for each subscriber.

        Demand, holds, errors: `rstreams.sources.from_async_iterable`.
        """
        return cls._stream(sources.from_async_iterable(iterable))

    @classmethod
    def from_iterable(cls, iterable: Iterable[T]) -> Stream[T]:
        """Emit the items of `iterable`, then complete.

        Args:
            iterable: Iterated over anew for each subscriber; it must not block.

        Demand, holds, errors: `rstreams.sources.from_iterable`.
        """
        return cls._stream(sources.from_iterable(iterable))

    @classmethod
    def generate(cls, initial: S, step: Callable[[S], tuple[T, S] | None]) -> Stream[T]:
        """Emit what `step` makes of a state, one call an item, until it returns None.

        Args:
            initial: The state of each subscriber's first step. All subscribers start from this very object, so it should
                be a value that `step` replaces and does not change.
            step: Takes the state and returns the item and the next state, or None to complete; it must not block.

        Demand, holds, errors: `rstreams.sources.generate`.
        """
        return cls._stream(sources.generate(initial, step))

    @classmethod
    def never(cls) -> Stream[Never]:
        """Emit nothing and do not end.

        Demand, holds, errors: `rstreams.sources.never`.
        """
        return cls._stream(sources.never())

    @classmethod
    def of(cls, *items: T) -> Stream[T]:
        """Emit `items`, then complete.

        Args:
            items: What each subscriber receives, in this order.

        Demand, holds, errors: `rstreams.sources.of`.
        """
        return cls._stream(sources.of(*items))

    @classmethod
    def range(cls, start: int, stop: int | None = None, step: int = 1) -> Stream[int]:
        """Emit the numbers that Python's own `range` would give, then complete.

        Args:
            start: The first number; if it is the only argument, the numbers run from 0 up to it.
            stop: The first number not emitted.
            step: What is added each time; negative counts down.

        Demand, holds, errors: `rstreams.sources.range`.
        """
        return cls._stream(sources.range(start, stop, step))

    def buffer_count(self, count: int) -> Stream[list[T_co]]:
        """Gather the items of this stream into lists of `count`; the last list holds what is left.

        Args:
            count: How many items a list holds; at least 1.

        Demand, holds, errors: `rstreams.operators.buffer_count`.
        """
        return self._stream(operators.buffer_count(self._source, count))

    def concat(self, *others: Publisher[R]) -> Stream[T_co | R]:
        """Emit all items of the first source, then all of the second, and so on.

        Demand, holds, errors: `rstreams.operators.concat`.
        """
        return self._stream(operators.concat(self._source, *others))

    def do_on_complete(self, function: Callable[[], object]) -> Stream[T_co]:
        """Call `function()` when this stream completes, then pass the completion on.

        Args:
            function: Called at most once, before the completion is passed on, in the task that delivers it; it must not
                block. What it returns is dropped. After a cancel it is not called.

        Demand, holds, errors: `rstreams.operators.do_on_complete`.
        """
        return self._stream(operators.do_on_complete(self._source, function))

    def do_on_error(self, function: Callable[[BaseException], object]) -> Stream[T_co]:
        """Call `function(error)` when this stream fails, then pass the failure on.

        Args:
            function: Called at most once, before the error is passed on, in the task that delivers it; it must not
                block. What it returns is dropped.

        Demand, holds, errors: `rstreams.operators.do_on_error`.
        """
        return self._stream(operators.do_on_error(self._source, function))

    def do_on_next(self, function: Callable[[T_co], object]) -> Stream[T_co]:
        """Call `function(item)` for each item of this stream, then emit the item unchanged.

        Args:
            function: Called once an item, before it is emitted, in the task that delivers it; it must not block. What it
                returns is dropped.

        Demand, holds, errors: `rstreams.operators.do_on_next`.
        """
        return self._stream(operators.do_on_next(self._source, function))

    def filter(self, predicate: Callable[[T_co], object]) -> Stream[T_co]:
        """Emit each item of this stream for which `predicate(item)` is true.

        Args:
            predicate: Called once an item, in the task that delivers it; it must not block.

        Demand, holds, errors: `rstreams.operators.filter`.
        """
        return self._stream(operators.filter(self._source, predicate))

    def flat_map(
        self, function: Callable[[T_co], Publisher[R]], *, concurrency: int = 16, prefetch: int = PREFETCH
    ) -> Stream[R]:
        """Emit the items of the streams `function(item)`, at most `concurrency` of which run at a time.

        Args:
            function: Called once an outer item, in the task that delivers it; it must not block.
            concurrency: The most inner streams subscribed to at the same time; at least 1. With 1 they run one after the
                other, in order.
            prefetch: How many items an inner stream is asked for ahead of demand; at least 1.

        Demand, holds, errors: `rstreams.operators.flat_map`.
        """
        return self._stream(operators.flat_map(self._source, function, concurrency=concurrency, prefetch=prefetch))

    def map(self, function: Callable[[T_co], R]) -> Stream[R]:
        """Emit `function(item)` for each item of this stream.

        Args:
            function: Called once an item, in the task that delivers it; it must not block.

        Demand, holds, errors: `rstreams.operators.map`.
        """
        return self._stream(operators.map(self._source, function))

    def map_async(
        self, function: Callable[[T_co], Awaitable[R]], *, concurrency: int = 1, ordered: bool = True
    ) -> Stream[R]:
        """Emit `await function(item)` for each item of this stream.

        Args:
            function: Called once an item, in a task of its own.
            concurrency: The most items kept at a time, in progress or waiting for their turn; at least 1.
            ordered: Emit the results in the order of the items; else as they come.

        Demand, holds, errors: `rstreams.operators.map_async`.
        """
        return self._stream(operators.map_async(self._source, function, concurrency=concurrency, ordered=ordered))

    def merge(self, *others: Publisher[R]) -> Stream[T_co | R]:
        """Emit the items of all sources as they come.

        Demand, holds, errors: `rstreams.operators.merge`.
        """
        return self._stream(operators.merge(self._source, *others))

    def on_error_resume(self, handler: Callable[[Exception], Publisher[T_co]]) -> Stream[T_co]:
        """Emit the items of this stream; if it fails, go on with the publisher that `handler(error)` returns.

        Args:
            handler: Called at most once, in the task that delivers the error; it must not block. It may raise, the error
                it was given or another.

        Demand, holds, errors: `rstreams.operators.on_error_resume`.
        """
        return self._stream(operators.on_error_resume(self._source, handler))

    def reduce(self, accumulator: Callable[[R, T_co], R], seed: R) -> Stream[R]:
        """Fold every item of this stream into one result, and emit that when the source completes.

        Args:
            accumulator: Called once an item, in the task that delivers it; it must not block.
            seed: The result before the first item, and the one emitted if none comes. Every subscription starts from
                this same object, so the accumulator must return a new one rather than change it.

        Demand, holds, errors: `rstreams.operators.reduce`.
        """
        return self._stream(operators.reduce(self._source, accumulator, seed))

    def scan(self, accumulator: Callable[[R, T_co], R], seed: R) -> Stream[R]:
        """Emit `accumulator(result so far, item)` for each item of this stream.

        Args:
            accumulator: Called once an item, in the task that delivers it; it must not block.
            seed: The result before the first item; not emitted. Every subscription starts from this same object, so
                the accumulator must return a new one rather than change it.

        Demand, holds, errors: `rstreams.operators.scan`.
        """
        return self._stream(operators.scan(self._source, accumulator, seed))

    def skip(self, count: int) -> Stream[T_co]:
        """Drop the first `count` items of this stream and emit the rest.

        Args:
            count: How many items to drop.

        Demand, holds, errors: `rstreams.operators.skip`.
        """
        return self._stream(operators.skip(self._source, count))

    def take(self, count: int) -> Stream[T_co]:
        """Emit the first `count` items of this stream, then complete.

        Args:
            count: How many items to let through; 0 completes at once and requests nothing.

        Demand, holds, errors: `rstreams.operators.take`.
        """
        return self._stream(operators.take(self._source, count))
