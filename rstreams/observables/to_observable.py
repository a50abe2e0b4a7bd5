"""to_observable: a stream as an observable."""

from __future__ import annotations

from typing import Any, Generic, TypeVar, cast

import reactivex
from reactivex import Observable, abc
from reactivex.disposable import Disposable
from reactivex.scheduler import CurrentThreadScheduler

from rstreams._core.demand import UNBOUNDED
from rstreams._core.subscription import ENDED
from rstreams.abc import Publisher, Subscription

T = TypeVar("T")


def to_observable(source: Publisher[T]) -> Observable[T]:
    """Return an observable of the items of `source`, each of its subscribers starts a run of its own.

    Demand: Unbounded: an observer cannot say that it is not ready. Put `on_overflow_...` or `throttle` before it where
        that matters.
    Cancels: The source, when the observer disposes of its subscription.
    Context: Items are sent in the task that delivers them.
    """

    def subscribe(observer: abc.ObserverBase[T], _: abc.SchedulerBase | None = None) -> abc.DisposableBase:
        observed = _Observed(observer)
        source.subscribe(observed)
        # Called after the subscribing: before its end an observer cannot dispose of the subscription. A source that
        # answers at once would send all its items to a `take` that needs no more.
        CurrentThreadScheduler.singleton().schedule(lambda *_: observed.begin())
        return Disposable(observed.dispose)

    return reactivex.create(subscribe)


class _Observed(Generic[T]):
    """The subscriber that sends its items to an observer."""

    on_next: Any  # the observer's own: a method here would cost each item a call; its parameter has another name

    def __init__(self, observer: abc.ObserverBase[T]) -> None:
        self.on_next = observer.on_next
        self._observer = observer
        self._subscription: Subscription = ENDED
        self._begun = False
        self._disposed = False

    def on_subscribe(self, subscription: Subscription) -> None:
        if self._subscription is not ENDED or self._disposed:
            subscription.cancel()  # 2.5
            return
        self._subscription = subscription
        if self._begun:
            subscription.request(UNBOUNDED)

    def begin(self) -> None:
        """Ask for the items."""
        self._begun = True
        self._subscription.request(UNBOUNDED)

    def on_error(self, error: BaseException) -> None:
        self._observer.on_error(cast("Exception", error))  # it takes any exception, although its type says otherwise

    def on_complete(self) -> None:
        self._observer.on_completed()

    def dispose(self) -> None:
        self._disposed = True
        self._subscription.cancel()
