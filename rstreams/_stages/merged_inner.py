"""One of the streams that are merged: its subscriber, with the items that wait. The stage in `merger` takes them."""

# ruff: noqa: SLF001 - an inner stream and its stage work closely together

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Generic, NoReturn, Protocol, TypeVar

from rstreams._checks.publishers import require_error, require_subscription
from rstreams._core.claims import NO_HOLD, Claims, claims_on
from rstreams._core.demand import UNBOUNDED
from rstreams._core.fast_paths import handed_over, not_known
from rstreams._core.sight import Ear
from rstreams._core.subscription import ENDED
from rstreams._stages.stage import failure_of, suspend
from rstreams.abc import Hold, Subscriber, Subscription

R = TypeVar("R")


class Merges(Protocol[R]):
    """What an inner stream uses of its stage (`merger`); see there."""

    prefetch: int
    started: bool
    suspended: bool
    _active: dict[MergedInner[R], None]
    _demand: int
    _downstream: Subscriber[R]
    _draining: bool
    _emissions: int
    _ended: bool
    _outer_complete: bool
    _passing: MergedInner[R] | None
    _pushed: int
    _ready: deque[MergedInner[R]]
    _slots: int

    def _drain(self) -> None: ...

    def cancel(self) -> None:
        """End the stream."""
        ...

    def fail(self, inner: MergedInner[R], error: BaseException) -> None:
        """Note that an inner stream has failed."""
        ...

    def finish(self, inner: MergedInner[R]) -> None:
        """Note that an inner stream has ended and all its items have been emitted."""
        ...


class MergedInner(Ear[Merges[R]], Generic[R]):
    """The subscriber to one inner stream."""

    __slots__ = (
        "_emitted",
        "_refill",
        "complete",
        "draw",
        "drawn",
        "fails_in_line",
        "failure",
        "left",
        "outer",
        "queue",
        "stage",
        "upstream",
    )

    def __init__(self, merging: Merges[R], outer: Claims) -> None:
        self.outer = outer
        self.upstream: Subscription = ENDED
        self.queue: deque[tuple[R, Hold]] = deque()
        self.stage = merging
        self._refill = merging.prefetch - merging.prefetch // 4
        self._emitted = 0  # since the last request
        self.complete = False
        self.failure: BaseException | None = None  # it waits for its turn, or for the end
        self.fails_in_line = False  # its error stands in line behind its items
        self.drawn = False  # True for an iterator; the next two are set then
        self.draw: Callable[[], R] = _stop
        self.left: Callable[[], int] = not_known

    def on_subscribe(self, subscription: Subscription) -> None:
        require_subscription(subscription)
        if self.upstream is not ENDED or self.complete or self.stage._ended:
            subscription.cancel()
            return
        self.upstream = subscription
        if self.stage.suspended:
            suspend(subscription)
        handed = handed_over(subscription)
        if handed is None:
            if self.stage.started:
                subscription.request(self.stage.prefetch)
            return
        items, self.left = handed
        self.draw, self.drawn = items.__next__, True
        if self.left():
            self.stage._ready.append(self)
        else:
            self.on_complete()

    def on_next(self, item: R) -> None:  # this also does the work of the stage, which is the fastest way
        merging = self.stage
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
        if not self.complete:
            self.failure = require_error(error)
            self._end()
            self.drawn = False
            self.stage.fail(self, error)

    def on_complete(self) -> None:
        self._end()
        if not self.queue:
            self.stage.finish(self)

    def _end(self) -> None:
        self.complete = True
        self.upstream = ENDED  # 2.3, 2.4

    # the merging stage calls these

    @property
    def waiting_failure(self) -> BaseException | None:
        """The error that waits behind its items, here or further up."""
        return failure_of(self.upstream) if self.failure is None else self.failure

    @property
    def is_to_fail(self) -> bool:
        """Whether the next thing to come of it is its error."""
        return self.fails_in_line and not self.queue

    def ask_ahead(self) -> None:
        """Ask for the first items."""
        if not self.drawn:
            self.upstream.request(self.stage.prefetch)

    def drawn_out(self) -> None:
        """Note that all items of the iterator have been drawn and emitted."""
        self._end()
        self.stage.finish(self)

    def pop(self) -> tuple[R, Claims]:
        """Remove the first item, and return it with the claim on it and on the outer item."""
        item, hold = self.queue.popleft()
        if self.outer is NO_HOLD:
            return item, claims_on(hold)
        claims = (self.outer.hold(),) if hold is NO_HOLD else (hold, self.outer.hold())
        return item, claims_on(*claims)

    def hold(self) -> Hold:
        """Claim the item that is being passed straight on, and the outer item."""
        hold = self.upstream.hold()
        return hold if self.outer is NO_HOLD else claims_on(hold, self.outer.hold())

    def emitted(self) -> None:
        """Note that an item has been emitted, and ask for more when enough have been."""
        if self.complete:
            if not self.queue and not self.fails_in_line:
                self.stage.finish(self)
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
