"""Several streams made one, fairly and under one demand: shared by merge and flat_map.

Theory of operation. Each inner stream has an `Inner`, its subscriber, which asks for `prefetch` items ahead and for
more in batches as its items leave: buffered and asked for are never more than `prefetch` together. An item that finds
demand and nothing before it goes straight through. Any other is kept in its inner's queue, with a hold, and the
inner stands in line in `_ready`; `_drain` takes one item from the first in line and sends it to the back.

`_drain` is the only loop, and all that can make items come at once (subscribing, asking for more) happens while
`_draining` is set. So however many inner streams answer synchronously, they only fill queues: nothing recurses (3.3),
signals come one after the other (1.3), and one without end cannot keep out those that are subscribed to. Nor may
they keep out the scope's other tasks: after `SLICE` steps or `TURN_S` seconds the loop goes on in the next turn.

Where an inner stream was made of an item of an outer one (flat_map), `outer` is the claim on that item: whoever holds
what the inner stream emits holds it too, and the last claim ends when the inner stream is complete and its queue empty.
"""

from __future__ import annotations

from collections import deque
from typing import Generic, TypeVar

from rstreams._demand import SLICE, TURN_S, UNBOUNDED, add_demand, take_demand
from rstreams._holds import NO_HOLD, SharedHold, share_hold
from rstreams._scheduler import current_scheduler
from rstreams._subscription import ENDED, require_subscription
from rstreams.abc import Cancellable, Hold, Publisher, Scheduler, Subscriber, Subscription
from rstreams.operators._stage import KeepingStage

T = TypeVar("T")
R = TypeVar("R")

PREFETCH = 32
"""Items an inner stream is asked for ahead of demand, unless the user says otherwise."""


class Merging(KeepingStage[T, R]):
    """A stage that emits the items of all its inner streams; the operator says which these are."""

    __slots__ = (
        "_active",
        "_demand",
        "_draining",
        "_next_turn",
        "_outer_complete",
        "_passing",
        "_ready",
        "_scheduler",
        "_slots",
        "prefetch",
        "started",
    )

    def __init__(self, downstream: Subscriber[R], prefetch: int, slots: int = 0) -> None:
        super().__init__(downstream)
        self.prefetch = prefetch
        self.started = False  # nothing is asked of any source before the first request
        self._slots = slots  # room for inner streams whose outer items are yet to be asked for
        self._active: dict[Inner[T, R], None] = {}
        self._ready: deque[Inner[T, R]] = deque()  # those with queued items, each once
        self._passing: Inner[T, R] | None = None
        self._demand = 0
        self._draining = False
        self._scheduler: Scheduler | None = current_scheduler.get(None)
        self._next_turn: Cancellable | None = None
        self._outer_complete = False

    def on_complete(self) -> None:
        self._upstream = ENDED  # 2.3, 2.4
        self._outer_complete = True
        self._drain()

    def request(self, n: int) -> None:
        if self._accepts(n):
            self._demand = add_demand(self._demand, n)
            self._drain()

    @property
    def ended(self) -> bool:
        """Tell whether inner streams have nothing to do any more."""
        return self._ended

    def hold(self) -> Hold:
        return super().hold() if self._passing is None else self._passing.hold()

    @property
    def window(self) -> int:
        return UNBOUNDED  # how many items an outer one makes is not known

    def _subscribe(self, source: Publisher[R], outer: SharedHold) -> None:
        """Add an inner stream."""
        inner = Inner(self, outer)
        self._active[inner] = None
        before, self._draining = self._draining, True
        try:
            source.subscribe(inner)
        finally:
            self._draining = before
        self._drain()

    def _drain(self) -> None:
        if not self._draining and self._next_turn is None:
            self._take_turn()

    def _take_turn(self) -> None:
        self._next_turn = None
        self._draining = True
        began = 0.0 if self._scheduler is None else self._scheduler.now()
        steps = 0
        try:
            if self._demand and not self.started:
                self.started = True
                for inner in tuple(self._active):
                    inner.upstream.request(self.prefetch)
            while self._step():
                steps += 1
                if self._turn_is_over(steps, began):
                    return
        finally:
            self._draining = False

    def _turn_is_over(self, steps: int, began: float) -> bool:
        """Tell whether it is time to let others run, and see to the next turn then."""
        # The clock is looked at after 1, 2, 4, 8... steps: slow items show soon, and quick ones pay little.
        if self._scheduler is None or steps & (steps - 1):
            return False
        if steps < SLICE and self._scheduler.now() - began < TURN_S:
            return False
        self._next_turn = self._scheduler.call_later(0, self._take_turn)
        return True

    def _step(self) -> bool:
        """Do the next thing there is to do, if there is one."""
        if self._ended:
            return False
        if self._ready and self._demand:
            self._emit_next()
        elif self._outer_complete and not self._active:
            super().on_complete()
        elif self._slots and self.started and not self._outer_complete:
            slots, self._slots = self._slots, 0
            self._upstream.request(slots)
        else:
            return False
        return True

    def _emit_next(self) -> None:
        inner = self._ready.popleft()
        item, kept = inner.pop()
        if inner.queue:
            self._ready.append(inner)
        self._demand = take_demand(self._demand, 1)
        self._emit(item, kept)
        inner.emitted()

    def _let_go(self) -> None:
        if self._next_turn is not None:
            self._next_turn.cancel()
        active, self._active = self._active, {}
        for inner in active:
            inner.outer.release()
            inner.let_go()

    # inner streams call these

    def receive(self, inner: Inner[T, R], item: R) -> None:
        """Emit or keep an item."""
        if self._ended:
            return
        if self._draining or self._ready or not self._demand:
            if not inner.queue:
                self._ready.append(inner)
            inner.push(item)
            return
        self._demand = take_demand(self._demand, 1)
        self._draining = True
        self._passing = inner
        try:
            self._downstream.on_next(item)
            inner.emitted()
        except BaseException:
            self.cancel()  # 2.13, as in `_emit`
            raise
        finally:
            self._passing = None
            self._draining = False
        self._drain()

    def finish(self, inner: Inner[T, R]) -> None:
        """Note that an inner stream is complete and all it sent has been emitted."""
        if inner in self._active:
            del self._active[inner]
            inner.outer.done()
            self._slots += 1
            self._drain()

    def fail(self, inner: Inner[T, R], error: BaseException) -> None:
        """End the stream because an inner one failed; the outer item it was made of counts as failed."""
        if inner in self._active:
            del self._active[inner]
            inner.outer.fail(error)
            inner.let_go()
            self._fail(error)


class Inner(Generic[T, R]):
    """The subscriber to one inner stream."""

    __slots__ = ("_complete", "_emitted", "_merging", "_refill", "outer", "queue", "upstream")

    def __init__(self, merging: Merging[T, R], outer: SharedHold) -> None:
        self.outer = outer
        self.upstream: Subscription = ENDED
        self.queue: deque[tuple[R, Hold]] = deque()
        self._merging = merging
        self._refill = merging.prefetch - merging.prefetch // 4
        self._emitted = 0  # since the last request
        self._complete = False

    def on_subscribe(self, subscription: Subscription) -> None:
        require_subscription(subscription)
        if self.upstream is not ENDED or self._complete or self._merging.ended:
            subscription.cancel()
            return
        self.upstream = subscription
        if self._merging.started:
            subscription.request(self._merging.prefetch)

    def on_next(self, item: R) -> None:
        self._merging.receive(self, item)

    def on_error(self, error: BaseException) -> None:
        self._end()
        self._merging.fail(self, error)

    def on_complete(self) -> None:
        self._end()
        if not self.queue:
            self._merging.finish(self)

    def _end(self) -> None:
        self._complete = True
        self.upstream = ENDED  # 2.3, 2.4

    # the merging stage calls these

    def push(self, item: R) -> None:
        """Keep an item."""
        self.queue.append((item, self.upstream.hold()))

    def pop(self) -> tuple[R, SharedHold]:
        """Take out the first item, with the claim on it and on the outer item."""
        item, hold = self.queue.popleft()
        if self.outer is NO_HOLD:
            return item, share_hold(hold)
        claims = (self.outer.hold(),) if hold is NO_HOLD else (hold, self.outer.hold())
        return item, SharedHold(claims)

    def hold(self) -> Hold:
        """Claim the item on its way straight through, and the outer item."""
        hold = self.upstream.hold()
        return hold if self.outer is NO_HOLD else SharedHold((hold, self.outer.hold()))

    def emitted(self) -> None:
        """Note that an item has been emitted, and ask for more when enough have been."""
        if self._complete:
            if not self.queue:
                self._merging.finish(self)
            return
        self._emitted += 1
        if self._emitted == self._refill:
            self._emitted = 0
            self.upstream.request(self._refill)

    def let_go(self) -> None:
        """Give back what is queued, and end the inner stream."""
        queue, self.queue = self.queue, deque()
        for _, hold in queue:
            hold.release()
        self.upstream.cancel()
