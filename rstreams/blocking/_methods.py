"""The operators as methods of `BlockingStream`.

Written by `tools/fluent.py`: change the operator, then run `make format`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Generic, TypeVar

from rstreams.abc import Publisher
from rstreams.operators._merging import PREFETCH
from rstreams.stream import Stream

if TYPE_CHECKING:
    from rstreams.blocking import BlockingStream

T_co = TypeVar("T_co", covariant=True)
R = TypeVar("R")


class BlockingMethods(Generic[T_co]):
    """The methods of `BlockingStream` that stand for the function of their name."""

    __slots__ = ("_stream",)

    _stream: Stream[T_co]

    def _with(self, stream: Stream[R]) -> BlockingStream[R]:
        """Return the blocking stream over a stream, run in the same portal."""
        raise NotImplementedError

    def buffer_count(self, count: int) -> BlockingStream[list[T_co]]:
        """See `Stream.buffer_count`."""
        return self._with(self._stream.buffer_count(count))

    def concat(self, *others: Publisher[R]) -> BlockingStream[T_co | R]:
        """See `Stream.concat`."""
        return self._with(self._stream.concat(*others))

    def do_on_complete(self, function: Callable[[], object]) -> BlockingStream[T_co]:
        """See `Stream.do_on_complete`."""
        return self._with(self._stream.do_on_complete(function))

    def do_on_error(self, function: Callable[[BaseException], object]) -> BlockingStream[T_co]:
        """See `Stream.do_on_error`."""
        return self._with(self._stream.do_on_error(function))

    def do_on_next(self, function: Callable[[T_co], object]) -> BlockingStream[T_co]:
        """See `Stream.do_on_next`."""
        return self._with(self._stream.do_on_next(function))

    def filter(self, predicate: Callable[[T_co], object]) -> BlockingStream[T_co]:
        """See `Stream.filter`."""
        return self._with(self._stream.filter(predicate))

    def flat_map(
        self, function: Callable[[T_co], Publisher[R]], *, concurrency: int = 16, prefetch: int = PREFETCH
    ) -> BlockingStream[R]:
        """See `Stream.flat_map`."""
        return self._with(self._stream.flat_map(function, concurrency=concurrency, prefetch=prefetch))

    def map(self, function: Callable[[T_co], R]) -> BlockingStream[R]:
        """See `Stream.map`."""
        return self._with(self._stream.map(function))

    def map_async(
        self, function: Callable[[T_co], Awaitable[R]], *, concurrency: int = 1, ordered: bool = True
    ) -> BlockingStream[R]:
        """See `Stream.map_async`."""
        return self._with(self._stream.map_async(function, concurrency=concurrency, ordered=ordered))

    def merge(self, *others: Publisher[R]) -> BlockingStream[T_co | R]:
        """See `Stream.merge`."""
        return self._with(self._stream.merge(*others))

    def on_error_resume(self, handler: Callable[[Exception], Publisher[T_co]]) -> BlockingStream[T_co]:
        """See `Stream.on_error_resume`."""
        return self._with(self._stream.on_error_resume(handler))

    def reduce(self, accumulator: Callable[[R, T_co], R], seed: R) -> BlockingStream[R]:
        """See `Stream.reduce`."""
        return self._with(self._stream.reduce(accumulator, seed))

    def scan(self, accumulator: Callable[[R, T_co], R], seed: R) -> BlockingStream[R]:
        """See `Stream.scan`."""
        return self._with(self._stream.scan(accumulator, seed))

    def skip(self, count: int) -> BlockingStream[T_co]:
        """See `Stream.skip`."""
        return self._with(self._stream.skip(count))

    def take(self, count: int) -> BlockingStream[T_co]:
        """See `Stream.take`."""
        return self._with(self._stream.take(count))
