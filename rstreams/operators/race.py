"""race: the source that sends a signal first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, Self, TypeVar

from rstreams._checks.publishers import require_sources, require_subscription
from rstreams._core.claims import NO_HOLD
from rstreams._core.claims_in_order import ClaimsInOrder
from rstreams._core.demand import add_demand
from rstreams._core.sight import Counts, Ear, counts_of
from rstreams._core.subscription import ENDED
from rstreams._stages.many_sources import ManySources
from rstreams._stages.stage import Stage, failure_of, resume, suspend
from rstreams.abc import Hold, Publisher, Subscriber, Subscription

T = TypeVar("T")


def race(*sources: Publisher[T]) -> Publisher[T]:
    """Emit the items of the source that is the first to send an item or its end; the others are cancelled.

        -----1--2--3--|
        --8--9--|
              race
        --8--9--|

    Args:
        *sources: Subscribed to at once, in this order; without sources the stream is empty.

    Demand: Each source is asked for the requested items until one has won; then only the winner is asked. Therefore
        each loser was asked for at most that many items in vain.
    Holds: Items pass through. Items of the losers are never taken.
    Errors: `TypeError` at the call if a source is not a publisher. A source whose first signal is an error has won.
    Cancels: The losers, before the winner's first signal is passed on.
    Spec: Reactive Streams 1.1, 3.8, 3.17.

    Example:
        >>> await Stream.never().race(Stream.of(8, 9)).to_list()
        [8, 9]
    """
    require_sources("race", sources)
    return ManySources(lambda downstream, sources: _Race(downstream).start(sources), sources, "race", open_out=list)


class _Race(Stage[T, T]):
    __slots__ = ("_demand", "_runners", "_winner", "suspended")

    operator = "race"
    only_reacts = True

    def __init__(self, downstream: Subscriber[T]) -> None:
        super().__init__(downstream)
        self._runners: list[_Racer[T]] = []
        self._winner: _Racer[T] | None = None
        self._demand = 0
        self.suspended = False

    def start(self, sources: Sequence[Publisher[T]]) -> Self:
        self._downstream.on_subscribe(self)
        if not sources:
            self.on_complete()
        self._runners = [_Racer(self) for _ in sources]
        for source, runner in zip(sources, tuple(self._runners), strict=True):
            if self._winner is None and not self._ended:
                source.subscribe(runner)
        return self

    def request(self, n: int) -> None:
        if not self._accepts(n):
            return
        if self._winner is not None:
            self._winner.upstream.request(n)
            return
        self._demand = add_demand(self._demand, n)
        for runner in tuple(self._runners):
            if self._winner is None or self._winner is runner:
                runner.upstream.request(n)

    @property
    def failure(self) -> BaseException | None:
        return None if self._winner is None else failure_of(self._winner.upstream)

    def hold(self) -> Hold:
        return NO_HOLD if self._winner is None else self._winner.upstream.hold()

    def gather(self, *, loose: bool) -> ClaimsInOrder | None:
        return ClaimsInOrder(self.hold, loose=loose)

    def suspend(self) -> None:
        self.suspended = True
        for upstream in self.upstreams():
            suspend(upstream)

    def resume(self) -> None:
        self.suspended = False
        for upstream in self.upstreams():
            resume(upstream)

    def counts(self) -> Counts | None:
        if self._winner is None:
            return Counts(self._requested, 0)
        winner = counts_of(self._winner.upstream)
        return winner and Counts(self._requested, winner.delivered)

    def upstreams(self) -> Sequence[Subscription]:
        return [runner.upstream for runner in self._runners if runner.upstream is not ENDED]

    @property
    def moves(self) -> bool:
        return self.suspended

    def _callers(self) -> Sequence[Subscription]:
        return [runner.upstream for runner in self._runners]

    def _let_go(self) -> None:
        for runner in self._runners:
            runner.upstream.cancel()

    # runners call these

    @property
    def demand(self) -> int:
        """The demand from before there was a winner."""
        return self._demand

    def open(self) -> bool:
        """Tell whether the race is still undecided."""
        return self._winner is None and not self._ended

    def has_won(self, runner: _Racer[T]) -> bool:
        """Tell whether `runner` is the winner; the first one to ask becomes the winner."""
        if self._winner is None and not self._ended:
            self._winner = runner
            losers = [r for r in self._runners if r is not runner]
            self._runners = [runner]
            for loser in losers:
                loser.upstream.cancel()
        return self._winner is runner and not self._ended

    def pass_on(self, item: T) -> None:
        """Emit an item of the winner."""
        self._downstream.on_next(item)


class _Racer(Ear[_Race[T]], Generic[T]):
    __slots__ = ("stage", "upstream")

    def __init__(self, race: _Race[T]) -> None:
        self.stage = race
        self.upstream: Subscription = ENDED

    def on_subscribe(self, subscription: Subscription) -> None:
        require_subscription(subscription)
        if self.upstream is not ENDED or not self.stage.open():
            subscription.cancel()
            return
        self.upstream = subscription
        if self.stage.suspended:
            suspend(subscription)
        if self.stage.demand:
            subscription.request(self.stage.demand)

    def on_next(self, item: T) -> None:
        if self.stage.has_won(self):
            self.stage.pass_on(item)

    def on_error(self, error: BaseException) -> None:
        self.upstream = ENDED  # 2.3, 2.4
        if self.stage.has_won(self):
            self.stage.on_error(error)

    def on_complete(self) -> None:
        self.upstream = ENDED  # 2.3, 2.4
        if self.stage.has_won(self):
            self.stage.on_complete()
