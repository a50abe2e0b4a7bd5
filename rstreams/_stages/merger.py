"""Several streams made one, fairly and under one demand: shared by merge and flat_map.

Theory of operation. Each inner stream has a `MergedInner`, its subscriber. It asks for `prefetch` items ahead, and for
more in batches as its items leave. Items kept and asked for are together at most `prefetch`. An item that finds demand
and nothing before it goes straight through. Any other item is kept in the queue of its inner, with a hold, and the
inner stands in line in `_ready`. `_drain` takes one item from the first in line and sends that inner to the back.

`_drain` is the only loop. All calls that can make items come at once (subscribing, asking for more) happen while
`_draining` is set. Inner streams that answer at once only fill queues. Therefore nothing recurses (3.3), signals come
one after the other (1.3), and an endless stream cannot keep out the others. The loop also lets the scope's other tasks
run: at the end of a `Turn` it leaves the rest to the next one.

An inner stream over a plain iterator is not asked ahead. It hands its items over (`hand_over`) and stands in line while
it has items. An item is drawn when its turn has come and there is demand for it. While only such streams are in line,
whole rounds go by without a change to the line.

In flat_map an inner stream is made of an outer item, and `outer` is the claim on that item. A hold on an inner item
also holds the outer item. The last claim ends when the inner stream is complete and its queue is empty.
"""

# ruff: noqa: SLF001 - an inner stream and its stage work closely together

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, NoReturn, TypeVar

from rstreams._checks.publishers import require_subscription
from rstreams._core.demand import UNBOUNDED, take_demand
from rstreams._core.fast_paths import handed_over
from rstreams._core.holds import NO_HOLD, SharedHold, share_hold
from rstreams._core.sight import ASK, CANCEL, SEND, Blocked, Scannable, Waits, Way
from rstreams._core.subscription import ENDED
from rstreams._stages.deadlock import takes_too_few
from rstreams._stages.stage import suspend
from rstreams._stages.turns import TurningStage
from rstreams.abc import Hold, Publisher, Subscriber, Subscription

T = TypeVar("T")
R = TypeVar("R")

PREFETCH = 32
"""The number of items requested from an inner stream ahead of demand, by default."""


class Merging(TurningStage[T, R]):
    """A stage that emits the items of all its inner streams; the operator chooses these."""

    __slots__ = (
        "_active",
        "_delay_errors",
        "_errors",
        "_outer_complete",
        "_passing",
        "_pushed",
        "_ready",
        "_slots",
        "prefetch",
    )

    def __init__(self, downstream: Subscriber[R], prefetch: int, slots: int = 0, *, delay_errors: bool = False) -> None:
        super().__init__(downstream)
        self.prefetch = prefetch
        self._slots = slots  # inner streams whose outer items have not been requested yet
        self._active: dict[MergedInner[T, R], None] = {}
        self._ready: deque[MergedInner[T, R]] = deque()  # those with items to emit, each once
        self._pushed = 0  # how many of these have items in their queues
        self._delay_errors = delay_errors
        self._errors: list[BaseException] = []  # errors that wait for the end
        self._passing: MergedInner[T, R] | None = None
        self._outer_complete = False

    def on_complete(self) -> None:
        self._upstream = ENDED  # 2.3, 2.4
        self._outer_complete = True
        self._drain()

    def on_error(self, error: BaseException) -> None:
        if not self._delay_errors:
            super().on_error(error)
        elif not self._ended:
            self._errors.append(error)
            self.on_complete()

    def hold(self) -> Hold:
        return super().hold() if self._passing is None else self._passing.hold()

    @property
    def window(self) -> int:
        return UNBOUNDED  # the number of items from an outer item is not known

    def upstreams(self) -> Sequence[Subscription]:
        return [u for u in (self._upstream, *(inner.upstream for inner in self._active)) if u is not ENDED]

    def waits_to(self, way: Way) -> Waits:  # noqa: ARG002 - the answer is the same for every way
        """Return the events that must happen before it can do anything."""
        if self._draining or self._next_turn is not None or self.suspended or (self._demand and self._ready):
            return None
        waits: list[tuple[Way, object]] = [
            (SEND, inner.upstream) for inner in self._active if inner.upstream is not ENDED and not inner.drawn
        ]
        if not self._outer_complete and self._upstream is not ENDED:
            waits.append((SEND, self._upstream))
        waits.append((CANCEL if self._demand else ASK, self._downstream))
        return waits

    def takes(self, blocked: Blocked) -> tuple[str, int]:
        """Return its state, and the number of its inner streams."""
        streams = len(self._active)
        return takes_too_few(blocked, self.label, streams), streams

    def _subscribe(self, source: Publisher[R], outer: SharedHold) -> None:
        """Add an inner stream."""
        inner = MergedInner(self, outer)
        self._active[inner] = None
        before, self._draining = self._draining, True
        try:
            source.subscribe(inner)
        finally:
            self._draining = before
        self._drain()

    def _begin(self) -> None:
        for inner in tuple(self._active):
            inner.ask_ahead()

    def _step(self, most: int) -> int:
        """Do the next thing, at most `most` times; return how often it was done."""
        if self._ended:
            return 0
        if self._ready and self._demand:
            most = min(most, self._demand)
            if not self._pushed and most >= len(self._ready):
                return self._emit_rounds(most)
            self._emit_next()
        elif self._fill():
            pass
        elif self._outer_complete and not self._active:
            self._finish()
        else:
            return 0
        return 1

    def _fill(self) -> bool:
        """Ask for outer items in the place of those whose streams have ended; return whether that was necessary."""
        if not self._slots or not self.started or self._outer_complete:
            return False
        slots, self._slots = self._slots, 0
        self._upstream.request(slots)
        return True

    def _emit_rounds(self, most: int) -> int:  # noqa: C901, PLR0912 - this loop must be quick
        """Draw one item of each iterator, and repeat this while only iterators are in line."""
        ready, on_next = self._ready, self._downstream.on_next
        line = [(inner, inner.draw) for inner in ready]
        width, emitted, gone = len(line), 0, list[MergedInner[T, R]]()
        try:
            while emitted + width <= most and not gone and len(ready) == width:
                for inner, draw in line:
                    try:
                        item = draw()
                    except StopIteration:
                        gone.append(inner)
                        continue
                    except Exception as error:  # the user's
                        inner.drawing_failed(error)
                        if self._ended:
                            return emitted + 1
                        gone.append(inner)
                        continue
                    if self._ended:  # the iterator has cancelled
                        inner.upstream.cancel()
                        return emitted + 1
                    self._passing = inner
                    on_next(item)
                    emitted += 1
                    if self._ended:
                        return emitted
        except BaseException:
            self.cancel()  # 2.13, as in `_emit`
            raise
        finally:
            self._passing = None
            self._emissions += emitted
            self._demand = take_demand(self._demand, emitted)
        if not self._demand:
            gone = [inner for inner, _ in line if inner in gone or inner.nothing_left()]
        if len(gone) == width == len(ready):
            ready.clear()
        else:
            for inner in gone:
                ready.remove(inner)
        for inner in gone:
            inner.drawn_out()
        return emitted + len(gone)

    def _emit_next(self) -> None:
        inner = self._ready.popleft()
        if inner.drawn:
            self._draw_next(inner)
            return
        item, kept = inner.pop()
        if inner.queue:
            self._ready.append(inner)
        else:
            self._pushed -= 1
        self._demand = take_demand(self._demand, 1)
        self._emit(item, kept)
        inner.emitted()

    def _draw_next(self, inner: MergedInner[T, R]) -> None:
        try:
            item = inner.draw()
        except StopIteration:
            inner.drawn_out()
            return
        except Exception as error:  # the user's
            inner.drawing_failed(error)
            inner.drawn_out()
            return
        if self._ended:  # the iterator has cancelled
            inner.upstream.cancel()
            return
        self._demand = take_demand(self._demand, 1)
        self._passing = inner
        self._emissions += 1
        try:
            self._downstream.on_next(item)
        except BaseException:
            self.cancel()  # 2.13, as in `_emit`
            raise
        finally:
            self._passing = None
        if self._ended:
            return
        if inner.nothing_left():
            inner.drawn_out()
        else:
            self._ready.append(inner)

    def _finish(self) -> None:
        """End the stream: all items have been emitted."""
        if self._errors:
            self._fail(all_of(self.label, self._errors))
        else:
            super().on_complete()

    def _kept_items(self) -> int:
        return sum(len(inner.queue) for inner in self._active)

    def _let_go(self) -> None:
        super()._let_go()
        active, self._active = self._active, {}
        for inner in active:
            inner.outer.release()
            inner.let_go()

    # inner streams call these

    def line_up(self, inner: MergedInner[T, R]) -> None:
        """Put an iterator in line."""
        self._ready.append(inner)

    def finish(self, inner: MergedInner[T, R]) -> None:
        """Note that an inner stream is complete and all its items have been emitted."""
        if inner in self._active:
            del self._active[inner]
            if inner.failure is None:
                inner.outer.done()
            else:
                inner.outer.fail(inner.failure)
            self._slots += 1
            self._drain()

    def fail(self, inner: MergedInner[T, R], error: BaseException) -> bool:
        """End the stream because an inner one failed, or return False if that must wait; its outer item fails."""
        if self._delay_errors:
            if inner in self._active:
                self._errors.append(error)
            return False
        if inner in self._active:
            del self._active[inner]
            inner.outer.fail(error)
            inner.let_go()
            self._fail(error)
        return True


def all_of(operator: str, errors: Sequence[BaseException]) -> BaseException:
    """Return the error for a stream whose errors have waited for the end: the only one, or a group."""
    if len(errors) == 1:
        return errors[0]
    return BaseExceptionGroup(f"{operator}: {len(errors)} streams failed", errors)


class MergedInner(Scannable, Generic[T, R]):
    """The subscriber to one inner stream."""

    __slots__ = (
        "_complete",
        "_emitted",
        "_merging",
        "_refill",
        "draw",
        "drawn",
        "failure",
        "nothing_left",
        "outer",
        "queue",
        "upstream",
    )

    def __init__(self, merging: Merging[T, R], outer: SharedHold) -> None:
        self.outer = outer
        self.upstream: Subscription = ENDED
        self.queue: deque[tuple[R, Hold]] = deque()
        self._merging = merging
        self._refill = merging.prefetch - merging.prefetch // 4
        self._emitted = 0  # since the last request
        self._complete = False
        self.failure: BaseException | None = None  # it waits for the end
        self.drawn = False  # True for an iterator; the next two are set then
        self.draw: Callable[[], R] = _stop
        self.nothing_left: Callable[[], bool] = bool

    def on_subscribe(self, subscription: Subscription) -> None:
        require_subscription(subscription)
        if self.upstream is not ENDED or self._complete or self._merging.ended:
            subscription.cancel()
            return
        self.upstream = subscription
        if self._merging.suspended:
            suspend(subscription)
        handed = handed_over(subscription)
        if handed is None:
            if self._merging.started:
                subscription.request(self._merging.prefetch)
            return
        items, self.nothing_left = handed
        self.draw, self.drawn = items.__next__, True
        if self.nothing_left():
            self.on_complete()
        else:
            self._merging.line_up(self)

    def on_next(self, item: R) -> None:  # this also does the work of the stage, which is the fastest way
        merging = self._merging
        if merging._ended:
            return
        demand = merging._demand
        if merging._draining or merging._ready or not demand:
            if not self.queue:
                merging._pushed += 1
                merging._ready.append(self)
            self.queue.append((item, self.upstream.hold()))
            return
        merging._emissions += 1
        if demand != UNBOUNDED:
            merging._demand = demand - 1
        merging._draining = True
        merging._passing = self
        try:
            merging._downstream.on_next(item)
            emitted = self._emitted + 1
            if emitted == self._refill:
                self.emitted()
            else:
                self._emitted = emitted
        except BaseException:
            merging.cancel()  # 2.13, as in `_emit`
            raise
        finally:
            merging._passing = None
            merging._draining = False
        if merging._ready or (not merging._active if merging._outer_complete else merging._slots):
            merging._drain()

    def on_error(self, error: BaseException) -> None:
        self._end()
        if not self._merging.fail(self, error):
            self.failure = error
            if not self.queue:
                self._merging.finish(self)

    def on_complete(self) -> None:
        self._end()
        if not self.queue:
            self._merging.finish(self)

    def _end(self) -> None:
        self._complete = True
        self.upstream = ENDED  # 2.3, 2.4

    def waits_to(self, way: Way) -> Waits:
        """Return the events that must happen first: the stage does something."""
        return None if way == SEND else [(SEND, self._merging)]

    # the merging stage calls these

    def ask_ahead(self) -> None:
        """Ask for the first items."""
        if not self.drawn:
            self.upstream.request(self._merging.prefetch)

    def drawn_out(self) -> None:
        """Note that all items of the iterator have been drawn and emitted."""
        self._end()
        self._merging.finish(self)

    def drawing_failed(self, error: Exception) -> None:
        """Note that the iterator has raised."""
        self._end()
        if not self._merging.fail(self, error):
            self.failure = error

    def pop(self) -> tuple[R, SharedHold]:
        """Remove the first item, and return it with the claim on it and on the outer item."""
        item, hold = self.queue.popleft()
        if self.outer is NO_HOLD:
            return item, share_hold(hold)
        claims = (self.outer.hold(),) if hold is NO_HOLD else (hold, self.outer.hold())
        return item, SharedHold(claims)

    def hold(self) -> Hold:
        """Claim the item that is being passed straight on, and the outer item."""
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
        """Give back queued items, and end the inner stream."""
        queue, self.queue = self.queue, deque()
        for _, hold in queue:
            hold.release()
        self.upstream.cancel()


def _stop() -> NoReturn:
    raise StopIteration
