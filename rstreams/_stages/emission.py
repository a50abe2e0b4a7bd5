"""The one loop that turns an iterator and demand into signals; every source over plain Python items uses it.

Theory of operation. `request` adds to the demand and runs the loop, unless the loop is running already. A request from
inside `on_next` only adds to a number. The loop sees it at the end of its batch. The stack stays flat, however many
items ask for one more (3.3). C code (`islice`) counts a batch. An item costs one call of `on_next` and one look at
`ended`. `chain` tells exhaustion from the end of a batch: behind the items stands an iterator whose first step notes
that there are no more items.

Over such a source, the operators that do something to one item and pass it on do not become stages. The source takes
their work by `then`, and `fusion` makes one loop of it all. Dropped items of a batch count as demand again.

Without a scheduler a batch is the whole demand. In a scope, the loop goes on for one `Turn` and leaves the rest of the
demand to the scope's next turn. Without that, an endless source could keep out all other tasks, and the heartbeats of a
connection with them: under a `reduce`, or under a `filter` that drops all items. Batches double from 1. A turn of slow
items is therefore noticed soon, and a turn of quick items looks at the clock only ten times. After a turn of quick
items the batches begin with as many items as that turn had, up to 64.

The loop never draws an item that was not requested. A list, tuple or range knows that nothing is left. Its completion
comes directly behind its last item. Any other iterator completes with the request after that.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from functools import partial
from itertools import chain, compress, islice, repeat
from operator import length_hint
from sys import maxsize
from typing import Any, Final, Generic, TypeVar

from rstreams._checks.publishers import require_subscriber
from rstreams._core.claims import NO_HOLD
from rstreams._core.claims_in_order import ClaimsInOrder
from rstreams._core.demand import SLICE, add_demand, demand_error, take_demand
from rstreams._core.fast_paths import not_known
from rstreams._core.scheduler import current_scheduler
from rstreams._core.sight import ASK, SEND, Counts, Scannable, Waits, Watched, Way
from rstreams._core.subscription import subscribe_failed
from rstreams._core.threads import get_ident, refuse_thread
from rstreams._core.turn import Turn
from rstreams._events.table import STREAM_ERROR_DROPPED
from rstreams._stages.fusion import Loop, Step, Stopped, fused_loop
from rstreams.abc import Cancellable, Hold, Subscriber

T = TypeVar("T")

# Elsewhere a length hint is only a hint; the hint of these types is exact.
_EXACT: Final[tuple[type, ...]] = (type(iter([])), type(iter(())), type(iter(range(0))), type(iter(range(2**64))))

_FEW: Final = 8  # after fewer items it is not known whether the next ones are quick
_MANY: Final = 64  # the most items drawn without a look at the clock, however quick the last ones were

_LABELS: Final[dict[type, str]] = dict(zip(_EXACT, ("list", "tuple", "range", "range"), strict=True))


def log_dropped(error: BaseException, happened: str) -> None:
    """Log an error that no subscriber can get: `cancel` returns normally (3.15), and nothing follows an end (1.7)."""
    STREAM_ERROR_DROPPED.tell(happened, raised=error, happened=happened)


class IteratorPublisher(Watched, Generic[T]):
    """A publisher that makes a new iterator for each subscriber, and sends it the results of `steps` over the items."""

    __slots__ = ("_make_iterator", "_steps")

    def __init__(self, make_iterator: Callable[[], Iterator[Any]], steps: tuple[Step, ...] = ()) -> None:
        super().__init__()
        self._make_iterator = make_iterator
        self._steps = steps

    def then(self, step: Step) -> IteratorPublisher[Any]:
        """Return a publisher like this one that also does `step`."""
        return IteratorPublisher(self._make_iterator, (*self._steps, step))

    def subscribe(self, subscriber: Subscriber[T]) -> None:
        require_subscriber(subscriber)
        try:
            iterator = self._make_iterator()
        except Exception as error:
            subscribe_failed(subscriber, error)
        else:
            emission = IteratorEmission(iterator, subscriber, self._steps)
            self._begins(emission)
            emission.start()


def _no_loop(*_: object) -> int:
    return 0


_GOES_ON: Final = (True,) * SLICE


class IteratorEmission(Scannable, Generic[T]):
    """One subscription to the items of an iterator; see the text of this module."""

    __slots__ = (
        "__weakref__",
        "_busy",
        "_delivered",
        "_demand",
        "_drawn",
        "_exact",
        "_exhausted",
        "_first_look",
        "_generator",
        "_handed",
        "_items",
        "_kind",
        "_loop",
        "_maker",
        "_next_turn",
        "_requested",
        "_steps",
        "_stop",
        "_subscriber",
        "_thread",
        "_turn",
        "ended",
        "refused",
    )

    def __init__(self, iterator: Iterator[Any], subscriber: Subscriber[T], steps: tuple[Step, ...]) -> None:
        self._subscriber = subscriber
        self._first_look = 1  # the number of items in a turn before it looks at the clock
        self.ended = False
        self.refused = False  # the subscriber has raised
        self._kind = type(iterator)
        self._steps = steps
        self._maker = "an iterator, or a function over its items," if steps else "an iterator"
        self._items = iterator
        self._loop: Loop = _no_loop  # made by `start`, unless another stage draws the items
        self._stop: Callable[[], object] = _no_loop
        self._exact = iterator if isinstance(iterator, _EXACT) else None
        # Only generators are closed. A file or a cursor that iterates over itself is closed by its owner.
        self._generator = iterator if isinstance(iterator, Generator) else None
        self._turn = Turn(current_scheduler.get(None))
        self._next_turn: Cancellable | None = None
        self._handed: Iterator[int] | None = None  # advances with each item drawn by another stage
        self._drawn: list[T] | None = None  # collects items for `draws`
        self._demand = 0
        self._requested = 0
        self._delivered = 0
        self._thread = get_ident()
        self._busy = True  # until `on_subscribe` has returned, because signals come one after the other (1.3)
        self._exhausted = False

    def start(self) -> None:
        try:
            self._subscriber.on_subscribe(self)
        except BaseException:
            self.ended = True
            self._dispose()
            raise
        if self._handed is None and not self.ended:
            self._items = chain(self._items, iter(self._note_exhausted, None))
            if self._drawn is None:
                self._loop, self._stop = fused_loop(self._steps, self._subscriber.on_next, self)
        self._emit()

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
        if not self._busy and self._next_turn is None:
            self._emit()

    def cancel(self) -> None:
        if get_ident() != self._thread:
            refuse_thread("cancel()", self._thread)
        if not self.ended:
            self.ended = True
            if self._busy:
                self._stop()
            else:
                self._dispose()
        elif self._generator is not None and not self._busy:
            self._dispose()

    def hold(self) -> Hold:
        return NO_HOLD

    def gather(self, *, loose: bool) -> ClaimsInOrder | None:  # noqa: ARG002 - the name in the protocol
        return None

    def hand_over(self) -> tuple[Iterator[T], Callable[[], int]] | None:
        """Give the items away, unless they need steps; see `HandsOver`."""
        if self._steps or self._demand:
            return None
        exact, self._exact = self._exact, None
        self._handed = repeat(1, maxsize)
        return compress(self._items, self._handed), getattr(exact, "__length_hint__", not_known)

    def draws(self) -> Callable[[int], list[T]] | None:
        """Return a function that draws items; see `Drawable`."""
        if self._demand:
            return None
        drawn = self._drawn = []
        if self._steps:
            self._loop, self._stop = fused_loop(self._steps, drawn.append, self)
        else:
            goes_on: list[bool] = []  # `compress` looks at it after each item; when `cancel` clears it, the loop ends

            def gather(items: Iterable[Any]) -> int:
                goes_on[:] = _GOES_ON  # only now: many links draw no items for a long time
                drawn.extend(compress(items, goes_on))
                goes_on.clear()
                if self.ended:
                    raise Stopped
                return 0

            self._loop, self._stop = gather, goes_on.clear
        return partial(self._draw, drawn)

    def _draw(self, drawn: list[T], n: int) -> list[T]:
        if self.ended:
            return []
        self._demand = n
        self._requested += n
        self._emit()
        self._requested -= self._demand
        self._demand = 0
        items = drawn[:]
        drawn.clear()
        return items

    @property
    def label(self) -> str:
        """Return the kind of iterator, and the operators that run in the same loop."""
        return " | ".join([_LABELS.get(self._kind, self._kind.__name__), *(step.work.operator for step in self._steps)])

    @property
    def downstream(self) -> object:
        """The subscriber."""
        return self._subscriber

    def counts(self) -> Counts:
        """Return the numbers of items requested and delivered; for items that were handed over, the number drawn."""
        if self._handed is not None:
            drawn = maxsize - length_hint(self._handed)
            return Counts(drawn, drawn)
        return Counts(self._requested, self._delivered)

    def waits_to(self, way: Way) -> Waits:
        """Return the events that must happen first: it does nothing before a request, and does not even end."""
        if self._handed is not None:
            return []  # its items are drawn, and it sends nothing
        if way != SEND or self._busy or self._next_turn is not None or self.ended or self._demand:
            return None
        return [(ASK, self._subscriber)]

    def _emit(self) -> None:
        """Send items while there are items and demand, or until the turn is over."""
        self._busy = True
        self._next_turn = None
        turn, sent = self._turn.begin(self._first_look), 0
        try:
            while not self.ended:
                if self._exhausted or (self._exact is not None and length_hint(self._exact) == 0):
                    self.ended = True
                    self._subscriber.on_complete()
                elif not self._demand:
                    self._first_look = min(sent, _MANY) if sent >= _FEW and not turn.is_over() else 1
                    return
                elif sent < turn.look_at:
                    batch = min(self._demand, turn.look_at - sent)
                    self._emit_batch(batch)
                    sent += batch
                elif turn.is_over(sent):
                    self._first_look = _MANY if sent >= SLICE else 1
                    if self._drawn is None:
                        self._next_turn = turn.go_on(self._emit)
                    return
        finally:
            self._busy = False
            if self.ended:
                self._dispose()

    def _emit_batch(self, batch: int) -> None:
        """Draw `batch` items, or as many as there are, and send the results."""
        self._demand = take_demand(self._demand, batch)
        try:
            dropped = self._loop(islice(self._items, batch))
        except Stopped:
            return
        except BaseException as error:
            ended, self.ended = self.ended, True
            if self.refused or not isinstance(error, Exception):
                raise  # 2.13: the subscription counts as cancelled, and the caller of `request` gets the error
            if ended:
                log_dropped(error, self._maker + " failed")
            else:
                self._subscriber.on_error(error)
        else:
            self._demand = add_demand(self._demand, dropped)
            self._delivered += batch - dropped

    def _note_exhausted(self) -> None:
        self._exhausted = True

    def _dispose(self) -> None:
        """Release the iterator; a generator runs its `finally` blocks now, and not when garbage is collected."""
        generator, self._generator = self._generator, None
        self._items = iter(())
        self._exact = None
        self._loop = self._stop = _no_loop  # a loop knows its subscription: without a circle no collector is needed
        if self._next_turn is not None:
            self._next_turn.cancel()
        if generator is not None and getattr(generator, "gi_running", False):
            self._generator = generator  # it was cancelled by its own code: its loop cancels again afterwards
        elif generator is not None:
            try:
                generator.close()
            except Exception as error:
                log_dropped(error, "a generator failed while it was being closed")
