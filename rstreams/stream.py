"""Stream: a publisher with the sources, operators and terminals as methods.

Each method delegates to the function of the same name in `rstreams.sources`, `rstreams.operators` or
`rstreams.runtime.terminals`, where the details stand: demand, holds, errors, cancelling.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager
from typing import Any, Concatenate, Generic, Never, ParamSpec, TypeVar, cast

from rstreams import operators, sources
from rstreams.abc import Publisher, Subscriber
from rstreams.runtime import terminals

__all__ = ["Stream"]

T_co = TypeVar("T_co", covariant=True)
R = TypeVar("R")
S = TypeVar("S")
P = ParamSpec("P")


class Stream(Generic[T_co]):
    """A publisher with methods to build on it and to run it.

    A stream is a description: nothing happens before something subscribes to it, and everyone who does gets a run of
    its own. Terminals and `open` run it in a scope of their own, which ends with them; a failure leaves them as
    itself, never wrapped in an exception group.

    Args:
        publisher: Where the items come from: any object with `subscribe`.

    Errors: `TypeError` if `publisher` is no publisher.
    """

    __slots__ = ("_source",)

    def __init__(self, publisher: Publisher[T_co]) -> None:
        if not callable(getattr(publisher, "subscribe", None)):
            msg = f"Stream(publisher): publisher must be a Publisher, not {publisher!r}"
            raise TypeError(msg)
        # A stream in a stream would cost every subscription a call more.
        self._source: Publisher[T_co] = publisher._source if isinstance(publisher, Stream) else publisher  # noqa: SLF001 - our own

    def subscribe(self, subscriber: Subscriber[T_co]) -> None:
        """Start a new run of the stream for `subscriber`.

        Context: Stages that need time or tasks find them in the scope this is called in; without one they fail.
        """
        self._source.subscribe(subscriber)

    # sources

    @staticmethod
    def of(*items: R) -> Stream[R]:
        """Emit `items`, then complete."""
        return Stream(sources.of(*items))

    @staticmethod
    def from_iterable(iterable: Iterable[R]) -> Stream[R]:
        """Emit the items of `iterable`, which is iterated over anew for each subscriber, then complete."""
        return Stream(sources.from_iterable(iterable))

    @staticmethod
    def from_async_iterable(iterable: AsyncIterable[R]) -> Stream[R]:
        """Emit the items of `iterable`, each awaited when it is requested, then complete."""
        return Stream(sources.from_async_iterable(iterable))

    @staticmethod
    def range(start: int, stop: int | None = None, step: int = 1) -> Stream[int]:
        """Emit the numbers that Python's own `range` would give, then complete."""
        return Stream(sources.range(start, stop, step))

    @staticmethod
    def generate(initial: S, step: Callable[[S], tuple[R, S] | None]) -> Stream[R]:
        """Emit what `step` makes of a state, one call an item requested, until it returns None.

        Args:
            initial: The state of the first step.
            step: Takes the state, returns the item and the next state, or None to complete.
        """
        return Stream(sources.generate(initial, step))

    @staticmethod
    def empty() -> Stream[Never]:
        """Complete at once."""
        return Stream(sources.empty())

    @staticmethod
    def never() -> Stream[Never]:
        """Emit nothing and do not end."""
        return Stream(sources.never())

    @staticmethod
    def fail(error: BaseException) -> Stream[Never]:
        """Signal `error` at once."""
        return Stream(sources.fail(error))

    @staticmethod
    def defer(make: Callable[[], Publisher[R]]) -> Stream[R]:
        """Subscribe each subscriber to a publisher that `make` returns for it."""
        return Stream(sources.defer(make))

    # operators

    def map(self, function: Callable[[T_co], R]) -> Stream[R]:
        """Emit `function(item)` for each item."""
        return Stream(operators.map(self._source, function))

    def map_async(
        self, function: Callable[[T_co], Awaitable[R]], *, concurrency: int = 1, ordered: bool = True
    ) -> Stream[R]:
        """Emit `await function(item)` for each item, up to `concurrency` of them at a time."""
        return Stream(operators.map_async(self._source, function, concurrency=concurrency, ordered=ordered))

    def filter(self, predicate: Callable[[T_co], object]) -> Stream[T_co]:
        """Emit the items for which `predicate(item)` is true."""
        return Stream(operators.filter(self._source, predicate))

    def take(self, count: int) -> Stream[T_co]:
        """Emit the first `count` items, then complete; no further one is drawn from the source."""
        return Stream(operators.take(self._source, count))

    def skip(self, count: int) -> Stream[T_co]:
        """Emit all but the first `count` items."""
        return Stream(operators.skip(self._source, count))

    def scan(self, accumulator: Callable[[R, T_co], R], seed: R) -> Stream[R]:
        """Emit the result so far of folding the items together, once an item."""
        return Stream(operators.scan(self._source, accumulator, seed))

    def reduce(self, accumulator: Callable[[R, T_co], R], seed: R) -> Stream[R]:
        """Emit the result of folding all items together, when the last has come."""
        return Stream(operators.reduce(self._source, accumulator, seed))

    def buffer_count(self, count: int) -> Stream[list[T_co]]:
        """Gather the items into lists of `count`; the last list holds what is left."""
        return Stream(operators.buffer_count(self._source, count))

    def concat(self, *others: Publisher[R]) -> Stream[T_co | R]:
        """Emit all items of this stream, then all of the next, and so on."""
        return Stream(operators.concat(self._source, *others))

    def merge(self, *others: Publisher[R]) -> Stream[T_co | R]:
        """Emit the items of this stream and all others, as they come and in turns."""
        return Stream(operators.merge(self._source, *others))

    def flat_map(
        self, function: Callable[[T_co], Publisher[R]], *, concurrency: int = 16, prefetch: int = 32
    ) -> Stream[R]:
        """Emit the items of the publishers that `function(item)` returns, `concurrency` of them at a time.

        Args:
            function: Makes a publisher of an item.
            concurrency: The most publishers subscribed to at the same time.
            prefetch: Items each of them is asked for ahead of demand.
        """
        return Stream(operators.flat_map(self._source, function, concurrency=concurrency, prefetch=prefetch))

    def do_on_next(self, function: Callable[[T_co], object]) -> Stream[T_co]:
        """Call `function(item)` with each item before it is emitted."""
        return Stream(operators.do_on_next(self._source, function))

    def do_on_error(self, function: Callable[[BaseException], object]) -> Stream[T_co]:
        """Call `function(error)` if the stream fails, before it does."""
        return Stream(operators.do_on_error(self._source, function))

    def do_on_complete(self, function: Callable[[], object]) -> Stream[T_co]:
        """Call `function()` when the stream completes, before it does."""
        return Stream(operators.do_on_complete(self._source, function))

    def on_error_resume(self, handler: Callable[[Exception], Publisher[R]]) -> Stream[T_co | R]:
        """If the stream fails, go on with the publisher that `handler(error)` returns."""
        return Stream(operators.on_error_resume(self._source, handler))

    def through(
        self, function: Callable[Concatenate[Stream[T_co], P], Publisher[R]], *args: P.args, **kwargs: P.kwargs
    ) -> Stream[R]:
        """Apply somebody else's operator: `function(stream, *args, **kwargs)`, which returns a publisher."""
        return Stream(function(self, *args, **kwargs))

    # terminals

    def open(self, window: int = 256) -> AbstractAsyncContextManager[AsyncIterator[T_co]]:
        """Open the stream for `async for`.

            async with stream.open() as items:
                async for item in items:
                    ...

        An item is done (accepted, if it came over a link) when the next one is asked for. When the block ends, the item
        last given out is done if the block ended well, also by `break`, and failed if it raised or was cancelled; items
        that had come and were not given out are released.

        Args:
            window: The most items that have been requested or have come and were not given out yet; at least 1.

        Demand: The whole window at first; again what is missing of it when half has been given out.
        Errors: `ConfigError` if `window` is less than 1. The loop raises what the stream failed with, after the items
            that came before it.
        Cancels: Leaving the block cancels the subscription and all its tasks.
        Context: A trio task, which is the one to enter the block, loop and leave it.
        """
        return terminals.open_items(self._source, window)

    async def to_list(self) -> list[T_co]:
        """Return all items.

        Errors: Raises what the stream failed with.
        Context: A trio task; other tasks run between slices of at most 1,024 items.
        """
        return await terminals.to_list(self._source)

    async def first_or_none(self) -> T_co | None:
        """Return the first item, or None if the stream completes without one; no other item is drawn.

        Errors: Raises what the stream failed with.
        Context: A trio task.
        """
        return await terminals.first_or_none(self._source)

    async def for_each(self, function: Callable[[T_co], Awaitable[object]] | Callable[[T_co], object]) -> None:
        """Call `function` with each item, or await it if it is an async function.

        An item is done when `function` has returned.

        Args:
            function: A plain function must not block: it runs where the item is delivered, and no other task does
                meanwhile. An async function has the items one after the other, as in a loop over `open()`.

        Errors: Raises what the stream failed with. What `function` raises fails the item, cancels the subscription
            and leaves this call. A plain function that returns a coroutine is a `TypeError`.
        Context: A trio task; other tasks run between slices of at most 1,024 items.
        """
        if _is_async(function):
            awaited = cast("Callable[[T_co], Awaitable[object]]", function)
            async with self.open() as items:
                async for item in items:
                    await awaited(item)
        else:
            await terminals.for_each(self._source, function)


def _is_async(function: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)
