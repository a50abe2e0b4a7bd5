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

Errors. An error of the outer source waits for the inner streams, as its completion does. An error of an inner stream
takes its turn behind the items of that stream: the inner stays in line with an empty queue, and needs no demand when
its turn has come. An iterator fails likewise: when an item is to be drawn. What other streams have waiting then is
given back. But several inner streams may be parts of one source, and all fail by its error: the last one of them fails
the stream.

In flat_map an inner stream is made of an outer item, and `outer` is the claim on that item. A hold on an inner item
also holds the outer item. The last claim ends when the inner stream is complete and its queue is empty.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TypeVar

from rstreams._core.claims import Claims
from rstreams._core.demand import UNBOUNDED, take_demand
from rstreams._core.scheduler import call_in
from rstreams._core.sight import Scannable
from rstreams._core.subscription import ENDED
from rstreams._stages.deadlock import comes_from, takes_too_few
from rstreams._stages.delayed_errors import Errors, all_of, first_of, note_error
from rstreams._stages.merged_inner import MergedInner
from rstreams._stages.turns import TurningStage
from rstreams.abc import Hold, Publisher, Subscriber, Subscription

T = TypeVar("T")
R = TypeVar("R")

PREFETCH = 32
"""The number of items requested from an inner stream ahead of demand, by default."""


class Merging(TurningStage[T, R]):
    """A stage that emits the items of all its inner streams; the operator chooses these."""

    only_reacts = True

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

    def __init__(self, downstream: Subscriber[R], prefetch: int, *, delay_errors: bool = False) -> None:
        super().__init__(downstream)
        self.prefetch = prefetch
        self._slots = 0  # inner streams that have ended, of which `_fill` has not heard
        self._active: dict[MergedInner[R], None] = {}
        self._ready: deque[MergedInner[R]] = deque()  # those with items to emit, each once
        self._pushed = 0  # how many of these have items in their queues
        self._delay_errors = delay_errors
        self._errors: Errors = {}  # errors that wait for the end
        self._passing: MergedInner[R] | None = None
        self._outer_complete = False

    def on_complete(self) -> None:
        self._upstream = ENDED  # 2.3, 2.4
        self._outer_complete = True
        self._drain()

    def on_error(self, error: BaseException) -> None:
        if not self._delay_errors:
            super().on_error(error)
        elif not self._ended:
            note_error(self._errors, error)
            self.on_complete()

    def hold(self) -> Hold:
        return super().hold() if self._passing is None else self._passing.hold()

    @property
    def window(self) -> int:
        return UNBOUNDED  # the number of items from an outer item is not known

    @property
    def failure(self) -> BaseException | None:
        """The error that waits behind items of this stream: that of the outer source, or of an inner stream."""
        found = super().failure
        return found if found is not None else first_of(inner.waiting_failure for inner in self._active)

    def upstreams(self) -> Sequence[Subscription]:
        return [u for u in (self._upstream, *(inner.upstream for inner in self._active)) if u is not ENDED]

    @property
    def moves(self) -> bool:
        return super().moves or (self._demand > 0 and bool(self._ready))

    def _callers(self) -> Sequence[Subscription]:
        outer = () if self._outer_complete else (self._upstream,)
        return [*outer, *(inner.upstream for inner in self._active if not inner.complete)]

    def takes(self, blocked: Scannable) -> tuple[str, int] | None:
        """Return its state, and the number of its inner streams."""
        streams = len(self._active)
        read = any(comes_from(inner.upstream, blocked) for inner in self._active)
        return (takes_too_few(blocked, self.label, streams), streams) if read else None

    def _subscribe(self, source: Publisher[R], outer: Claims) -> None:
        """Add an inner stream."""
        inner = MergedInner(self, outer)
        self._active[inner] = None
        before, self._draining = self._draining, True
        try:
            call_in(self._scheduler, source.subscribe, inner)
        finally:
            self._draining = before
        self._drain()

    def _begin(self) -> None:
        for inner in tuple(self._active):
            inner.ask_ahead()
        ready = set(self._ready)  # iterators stand in line before the others have been asked
        self._ready = deque(inner for inner in self._active if inner in ready)

    def _step(self, most: int) -> int:
        """Do the next thing, at most `most` times; return how often it was done."""
        if self._ended:
            return 0
        # First, so that what begins when does not depend on how demand is split; but nothing begins before a failure.
        if self._slots and not (self._ready and self._ready[0].is_to_fail) and self._fill():
            return 1
        if self._ready and (self._demand or self._ready[0].is_to_fail):
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
        """Begin another inner stream, or ask for outer items; return whether there was something to do."""
        return False

    def _emit_rounds(self, most: int) -> int:  # noqa: C901, PLR0912 - this loop must be quick
        """Draw one item of each iterator, and repeat this while only iterators are in line."""
        ready, on_next = self._ready, self._downstream.on_next
        line = [(inner, inner.draw) for inner in ready]
        width, emitted, all_gave, failed = len(line), 0, True, False
        try:
            while emitted + width <= most and all_gave and not failed and len(ready) == width:
                for inner, draw in line:
                    try:
                        item = draw()
                    except StopIteration:
                        all_gave, inner.left = False, int  # 0
                        continue
                    except Exception as error:  # the user's
                        failed = True
                        ready.rotate(-1 - ready.index(inner))  # the next in line is the one behind it
                        ready.pop()
                        self._drawing_failed(inner, error)
                        break
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
        if self._ended:
            return emitted + 1
        # Not only those that have been found empty: the end comes with the last item, however demand is split.
        gone = [inner for inner in ready if not inner.left()]
        if len(gone) == len(ready):
            ready.clear()
        else:
            for inner in gone:
                ready.remove(inner)
        for inner in gone:
            inner.drawn_out()
        return emitted + len(gone) + failed

    def _emit_next(self) -> None:
        inner = self._ready.popleft()
        if inner.drawn:
            self._draw_next(inner)
            return
        queue = inner.queue
        if not queue and inner.failure is not None:  # it stands in line with its error
            self._pushed -= 1
            self._fail_in_turn(inner, inner.failure)
            return
        item, kept = inner.pop()
        if queue or inner.fails_in_line:
            self._ready.append(inner)
        else:
            self._pushed -= 1
        self._demand = take_demand(self._demand, 1)
        self._emit(item, kept)
        inner.emitted()

    def _draw_next(self, inner: MergedInner[R]) -> None:
        try:
            item = inner.draw()
        except StopIteration:
            inner.drawn_out()
            return
        except Exception as error:  # the user's
            self._drawing_failed(inner, error)
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
        if inner.left():
            self._ready.append(inner)
        else:
            inner.drawn_out()

    def _drawing_failed(self, inner: MergedInner[R], error: Exception) -> None:
        inner.on_error(error)
        if inner.fails_in_line:
            self._ready.rotate(1)  # it is its turn

    def _finish(self) -> None:
        """End the stream: all items have been emitted."""
        if self._errors:
            self._fail(all_of(self.label, self._errors))
        else:
            super().on_complete()

    def _fail_in_turn(self, inner: MergedInner[R], error: BaseException) -> None:
        """Fail with an inner stream whose turn it is, or go on if others fail by the same cause."""
        if self._is_of_several(inner, error):
            self.finish(inner)
            return
        del self._active[inner]
        inner.outer.fail(error)
        self._fail(error)

    def _is_of_several(self, inner: MergedInner[R], error: BaseException) -> bool:
        """Tell whether other inner streams have failed with this error, or will: they are parts of one source."""
        others = (each for each in self._active if each is not inner)
        return any(each.waiting_failure is error for each in others)

    def _kept_items(self) -> int:
        return sum(len(inner.queue) for inner in self._active)

    def _let_go(self) -> None:
        super()._let_go()
        active, self._active = self._active, {}
        for inner in active:
            inner.outer.release()
            inner.let_go()

    # inner streams call these

    def finish(self, inner: MergedInner[R]) -> None:
        """Note that an inner stream is complete and all its items have been emitted."""
        if inner in self._active:
            del self._active[inner]
            if inner.failure is not None:
                inner.outer.fail(inner.failure)
            else:
                inner.outer.done()
            self._slots += 1
            self._drain()

    def fail(self, inner: MergedInner[R], error: BaseException) -> None:
        """Note that an inner stream has failed: the stream fails at once, when its turn has come, or at its end."""
        if inner not in self._active:
            return
        waits = self._delay_errors or error is super().failure  # the outer source's error waits for all inner streams
        if waits or self._is_of_several(inner, error):
            note_error(self._errors, error)
            if not inner.queue:
                self.finish(inner)
        elif self.started and (self._ready or self._draining):
            inner.fails_in_line = True
            if not inner.queue:
                self._pushed += 1
                self._ready.append(inner)
            self._drain()
        else:
            del self._active[inner]
            inner.outer.fail(error)
            self._fail(error)
