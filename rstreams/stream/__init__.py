"""Stream: a publisher with the sources, operators and terminals as methods.

The methods for sources and operators, in `_methods.py`, call the function of their name in `rstreams.sources` or
`rstreams.operators`, where the details stand: demand, holds, errors, cancelling. Terminals are here.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar, cast

from rstreams import operators
from rstreams._core.argument_names import name_arguments
from rstreams._core.subscription import hint_for
from rstreams._stages.connectable import Connectable
from rstreams._stages.mapped import shown_as
from rstreams._stages.stage import GatherAck, refuse_unrun, require_effect
from rstreams.abc import Cancellable, Publisher, Subscriber
from rstreams.operators.group_by import GroupedPublisher
from rstreams.runtime import terminals
from rstreams.stream._explain import Explanation, explain
from rstreams.stream._methods import StreamMethods
from rstreams.stream._misuse import NotIterable, Opening

if TYPE_CHECKING:
    from reactivex import Observable

    from rstreams.observables import Overflow

__all__ = ["ConnectableStream", "Explanation", "GroupedStream", "Stream"]

T_co = TypeVar("T_co", covariant=True)
K = TypeVar("K")
R = TypeVar("R")
P = ParamSpec("P")


class Stream(StreamMethods[T_co], NotIterable):
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
            msg = f"Stream(publisher): publisher must be a Publisher, not {publisher!r:.80}{hint_for(publisher)}"
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

    # operators that give more than a stream, or take one

    def group_by(
        self, key: Callable[[T_co], K], *, prefetch: int = 256, max_groups: int | None = None
    ) -> Stream[GroupedStream[K, T_co]]:
        """Emit a stream for each key that the items have, which emits the items of that key.

        Args:
            key: Tells an item's key, which must be hashable.
            prefetch: The most items that wait in all groups together, or are on their way.
            max_groups: The most groups that may live at the same time; None is as many as there are keys.

        Demand, holds, errors: `rstreams.operators.group_by`.
        """
        groups = operators.group_by(self._source, key, prefetch=prefetch, max_groups=max_groups)
        return Stream(shown_as(groups, GroupedStream[K, T_co]))

    def publish(self, *, window: int = 256) -> ConnectableStream[T_co]:
        """Share one run of this stream among all subscribers, begun by `connect()`.

        Args:
            window: The most items that wait for the slowest subscriber.

        Demand, holds, errors: `rstreams.operators.publish`.
        """
        return ConnectableStream(operators.publish(self._source, window=window))

    def replay(self, count: int, *, window: int = 256) -> ConnectableStream[T_co]:
        """Share one run of this stream, begun by `connect()`; late subscribers get the last `count` items first.

        Args:
            count: How many items are kept for them.
            window: The most items that wait for the slowest subscriber.

        Demand, holds, errors: `rstreams.operators.replay`.
        """
        return ConnectableStream(operators.replay(self._source, count, window=window))

    def partition(
        self, key: Callable[[T_co], Hashable], partitions: int, *, window: int = 256
    ) -> tuple[Stream[T_co], ...]:
        """Split this stream into `partitions` streams by key: items with equal keys are in the same one, in order.

        Args:
            key: Tells an item's key.
            partitions: How many streams.
            window: The most items that wait for the slowest of them.

        Demand, holds, errors: `rstreams.operators.partition`.
        """
        parts = operators.partition(self._source, key, partitions, window=window)
        return tuple(Stream(part) for part in parts)

    def parallel(
        self, workers: int, function: Callable[[Stream[T_co]], Publisher[R]], *, window: int = 256
    ) -> Stream[R]:
        """Distribute the items among `workers` pipelines made by `function`, and merge what comes out.

        Args:
            workers: How many pipelines.
            function: Makes one, of the stream of its items.
            window: The most items on their way to them.

        Demand, holds, errors: `rstreams.operators.parallel`.
        """

        def on_stream(publisher: Publisher[T_co]) -> Publisher[R]:
            return function(Stream(publisher))

        return Stream(operators.parallel(self._source, workers, on_stream, window=window))

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

        Example:
            >>> numbers = Stream.range(3).name("numbers").merge(Stream.never())
            >>> async with numbers.open(window=4) as items:  # asks for more as items are taken
            ...     got = [await anext(items) for _ in range(3)]
            ...     print(numbers.explain())
            run 1
              merge    requested 6  delivered 3  outstanding 3  buffered 0
                never  requested 32  delivered 0  outstanding 32  buffered 0
              -> never stalls: it owes 32 items
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
            window: The most items that have been requested or have come and were not given out yet; at least 1. With 1
                each item is requested when the loop asks for it, so it is the newest that the source has then.

        Demand: The whole window at first; again what is missing of it when half has been given out. With a window of 1
            one item at first, and then one whenever the loop asks.
        Errors: `ConfigError` if `window` is less than 1. The loop raises what the stream failed with, after the items
            that came before it.
        Cancels: Leaving the block cancels the subscription and all its tasks.
        Context: A trio task, which is the one to enter the block, loop and leave it.
        """
        return Opening(terminals.open_items(self._source, window))

    async def to_list(self, *, ack: GatherAck = "within_window") -> list[T_co]:
        """Return all items; they are done when the list is returned, the oldest before if a link's window is too small.

        Items that came over a link are held until then. If the call ends otherwise, by an error, a time-out or a
        cancellation, they are given back, and nothing is lost. The window of the link bounds how many can be held:
        where more come, the oldest are accepted to make room, and only the later ones can be given back.

        Args:
            ack: When an item is done. "within_window": as told above. "on_result": when the list is returned, always.
                "on_receipt": as soon as it is in the list.

        Holds: With "on_receipt" none; else every item, as far as the window of a link allows.
        Errors: Raises what the stream failed with. `ConfigError` for another `ack`, and for "on_result" behind a link
            whose window cannot hold all items: as many as `take` lets through, or without limit.
        Cancels: The items are given back (released).
        Context: A trio task; other tasks run between slices of at most 1,024 items.
        """
        return await terminals.to_list(self._source, ack)

    async def first_or_none(self) -> T_co | None:
        """Return the first item, or None if the stream completes without one; no other item is drawn.

        The item is done when it is returned. If the call ends otherwise, it is given back.

        Errors: Raises what the stream failed with.
        Cancels: An item that has come is given back (released).
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
            and leaves this call. What returns a coroutine nobody awaits, or a generator, is a `TypeError`.
        Context: A trio task; other tasks run between slices of at most 1,024 items.
        """
        if _is_async(function):
            awaited = cast("Callable[[T_co], Awaitable[object]]", function)
            async with self.open() as items:
                async for item in items:
                    refuse_unrun("for_each", "function", await awaited(item))
        else:
            require_effect("for_each", "function", function)
            await terminals.for_each(self._source, function)


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


def _is_async(function: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


name_arguments("Stream", StreamMethods, Stream)
