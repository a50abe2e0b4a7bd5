"""The base of all sinks: one subscription, its demand and its end."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from rstreams._checks.publishers import require_subscription
from rstreams._core.demand import UNBOUNDED
from rstreams._core.fast_paths import signals_later
from rstreams._core.kept_errors import KeptError
from rstreams._core.sight import CANCEL, Scannable, Waits, Way
from rstreams._core.subscription import ENDED, checked_error
from rstreams.abc import Subscription

T = TypeVar("T")


class Sink(Scannable, ABC, Generic[T]):
    """The base of all sinks: one subscription, its demand and its end.

    Attributes:
        ended: Whether the subscription is over: completed, failed or cancelled.
        failure: The same as `error`, to be raised.
        outstanding: Items requested and not yet received.
        takes_all: Whether it takes all items, until the end.
    """

    __slots__ = ("_on_change", "_subscription", "_top_up_at", "ended", "failure", "outstanding")

    takes_all = False

    def __init__(self, on_change: Callable[[], None]) -> None:
        self._on_change: Final = on_change
        self._subscription: Subscription = ENDED
        self._top_up_at = 0
        self.ended = False
        self.failure: KeptError[BaseException] | None = None
        self.outstanding = 0

    @property
    def error(self) -> BaseException | None:
        """The error that it failed with, else None."""
        return None if self.failure is None else self.failure.error

    # the publisher calls these

    def on_subscribe(self, subscription: Subscription) -> None:
        """Receive the subscription; earlier requests are passed on now."""
        require_subscription(subscription)
        if self._subscription is not ENDED or self.ended:
            subscription.cancel()  # 2.5: at most one live subscription
            return
        self._subscription = subscription
        if self.outstanding:
            if self.takes_all and signals_later(subscription):
                self.outstanding = UNBOUNDED
            subscription.request(self.outstanding)

    @abstractmethod
    def on_next(self, item: T) -> None:
        """Receive an item."""

    def on_error(self, error: BaseException) -> None:
        """Receive the failure."""
        if not self.ended:
            self.ended = True
            self.failure = KeptError(checked_error(error))
            self._on_change()

    def on_complete(self) -> None:
        """Receive the end."""
        if not self.ended:
            self.ended = True
            self._on_change()

    def waits_to(self, way: Way) -> Waits:
        """Return the events that it waits for; no stage can wait for its cancel."""
        return [] if way == CANCEL else None

    # the terminal calls these

    def request(self, n: int, *, top_up_at: int = 0) -> None:
        """Request `n` more items, also before the subscription has come.

        `on_change` is called when no more than `top_up_at` items are left outstanding.
        """
        self._top_up_at = top_up_at
        self.outstanding += n
        self._subscription.request(n)

    def cancel(self) -> None:
        """End the subscription from this side, also before it has come; does nothing once it has ended."""
        if not self.ended:
            self.ended = True
            self._subscription.cancel()

    def _received(self) -> None:
        self.outstanding -= 1
        if self.outstanding == self._top_up_at:
            self._on_change()

    def _received_run(self, items: int) -> None:
        before = self.outstanding
        self.outstanding -= items
        if before > self._top_up_at >= self.outstanding:
            self._on_change()

    def _fail_item(self, error: BaseException) -> None:
        """End the subscription because the item in `on_next` could not be processed: it is given back as failed."""
        self._subscription.hold().fail(error)
        self.cancel()
        self.failure = KeptError(error)
        self._on_change()
