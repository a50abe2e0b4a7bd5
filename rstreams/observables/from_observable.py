"""from_observable: the items of an observable, as a stream."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from threading import BoundedSemaphore
from typing import Any, Final, Generic, Literal, TypeAlias, TypeVar

from reactivex import Observable, abc

from rstreams._checks.choices import require_choice
from rstreams._checks.numbers import require_count
from rstreams._checks.publishers import require_subscriber
from rstreams._checks.refusals import refuse_object
from rstreams._core.claims import NO_HOLD
from rstreams._core.demand import demand_error
from rstreams._core.scheduler import call_in, current_scheduler
from rstreams._core.sight import Scannable
from rstreams._core.threads import get_ident
from rstreams.abc import Hold, Publisher
from rstreams.errors import ConfigError
from rstreams.observables._rx_scheduler import rx_scheduler
from rstreams.operators.on_overflow_buffer import on_overflow_buffer
from rstreams.operators.on_overflow_drop import on_overflow_drop
from rstreams.operators.on_overflow_latest import on_overflow_latest

T = TypeVar("T")

Overflow: TypeAlias = Literal["error", "drop_oldest", "drop_newest", "latest", "drop"]
"""The ways to treat items that come without demand."""

_FROM_THREADS: Final = 1024  # items on their way from other threads; with so many, those threads wait


def from_observable(observable: Observable[T], *, overflow: Overflow = "error", size: int = 256) -> Publisher[T]:
    """Emit the items of `observable`.

    Args:
        observable: Subscribed to anew for each subscriber, with its first request.
        overflow: How items that come without demand are treated. With "error", "drop_oldest" and "drop_newest" up to
            `size` of them wait. One more ends the stream with `BufferOverflow`, takes the place of the oldest, or is
            dropped. With "latest" only the newest waits; with "drop" none waits.
        size: The most items that wait; at least 1.

    Demand: An observable does not know demand.
    Errors: `ConfigError` at the call for a bad option, `TypeError` for any object that is not an observable. The
        observable's error ends the stream.
    Cancels: Disposes of the subscription to the observable.
    Context: If the observable sends from another thread, its items are passed to the stream's thread in order; that
        needs a scope, and without one it is a `ConfigError`. While 1,024 items are on their way, the sending thread
        waits.
    Spec: Reactive Streams 1.1.
    """
    if not isinstance(observable, Observable):
        refuse_object("from_observable", "observable", observable, "a reactivex Observable")
    source = _ObservablePublisher(observable)
    if overflow == "drop":
        return on_overflow_drop(source)
    if overflow == "latest":
        return on_overflow_latest(source)
    require_choice("from_observable", "overflow", overflow, Overflow)
    require_count("from_observable", "size", size, 1)
    return on_overflow_buffer(source, size, strategy=overflow)


class _ObservablePublisher(Generic[T]):
    """A publisher that ignores demand; the operator behind it takes care of that."""

    def __init__(self, observable: Observable[T]) -> None:
        self._observable = observable

    def subscribe(self, subscriber: Any) -> None:  # noqa: ANN401 - a stage of our own
        require_subscriber(subscriber)
        observing = _Observing(self._observable, subscriber)
        subscriber.on_subscribe(observing)
        observing.open()


class _Observing(Scannable, Generic[T]):
    """One subscription to an observable, begun by the first request."""

    operator = "from_observable"

    def __init__(self, observable: Observable[T], subscriber: Any) -> None:  # noqa: ANN401 - a stage of our own
        self._observable = observable
        self._subscriber = subscriber
        self._scheduler = current_scheduler.get(None)
        self._thread = get_ident()
        self._on_the_way = BoundedSemaphore(_FROM_THREADS)
        self._disposable: abc.DisposableBase | None = None
        self._open = False  # whether `on_subscribe` has returned: signals are serial (1.3)
        self._asked = False
        self._ended = False

    def open(self) -> None:
        self._open = True
        if self._asked and not self._ended:
            self._begin()

    def request(self, n: int) -> None:
        error = demand_error(n)
        if error is not None:
            self.cancel()
            self._subscriber.on_error(error)  # 3.9
        elif not self._asked and not self._ended:
            self._asked = True
            if self._open:
                self._begin()

    def _begin(self) -> None:
        subscribe = partial(
            self._observable.subscribe,
            on_error=partial(self._signal, self._end, self._subscriber.on_error),
            on_completed=partial(self._signal, self._end, self._subscriber.on_complete),
            scheduler=rx_scheduler(self._scheduler),
        )
        self._disposable = call_in(self._scheduler, subscribe, partial(self._signal, self._subscriber.on_next))
        if self._ended:
            self._disposable.dispose()

    def cancel(self) -> None:
        self._ended = True
        if self._disposable is not None:
            self._disposable.dispose()

    def hold(self) -> Hold:
        return NO_HOLD

    def _end(self, signal: Callable[..., None], *arguments: object) -> None:
        self._ended = True
        signal(*arguments)

    def _signal(self, signal: Callable[..., None], *arguments: object) -> None:
        """Pass a signal on, in the stream's thread."""
        if get_ident() == self._thread:
            if not self._ended:
                signal(*arguments)
        elif self._scheduler is None:
            msg = (
                "from_observable(): the observable sends from another thread, and there is no scope to bring its items "
                "into: run the stream by a terminal, `open()`, `rstreams.connect(...)` or `rstreams.Node()`"
            )
            raise ConfigError(msg)
        else:
            while not self._on_the_way.acquire(timeout=0.1):
                if self._ended:
                    return
            self._scheduler.post(partial(self._arrive, signal, arguments))

    def _arrive(self, signal: Callable[..., None], arguments: tuple[object, ...]) -> None:
        self._on_the_way.release()
        if not self._ended:
            signal(*arguments)
