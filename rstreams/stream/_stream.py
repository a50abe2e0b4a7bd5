"""The stream classes: a publisher with the sources, operators and terminals as methods.

A method for a source or an operator calls the function of the same name in `rstreams.sources` or `rstreams.operators`.
The function's docstring has the details: demand, holds, errors, cancelling. `tools/fluent.py` writes most of these
methods into the lower part of `Stream`.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Hashable, Iterable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import (
    IO,
    TYPE_CHECKING,
    Any,
    AnyStr,
    Concatenate,
    Final,
    Generic,
    Literal,
    Never,
    ParamSpec,
    TypeGuard,
    TypeVar,
    overload,
)

from rstreams import operators, sources
from rstreams._checks.argument_names import name_arguments
from rstreams._checks.functions import require_effect
from rstreams._checks.publishers import of_reactivex, require_publisher, require_returned_publisher
from rstreams._checks.refusals import refuse_object
from rstreams._core.sight import Fluent
from rstreams._core.windows import require_open_window
from rstreams._stages.connectable import Connectable
from rstreams._stages.extremes import Ordered
from rstreams._stages.map_step import shown_as
from rstreams._stages.overflow import Strategy
from rstreams._stages.stage import Ack, GatherAck
from rstreams.abc import Cancellable, Publisher, Subscriber
from rstreams.notifications import Notification
from rstreams.operators.group_by import GroupedPublisher
from rstreams.operators.pausable import Valve
from rstreams.operators.sum import Summable
from rstreams.operators.time_interval import TimeInterval
from rstreams.operators.timestamp import Timestamped
from rstreams.runtime import terminals
from rstreams.sources.from_future import Future
from rstreams.stream._explain import Explanation, explain
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
S = TypeVar("S")
T = TypeVar("T")
V = TypeVar("V")

# written by tools/fluent.py up to here

_RX: Final = "; operators of reactivex are for rx: `stream.rx(operator)`, `stream.rx(reactivex.compose(one, two))`"


class Stream(NotIterable, Fluent, Generic[T_co]):
    """A publisher with methods that make further streams of it, and methods that run it.

    A stream is a description: nothing happens before something subscribes to it, and each subscriber gets a run of its
    own. Terminal methods and `open` run it in a scope of their own, which ends with them. They raise a failure of the
    stream unchanged, never in an exception group. They are called in a task of trio, or of asyncio in a program that
    imports `rstreams.aio`. Async functions given to operators run in the same kind of task.

    Args:
        publisher: The source of the items: any object with `subscribe`.

    Errors: `TypeError` if `publisher` is not a publisher.
    """

    __slots__ = ("_source",)

    def __init__(self, publisher: Publisher[T_co]) -> None:
        require_publisher("Stream", "publisher", publisher)
        # A stream in a stream would cost every subscription one more call.
        self._source: Publisher[T_co] = publisher._source if isinstance(publisher, Fluent) else publisher  # noqa: SLF001 - our own

    def subscribe(self, subscriber: Subscriber[T_co]) -> None:
        """Start a new run of the stream for `subscriber`.

        Context: Stages that need time or tasks use the scope of this call; without a scope they fail.
        """
        self._source.subscribe(subscriber)

    def through(
        self, function: Callable[Concatenate[Stream[T_co], P], Publisher[R]], *args: P.args, **kwargs: P.kwargs
    ) -> Stream[R]:
        """Apply an operator of your own: `function(stream, *args, **kwargs)`, which returns a publisher.

        Errors: `TypeError` for an operator of reactivex, which `rx` takes, and for a result that is not a publisher.
        """
        if of_reactivex(function):
            refuse_object("through", "function", function, "a function from a Stream to a Publisher", _RX)
        return Stream(require_returned_publisher("through", "function", function(self, *args, **kwargs)))

    # operators that return more than a stream, or take one

    def group_by(
        self, key: Callable[[T_co], K], *, prefetch: int = 256, max_groups: int | None = None
    ) -> Stream[GroupedStream[K, T_co]]:
        """Emit a stream for each key of the items; it emits the items with that key.

        Args:
            key: Returns an item's key, which must be hashable.
            prefetch: The most items, requested or waiting, in all groups together.
            max_groups: The most groups at the same time; None for no limit.

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
            count: The number of items kept for them.
            window: The most items that wait for the slowest subscriber.

        Demand, holds, errors: `rstreams.operators.replay`.
        """
        return ConnectableStream(operators.replay(self._source, count, window=window))

    def partition(
        self, key: Callable[[T_co], Hashable], partitions: int, *, window: int = 256
    ) -> tuple[Stream[T_co], ...]:
        """Split this stream into `partitions` streams by key: items with equal keys are in the same one, in order.

        Args:
            key: Returns an item's key.
            partitions: The number of streams.
            window: The most items that wait for the slowest of them.

        Demand, holds, errors: `rstreams.operators.partition`.
        """
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
        """Distribute the items among `workers` pipelines made by `function`, and merge their results.

        Args:
            workers: The number of pipelines.
            function: Makes one pipeline from the stream of its items.
            window: The most items requested for them and not yet given to one.
            delay_errors: Hold failures back until all other workers have ended; several end it as an `ExceptionGroup`.

        Demand, holds, errors: `rstreams.operators.parallel`.
        """

        def on_stream(publisher: Publisher[T_co]) -> Publisher[R]:
            return function(Stream(publisher))

        return Stream(operators.parallel(self._source, workers, on_stream, window=window, delay_errors=delay_errors))

    # reactivex

    @staticmethod
    def from_observable(observable: Observable[R], *, overflow: Overflow = "error", size: int = 256) -> Stream[R]:
        """Emit the items of a reactivex observable.

        Args:
            observable: Subscribed to again for each subscriber, with its first request.
            overflow: The treatment of items that come without demand: "error", "drop_oldest", "drop_newest", "latest"
                or "drop"; see `rstreams.observables.from_observable`.
            size: The most items that wait for demand.

        Errors: `ConfigError` if reactivex is not installed.
        """
        from rstreams.observables import from_observable  # noqa: PLC0415 - reactivex is optional

        return Stream(from_observable(observable, overflow=overflow, size=size))

    def to_observable(self) -> Observable[T_co]:
        """Return a reactivex observable of the items, which requests all items.

        Errors: `ConfigError` if reactivex is not installed.
        """
        from rstreams.observables import to_observable  # noqa: PLC0415 - likewise

        return to_observable(self._source)

    def rx(self, operator: Callable[[Observable[T_co]], Observable[R]], *, max_expansion: int = 1024) -> Stream[R]:
        """Emit the results of an operator of reactivex: `stream.rx(reactivex.operators.pairwise())`.

        Args:
            operator: An operator for reactivex's `pipe`.
            max_expansion: The most items that the operator may send ahead of demand.

        Demand, holds, errors: `rstreams.observables.rx`; `ConfigError` if reactivex is not installed.
        """
        from rstreams.observables import rx  # noqa: PLC0415 - likewise

        return Stream(rx(self._source, operator, max_expansion=max_expansion))

    # sight

    def explain(self) -> Explanation:
        """Return the state of the live runs of this stream: `print(stream.explain())`.

        It is a tree for each run, with the subscriber's side first. For each stage it has the items requested,
        delivered, owed and kept. It also tells which stage all others wait for. A look costs the pipeline nothing.

        Context: Any task of the loop that the stream runs in.

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

    def open(self, window: int | None = None) -> AbstractAsyncContextManager[AsyncIterator[T_co]]:
        """Open the stream for `async for`.

            async with stream.open() as items:
                async for item in items:
                    ...

        An item is done (accepted, if it came over a link) when the next one is requested. When the block ends, the last
        item is done if the block ended well, also by `break`; it is failed if the block raised or was cancelled. Items
        that had come and were not taken are released.

        Args:
            window: The most items that have been requested or have come and were not taken yet; at least 1. With 1,
                each item is requested when the loop asks for it, and is then the newest one of the source. None: 256,
                or as many as the window of its link, up to 1,024.

        Demand: The whole window at first; the taken items again, when half of the window has been taken. With a window
            of 1, one item at first, and then one whenever the loop asks.
        Errors: `ConfigError` if `window` is less than 1. The loop raises the stream's error, after the items that came
            before it.
        Cancels: Leaving the block cancels the subscription and all its tasks.
        Context: A task; it must be the same that enters the block, loops and leaves it.
        """
        return Opening(terminals.open_items(self._source, require_open_window(window)))

    async def to_list(self, *, ack: GatherAck = "within_window") -> list[T_co]:
        """Return all items; they are done when the list is returned, the oldest earlier if a link's window is small.

        Items that came over a link are held until then. If the call ends in another way (an error, a time-out or a
        cancellation), they are given back, and nothing is lost. The window of the link limits how many can be held. If
        more come, the oldest are accepted to make room, and only the later ones can be given back.

        Args:
            ack: When an item is done. "within_window": as described above. "on_result": always when the list is
                returned. "on_receipt": as soon as it is in the list.

        Holds: With "on_receipt" none; otherwise every item, as far as the window of a link allows.
        Errors: Raises the stream's error. `ConfigError` for a wrong `ack`, and for "on_result" behind a link whose
            window cannot hold all items (as many as `take` lets through, or without limit), or whose items come
            settled.
        Cancels: The items are given back (released).
        Context: A task; other tasks run between slices of at most 1,024 items.
        """
        return await terminals.to_list(self._source, ack)

    async def first_or_none(self) -> T_co | None:
        """Return the first item, or None if the stream completes without one; no other item is drawn.

        The item is done when it is returned. If the call ends otherwise, it is given back.

        Errors: Raises the stream's error.
        Cancels: An item that has come is given back (released).
        Context: A task.
        """
        return await terminals.first_or_none(self._source)

    async def for_each(self, function: Callable[[T_co], Awaitable[object]] | Callable[[T_co], object]) -> None:
        """Call `function` with each item, or await it if it is an async function.

        An item is done when `function` has returned.

        Args:
            function: A plain function must not block: it runs in the task that delivers the item, and no other task
                runs during that time. An async function gets the items one after the other, as in a loop over `open()`.

        Demand: Up to 1,024 items ahead of a plain function; of an async one as many as `open()` requests. For fewer,
            loop over `open(window=1)`.
        Errors: Raises the stream's error. An exception that `function` raises fails the item, cancels the subscription
            and leaves this call. A `function` that returns a generator, or a coroutine that is not awaited, is a
            `TypeError`.
        Context: A task; other tasks run between slices of at most 1,024 items.
        """
        if _is_async(function):
            await terminals.await_each(self._source, function)
        else:
            require_effect("for_each", "function", function)
            await terminals.for_each(self._source, function)

    # sources and operators

    # from here on written by tools/fluent.py: change the operator, then run `make format`

    @staticmethod
    def defer(make: Callable[[], Publisher[T] | Iterable[T] | AsyncIterable[T]]) -> Stream[T]:
        """Subscribe each subscriber to a publisher that `make` returns for it.

        Args:
            make: Called once for each subscriber, when it subscribes.

        Demand, holds, errors: `rstreams.sources.defer`.
        """
        return Stream(sources.defer(make))

    @staticmethod
    def empty() -> Stream[Never]:
        """Complete at once.

        Demand, holds, errors: `rstreams.sources.empty`.
        """
        return Stream(sources.empty())

    @staticmethod
    def fail(error: BaseException) -> Stream[Never]:
        """Signal `error` at once.

        Args:
            error: The error that each subscriber receives, one object for all. Use `defer(lambda: fail(make()))` to
                make one for each.

        Demand, holds, errors: `rstreams.sources.fail`.
        """
        return Stream(sources.fail(error))

    @staticmethod
    def from_async_iterable(iterable: AsyncIterable[T]) -> Stream[T]:
        """Emit the items of `iterable`, then complete.

        Args:
            iterable: Iterated over anew for each subscriber.

        Demand, holds, errors: `rstreams.sources.from_async_iterable`.
        """
        return Stream(sources.from_async_iterable(iterable))

    @overload
    @staticmethod
    def from_callable(function: Callable[[], Awaitable[T]]) -> Stream[T]: ...

    @overload
    @staticmethod
    def from_callable(function: Callable[[], T]) -> Stream[T]: ...

    @staticmethod
    def from_callable(function: Callable[[], Any]) -> Stream[Any]:
        """Call `function` for each subscriber when it requests, emit the result, and complete.

        Args:
            function: Takes no arguments, and must not block. If it is async, or returns another awaitable, the
                awaitable is awaited in a task of its own.

        Demand, holds, errors: `rstreams.sources.from_callable`.
        """
        return Stream(sources.from_callable(function))

    @staticmethod
    def from_future(future: Future[T]) -> Stream[T]:
        """Emit the result of `future` when there is one, and complete.

        Args:
            future: A `concurrent.futures.Future`, or another object with `result` and `add_done_callback`. All
                subscribers share it.

        Demand, holds, errors: `rstreams.sources.from_future`.
        """
        return Stream(sources.from_future(future))

    @staticmethod
    def from_iterable(iterable: Iterable[T]) -> Stream[T]:
        """Emit the items of `iterable`, then complete.

        Args:
            iterable: Iterated over anew for each subscriber; it must not block.

        Demand, holds, errors: `rstreams.sources.from_iterable`.
        """
        return Stream(sources.from_iterable(iterable))

    @staticmethod
    def generate(initial: S, step: Callable[[S], tuple[T, S] | None]) -> Stream[T]:
        """Emit items that `step` makes from a state, one in each call, until it returns None.

        Args:
            initial: The state of each subscriber's first step. All subscribers start from this very object: `step`
                should return a new state, and not change this one.
            step: Takes the state and returns the item and the next state, or None to complete; it must not block.

        Demand, holds, errors: `rstreams.sources.generate`.
        """
        return Stream(sources.generate(initial, step))

    @staticmethod
    def interval(period_s: float, *, initial_delay_s: float | None = None) -> Stream[int]:
        """Emit the numbers 0, 1, 2 and so on, one every `period_s` seconds, without end.

        Args:
            period_s: The seconds between two ticks; more than 0.
            initial_delay_s: The seconds before the first one; 0 or more, `period_s` by default.

        Demand, holds, errors: `rstreams.sources.interval`.
        """
        return Stream(sources.interval(period_s, initial_delay_s=initial_delay_s))

    @staticmethod
    def never() -> Stream[Never]:
        """Emit nothing and do not end.

        Demand, holds, errors: `rstreams.sources.never`.
        """
        return Stream(sources.never())

    @staticmethod
    def of(*items: T) -> Stream[T]:
        """Emit `items`, then complete.

        Args:
            items: The items that each subscriber receives, in this order.

        Demand, holds, errors: `rstreams.sources.of`.
        """
        return Stream(sources.of(*items))

    @staticmethod
    def range(start: int, stop: int | None = None, step: int = 1) -> Stream[int]:
        """Emit the numbers that Python's own `range` would give, then complete.

        Args:
            start: The first number; if it is the only argument, the numbers run from 0 up to it.
            stop: The first number not emitted.
            step: The number that is added each time; a negative one counts down.

        Demand, holds, errors: `rstreams.sources.range`.
        """
        return Stream(sources.range(start, stop, step))

    @staticmethod
    def timer(delay_s: float) -> Stream[int]:
        """Emit 0 after `delay_s` seconds, then complete.

        Args:
            delay_s: The seconds before the item, from the subscription on; 0 or more.

        Demand, holds, errors: `rstreams.sources.timer`.
        """
        return Stream(sources.timer(delay_s))

    @overload
    @staticmethod
    def unfold(initial: S, step: Callable[[S], Awaitable[tuple[T, S] | None]]) -> Stream[T]: ...

    @overload
    @staticmethod
    def unfold(initial: S, step: Callable[[S], tuple[T, S] | None]) -> Stream[T]: ...

    @staticmethod
    def unfold(initial: Any, step: Any) -> Stream[Any]:
        """Emit items that `step`, which may be async, makes from a state, one in each call, until it returns None.

        Args:
            initial: The state of each subscriber's first step; `step` should not change it, but return a new one.
            step: Takes the state and returns the item and the next state, or None to complete. A plain function must
                not block; an async one is awaited, for instance the next page of an API.

        Demand, holds, errors: `rstreams.sources.unfold`.
        """
        return Stream(sources.unfold(initial, step))

    @overload
    @staticmethod
    def using(
        acquire: Callable[[], IO[AnyStr]], use: Callable[[IO[AnyStr]], Publisher[T] | Iterable[T] | AsyncIterable[T]]
    ) -> Stream[T]: ...

    @overload
    @staticmethod
    def using(
        acquire: Callable[[], AbstractContextManager[S] | AbstractAsyncContextManager[S]],
        use: Callable[[S], Publisher[T] | Iterable[T] | AsyncIterable[T]],
    ) -> Stream[T]: ...

    @staticmethod
    def using(acquire: Any, use: Any) -> Stream[Any]:
        """Acquire a resource for each subscriber, emit the items of a publisher made with it, and then release it.

        Args:
            acquire: Returns a context manager, plain or async, which is entered for each subscription and left at its
                end. A plain one must not block.
            use: Makes the publisher from the value of the entered context manager.

        Demand, holds, errors: `rstreams.sources.using`.
        """
        return Stream(sources.using(acquire, use))

    def all(self, predicate: Callable[[T_co], object]) -> Stream[bool]:
        """Emit true if `predicate(item)` is true for every item of this stream, false as soon as it is false for one.

        Args:
            predicate: Called once for each item, in the task that delivers it; it must not block.

        Demand, holds, errors: `rstreams.operators.all`.
        """
        return Stream(operators.all(self._source, predicate))

    def any(self, predicate: Callable[[T_co], object] | None = None) -> Stream[bool]:
        """Emit true as soon as `predicate(item)` is true for an item of this stream, false if it is true for none.

        Args:
            predicate: Called once for each item, in the task that delivers it; it must not block. Without a predicate,
                the first item makes the result true.

        Demand, holds, errors: `rstreams.operators.any`.
        """
        return Stream(operators.any(self._source, predicate))

    def average(self: Stream[float]) -> Stream[float]:
        """Emit the mean of the numbers of this stream, once it has completed.

        Demand, holds, errors: `rstreams.operators.average`.
        """
        return Stream(operators.average(self._source))

    def broadcast(self, *, subscribers: int = 1, window: int = 256) -> Stream[T_co]:
        """Send every item of this stream to all subscribers, beginning when there are `subscribers` of them.

        Args:
            subscribers: The number of subscribers at which the source is subscribed to; at least 1. Later subscribers
                get the items from then on. With 2, `b.concat(b)` waits for somebody else: its second part comes only
                behind the end of the first. `explain()` says so.
            window: The most items requested of the source that some subscriber has not got yet; at least 1.

        Demand, holds, errors: `rstreams.operators.broadcast`.
        """
        return Stream(operators.broadcast(self._source, subscribers=subscribers, window=window))

    def buffer_boundary(self, boundary: Publisher[object], *, max_items: int = 1024) -> Stream[list[T_co]]:
        """Gather the items of this stream into lists, and emit each list when an item of `boundary` comes.

        Args:
            boundary: Each of its items ends a list. When it completes, the stream emits the open list and completes.
            max_items: The most items a list holds; at least 1. A list that is full before its boundary is not emitted
                earlier: the source waits.

        Demand, holds, errors: `rstreams.operators.buffer_boundary`.
        """
        return Stream(operators.buffer_boundary(self._source, boundary, max_items=max_items))

    def buffer_count(self, count: int, *, skip: int | None = None) -> Stream[list[T_co]]:
        """Gather the items of this stream into lists of `count`; the last list holds the remaining items.

        Args:
            count: The number of items in a list; at least 1.
            skip: The number of items from the beginning of one list to the beginning of the next; at least 1, by
                default `count`. With less than `count` the lists overlap, and at the end several of them may hold the
                remaining items. With more there are gaps, whose items are dropped.

        Demand, holds, errors: `rstreams.operators.buffer_count`.
        """
        return Stream(operators.buffer_count(self._source, count, skip=skip))

    def buffer_count_or_time(self, count: int, span_s: float) -> Stream[list[T_co]]:
        """Gather the items of this stream into lists that are emitted with `count` items or after `span_s` seconds.

        Args:
            count: The most items a list holds; at least 1.
            span_s: The longest time that a list gathers, in seconds; more than 0. It counts from the end of the list
                before.

        Demand, holds, errors: `rstreams.operators.buffer_count_or_time`.
        """
        return Stream(operators.buffer_count_or_time(self._source, count, span_s))

    def buffer_time(self, span_s: float, *, max_items: int = 1024) -> Stream[list[T_co]]:
        """Gather the items of this stream into lists, one every `span_s` seconds; the last one holds the rest.

        Args:
            span_s: The time that a list gathers, in seconds; more than 0.
            max_items: The most items a list holds; at least 1. A list that is full before its time is not emitted
                earlier: the source waits.

        Demand, holds, errors: `rstreams.operators.buffer_time`.
        """
        return Stream(operators.buffer_time(self._source, span_s, max_items=max_items))

    def buffer_until(self, predicate: Callable[[T_co], object], *, max_items: int = 1024) -> Stream[list[T_co]]:
        """Gather the items of this stream into lists, each ended by an item for which `predicate` is true.

        Args:
            predicate: Called once for each item. The item for which it is true is the last of its list.
            max_items: The most items, kept and requested, together; at least 1. A list with that many items is emitted
                without such an item.

        Demand, holds, errors: `rstreams.operators.buffer_until`.
        """
        return Stream(operators.buffer_until(self._source, predicate, max_items=max_items))

    def cache(self, *, max_items: int | None = None, ack: Ack = "on_receipt") -> Stream[T_co]:
        """Run this stream once, and give every subscriber all of its items from the first.

        Args:
            max_items: The most items that are kept; None keeps all items for as long as the publisher lives.
            ack: When an item counts as processed: "on_receipt", as soon as it is kept, or "on_emit", when all
                subscribers that were there when it came have handled it.

        Demand, holds, errors: `rstreams.operators.cache`.
        """
        return Stream(operators.cache(self._source, max_items=max_items, ack=ack))

    def cast(self, kind: type[R]) -> Stream[R]:
        """Emit the items of this stream, and fail with the first one that is not an instance of `kind`.

        Args:
            kind: The class that all items must be instances of, directly or by inheritance.

        Demand, holds, errors: `rstreams.operators.cast`.
        """
        return Stream(operators.cast(self._source, kind))

    def checkpoint(self, description: str = "") -> Stream[T_co]:
        """Add a note to an error that passes here: the line of the program that made this checkpoint.

        Args:
            description: The name of this place in the note, beside its file and line.

        Demand, holds, errors: `rstreams.operators.checkpoint`.
        """
        return Stream(operators.checkpoint(self._source, description))

    def collect(self, *, ack: GatherAck = "within_window") -> Stream[list[T_co]]:
        """Gather the items of this stream into a list, and emit it at the end.

        Args:
            ack: When an item is done. "within_window": with the list; if more items come than the window of a link can
                hold, the oldest ones earlier. "on_result": always with the list. "on_receipt": as soon as it is in the
                list.

        Demand, holds, errors: `rstreams.operators.collect`.
        """
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
        """Emit a tuple of the latest items of all sources each time one of them has a new one.

        Args:
            *others: Subscribed to at once, in this order; without sources the stream is empty.
            prefetch: The number of items requested ahead of each source; at least 1. Items of a plain iterator are not
                requested ahead.
            delay_errors: Hold failures back until all other sources have ended. Several failures end the stream as an
                `ExceptionGroup`, in the order in which they came.

        Demand, holds, errors: `rstreams.operators.combine_latest`.
        """
        return Stream(operators.combine_latest(self._source, *others, prefetch=prefetch, delay_errors=delay_errors))

    def concat(self, *others: Publisher[R], delay_errors: bool = False) -> Stream[T_co | R]:
        """Emit all items of the first source, then all of the second, and so on.

        Args:
            *others: Subscribed to one at a time, each when the one before it has completed. Without sources the stream
                is empty.
            delay_errors: Hold failures back until all later sources have ended. Several failures end the stream as an
                `ExceptionGroup`, in the order in which they came.

        Demand, holds, errors: `rstreams.operators.concat`.
        """
        return Stream(operators.concat(self._source, *others, delay_errors=delay_errors))

    def concat_map(
        self,
        function: Callable[[T_co], Publisher[R] | Iterable[R] | AsyncIterable[R]],
        *,
        prefetch: int = 1,
        delay_errors: bool = False,
        window: int | None = None,
    ) -> Stream[R]:
        """Emit all items of the stream `function(item)` for each item of this stream, one stream after the other.

        Args:
            function: Called once for each outer item, when its turn comes; it must not block. Its result is a
                publisher, an iterable or an async iterable, but no text.
            prefetch: The most outer items kept, including the one whose stream is running; at least 1.
            delay_errors: Hold failures back until all other streams have ended. Several failures end the stream as an
                `ExceptionGroup`, in the order in which they came.
            window: The most outer items kept here and asked for, directly over a link; not less than `prefetch`. None:
                256, or `prefetch` if that is more. With `window=prefetch` no more items are asked for ahead.

        Demand, holds, errors: `rstreams.operators.concat_map`.
        """
        return Stream(
            operators.concat_map(self._source, function, prefetch=prefetch, delay_errors=delay_errors, window=window)
        )

    def contains(self, value: object) -> Stream[bool]:
        """Emit true as soon as an item of this stream equals `value`, false if none does.

        Args:
            value: The value to look for.

        Demand, holds, errors: `rstreams.operators.contains`.
        """
        return Stream(operators.contains(self._source, value))

    def count(self, predicate: Callable[[T_co], object] | None = None) -> Stream[int]:
        """Count the items of this stream, or those for which `predicate(item)` is true, and emit the number at the end.

        Args:
            predicate: Called once for each item, in the task that delivers it; it must not block.

        Demand, holds, errors: `rstreams.operators.count`.
        """
        return Stream(operators.count(self._source, predicate))

    def debounce(self, quiet_s: float) -> Stream[T_co]:
        """Emit an item of this stream when `quiet_s` seconds have passed without another one; leave out all others.

        Args:
            quiet_s: The quiet time, in seconds; more than 0. It begins again with each item.

        Demand, holds, errors: `rstreams.operators.debounce`.
        """
        return Stream(operators.debounce(self._source, quiet_s))

    def default_if_empty(self, default: R) -> Stream[T_co | R]:
        """Emit the items of this stream; if it completes without any, emit `default`.

        Args:
            default: The item to emit if there is none.

        Demand, holds, errors: `rstreams.operators.default_if_empty`.
        """
        return Stream(operators.default_if_empty(self._source, default))

    def delay(self, delay_s: float) -> Stream[T_co]:
        """Emit each item of this stream `delay_s` seconds after it came.

        Args:
            delay_s: The delay, in seconds; more than 0.

        Demand, holds, errors: `rstreams.operators.delay`.
        """
        return Stream(operators.delay(self._source, delay_s))

    def delay_each(self, delay_s: float) -> Stream[T_co]:
        """Emit each item of this stream after a pause of `delay_s` seconds, one after the other, without loss.

        Args:
            delay_s: The length of the pause, in seconds; more than 0.

        Demand, holds, errors: `rstreams.operators.delay_each`.
        """
        return Stream(operators.delay_each(self._source, delay_s))

    def dematerialize(self: Stream[Notification[R]]) -> Stream[R]:
        """Turn the items of this stream, which describe signals, into those signals: the inverse of `materialize`.

        Demand, holds, errors: `rstreams.operators.dematerialize`.
        """
        return Stream(operators.dematerialize(self._source))

    def distinct(self, key: Callable[[T_co], object] | None = None) -> Stream[T_co]:
        """Emit the items of this stream that differ from all items before.

        Args:
            key: Called once for each item, in the task that delivers it. Two items with equal keys are the same. Keys
                must be hashable. By default the key is the item itself.

        Demand, holds, errors: `rstreams.operators.distinct`.
        """
        return Stream(operators.distinct(self._source, key))

    def distinct_until_changed(self, key: Callable[[T_co], object] | None = None) -> Stream[T_co]:
        """Emit the items of this stream that differ from the one before.

        Args:
            key: Called once for each item, in the task that delivers it. Two items with equal keys are the same. By
                default the key is the item itself.

        Demand, holds, errors: `rstreams.operators.distinct_until_changed`.
        """
        return Stream(operators.distinct_until_changed(self._source, key))

    def distribute(self, *, subscribers: int = 1, window: int = 256) -> Stream[T_co]:
        """Give each item of this stream to one subscriber: the one with the most demand.

        Args:
            subscribers: The number of subscribers at which the source is subscribed to; at least 1. More may come
                later.
            window: The most items requested of the source and not yet given to a subscriber; at least 1.

        Demand, holds, errors: `rstreams.operators.distribute`.
        """
        return Stream(operators.distribute(self._source, subscribers=subscribers, window=window))

    def do_finally(self, function: Callable[[Literal["complete", "error", "cancel"]], object]) -> Stream[T_co]:
        """Call `function(how)` once when the stream ends: "complete", "error" or "cancel".

        Args:
            function: Called once, after the end: when the completion or the error has been passed on, or when this
                stream has been cancelled. It must not block. Its result is ignored.

        Demand, holds, errors: `rstreams.operators.do_finally`.
        """
        return Stream(operators.do_finally(self._source, function))

    def do_on_cancel(self, function: Callable[[], object]) -> Stream[T_co]:
        """Call `function()` when the subscriber cancels, then cancel this stream.

        Args:
            function: Called at most once, in the task that cancels; it must not block. Its result is ignored. It is not
                called for a cancel after the end.

        Demand, holds, errors: `rstreams.operators.do_on_cancel`.
        """
        return Stream(operators.do_on_cancel(self._source, function))

    def do_on_complete(self, function: Callable[[], object]) -> Stream[T_co]:
        """Call `function()` when this stream completes, then pass the completion on.

        Args:
            function: Called at most once, before the completion is passed on, in the task that delivers it; it must not
                block. Its result is ignored. After a cancel it is not called.

        Demand, holds, errors: `rstreams.operators.do_on_complete`.
        """
        return Stream(operators.do_on_complete(self._source, function))

    def do_on_error(self, function: Callable[[BaseException], object]) -> Stream[T_co]:
        """Call `function(error)` when this stream fails, then pass the failure on.

        Args:
            function: Called at most once, before the error is passed on, in the task that delivers it; it must not
                block. Its result is ignored.

        Demand, holds, errors: `rstreams.operators.do_on_error`.
        """
        return Stream(operators.do_on_error(self._source, function))

    def do_on_next(self, function: Callable[[T_co], object]) -> Stream[T_co]:
        """Call `function(item)` for each item of this stream, then emit the item unchanged.

        Args:
            function: Called once for each item, before it is emitted, in the task that delivers it; it must not block.
                Its result is ignored.

        Demand, holds, errors: `rstreams.operators.do_on_next`.
        """
        return Stream(operators.do_on_next(self._source, function))

    def do_on_request(self, function: Callable[[int], object]) -> Stream[T_co]:
        """Call `function(n)` for each request, then pass it up unchanged.

        Args:
            function: Called with the number of requested items, in the task that requests them; it must not block.
                Unbounded demand is 2^63-1. Its result is ignored.

        Demand, holds, errors: `rstreams.operators.do_on_request`.
        """
        return Stream(operators.do_on_request(self._source, function))

    def do_on_subscribe(self, function: Callable[[], object]) -> Stream[T_co]:
        """Call `function()` when this stream has been subscribed to, before any request.

        Args:
            function: Called once for each subscription, in the task that delivers it; it must not block. Its result is
                ignored.

        Demand, holds, errors: `rstreams.operators.do_on_subscribe`.
        """
        return Stream(operators.do_on_subscribe(self._source, function))

    def element_at(self, index: int) -> Stream[T_co]:
        """Emit the item of this stream at `index`, counted from 0, then complete.

        Args:
            index: The index of the item: 0 is the first.

        Demand, holds, errors: `rstreams.operators.element_at`.
        """
        return Stream(operators.element_at(self._source, index))

    def end_with(self, *items: R) -> Stream[T_co | R]:
        """Emit the items of this stream, then `items`.

        Args:
            items: Emitted after them, in this order.

        Demand, holds, errors: `rstreams.operators.end_with`.
        """
        return Stream(operators.end_with(self._source, *items))

    def enumerate(self, start: int = 0) -> Stream[tuple[int, T_co]]:
        """Emit a pair for each item of this stream: its number, then the item.

        Args:
            start: The number of the first item.

        Demand, holds, errors: `rstreams.operators.enumerate`.
        """
        return Stream(operators.enumerate(self._source, start))

    def expand(
        self: Stream[R],
        function: Callable[[R], Publisher[R] | Iterable[R] | AsyncIterable[R]],
        *,
        depth: int | None = None,
        max_pending: int = 1024,
    ) -> Stream[R]:
        """Emit the items of this stream, then those of `function(item)` for each of them, and so on, level by level.

        Args:
            function: Called once for each emitted item, when its turn comes; it must not block. Its result is a
                publisher, an iterable or an async iterable, but no text; where it is empty, that branch ends.
            depth: The number of levels below the items of this stream; without limit by default.
            max_pending: How many items may wait to be expanded; at least 1.

        Demand, holds, errors: `rstreams.operators.expand`.
        """
        return Stream(operators.expand(self._source, function, depth=depth, max_pending=max_pending))

    def filter(self, predicate: Callable[[T_co], object]) -> Stream[T_co]:
        """Emit each item of this stream for which `predicate(item)` is true.

        Args:
            predicate: Called once for each item, in the task that delivers it; it must not block.

        Demand, holds, errors: `rstreams.operators.filter`.
        """
        return Stream(operators.filter(self._source, predicate))

    def first(self, predicate: Callable[[T_co], object] | None = None) -> Stream[T_co]:
        """Emit the first item of this stream, or the first one for which `predicate(item)` is true, then complete.

        Args:
            predicate: Called once for each item until it is true, in the task that delivers it; it must not block.

        Demand, holds, errors: `rstreams.operators.first`.
        """
        return Stream(operators.first(self._source, predicate))

    def flat_map(
        self,
        function: Callable[[T_co], Publisher[R] | Iterable[R] | AsyncIterable[R]],
        *,
        concurrency: int = 16,
        prefetch: int = 32,
        delay_errors: bool = False,
        window: int | None = None,
    ) -> Stream[R]:
        """Emit the items of the streams `function(item)`, at most `concurrency` of which run at the same time.

        Args:
            function: Called once for each outer item, in the task that delivers it; it must not block. Its result is a
                publisher, an iterable or an async iterable, but no text.
            concurrency: The most inner streams subscribed to at the same time; at least 1. With 1 they run one after
                the other, in order.
            prefetch: The number of items requested ahead of demand from an inner stream; at least 1. Items of a plain
                iterator are not requested ahead: they are drawn as they are emitted.
            delay_errors: Hold failures back until all other streams have ended. Several failures end the stream as an
                `ExceptionGroup`, in the order in which they came.
            window: The most outer items kept here and asked for, directly over a link; not less than `concurrency`.
                None: 256, or `concurrency` if that is more. With `window=concurrency` no item is asked for ahead.

        Demand, holds, errors: `rstreams.operators.flat_map`.
        """
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
        """Emit the items of the items of this stream, which are lists or other iterables, one iterable after the other.

        Demand, holds, errors: `rstreams.operators.flatten`.
        """
        return Stream(operators.flatten(self._source))

    def ignore_elements(self) -> Stream[Never]:
        """Drop all items of this stream, and pass on its completion or error.

        Demand, holds, errors: `rstreams.operators.ignore_elements`.
        """
        return Stream(operators.ignore_elements(self._source))

    def last(self, predicate: Callable[[T_co], object] | None = None) -> Stream[T_co]:
        """Emit the last item of this stream, or the last one for which `predicate(item)` is true, when it completes.

        Args:
            predicate: Called once for each item, in the task that delivers it; it must not block.

        Demand, holds, errors: `rstreams.operators.last`.
        """
        return Stream(operators.last(self._source, predicate))

    def limit_rate(self, high: int, low: int | None = None) -> Stream[T_co]:
        """Ask this stream for `high` items ahead, and for more in batches, whatever the subscriber requests.

        Args:
            high: The most items requested and not yet emitted; at least 1.
            low: The number of these that are left when more are requested: from 0 up to `high` - 1, by default a
                quarter of `high`.

        Demand, holds, errors: `rstreams.operators.limit_rate`.
        """
        return Stream(operators.limit_rate(self._source, high, low))

    def limit_request(self, count: int) -> Stream[T_co]:
        """Request at most `count` items of this stream in all, then complete; another name for `take`, from Reactor.

        Args:
            count: The number of items to request in all; 0 completes at once and requests nothing.

        Demand, holds, errors: `rstreams.operators.limit_request`.
        """
        return Stream(operators.limit_request(self._source, count))

    def log(self, name: str = "stream", *, level: int = 20) -> Stream[T_co]:
        """Write every signal that passes, down and up, to the logger `rstreams.log`, one line for each.

        Args:
            name: The beginning of each line.
            level: The level of the lines, as in the module `logging`: 20 is `logging.INFO`. Errors are logged with
                their traceback. An item appears with its `repr`, therefore do not log secret items.

        Demand, holds, errors: `rstreams.operators.log`.
        """
        return Stream(operators.log(self._source, name, level=level))

    def map(self, function: Callable[[T_co], R]) -> Stream[R]:
        """Emit `function(item)` for each item of this stream.

        Args:
            function: Called once for each item, in the task that delivers it; it must not block.

        Demand, holds, errors: `rstreams.operators.map`.
        """
        return Stream(operators.map(self._source, function))

    def map_async(
        self,
        function: Callable[[T_co], Awaitable[R]],
        *,
        concurrency: int = 1,
        ordered: bool = True,
        window: int | None = None,
    ) -> Stream[R]:
        """Emit `await function(item)` for each item of this stream.

        Args:
            function: Called once for each item, in a task of its own.
            concurrency: The most items in progress, or with a result that waits for its turn; at least 1.
            ordered: True emits the results in the order of the items, False as they become ready.
            window: The most items kept here and asked for, directly over a link; not less than `concurrency`. None:
                256, or `concurrency` if that is more. With `window=concurrency` no item is asked for ahead.

        Demand, holds, errors: `rstreams.operators.map_async`.
        """
        return Stream(
            operators.map_async(self._source, function, concurrency=concurrency, ordered=ordered, window=window)
        )

    def map_blocking(
        self, function: Callable[[T_co], R], *, concurrency: int = 1, ordered: bool = True, window: int | None = None
    ) -> Stream[R]:
        """Emit `function(item)` for each item of this stream, called in a worker thread.

        Args:
            function: Called once for each item, in a worker thread; it may block.
            concurrency: The most items in progress, or with a result that waits for its turn; at least 1. With more
                than 1, `function` runs in several threads at once. trio has 40 worker threads for the whole program.
            ordered: True emits the results in the order of the items, False as they become ready.
            window: The most items kept here and asked for, directly over a link; not less than `concurrency`. None:
                256, or `concurrency` if that is more. With `window=concurrency` no item is asked for ahead.

        Demand, holds, errors: `rstreams.operators.map_blocking`.
        """
        return Stream(
            operators.map_blocking(self._source, function, concurrency=concurrency, ordered=ordered, window=window)
        )

    def materialize(self) -> Stream[Notification[T_co]]:
        """Emit every signal of this stream as an item: `Next(item)`, and at the end `Completed()` or `Failed(error)`.

        Demand, holds, errors: `rstreams.operators.materialize`.
        """
        return Stream(operators.materialize(self._source))

    @overload
    def max(self: Stream[C]) -> Stream[C]: ...

    @overload
    def max(self, key: Callable[[T_co], Ordered]) -> Stream[T_co]: ...

    def max(self: Stream[Any], key: Any = None) -> Stream[Any]:
        """Emit the greatest item of this stream when it has completed; of several equal items, the first one.

        Args:
            key: Items are compared by its results. Called once for each item, in the task that delivers it. By default
                the items themselves are compared.

        Demand, holds, errors: `rstreams.operators.max`.
        """
        return Stream(operators.max(self._source, key))

    def merge(self, *others: Publisher[R], delay_errors: bool = False) -> Stream[T_co | R]:
        """Emit the items of all sources as they come.

        Args:
            *others: Subscribed to at once, in this order; without sources the stream is empty.
            delay_errors: Hold failures back until all other sources have ended. Several failures end the stream as an
                `ExceptionGroup`, in the order in which they came.

        Demand, holds, errors: `rstreams.operators.merge`.
        """
        return Stream(operators.merge(self._source, *others, delay_errors=delay_errors))

    def merge_priority(self, *others: Publisher[R], prefetch: int = 32, delay_errors: bool = False) -> Stream[T_co | R]:
        """Emit the items of all sources as they come; if several have items waiting, the earlier source goes first.

        Args:
            *others: Subscribed to at once, the most important first; without sources the stream is empty.
            prefetch: The number of items requested ahead of each source; at least 1. Items of a plain iterator are not
                requested ahead; an iterator always has an item waiting until it ends.
            delay_errors: Hold failures back until all other sources have ended. Several failures end the stream as an
                `ExceptionGroup`, in the order in which they came.

        Demand, holds, errors: `rstreams.operators.merge_priority`.
        """
        return Stream(operators.merge_priority(self._source, *others, prefetch=prefetch, delay_errors=delay_errors))

    def merge_sorted(
        self,
        *others: Publisher[R],
        key: Callable[[T_co | R], Any] | None = None,
        prefetch: int = 32,
        delay_errors: bool = False,
    ) -> Stream[T_co | R]:
        """Emit the items of several sorted sources in order: the smallest of the items that wait comes next.

        Args:
            *others: Subscribed to at once; without sources the stream is empty. Of equal items, those of the earlier
                source come first.
            key: Called once for each item; its results are compared. By default the items themselves are compared.
            prefetch: The number of items requested ahead of each source; at least 1. Items of a plain iterator are not
                requested ahead.
            delay_errors: Hold failures back until all other sources have ended. Several failures end the stream as an
                `ExceptionGroup`, in the order in which they came.

        Demand, holds, errors: `rstreams.operators.merge_sorted`.
        """
        return Stream(
            operators.merge_sorted(self._source, *others, key=key, prefetch=prefetch, delay_errors=delay_errors)
        )

    @overload
    def min(self: Stream[C]) -> Stream[C]: ...

    @overload
    def min(self, key: Callable[[T_co], Ordered]) -> Stream[T_co]: ...

    def min(self: Stream[Any], key: Any = None) -> Stream[Any]:
        """Emit the least item of this stream when it has completed; of several equal items, the first one.

        Args:
            key: Items are compared by its results. Called once for each item, in the task that delivers it. By default
                the items themselves are compared.

        Demand, holds, errors: `rstreams.operators.min`.
        """
        return Stream(operators.min(self._source, key))

    def name(self, name: str) -> Stream[T_co]:
        """Give this stream a name, which `explain` shows at its place in the pipeline.

        Args:
            name: The name; not empty.

        Demand, holds, errors: `rstreams.operators.name`.
        """
        return Stream(operators.name(self._source, name))

    def on_error_complete(self, predicate: Callable[[Exception], object] | None = None) -> Stream[T_co]:
        """Emit the items of this stream; if it fails, complete.

        Args:
            predicate: Called with the error, in the task that delivers it; it must not block. If its result is false,
                the error passes through. By default the stream completes for every `Exception`.

        Demand, holds, errors: `rstreams.operators.on_error_complete`.
        """
        return Stream(operators.on_error_complete(self._source, predicate))

    def on_error_map(self, function: Callable[[Exception], BaseException]) -> Stream[T_co]:
        """Emit the items of this stream; if it fails, fail with `function(error)`.

        Args:
            function: Called at most once, in the task that delivers the error; it must not block. It returns the error
                to end with, which may be its argument.

        Demand, holds, errors: `rstreams.operators.on_error_map`.
        """
        return Stream(operators.on_error_map(self._source, function))

    def on_error_resume(
        self, handler: Callable[[Exception], Publisher[R] | Iterable[R] | AsyncIterable[R]]
    ) -> Stream[T_co | R]:
        """Emit the items of this stream; if it fails, go on with the publisher that `handler(error)` returns.

        Args:
            handler: Called at most once, in the task that delivers the error; it must not block. It may raise its
                argument or another error. Its result is a publisher, an iterable or an async iterable, but no text.

        Demand, holds, errors: `rstreams.operators.on_error_resume`.
        """
        return Stream(operators.on_error_resume(self._source, handler))

    def on_error_return(self, value: R) -> Stream[T_co | R]:
        """Emit the items of this stream; if it fails, emit `value` and complete.

        Args:
            value: Emitted in the place of any `Exception`.

        Demand, holds, errors: `rstreams.operators.on_error_return`.
        """
        return Stream(operators.on_error_return(self._source, value))

    def on_overflow_buffer(
        self, size: int, *, strategy: Strategy = "error", on_drop: Callable[[T_co], object] | None = None
    ) -> Stream[T_co]:
        """Emit the items of this stream as they come, and let up to `size` of them wait for demand.

        Args:
            size: The most items that wait; at least 1.
            strategy: The action for one item more than `size`: "error" ends the stream, "drop_oldest" drops the item
                that has waited longest, "drop_newest" drops the new item.
            on_drop: Called with each item that is dropped, in the task that delivers it; it must not block.

        Demand, holds, errors: `rstreams.operators.on_overflow_buffer`.
        """
        return Stream(operators.on_overflow_buffer(self._source, size, strategy=strategy, on_drop=on_drop))

    def on_overflow_drop(self, on_drop: Callable[[T_co], object] | None = None) -> Stream[T_co]:
        """Emit the items of this stream as they come, and drop those that come without demand.

        Args:
            on_drop: Called with each item that is dropped, in the task that delivers it; it must not block.

        Demand, holds, errors: `rstreams.operators.on_overflow_drop`.
        """
        return Stream(operators.on_overflow_drop(self._source, on_drop))

    def on_overflow_error(self) -> Stream[T_co]:
        """Emit the items of this stream as they come, and fail when one comes without demand.

        Demand, holds, errors: `rstreams.operators.on_overflow_error`.
        """
        return Stream(operators.on_overflow_error(self._source))

    def on_overflow_latest(self, on_drop: Callable[[T_co], object] | None = None) -> Stream[T_co]:
        """Emit the items of this stream as they come; without demand keep the latest item, and drop the others.

        Args:
            on_drop: Called with each item that is dropped, in the task that delivers it; it must not block.

        Demand, holds, errors: `rstreams.operators.on_overflow_latest`.
        """
        return Stream(operators.on_overflow_latest(self._source, on_drop))

    def on_overflow_reduce(
        self, function: Callable[[T_co, T_co], T_co], *, ack: GatherAck = "within_window"
    ) -> Stream[T_co]:
        """Emit the items of this stream as they come, and fold items that come without demand into one that waits.

        Args:
            function: Called with the item that waits and the new item; its result waits in their place.
            ack: When an item that waits is done. "within_window": with the item it was folded into; if more items come
                than the window of a link can hold, the oldest ones earlier. "on_result": always with the item it was
                folded into. "on_receipt": as soon as it is kept.

        Demand, holds, errors: `rstreams.operators.on_overflow_reduce`.
        """
        return Stream(operators.on_overflow_reduce(self._source, function, ack=ack))

    def pairwise(self) -> Stream[tuple[T_co, T_co]]:
        """Emit each item of this stream except the first, together with the one before it.

        Demand, holds, errors: `rstreams.operators.pairwise`.
        """
        return Stream(operators.pairwise(self._source))

    def pausable(self, valve: Valve, *, size: int = 256) -> Stream[T_co]:
        """Emit the items of this stream while `valve` is open; no item is lost while it is paused.

        Args:
            valve: Pauses and resumes the stream; an `rstreams.Valve`, made beforehand.
            size: The most items requested and not yet emitted, and therefore the most that are kept during a pause; at
                least 1.

        Demand, holds, errors: `rstreams.operators.pausable`.
        """
        return Stream(operators.pausable(self._source, valve, size=size))

    def race(self, *others: Publisher[R]) -> Stream[T_co | R]:
        """Emit the items of the source that is the first to send an item or its end; the others are cancelled.

        Args:
            *others: Subscribed to at once, in this order; without sources the stream is empty.

        Demand, holds, errors: `rstreams.operators.race`.
        """
        return Stream(operators.race(self._source, *others))

    @overload
    def reduce(
        self, accumulator: Callable[[T_co, T_co], T_co], *, ack: GatherAck = "within_window"
    ) -> Stream[T_co]: ...

    @overload
    def reduce(
        self, accumulator: Callable[[R, T_co], R], seed: R, *, ack: GatherAck = "within_window"
    ) -> Stream[R]: ...

    def reduce(self: Stream[Any], accumulator: Any, seed: Any = ..., *, ack: Any = "within_window") -> Stream[Any]:
        """Fold all items of this stream into one result, and emit it when the source completes.

        Args:
            accumulator: Called once for each item, in the task that delivers it; it must not block.
            seed: The result before the first item, which is emitted if no item comes. Every subscription starts from
                this same object. Therefore the accumulator must return a new object and not change it. Without a seed
                the first item is the result before the second one.
            ack: When an item is done. "within_window": with the result; if more items come than the window of a link
                can hold, the oldest ones earlier. "on_result": always with the result. "on_receipt": as soon as it is
                folded.

        Demand, holds, errors: `rstreams.operators.reduce`.
        """
        return Stream(operators.reduce(self._source, accumulator, seed, ack=ack))

    def repeat(self, count: int | None = None) -> Stream[T_co]:
        """Emit the items of this stream `count` times.

        Args:
            count: The number of runs in all; at least 1. Without limit by default.

        Demand, holds, errors: `rstreams.operators.repeat`.
        """
        return Stream(operators.repeat(self._source, count))

    def retry(
        self, count: int | None = None, *, predicate: Callable[[Exception], object] | None = None
    ) -> Stream[T_co]:
        """Emit the items of this stream; if it fails, subscribe to it again, up to `count` times.

        Args:
            count: The most times that it is subscribed to again; without limit by default.
            predicate: Called with the error, in the task that delivers it; it must not block. If its result is false,
                the error passes through. By default every `Exception` leads to another try.

        Demand, holds, errors: `rstreams.operators.retry`.
        """
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
        """Emit the items of this stream; if it fails, wait and subscribe to it again, up to `count` times.

        Args:
            count: The most times that it is subscribed to again.
            first_s: The wait before the first retry, in seconds.
            max_s: The longest wait, in seconds; not less than `first_s`.
            factor: The factor by which the wait grows each time; at least 1.
            jitter: The random part of a wait, from 0 to 1: with 0.5 a wait is between half and one and a half times as
                long, but never longer than `max_s`.
            predicate: Called with the error, in the task that delivers it; it must not block. If its result is false,
                the error passes through. By default every `Exception` leads to another try.

        Demand, holds, errors: `rstreams.operators.retry_backoff`.
        """
        return Stream(
            operators.retry_backoff(
                self._source, count, first_s=first_s, max_s=max_s, factor=factor, jitter=jitter, predicate=predicate
            )
        )

    def sample(self, period_s: float) -> Stream[T_co]:
        """Emit the newest item of this stream every `period_s` seconds, if there is a new one.

        Args:
            period_s: The time between two looks, in seconds; more than 0. It begins with the first request. An item
                that comes exactly at the time of a look, when none is kept, waits for the next look.

        Demand, holds, errors: `rstreams.operators.sample`.
        """
        return Stream(operators.sample(self._source, period_s))

    @overload
    def scan(self, accumulator: Callable[[T_co, T_co], T_co]) -> Stream[T_co]: ...

    @overload
    def scan(self, accumulator: Callable[[R, T_co], R], seed: R) -> Stream[R]: ...

    def scan(self: Stream[Any], accumulator: Any, seed: Any = ...) -> Stream[Any]:
        """Emit `accumulator(result so far, item)` for each item of this stream.

        Args:
            accumulator: Called once for each item, in the task that delivers it; it must not block.
            seed: The result before the first item; it is not emitted. Every subscription starts from this same object.
                Therefore the accumulator must return a new object and not change it. Without a seed the first item is
                emitted as it is, and is the result before the second one. An empty stream stays empty, with and
                without.

        Demand, holds, errors: `rstreams.operators.scan`.
        """
        return Stream(operators.scan(self._source, accumulator, seed))

    def sequence_equal(self, other: Publisher[R], *, prefetch: int = 32) -> Stream[bool]:
        """Emit true if this stream and `other` have the same number of items, equal and in the same order, else false.

        Args:
            other: The second stream.
            prefetch: The number of items requested ahead of each; at least 1.

        Demand, holds, errors: `rstreams.operators.sequence_equal`.
        """
        return Stream(operators.sequence_equal(self._source, other, prefetch=prefetch))

    def share(self, *, window: int = 256) -> Stream[T_co]:
        """Share one run of this stream among all subscribers, from the first subscriber until the last one leaves.

        Args:
            window: The most items that one subscriber may be ahead of another; at least 1.

        Demand, holds, errors: `rstreams.operators.share`.
        """
        return Stream(operators.share(self._source, window=window))

    def single(self) -> Stream[T_co]:
        """Emit the only item of this stream when it has completed.

        Demand, holds, errors: `rstreams.operators.single`.
        """
        return Stream(operators.single(self._source))

    def skip(self, count: int) -> Stream[T_co]:
        """Drop the first `count` items of this stream and emit the rest.

        Args:
            count: The number of items to drop.

        Demand, holds, errors: `rstreams.operators.skip`.
        """
        return Stream(operators.skip(self._source, count))

    def skip_last(self, count: int) -> Stream[T_co]:
        """Emit all items of this stream except the last `count`, each when `count` more have come.

        Args:
            count: The number of items to leave out; 0 leaves out none.

        Demand, holds, errors: `rstreams.operators.skip_last`.
        """
        return Stream(operators.skip_last(self._source, count))

    def skip_until(self, boundary: Publisher[R]) -> Stream[T_co]:
        """Drop the items of this stream until `boundary` emits an item, then emit all that follow.

        Args:
            boundary: Subscribed to before the source. Its first item lets the items through; if it completes without
                one, none ever are.

        Demand, holds, errors: `rstreams.operators.skip_until`.
        """
        return Stream(operators.skip_until(self._source, boundary))

    def skip_while(self, predicate: Callable[[T_co], object]) -> Stream[T_co]:
        """Drop the items of this stream while `predicate(item)` is true, then emit all further items.

        Args:
            predicate: Called once for each item until it is false, in the task that delivers it; it must not block.

        Demand, holds, errors: `rstreams.operators.skip_while`.
        """
        return Stream(operators.skip_while(self._source, predicate))

    def start_with(self, *items: R) -> Stream[T_co | R]:
        """Emit `items`, then those of this stream.

        Args:
            items: Emitted first, in this order.

        Demand, holds, errors: `rstreams.operators.start_with`.
        """
        return Stream(operators.start_with(self._source, *items))

    def sum(self: Stream[Summable[R]]) -> Stream[R | int]:
        """Add the items of this stream, and emit the sum at the end; without items it is 0.

        Demand, holds, errors: `rstreams.operators.sum`.
        """
        return Stream(operators.sum(self._source))

    def switch_if_empty(self, other: Publisher[R]) -> Stream[T_co | R]:
        """Emit the items of this stream; if it completes without any, go on with `other`.

        Args:
            other: Subscribed to only if this stream is empty.

        Demand, holds, errors: `rstreams.operators.switch_if_empty`.
        """
        return Stream(operators.switch_if_empty(self._source, other))

    def switch_map(
        self, function: Callable[[T_co], Publisher[R] | Iterable[R] | AsyncIterable[R]], *, delay_errors: bool = False
    ) -> Stream[R]:
        """Emit the items of the stream `function(item)`, until the next item of this stream starts another one.

        Args:
            function: Called once for each outer item, in the task that delivers it; it must not block. Its result is a
                publisher, an iterable or an async iterable, but no text.
            delay_errors: Hold failures back until the source and the last inner stream have ended. Several failures end
                the stream as an `ExceptionGroup`, in the order in which they came.

        Demand, holds, errors: `rstreams.operators.switch_map`.
        """
        return Stream(operators.switch_map(self._source, function, delay_errors=delay_errors))

    def take(self, count: int) -> Stream[T_co]:
        """Emit the first `count` items of this stream, then complete.

        Args:
            count: The number of items to emit; 0 completes at once and requests nothing.

        Demand, holds, errors: `rstreams.operators.take`.
        """
        return Stream(operators.take(self._source, count))

    def take_last(self, count: int) -> Stream[T_co]:
        """Emit the last `count` items of this stream when it has completed.

        Args:
            count: The number of items to emit; fewer if the source has fewer; 0 emits none.

        Demand, holds, errors: `rstreams.operators.take_last`.
        """
        return Stream(operators.take_last(self._source, count))

    def take_until(self, boundary: Publisher[R]) -> Stream[T_co]:
        """Emit the items of this stream until `boundary` emits an item, then complete.

        Args:
            boundary: Subscribed to before the source. Its first item ends the stream. If it completes without an item,
                it has no effect.

        Demand, holds, errors: `rstreams.operators.take_until`.
        """
        return Stream(operators.take_until(self._source, boundary))

    def take_while(self, predicate: Callable[[T_co], object], *, inclusive: bool = False) -> Stream[T_co]:
        """Emit the items of this stream while `predicate(item)` is true, then complete.

        Args:
            predicate: Called once for each item, in the task that delivers it; it must not block.
            inclusive: Also emit the item for which `predicate` is false, as the last one.

        Demand, holds, errors: `rstreams.operators.take_while`.
        """
        return Stream(operators.take_while(self._source, predicate, inclusive=inclusive))

    def throttle(self, period_s: float) -> Stream[T_co]:
        """Emit an item of this stream, then leave out items that come in the next `period_s` seconds.

        Args:
            period_s: The time after an emitted item during which others are left out, in seconds; more than 0. An item
                that comes exactly at its end is emitted.

        Demand, holds, errors: `rstreams.operators.throttle`.
        """
        return Stream(operators.throttle(self._source, period_s))

    def time_interval(self) -> Stream[TimeInterval[T_co]]:
        """Emit each item of this stream with the seconds since the one before.

        Demand, holds, errors: `rstreams.operators.time_interval`.
        """
        return Stream(operators.time_interval(self._source))

    def timeout(self, timeout_s: float, *, fallback: Publisher[R] | None = None) -> Stream[T_co | R]:
        """Emit the items of this stream; fail if a requested item does not come within `timeout_s` seconds.

        Args:
            timeout_s: The longest wait for an item, in seconds; more than 0. It is the same for the first item.
            fallback: Replaces the source after a timeout, instead of an error. There is no time limit for its own
                items.

        Demand, holds, errors: `rstreams.operators.timeout`.
        """
        return Stream(operators.timeout(self._source, timeout_s, fallback=fallback))

    def timestamp(self) -> Stream[Timestamped[T_co]]:
        """Emit each item of this stream with the time it came.

        Demand, holds, errors: `rstreams.operators.timestamp`.
        """
        return Stream(operators.timestamp(self._source))

    @overload
    def to_dict(self, key: Callable[[T_co], K], *, ack: GatherAck = "within_window") -> Stream[dict[K, T_co]]: ...

    @overload
    def to_dict(
        self, key: Callable[[T_co], K], value: Callable[[T_co], V], *, ack: GatherAck = "within_window"
    ) -> Stream[dict[K, V]]: ...

    def to_dict(self, key: Any, value: Any = None, *, ack: Any = "within_window") -> Stream[dict[Any, Any]]:
        """Gather the items of this stream into a dict by `key(item)`, and emit it at the end.

        Args:
            key: Returns an item's key, which must be hashable. Of several items with the same key, the last one stays.
                Called once for each item, in the task that delivers it; it must not block.
            value: Returns the value for an item; by default the item itself.
            ack: When an item is done. "within_window": with the dict; if more items come than the window of a link can
                hold, the oldest ones earlier. "on_result": always with the dict. "on_receipt": as soon as it is in the
                dict.

        Demand, holds, errors: `rstreams.operators.to_dict`.
        """
        return Stream(operators.to_dict(self._source, key, value, ack=ack))

    def to_set(self, *, ack: GatherAck = "within_window") -> Stream[set[T_co]]:
        """Gather the items of this stream into a set, and emit it at the end.

        Args:
            ack: When an item is done. "within_window": with the set; if more items come than the window of a link can
                hold, the oldest ones earlier. "on_result": always with the set. "on_receipt": as soon as it is in the
                set.

        Demand, holds, errors: `rstreams.operators.to_set`.
        """
        return Stream(operators.to_set(self._source, ack=ack))

    def window_boundary(self, boundary: Publisher[object], *, prefetch: int = 256) -> Stream[Stream[T_co]]:
        """Split this stream into windows: streams that each item of `boundary` ends.

        Args:
            boundary: Each of its items ends a window. When it completes, the stream of windows completes.
            prefetch: The most items, requested or waiting, in all windows together; at least 1.

        Demand, holds, errors: `rstreams.operators.window_boundary`.
        """
        return Stream(shown_as(operators.window_boundary(self._source, boundary, prefetch=prefetch), Stream))

    def window_count(self, count: int, *, skip: int | None = None, prefetch: int = 256) -> Stream[Stream[T_co]]:
        """Split this stream into windows: streams of `count` items each; the last window has the remaining items.

        Args:
            count: The number of items in a window; at least 1.
            skip: The number of items from the beginning of one window to the beginning of the next; at least 1, by
                default `count`. With less than `count` the windows overlap. With more there are gaps, whose items are
                dropped.
            prefetch: The most items, requested or waiting, in all windows together; at least 1.

        Demand, holds, errors: `rstreams.operators.window_count`.
        """
        return Stream(shown_as(operators.window_count(self._source, count, skip=skip, prefetch=prefetch), Stream))

    def window_count_or_time(self, count: int, span_s: float, *, prefetch: int = 256) -> Stream[Stream[T_co]]:
        """Split this stream into windows: streams that end with `count` items or after `span_s` seconds.

        Args:
            count: The most items of a window; at least 1.
            span_s: The longest time that a window lasts, in seconds; more than 0.
            prefetch: The most items, requested or waiting, in all windows together; at least 1.

        Demand, holds, errors: `rstreams.operators.window_count_or_time`.
        """
        return Stream(shown_as(operators.window_count_or_time(self._source, count, span_s, prefetch=prefetch), Stream))

    def window_time(self, span_s: float, *, prefetch: int = 256) -> Stream[Stream[T_co]]:
        """Split this stream into windows: streams that last `span_s` seconds each.

        Args:
            span_s: The time that a window lasts, in seconds; more than 0.
            prefetch: The most items, requested or waiting, in all windows together; at least 1.

        Demand, holds, errors: `rstreams.operators.window_time`.
        """
        return Stream(shown_as(operators.window_time(self._source, span_s, prefetch=prefetch), Stream))

    def with_latest_from(self, other: Publisher[R]) -> Stream[tuple[T_co, R]]:
        """Emit each item of this stream together with the latest item of `other`.

        Args:
            other: The publisher of the second items, subscribed to first. If it sends all its items within the call of
                `request`, only the last one counts.

        Demand, holds, errors: `rstreams.operators.with_latest_from`.
        """
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
        """Emit tuples of the first items of all sources, then of the second items, and so on.

        Args:
            *others: Subscribed to at once, in this order; without sources the stream is empty.
            prefetch: The number of items requested ahead of each source; at least 1. Items of a plain iterator are not
                requested ahead: they are drawn as they are needed.

        Demand, holds, errors: `rstreams.operators.zip`.
        """
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
        """Begin the run: subscribe to the source. The result can end the run. Further calls begin nothing.

        Nothing is requested of the source while there are no subscribers.

        Errors: `ConfigError` outside of a scope, without subscribers, for a source that needs a scope.
        Context: A scope, such as `async with rstreams.Scope()`, unless a subscriber has one.
        """
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


name_arguments("Stream", Stream, every=True)
