"""with_latest_from: each item together with the latest one of another source."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Generic, Self, TypeVar

from rstreams._checks.publishers import require_publisher, require_subscription
from rstreams._core.demand import UNBOUNDED
from rstreams._core.sight import Ear
from rstreams._core.subscription import ENDED
from rstreams._stages.stage import Lifted, Stage
from rstreams.abc import Publisher, Subscriber, Subscription

T = TypeVar("T")
R = TypeVar("R")


def with_latest_from(source: Publisher[T], other: Publisher[R]) -> Publisher[tuple[T, R]]:
    """Emit each item of `source` together with the latest item of `other`.

        --1-----2-----3--|
        -----a-----b------->
          with_latest_from
        --------2a----3b-|

    Args:
        source: The publisher of the first items of the tuples. Items that come before the first item of `other` are
            dropped.
        other: The publisher of the second items, subscribed to first. If it sends all its items within the call of
            `request`, only the last one counts.

    Demand: Goes to `source`, plus one for each dropped item. The first request asks `other` for all its items; only the
        latest is kept.
    Holds: Items of `source` pass through. Items of `other` are done when they come.
    Errors: `TypeError` at the call if `other` is not a publisher. The first of the two that fails ends the stream.
    Cancels: `other`, when `source` ends; `source`, when `other` fails or completes without an item.
    Spec: Reactive Streams 1.1, 3.8, 3.17.

    Example:
        >>> await Stream.of(1, 2).with_latest_from(Stream.of("a", "b")).to_list()
        [(1, 'b'), (2, 'b')]
    """
    require_publisher("with_latest_from", "other", other)
    return Lifted(source, lambda downstream: _WithLatestFrom[T, R](downstream).listening_to(other))


class _WithLatestFrom(Stage[T, tuple[T, R]]):
    __slots__ = ("_busy", "_due", "_latest", "_other")

    operator = "with_latest_from"
    only_reacts = True

    def __init__(self, downstream: Subscriber[tuple[T, R]]) -> None:
        super().__init__(downstream)
        self._other = _Other(self)
        self._latest: list[R] = []  # none or one
        self._busy = True  # until `on_subscribe` has returned, because signals come one after the other (1.3)
        self._due: Callable[[], None] | None = None  # the end of the other source, if it came while busy

    def listening_to(self, other: Publisher[R]) -> Self:
        other.subscribe(self._other)
        return self

    def on_subscribe(self, subscription: Subscription) -> None:
        first = self._upstream is ENDED and not self._ended
        super().on_subscribe(subscription)
        if first:
            self._is_free()

    def on_next(self, item: T) -> None:
        if self._ended:
            return
        if self._latest:
            self._busy = True
            try:
                self._downstream.on_next((item, self._latest[0]))
            except BaseException:
                self.cancel()  # 2.13: also cancels the other source
                raise
            self._is_free()
        else:
            self._withheld += 1
            self._upstream.request(1)

    def on_complete(self) -> None:
        if not self._ended:
            self._other.upstream.cancel()
        super().on_complete()

    def request(self, n: int) -> None:
        if self._accepts(n):
            self._other.ask()
            self._upstream.request(n)

    def _let_go(self) -> None:
        self._other.upstream.cancel()

    def upstreams(self) -> Sequence[Subscription]:
        return [upstream for upstream in (self._upstream, self._other.upstream) if upstream is not ENDED]

    @property
    def moves(self) -> bool:
        return self._busy

    def _callers(self) -> Sequence[Subscription]:
        return (self._upstream,) if self._other.complete else (self._upstream, self._other.upstream)

    # the other source calls these

    @property
    def asked(self) -> bool:
        """Whether anything has been requested yet."""
        return self._requested > 0

    def keep(self, item: R) -> None:
        """Remember the latest item."""
        self._latest[:] = (item,)

    def other_failed(self, error: BaseException) -> None:
        """End the stream, because the other source has failed."""
        self._due = partial(self._fail, error)
        if not self._busy:
            self._is_free()

    def other_is_through(self) -> None:
        """End the stream if no tuple can come any more."""
        if not self._latest:
            self._due = self._complete
            if not self._busy:
                self._is_free()

    def _is_free(self) -> None:
        self._busy = False
        due, self._due = self._due, None
        if due is not None:
            due()


class _Other(Ear[_WithLatestFrom[Any, R]], Generic[R]):
    __slots__ = ("_asked", "complete", "stage", "upstream")

    def __init__(self, stage: _WithLatestFrom[Any, R]) -> None:
        self.stage = stage
        self._asked = False
        self.complete = False
        self.upstream: Subscription = ENDED

    def ask(self) -> None:
        if not self._asked and self.upstream is not ENDED:
            self._asked = True
            self.upstream.request(UNBOUNDED)

    def on_subscribe(self, subscription: Subscription) -> None:
        require_subscription(subscription)
        if self.upstream is not ENDED or self.stage.ended:
            subscription.cancel()
            return
        self.upstream = subscription
        if self.stage.asked:
            self.ask()

    def on_next(self, item: R) -> None:
        if not self.stage.ended:
            self.stage.keep(item)

    def on_error(self, error: BaseException) -> None:
        self.upstream = ENDED  # 2.3, 2.4
        self.complete = True
        self.stage.other_failed(error)

    def on_complete(self) -> None:
        self.upstream = ENDED  # 2.3, 2.4
        self.complete = True
        self.stage.other_is_through()
