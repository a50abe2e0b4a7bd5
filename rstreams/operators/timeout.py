"""timeout: an error or another stream when no item comes for too long."""

from __future__ import annotations

from typing import Generic, TypeVar

from rstreams._checks.numbers import require_seconds
from rstreams._checks.publishers import require_publisher
from rstreams._core.scheduler import bound_scheduler
from rstreams._stages.arbiter import Arbiter
from rstreams._stages.stage import Lifted
from rstreams.abc import Cancellable, Publisher, Scheduler, Subscriber, Subscription
from rstreams.errors import StreamTimeout

T = TypeVar("T")
R = TypeVar("R")


def timeout(source: Publisher[T], timeout_s: float, *, fallback: Publisher[R] | None = None) -> Publisher[T | R]:
    """Emit the items of `source`; fail if a requested item does not come within `timeout_s` seconds.

        --1--2--------3-->
            timeout(5)
        --1--2-----X

    Args:
        source: The publisher of the items.
        timeout_s: The longest wait for an item, in seconds; more than 0. It is the same for the first item.
        fallback: Replaces the source after a timeout, instead of an error. There is no time limit for its own items.

    Demand: Passed up unchanged. Demand that `source` leaves unmet goes to `fallback`. Time counts only while there is
        unmet demand: from the first request after a time without demand, or from when the item before has been handled.
        There is therefore no timeout while the subscriber does not request. There is also none if a source has sent all
        requested items and completes late. (In Reactor time counts from the subscription, with or without demand.)
    Errors: `StreamTimeout`, whose text has the seconds. `ConfigError` at the call for a bad option, and as `on_error`
        if there is no scheduler; `TypeError` if `fallback` is not a publisher. Errors of both streams pass through.
    Cancels: The source, when it takes too long.
    Context: Timed in the scope that subscribes.
    Spec: Reactive Streams 1.1, 1.4, 3.17.

    Example:
        >>> await Stream.never().timeout(5.0, fallback=Stream.of("too late")).to_list()
        ['too late']
    """
    require_seconds("timeout", "timeout_s", timeout_s)
    if fallback is not None:
        require_publisher("timeout", "fallback", fallback)
    return Lifted(source, lambda downstream: _Timeout[T | R](downstream, timeout_s, fallback))


class _Timeout(Arbiter[T]):
    __slots__ = ("_clock", "_due", "_fallback", "_timed_out", "_timeout_s", "_timer")

    operator = "timeout"

    def __init__(self, downstream: Subscriber[T], timeout_s: float, fallback: Publisher[T] | None) -> None:
        super().__init__(downstream)
        self._clock: Scheduler = bound_scheduler("timeout")
        self._timeout_s = timeout_s
        self._fallback = fallback
        self._timer: Cancellable | None = None
        self._due = 0.0
        self._timed_out = False

    def on_next(self, item: T) -> None:
        if not self._timed_out:
            try:
                super().on_next(item)
            except BaseException:
                self.cancel()  # 2.13: also stops the timer
                raise
            # Not before: the source cannot send while the subscriber is busy.
            self._due = self._clock.now() + self._timeout_s

    def on_error(self, error: BaseException) -> None:
        if not self._timed_out:
            super().on_error(error)

    def on_complete(self) -> None:
        if not self._timed_out:
            self._stop()
            super().on_complete()

    def request(self, n: int) -> None:
        waited = self._demand
        if not self._accepts(n):
            return
        if not waited:
            self._due = self._clock.now() + self._timeout_s
        self._upstream.request(n)
        if self._demand and not self._ended and not self._timed_out and self._timer is None:
            self._timer = self._clock.call_later(self._due - self._clock.now(), self._fire)

    def _fire(self) -> None:
        self._timer = None
        if not self._demand:
            return  # the next request starts the timer again
        left = self._due - self._clock.now()
        if left > 0:
            self._timer = self._clock.call_later(left, self._fire)
        elif self._fallback is None:
            self._fail(
                StreamTimeout(f"timeout(timeout_s={self._timeout_s!r}): no item for {self._timeout_s!r} seconds")
            )
        else:
            self._timed_out = True
            self._upstream.cancel()
            if self._ended:  # a function called by the cancel has cancelled
                return
            self._switch_to(_Behind(self._fallback, self))

    @property
    def moves(self) -> bool:
        return super().moves or self._timer is not None

    def _stop(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()

    def _let_go(self) -> None:
        self._stop()


class _Behind(Generic[T]):
    """The fallback's own subscriber, because the source may still send items that were on their way (2.8)."""

    __slots__ = ("_publisher", "_stage")

    def __init__(self, publisher: Publisher[T], stage: _Timeout[T]) -> None:
        self._publisher = publisher
        self._stage = stage

    def subscribe(self, subscriber: Subscriber[T]) -> None:  # noqa: ARG002 - always the stage
        self._publisher.subscribe(self)

    def on_subscribe(self, subscription: Subscription) -> None:
        self._stage.on_subscribe(subscription)

    def on_next(self, item: T) -> None:
        Arbiter.on_next(self._stage, item)

    def on_error(self, error: BaseException) -> None:
        Arbiter.on_error(self._stage, error)

    def on_complete(self) -> None:
        Arbiter.on_complete(self._stage)
