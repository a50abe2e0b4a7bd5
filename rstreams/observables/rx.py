"""rx: an operator of reactivex inside a stream.

Theory of operation. The stream goes into the operator item by item. The next item goes in only when there is demand and
the operator's whole output for the item before has been emitted. Therefore only the output for one item ever waits. One
loop (`_loop`) emits the output that waits, asks for input and ends the stream. It is never re-entered: output that the
operator sends while the loop runs is only kept.

An operator that subscribes to its source more than once, such as `retry`, starts a run of the source each time; every
run is a `_Feed`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Generic, NoReturn, Self, TypeVar, cast

import reactivex
from reactivex import Observable, abc
from reactivex.disposable import Disposable

from rstreams._checks.numbers import require_count
from rstreams._checks.publishers import require_publisher, require_subscription
from rstreams._checks.refusals import refuse_result
from rstreams._core.claims import NO_HOLD, Claims, claims_on
from rstreams._core.demand import add_demand, take_demand
from rstreams._core.scheduler import call_in, current_scheduler
from rstreams._core.subscription import ENDED, checked_error
from rstreams._core.threads import get_ident
from rstreams._core.turn import Turn
from rstreams._stages.stage import Joined, KeepingStage
from rstreams.abc import Cancellable, Hold, Publisher, Scheduler, Subscription
from rstreams.errors import BufferOverflow, SpecViolation
from rstreams.observables._rx_scheduler import rx_scheduler

T = TypeVar("T")
R = TypeVar("R")


def rx(
    source: Publisher[T], operator: Callable[[Observable[T]], Observable[R]], *, max_expansion: int = 1024
) -> Publisher[R]:
    """Emit the output of an operator of reactivex for the items of `source`.

    Args:
        source: The publisher of the items.
        operator: An operator for reactivex's `pipe`, such as `reactivex.operators.pairwise()`.
        max_expansion: The most items that may wait for demand: the output for one item, and items that the operator
            sends later by itself; at least 1.

    Demand: One item is asked for at a time, when there is demand and no output waits. An operator that needs all items,
        such as `to_list`, also gets them one by one.
    Holds: An item is held until the items that the operator sent in the same call have been handled, and shares their
        outcome. Items that the operator keeps and sends later hold nothing.
    Errors: `ConfigError` at the call if `max_expansion` is less than 1. `BufferOverflow` naming `max_expansion` if more
        items wait than that. A result of `operator` that is not an observable is a `TypeError`. The operator's end ends
        the stream, after the items that wait.
    Cancels: The source, when the operator disposes of it or ends before it. An operator that subscribes again, such as
        `retry`, starts a new run of the source.
    Context: An item that an operator sends from another thread is a `SpecViolation` of rule 1.3. Give the operator no
        scheduler of its own: then it finds one that keeps the time of the stream's scope.
    Spec: Reactive Streams 1.1, 1.3, 3.3.
    """
    require_count("rx", "max_expansion", max_expansion, 1)
    require_publisher("rx", "source", source)
    return Joined(lambda downstream: _Rx(downstream, source, operator, max_expansion).start())


class _Rx(KeepingStage[T, R]):
    __slots__ = (
        "_demand",
        "_disposable",
        "_feeds",
        "_looping",
        "_max_expansion",
        "_next_turn",
        "_operator",
        "_operator_ended",
        "_operator_error",
        "_pushing",
        "_rx_scheduler",
        "_scheduler",
        "_source",
        "_turn",
        "_waiting",
    )

    operator = "rx"

    def __init__(
        self,
        downstream: Any,  # noqa: ANN401 - a Subscriber[R]
        source: Publisher[T],
        operator: Callable[[Observable[T]], Observable[R]],
        max_expansion: int,
    ) -> None:
        super().__init__(downstream)
        self._source = source
        self._operator = operator
        self._max_expansion = max_expansion
        self._demand = 0
        self._looping = True  # until all is subscribed
        self._operator_ended = False
        self._operator_error: Exception | None = None
        self._feeds: dict[_Feed[T, R], None] = {}
        self._waiting: deque[tuple[R, Claims]] = deque()
        self._pushing: Claims = NO_HOLD
        self._disposable: abc.DisposableBase | None = None
        self._scheduler: Scheduler | None = current_scheduler.get(None)
        self._turn = Turn(self._scheduler)
        self._rx_scheduler = rx_scheduler(self._scheduler)
        self._next_turn: Cancellable | None = None

    def start(self) -> Self:
        self._downstream.on_subscribe(self)
        try:
            if not self._ended:
                self._connect()
        except Exception as error:
            self._fail(error)
        finally:
            self._looping = False
        self._loop()
        return self

    def _connect(self) -> None:
        observable = self._operator(reactivex.create(self._feed))
        if not isinstance(observable, Observable):
            refuse_result("rx", "operator", observable, "an Observable")
        self._disposable = observable.subscribe(
            self._on_output, self._on_failure, self._on_completed, scheduler=self._rx_scheduler
        )
        if self._ended:
            self._disposable.dispose()

    def _feed(self, observer: abc.ObserverBase[T], _: abc.SchedulerBase | None = None) -> abc.DisposableBase:
        """Subscribe the operator to the source."""
        feed = _Feed(self, observer)
        self._feeds[feed] = None
        call_in(self._scheduler, self._source.subscribe, feed)
        self._loop()
        return Disposable(feed.cancel)

    def request(self, n: int) -> None:
        if self._accepts(n):
            self._demand = add_demand(self._demand, n)
            self._loop()

    def _kept_items(self) -> int:
        return len(self._waiting)

    def upstreams(self) -> list[Subscription]:
        return [feed.upstream for feed in self._feeds]

    # the operator's output

    def _on_output(self, item: R) -> None:
        if get_ident() != self._thread:
            self._refuse_thread()
        if self._ended:
            return
        if len(self._waiting) >= self._max_expansion:
            option = f"max_expansion={self._max_expansion}"
            self._fail(BufferOverflow(f"rx({option}): that many items wait for demand, and the operator sent one more"))
            return
        kept = self._pushing
        self._waiting.append((item, kept if kept is NO_HOLD else claims_on(kept.hold())))
        self._loop()

    def _on_failure(self, error: Exception) -> None:
        self._operator_error = error
        self._on_completed()

    def _on_completed(self) -> None:
        if get_ident() != self._thread:
            self._refuse_thread()
        self._operator_ended = True
        self._loop()

    def _refuse_thread(self) -> NoReturn:
        rule = "1.3"
        msg = "the operator given to rx() sends from another thread: give it no scheduler of its own"
        error = SpecViolation(rule, msg)
        if self._scheduler is not None:
            self._operator_error = error  # also if the operator ends with another error before this one arrives
            self._scheduler.post(partial(self._fail, error))
        raise error

    # the loop: output that waits goes out; when none waits, one more item goes in

    def _loop(self) -> None:
        if self._looping or self._next_turn is not None:
            return
        self._looping = True
        turn, steps = self._turn.begin(), 0
        try:
            while not self._ended and self._step():
                steps += 1
                if steps >= turn.look_at and turn.is_over(steps):
                    self._next_turn = turn.go_on(self._take_turn)
                    return
        finally:
            self._looping = False

    def _take_turn(self) -> None:
        self._next_turn = None
        self._loop()

    def _step(self) -> bool:
        if self._waiting and self._demand:
            self._demand = take_demand(self._demand, 1)
            self._emit(*self._waiting.popleft())
            return True
        if self._operator_ended and not self._waiting:
            self._end(self._operator_error)
            return False
        if self._demand and not self._waiting:
            feed = next((feed for feed in self._feeds if not feed.asked), None)
            if feed is not None:
                feed.ask()
                return True
        return False

    def _end(self, error: Exception | None) -> None:
        self._ended = True
        self._end_feeds()
        if error is None:
            self._downstream.on_complete()
        else:
            self._downstream.on_error(error)

    def push(self, feed: _Feed[T, R], item: T, hold: Hold) -> None:
        """Give the operator an item; its output during the call shares the hold on the item."""
        pushed = claims_on(hold)
        before, self._pushing, self._looping = (self._pushing, self._looping), pushed, True
        try:
            feed.observer.on_next(item)
        except Exception as error:
            pushed.fail(error)
            self._fail(error)
            return
        finally:
            self._pushing, self._looping = before
        pushed.done()
        self._loop()

    def go_on(self) -> None:
        """Request an item if possible: the source has subscribed now."""
        self._loop()

    def forget(self, feed: _Feed[T, R]) -> None:
        """Note that a run of the source has ended, or that the operator needs no more items of it."""
        self._feeds.pop(feed, None)
        self._loop()

    def _let_go(self) -> None:
        self._end_feeds()
        waiting, self._waiting = self._waiting, deque()
        for _, kept in waiting:
            kept.release()

    def _end_feeds(self) -> None:
        if self._next_turn is not None:
            self._next_turn.cancel()
        feeds, self._feeds = self._feeds, {}
        if self._disposable is not None:
            self._disposable.dispose()
        for feed in feeds:
            feed.cancel()


class _Feed(Generic[T, R]):
    """One run of the source, on its way into the operator."""

    __slots__ = ("_over", "_stage", "asked", "observer", "upstream")

    def __init__(self, stage: _Rx[T, R], observer: abc.ObserverBase[T]) -> None:
        self._stage = stage
        self.observer = observer
        self.upstream: Subscription = ENDED
        self.asked = True  # there is no subscription to request from yet
        self._over = False

    def on_subscribe(self, subscription: Subscription) -> None:
        require_subscription(subscription)
        if self.upstream is not ENDED or self._over:
            subscription.cancel()  # 2.5
            return
        self.upstream = subscription
        self.asked = False
        self._stage.go_on()

    def ask(self) -> None:
        self.asked = True
        self.upstream.request(1)

    def on_next(self, item: T) -> None:
        self.asked = False
        self._stage.push(self, item, self.upstream.hold())

    def on_error(self, error: BaseException) -> None:
        self._end()
        told = checked_error(error)
        self.observer.on_error(cast("Exception", told))  # it takes any exception, although its type says otherwise

    def on_complete(self) -> None:
        self._end()
        self.observer.on_completed()

    def cancel(self) -> None:
        upstream = self.upstream
        self._end()
        upstream.cancel()

    def _end(self) -> None:
        self._over = True
        self.upstream = ENDED
        self.asked = True
        self._stage.forget(self)
