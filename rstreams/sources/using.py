"""using: a stream that holds a resource, and gives it back at its end."""

from __future__ import annotations

from collections.abc import AsyncIterable, Callable, Iterable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from functools import partial
from typing import IO, Any, AnyStr, Generic, TypeVar, overload

from rstreams._checks.functions import require_plain
from rstreams._checks.publishers import require_subscriber, require_subscription
from rstreams._checks.refusals import refuse_result
from rstreams._core.demand import add_demand
from rstreams._core.scheduler import bound_scheduler
from rstreams._core.sight import Counts, Watched, counts_of
from rstreams._core.subscription import ENDED, subscribe_failed
from rstreams._stages.emission import log_dropped
from rstreams._stages.stage import Stage, raised_during
from rstreams.abc import Event, Publisher, Scheduler, Subscriber, Subscription
from rstreams.sources._returned import returned_stream

S = TypeVar("S")
T = TypeVar("T")


@overload  # for mypy, which finds no item type of a function like from_iterable that is called in a lambda
def using(
    acquire: Callable[[], IO[AnyStr]], use: Callable[[IO[AnyStr]], Publisher[T] | Iterable[T] | AsyncIterable[T]]
) -> Publisher[T]: ...
@overload
def using(
    acquire: Callable[[], AbstractContextManager[S] | AbstractAsyncContextManager[S]],
    use: Callable[[S], Publisher[T] | Iterable[T] | AsyncIterable[T]],
) -> Publisher[T]: ...
def using(acquire: Any, use: Any) -> Publisher[Any]:
    """Acquire a resource for each subscriber, emit the items of a publisher made with it, and then release it.

        using(open_file, read_lines)
        --a--b--c|
                 closed

    Args:
        acquire: Returns a context manager, plain or async, which is entered for each subscription and left at its end.
            A plain one must not block.
        use: Makes the publisher from the value of the entered context manager.

    Demand: Passed on to the publisher.
    Errors: An error of `acquire`, of entering or of `use` is signalled to the subscriber; a result of `use` that is not
        a publisher is a `TypeError`. An error of leaving ends the stream in place of its completion, or has the
        stream's error as its context.
    Cancels: The publisher. The resource is given back exactly once, whether the stream completes, fails or is
        cancelled, and before the end is signalled. The context manager sees an error of the stream, but cannot suppress
        it.
    Context: A plain context manager is entered and left in the calls of the signals. An async one is entered and left
        in a task of its own, in the scope that subscribes; without a scheduler it is a `ConfigError`.
    Spec: Reactive Streams 1.4, 1.9, 3.13.

    Example:
        >>> from contextlib import contextmanager
        >>> @contextmanager
        ... def room():
        ...     print("light on")
        ...     yield "room"
        ...     print("light off")
        >>> await Stream.using(room, lambda room: Stream.of(room)).to_list()
        light on
        light off
        ['room']
    """
    require_plain("using", "acquire", acquire, "return an async context manager from a plain function")
    require_plain("using", "use", use)
    return _Using(acquire, use)


class _Using(Watched, Generic[S, T]):
    def __init__(
        self,
        acquire: Callable[[], AbstractContextManager[S] | AbstractAsyncContextManager[S]],
        use: Callable[[S], Publisher[T] | Iterable[T] | AsyncIterable[T]],
    ) -> None:
        super().__init__()
        self._acquire = acquire
        self._use = use

    def subscribe(self, subscriber: Subscriber[T]) -> None:
        require_subscriber(subscriber)
        try:
            manager = self._acquire()
            if isinstance(manager, AbstractContextManager):
                start: Callable[[], None] = partial(self._subscribe, subscriber, manager)
            elif isinstance(manager, AbstractAsyncContextManager):
                stage = _InTask(subscriber, manager, self._use, bound_scheduler("using"))
                self._begins(stage)
                start = stage.start
            else:
                refuse_result("using", "acquire", manager, "a context manager")
        except Exception as error:
            subscribe_failed(subscriber, error)
        else:
            start()

    def _subscribe(self, subscriber: Subscriber[T], manager: AbstractContextManager[S]) -> None:
        try:
            resource = manager.__enter__()
        except Exception as error:
            subscribe_failed(subscriber, error)
            return
        try:
            publisher = returned_stream("using", "use", self._use(resource))
        except BaseException as error:
            end = _left(manager, error)
            if not isinstance(error, Exception):
                raise
            subscribe_failed(subscriber, end or error)
            return
        stage = _Here(subscriber, manager)
        self._begins(stage)
        try:
            publisher.subscribe(stage)
        except BaseException:
            stage.cancel()
            raise


class _Holding(Stage[T, T]):
    """A stage that gives something back at its end."""

    __slots__ = ()

    operator = "using"
    only_reacts = True

    def on_next(self, item: T) -> None:
        if self._ended:
            return
        try:
            self._downstream.on_next(item)
        except BaseException:
            self.cancel()  # 2.13: a subscriber that raises counts as having cancelled
            raise


class _Here(_Holding[T]):
    """The stage over a plain context manager."""

    __slots__ = ("_manager",)

    def __init__(self, downstream: Subscriber[T], manager: AbstractContextManager[Any]) -> None:
        super().__init__(downstream)
        self._manager: AbstractContextManager[Any] | None = manager  # None once it is being left

    def on_complete(self) -> None:
        if self._ended:
            return
        self._upstream = ENDED  # 2.3, 2.4
        error = self._leave(None)
        if error is None:
            super().on_complete()
        else:
            super().on_error(error)

    def on_error(self, error: BaseException) -> None:
        if not self._ended:
            self._upstream = ENDED  # 2.3, 2.4
            super().on_error(self._leave(error) or error)

    def cancel(self) -> None:
        if self._ended:
            return
        super().cancel()
        error = self._leave(None)
        if error is not None:
            log_dropped(error, "the context manager of using() failed when it was left")

    def _leave(self, error: BaseException | None) -> BaseException | None:
        """Leave the context manager, whose code may cancel the stream; return the error of the stream, if any."""
        manager, self._manager = self._manager, None
        return error if manager is None else _left(manager, error)


def _left(manager: AbstractContextManager[Any], error: BaseException | None) -> BaseException | None:
    """Leave the context manager, and return the error the stream then ends with, if any."""
    try:
        manager.__exit__(None if error is None else type(error), error, None if error is None else error.__traceback__)
    except Exception as raised:
        return raised if error is None else raised_during(raised, error)
    return error


class _InTask(_Holding[T]):
    """The stage over an async context manager, which one task enters and leaves."""

    __slots__ = ("_demand", "_emissions", "_error", "_manager", "_over", "_refused", "_scheduler", "_use")

    def __init__(
        self,
        downstream: Subscriber[T],
        manager: AbstractAsyncContextManager[Any],
        use: Callable[[Any], Publisher[T] | Iterable[T] | AsyncIterable[T]],
        scheduler: Scheduler,
    ) -> None:
        super().__init__(downstream)
        self._manager = manager
        self._use = use
        self._scheduler = scheduler
        self._over: Event = scheduler.event()
        self._error: BaseException | None = None
        self._refused: Exception | None = None  # raised by the subscriber, in this task
        self._demand = 0  # requested before there was a publisher
        self._emissions = 0  # noted at the end of that publisher

    def start(self) -> None:
        self._downstream.on_subscribe(self)
        if not self._ended:
            self._scheduler.start(self._run)

    def on_subscribe(self, subscription: Subscription) -> None:
        require_subscription(subscription)
        if self._upstream is not ENDED or self._ended:
            subscription.cancel()  # 2.5
            return
        self._upstream = subscription
        if self._demand:
            subscription.request(self._demand)

    def on_error(self, error: BaseException) -> None:
        if not self._ended:
            self._note_end()
            self._error = error
            self._over.set()

    def on_complete(self) -> None:
        if not self._ended:
            self._note_end()
            self._over.set()

    def request(self, n: int) -> None:
        if not self._accepts(n):
            return
        if self._upstream is ENDED:
            self._demand = add_demand(self._demand, n)
        else:
            self._upstream.request(n)

    def counts(self) -> Counts | None:
        return Counts(self._requested, self._emissions) if self._upstream is ENDED else super().counts()

    @property
    def moves(self) -> bool:
        """Whether its task has something to do: it enters or leaves the context manager."""
        return self._upstream is ENDED

    def _note_end(self) -> None:
        counts = counts_of(self._upstream)
        self._emissions = 0 if counts is None else counts.delivered
        self._upstream = ENDED  # 2.3, 2.4

    def _let_go(self) -> None:
        self._over.set()

    async def _run(self) -> None:
        try:
            async with self._manager as resource:
                await self._emit_with(resource)
        except GeneratorExit:  # the garbage collector throws this away, perhaps in another thread
            raise
        except BaseException as error:
            if not isinstance(error, Exception) and error is not self._error:  # the scope ends
                self.cancel()
                raise
            if self._ended:
                if error is not self._refused:
                    log_dropped(error, "using() failed")
            elif self._error is not None and isinstance(error, Exception):
                self._error = raised_during(error, self._error)
            else:
                self._error = error
        if self._refused is not None:
            raise self._refused
        if not self._ended:
            self._ended = True
            if self._error is None:
                self._downstream.on_complete()
            else:
                self._downstream.on_error(self._error)

    async def _emit_with(self, resource: object) -> None:
        """Emit until the end; raise an error of the stream, so that the context manager sees it."""
        if self._ended:
            return
        try:
            publisher = returned_stream("using", "use", self._use(resource))
        except Exception as error:
            self._error = error  # even if the context manager suppresses it
            raise
        try:
            publisher.subscribe(self)
        except Exception as error:
            if self._ended:
                self._refused = error
            else:
                self._error = error
            raise
        await self._over.wait()
        if self._error is not None:
            raise self._error
