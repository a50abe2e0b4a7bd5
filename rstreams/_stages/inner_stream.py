"""One inner stream at a time, asked for exactly the demand: shared by concat_map and switch_map.

Theory of operation. The subscriber's demand goes to the current inner stream. The next inner stream gets the part that
is left. Nothing is asked ahead, and no inner item is kept. `hold` claims the inner item in its stream, and also the
outer item.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from rstreams._checks.publishers import require_subscription
from rstreams._core.claims import NO_HOLD, Claims, claims_on
from rstreams._core.demand import add_demand, take_demand
from rstreams._core.scheduler import call_in, current_scheduler
from rstreams._core.sight import Ear
from rstreams._core.subscription import ENDED
from rstreams._stages.delayed_errors import Errors, all_of, note_error
from rstreams._stages.stage import KeepingStage, resume, suspend
from rstreams.abc import Hold, Publisher, Scheduler, Subscriber, Subscription

T = TypeVar("T")
R = TypeVar("R")


class OneInner(KeepingStage[T, R], ABC):
    """A stage that emits the items of its current inner stream; the operator decides when the next one begins."""

    only_reacts = True

    __slots__ = (
        "_current",
        "_delay_errors",
        "_demand",
        "_errors",
        "_function",
        "_outer_complete",
        "_passing",
        "_scheduler",
        "suspended",
    )

    def __init__(self, downstream: Subscriber[R], function: Callable[[T], Publisher[R]], *, delay_errors: bool) -> None:
        super().__init__(downstream)
        self._function = function
        self._delay_errors = delay_errors
        self._errors: Errors = {}  # those that wait for the end
        self._demand = 0
        self._current: Inner[T, R] | None = None
        self._passing: Inner[T, R] | None = None
        self._outer_complete = False
        self.suspended = False  # no stream may send anything
        self._scheduler: Scheduler | None = current_scheduler.get(None)

    def on_error(self, error: BaseException) -> None:
        if not self._delay_errors:
            super().on_error(error)
        elif not self._ended:
            note_error(self._errors, error)
            self.on_complete()

    def request(self, n: int) -> None:
        if not self._accepts(n):
            return
        first = not self._demand and self._requested == n
        self._demand = add_demand(self._demand, n)
        current = self._current
        if first:
            self._begin()
        if current is not None and current is self._current:
            current.upstream.request(n)

    def hold(self) -> Hold:
        return super().hold() if self._passing is None else self._passing.hold()

    @property
    def window(self) -> int:
        return 2**63 - 1  # the number of items from an outer item is not known

    def suspend(self) -> None:
        self.suspended = True
        for upstream in self.upstreams():
            suspend(upstream)

    def resume(self) -> None:
        self.suspended = False
        for upstream in self.upstreams():
            resume(upstream)

    def upstreams(self) -> Sequence[Subscription]:
        inner = ENDED if self._current is None else self._current.upstream
        return [upstream for upstream in (self._upstream, inner) if upstream is not ENDED]

    @property
    def moves(self) -> bool:
        """Whether it is emitting an item, or goes on when the subscriber lets it."""
        return self._passing is not None or self.suspended

    def _callers(self) -> Sequence[Subscription]:
        outer = () if self._outer_complete else (self._upstream,)
        return outer if self._current is None else (*outer, self._current.upstream)

    def _let_go(self) -> None:
        current, self._current = self._current, None
        if current is not None:
            current.outer.release()
            current.upstream.cancel()

    # the operator writes these

    @abstractmethod
    def _begin(self) -> None:
        """Ask for the first outer items."""

    @abstractmethod
    def _inner_is_through(self) -> None:
        """Go on after an inner stream."""

    def _inner_failed(self, error: BaseException) -> None:
        """Go on, or not, after an inner stream has failed or could not be made; its outer item counts as failed."""
        if self._delay_errors:
            note_error(self._errors, error)
            self._inner_is_through()
        elif error is self.failure:  # a part of the source fails as the source does
            self._inner_is_through()
        else:
            self._fail(error)

    def _finish(self) -> None:
        """End the stream: all items have been emitted."""
        if self._errors:
            self._fail(all_of(self.label, self._errors))
        else:
            super().on_complete()

    # the operator calls this

    def _subscribe(self, item: T, outer: Claims) -> None:
        """Make the stream of an outer item the current one."""
        try:
            source = self._function(item)
        except Exception as error:
            outer.fail(error)
            if not self._ended:
                self._inner_failed(error)
            return
        except BaseException as error:
            outer.fail(error)
            self.cancel()
            raise
        if self._ended:  # the function has cancelled
            outer.release()
            return
        self._current = inner = Inner(self, outer)
        call_in(self._scheduler, source.subscribe, inner)

    # inner streams call these

    def pass_on(self, inner: Inner[T, R], item: R) -> None:
        """Emit an item."""
        if self._current is not inner:
            return
        self._demand = take_demand(self._demand, 1)
        self._emissions += 1
        before, self._passing = self._passing, inner
        try:
            self._downstream.on_next(item)
        except BaseException:
            self.cancel()  # 2.13
            raise
        finally:
            self._passing = before

    def end(self, inner: Inner[T, R], error: BaseException | None) -> None:
        """Note that an inner stream has completed or failed."""
        if self._current is not inner:
            return
        self._current = None
        if error is None:
            inner.outer.done()
            self._inner_is_through()
        else:
            inner.outer.fail(error)
            self._inner_failed(error)

    def is_current(self, inner: Inner[T, R]) -> bool:
        """Tell whether an inner stream is the current one."""
        return self._current is inner

    @property
    def demand(self) -> int:
        """The items requested and not yet emitted."""
        return self._demand


class Inner(Ear[OneInner[T, R]], Generic[T, R]):
    """The subscriber to one inner stream."""

    __slots__ = ("outer", "stage", "upstream")

    def __init__(self, stage: OneInner[T, R], outer: Claims) -> None:
        self.stage = stage
        self.outer = outer
        self.upstream: Subscription = ENDED

    def on_subscribe(self, subscription: Subscription) -> None:
        require_subscription(subscription)
        if self.upstream is not ENDED or not self.stage.is_current(self):
            subscription.cancel()
            return
        self.upstream = subscription
        if self.stage.suspended:
            suspend(subscription)
        if self.stage.demand:
            subscription.request(self.stage.demand)

    def on_next(self, item: R) -> None:
        self.stage.pass_on(self, item)

    def on_error(self, error: BaseException) -> None:
        self.upstream = ENDED  # 2.3, 2.4
        self.stage.end(self, error)

    def on_complete(self) -> None:
        self.upstream = ENDED  # 2.3, 2.4
        self.stage.end(self, None)

    def hold(self) -> Hold:
        """Claim the item that is being passed on, and the outer item."""
        hold = self.upstream.hold()
        return hold if self.outer is NO_HOLD else claims_on(hold, self.outer.hold())
