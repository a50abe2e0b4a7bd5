"""Stream: a publisher with the sources, operators and terminals as methods.

The methods for sources and operators, in `_methods.py`, call the function of their name in `rstreams.sources` or
`rstreams.operators`, where the details stand: demand, holds, errors, cancelling. Terminals are here.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, cast

from rstreams.abc import Publisher, Subscriber
from rstreams.runtime import terminals
from rstreams.stream._explain import Explanation, explain
from rstreams.stream._methods import StreamMethods

if TYPE_CHECKING:
    from reactivex import Observable

    from rstreams.observables import Overflow

__all__ = ["Explanation", "Stream"]

T_co = TypeVar("T_co", covariant=True)
R = TypeVar("R")
P = ParamSpec("P")


class Stream(StreamMethods[T_co]):
    """A publisher with methods to build on it and to run it.

    A stream is a description: nothing happens before something subscribes to it, and everyone who does gets a run of
    its own. Terminals and `open` run it in a scope of their own, which ends with them; a failure leaves them as
    itself, never wrapped in an exception group.

    Args:
        publisher: Where the items come from: any object with `subscribe`.

    Errors: `TypeError` if `publisher` is no publisher.
    """

    __slots__ = ()

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

    @staticmethod
    def _stream(publisher: Publisher[R]) -> Stream[R]:
        return Stream(publisher)

    def through(
        self, function: Callable[Concatenate[Stream[T_co], P], Publisher[R]], *args: P.args, **kwargs: P.kwargs
    ) -> Stream[R]:
        """Apply somebody else's operator: `function(stream, *args, **kwargs)`, which returns a publisher."""
        return Stream(function(self, *args, **kwargs))

    # reactivex

    @classmethod
    def from_observable(cls, observable: Observable[R], *, overflow: Overflow = "error", size: int = 256) -> Stream[R]:
        """Emit what a reactivex observable sends.

        Args:
            observable: Subscribed to anew for each subscriber, with its first request.
            overflow: What becomes of items that come without demand: "error", "drop_oldest", "drop_newest", "latest"
                or "drop"; see `rstreams.observables.from_observable`.
            size: The most items that wait for demand.

        Errors: `ConfigError` if reactivex is not installed.
        """
        from rstreams.observables import from_observable  # noqa: PLC0415 - only who uses it needs reactivex

        return cls._stream(from_observable(observable, overflow=overflow, size=size))

    def to_observable(self) -> Observable[T_co]:
        """Return a reactivex observable of the items, which asks for all there is.

        Errors: `ConfigError` if reactivex is not installed.
        """
        from rstreams.observables import to_observable  # noqa: PLC0415 - likewise

        return to_observable(self._source)

    def rx(self, operator: Callable[[Observable[T_co]], Observable[R]], *, max_expansion: int = 1024) -> Stream[R]:
        """Emit what an operator of reactivex makes of the items: `stream.rx(reactivex.operators.pairwise())`.

        Args:
            operator: What reactivex's `pipe` takes.
            max_expansion: The most items that the operator may send ahead of demand.

        Demand, holds, errors: `rstreams.observables.rx`; `ConfigError` if reactivex is not installed.
        """
        from rstreams.observables import rx  # noqa: PLC0415 - likewise

        return self._stream(rx(self._source, operator, max_expansion=max_expansion))

    # sight

    def explain(self) -> Explanation:
        """Return where the runs of this stream stand that have not ended: `print(stream.explain())`.

        A tree for each, the subscriber's side first, with what every stage was asked for, has delivered, still owes and
        keeps; and which stage all the others wait for. Looking costs the pipeline nothing.

        Context: Any task of the trio run that the stream runs in.
        """
        return explain(self._source)

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
