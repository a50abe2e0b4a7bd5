"""Lists that end by time or by another stream: shared by buffer_time, buffer_count_or_time and buffer_boundary.

Theory of operation. There is one list at a time. It is `_due` when its time is over, or when it is full and a full list
ends. A due list is emitted on demand. Without demand it stays open and takes further items. There is never more than
one list. The source is asked only while a list is wanted. Items kept and items asked for are together at most `_bound`,
the room of the list. A list that is empty when its time is over is emitted if it is wanted at that moment. Otherwise it
does not count, and its time begins again with the next request.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from rstreams._checks.publishers import require_subscription
from rstreams._core.claims import NO_HOLD
from rstreams._core.demand import UNBOUNDED, add_demand, take_demand
from rstreams._core.scheduler import call_in, current_scheduler
from rstreams._core.subscription import ENDED
from rstreams._stages.span_and_boundary import Boundary, Span
from rstreams._stages.stage import KeepingStage, window_of
from rstreams.abc import Publisher, Scheduler, Subscriber, Subscription

T = TypeVar("T")


class Buffering(KeepingStage[T, list[T]]):
    """A stage that emits lists; the operator decides when a list ends."""

    only_reacts = True

    __slots__ = (
        "_bound",
        "_coming",
        "_complete_at",
        "_demand",
        "_due",
        "_items",
        "_source_over",
        "_started",
    )

    def __init__(self, downstream: Subscriber[list[T]], most: int, complete_at: int) -> None:
        super().__init__(downstream)
        self._bound = most
        self._complete_at = complete_at  # this number of items ends a list
        self._items: list[T] = []
        self._coming = 0  # requested, not received yet
        self._demand = 0
        self._due = False
        self._started = False
        self._source_over = False

    # the operator writes these

    def _start(self) -> None:
        """Begin, with the first request; the source is asked after it."""

    def _begin(self) -> None:
        """Called when a list begins."""

    def _stop(self) -> None:
        """Stop the timer or stream that ends lists: no more lists come."""

    # called by the timer or stream that ends lists

    def cut(self) -> None:
        """End the list, or let it wait for demand."""
        if self._ended or self._source_over:
            return
        self._due = True
        self._work()

    def finish(self) -> None:
        """End the stream, including the open list: nothing can end a list any more."""
        if not self._ended and not self._source_over:
            self._upstream.cancel()
            self.on_complete()

    def fail(self, error: BaseException) -> None:
        """End the stream with `error`, as if the source had failed."""
        if not self._ended and not self._source_over:
            self._upstream.cancel()
            self.on_error(error)

    # the stage

    def on_subscribe(self, subscription: Subscription) -> None:
        require_subscription(subscription)
        if self._upstream is not ENDED or self._ended:
            subscription.cancel()  # 2.5
            return
        self._bound = min(self._bound, window_of(subscription))
        self._emitting = NO_HOLD  # signals come one after the other (1.3)
        try:
            super().on_subscribe(subscription)
        finally:
            self._emitting = None
        self._work()

    def on_next(self, item: T) -> None:
        if self._ended or self._source_over:
            return
        self._coming -= 1
        self._items.append(item)
        self._gather()
        if len(self._items) == self._complete_at:
            self._due = True
            self._work()

    def on_error(self, error: BaseException) -> None:
        if self._ended or self._source_over:
            return
        if not self._due:  # an open list is no item yet; one that only lacks demand is
            self._items = []
            self._take_gathered().release()
        super().on_error(error)

    def on_complete(self) -> None:
        if self._ended or self._source_over:
            return
        self._upstream = ENDED  # 2.3, 2.4
        self._source_over = True
        self._stop()
        self._work()

    def request(self, n: int) -> None:
        if not self._accepts(n):
            return
        self._demand = add_demand(self._demand, n)
        if self._due and not self._items and self._started:
            self._due = False
            self._begin()
        self._work()

    @property
    def window(self) -> int:
        return UNBOUNDED  # the number of items in a list is not known

    def _kept_items(self) -> int:
        return len(self._items)

    def _callers(self) -> Sequence[Subscription]:
        return () if self._source_over else (self._upstream,)

    def _work(self) -> None:
        if self._emitting is not None:  # called during an emission: the loop below goes on when that returns
            return
        if self._demand and not self._started and not self._source_over and not self._ended:
            self._started = True
            self._start()
            self._begin()
        while not self._ended:
            room = self._bound - len(self._items) - self._coming
            if self._demand and (self._due or (self._source_over and self._items)):
                self._emit_list()
            elif self._source_over:
                if not self._items:
                    super().on_complete()
                return
            elif room and self._demand:
                self._coming += room
                self._upstream.request(room)
            else:
                return

    def _emit_list(self) -> None:
        items, self._items = self._items, []
        self._demand = take_demand(self._demand, 1)
        self._due = False
        if not self._source_over:
            self._begin()
        self._emit(items, self._take_gathered())

    def _let_go(self) -> None:
        self._stop()
        self._items = []
        self._take_gathered().release()


class TimedBuffering(Buffering[T]):
    """A stage whose lists end after a span of time, or with `complete_at` items if that comes first."""

    __slots__ = ("_span",)

    def __init__(
        self, downstream: Subscriber[list[T]], most: int, complete_at: int, scheduler: Scheduler, span_s: float
    ) -> None:
        super().__init__(downstream, most, complete_at)
        self._span = Span(scheduler, span_s, self.cut)

    @property
    def moves(self) -> bool:
        return self._span.runs

    def _begin(self) -> None:
        self._span.begin()

    def _stop(self) -> None:
        self._span.stop()


class BoundedBuffering(Buffering[T]):
    """A stage whose lists end with the items of another stream."""

    __slots__ = ("_boundaries", "_boundary", "_scheduler")

    def __init__(self, downstream: Subscriber[list[T]], most: int, boundaries: Publisher[object]) -> None:
        super().__init__(downstream, most, 0)
        self._boundaries = boundaries
        self._boundary = Boundary(self, self.cut, self.fail, self.finish)
        self._scheduler: Scheduler | None = current_scheduler.get(None)

    def upstreams(self) -> Sequence[Subscription]:
        return (*super().upstreams(), *self._boundary.upstreams())

    def _callers(self) -> Sequence[Subscription]:
        return (*super()._callers(), *(self._boundary.caller if self._started else ()))

    def _start(self) -> None:
        call_in(self._scheduler, self._boundaries.subscribe, self._boundary)

    def _stop(self) -> None:
        self._boundary.stop()
