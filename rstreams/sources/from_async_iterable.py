"""from_async_iterable: the items of anything `async for` can iterate over."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator
from typing import Generic, TypeVar

from rstreams._checks.publishers import hint_for, is_observable, require_subscriber
from rstreams._checks.refusals import refuse_object
from rstreams._core.claims import NO_HOLD
from rstreams._core.claims_in_order import ClaimsInOrder
from rstreams._core.demand import add_demand, demand_error, take_demand
from rstreams._core.scheduler import bound_scheduler
from rstreams._core.sight import ASK, SEND, Counts, Scannable, Waits, Watched, Way
from rstreams._core.subscription import ENDED, subscribe_failed
from rstreams._core.threads import get_ident, refuse_thread
from rstreams._core.turn import Turn
from rstreams._stages.emission import log_dropped
from rstreams.abc import Cancellable, Event, Hold, Publisher, Scheduler, Subscriber
from rstreams.errors import ConfigError

T = TypeVar("T")


def from_async_iterable(iterable: AsyncIterable[T]) -> Publisher[T]:
    """Emit the items of `iterable`, then complete.

        from_async_iterable(readings())
        --1-----2--3|

    Each subscriber gets an iteration of its own. An async generator object can be iterated over only once: use
    `defer(lambda: from_async_iterable(make()))` to make one for each subscriber.

    Args:
        iterable: Iterated over anew for each subscriber.

    Demand: The next item is awaited when it is requested and never before.
    Errors: An error of the iteration ends the stream with that very exception; `ConfigError` if no scope is open.
    Cancels: The task is cancelled, wherever it waits, and an async generator is closed; an error of that is logged.
    Context: One task of the scope that subscribed does everything, from the first step to `aclose()`. If the
        subscriber's `on_next` raises, the subscription is cancelled and the exception ends that scope.
    Spec: Reactive Streams 1.1, 1.5, 2.13, 3.3.

    Example:
        >>> async def readings():
        ...     for reading in (20.5, 21.0):
        ...         await asyncio.sleep(60)
        ...         yield reading
        >>> await Stream.from_async_iterable(readings()).to_list()
        [20.5, 21.0]
    """
    if not hasattr(iterable, "__aiter__"):
        hint = "; from_iterable takes what `for` can iterate over" if hasattr(iterable, "__iter__") else ""
        hint = "; call it" if callable(iterable) else hint
        hint = hint_for(iterable) if is_observable(iterable) else hint
        refuse_object("from_async_iterable", "iterable", iterable, "async iterable", hint)
    return _AsyncIterablePublisher(iterable)


class _AsyncIterablePublisher(Watched, Generic[T]):
    __slots__ = ("_iterable",)

    def __init__(self, iterable: AsyncIterable[T]) -> None:
        super().__init__()
        self._iterable = iterable

    def subscribe(self, subscriber: Subscriber[T]) -> None:
        require_subscriber(subscriber)
        try:
            scheduler = bound_scheduler("from_async_iterable")
        except ConfigError as error:
            subscribe_failed(subscriber, error)
        else:
            pull = _Pull(self._iterable, subscriber, scheduler)
            self._begins(pull)
            pull.start()


class _Pull(Scannable, Generic[T]):
    """One subscription: a task that awaits an item for each one requested."""

    __slots__ = (
        "__weakref__",
        "_delivered",
        "_demand",
        "_iterable",
        "_requested",
        "_scheduler",
        "_subscriber",
        "_task",
        "_thread",
        "_wanted",
        "ended",
    )

    def __init__(self, iterable: AsyncIterable[T], subscriber: Subscriber[T], scheduler: Scheduler) -> None:
        self._iterable = iterable
        self._subscriber = subscriber
        self._scheduler = scheduler
        self._task: Cancellable = ENDED
        self._wanted: Event | None = None
        self._demand = 0
        self._requested = 0
        self._delivered = 0
        self.ended = False
        self._thread = get_ident()

    operator = "from_async_iterable"

    def waits_to(self, way: Way) -> Waits:
        """Return the events that it waits for: before a request it does nothing, it does not even end."""
        moves = self._wanted is None  # its task does something, or is about to
        if way != SEND or moves or self.ended or self._demand:
            return None
        return [(ASK, self._subscriber)]

    def start(self) -> None:
        self._subscriber.on_subscribe(self)
        if not self.ended:
            self._task = self._scheduler.start(self._run)

    def request(self, n: int) -> None:
        if get_ident() != self._thread:
            refuse_thread(f"request({n})", self._thread)
        if self.ended:
            return
        error = demand_error(n)
        if error is not None:
            self.cancel()
            self._subscriber.on_error(error)  # 3.9
            return
        self._demand = add_demand(self._demand, n)
        self._requested += n
        if self._wanted is not None:
            self._wanted.set()

    def cancel(self) -> None:
        if get_ident() != self._thread:
            refuse_thread("cancel()", self._thread)
        self.ended = True
        self._task.cancel()

    def hold(self) -> Hold:
        return NO_HOLD

    def gather(self, *, loose: bool) -> ClaimsInOrder | None:  # noqa: ARG002 - a subscription's own name for it
        return None

    @property
    def downstream(self) -> object:
        """The subscriber."""
        return self._subscriber

    def counts(self) -> Counts:
        """Return how many items have been requested and delivered."""
        return Counts(self._requested, self._delivered)

    async def _run(self) -> None:
        try:
            iterator = aiter(self._iterable)
        except Exception as error:
            self._fail(error)
            return
        try:
            await self._pull(iterator)
        finally:
            self.ended = True
            if isinstance(iterator, AsyncGenerator):
                await _close(iterator)

    async def _pull(self, iterator: AsyncIterator[T]) -> None:
        turn, items = Turn(self._scheduler).begin(), 0
        while not self.ended:
            if not self._demand:
                await self._until_wanted()
                turn, items = turn.begin(), 0
                continue
            try:
                item = await anext(iterator)
            except StopAsyncIteration:
                self._complete()
                return
            except Exception as error:
                self._fail(error)
                return
            if self.ended:
                return  # cancelled while the item was on its way
            self._demand = take_demand(self._demand, 1)
            self._delivered += 1
            self._subscriber.on_next(item)
            items += 1
            if items >= turn.look_at and turn.is_over(items):
                await self._breathe()
                turn, items = turn.begin(), 0

    async def _until_wanted(self) -> None:
        self._wanted = self._scheduler.event()
        await self._wanted.wait()
        self._wanted = None

    async def _breathe(self) -> None:
        """Let other tasks run: an iteration that never waits would stop them all."""
        pause = self._scheduler.event()
        self._scheduler.call_later(0, pause.set)  # an event that has happened lets nobody run in asyncio
        await pause.wait()

    def _complete(self) -> None:
        if not self.ended:
            self.ended = True
            self._subscriber.on_complete()

    def _fail(self, error: Exception) -> None:
        if self.ended:
            log_dropped(error, "an async iterator failed")
        else:
            self.ended = True
            self._subscriber.on_error(error)


async def _close(generator: AsyncGenerator[T, None]) -> None:
    try:
        await generator.aclose()
    except Exception as error:
        log_dropped(error, "an async generator failed while it was being closed")
