"""A served stream: a publisher of this process under an address, each link its own subscription of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from rstreams._core.fast_paths import draws_of
from rstreams._core.subscription import hint_for, require_subscriber
from rstreams._stages.stage import Stage
from rstreams.abc import Publisher, Subscriber
from rstreams.errors import ConfigError
from rstreams.node._address import check_name
from rstreams.node.statistics import ServedStatistics

T = TypeVar("T")


class Served(Generic[T]):
    """A publisher under an address: whoever subscribes here subscribes to it, and is counted.

    Args:
        name: The address.
        publisher: Whose items are served; each subscriber's demand reaches it.

    Demand: Passed up unchanged.
    Errors: `ConfigError` for a name or a publisher that cannot be; errors of the publisher pass through, and count.
    Cancels: The publisher's subscription, when the subscriber cancels.
    """

    def __init__(self, name: str, publisher: Publisher[T]) -> None:
        self.name = check_name("served stream", name)
        if isinstance(publisher, type) or not callable(getattr(publisher, "subscribe", None)):
            what = f"not {publisher!r:.80}{hint_for(publisher)}"
            msg = f"served stream {name!r}: the publisher must be a Stream or another Publisher, {what}"
            raise ConfigError(msg)
        self.publisher = publisher
        self._subscriptions = 0
        self._delivered = 0
        self._completed = 0
        self._failed = 0
        self._cancelled = 0

    def subscribe(self, subscriber: Subscriber[T]) -> None:
        """Subscribe `subscriber` to the publisher.

        Errors: `TypeError` if `subscriber` is None (1.9).
        """
        require_subscriber(subscriber)
        self._subscriptions += 1
        self.publisher.subscribe(_Counted(self, subscriber))

    def statistics(self) -> ServedStatistics:
        """Return the address's counters."""
        ended = self._completed + self._failed + self._cancelled
        return ServedStatistics(
            subscriptions=self._subscriptions,
            subscribers=self._subscriptions - ended,
            delivered=self._delivered,
            completed=self._completed,
            failed=self._failed,
            cancelled=self._cancelled,
        )


class _Counted(Stage[T, T]):
    __slots__ = ("_served",)

    operator = "served"

    def __init__(self, served: Served[T], downstream: Subscriber[T]) -> None:
        super().__init__(downstream)
        self._served = served

    def on_next(self, item: T) -> None:
        if not self._ended:
            self._served._delivered += 1  # noqa: SLF001 - the stage is a part of it
            self._downstream.on_next(item)

    def draws(self) -> Callable[[int], list[T]] | None:
        """Let the items be drawn, and count them; see `rstreams._stages.emission.Drawable`."""
        draw = draws_of(self._upstream)
        if draw is None:
            return None
        served = self._served

        def draw_counted(n: int) -> list[T]:
            items = draw(n)
            served._delivered += len(items)  # noqa: SLF001
            return items

        return draw_counted

    def on_error(self, error: BaseException) -> None:
        if not self._ended:
            self._served._failed += 1  # noqa: SLF001
        super().on_error(error)

    def on_complete(self) -> None:
        if not self._ended:
            self._served._completed += 1  # noqa: SLF001
        super().on_complete()

    def cancel(self) -> None:
        if not self._ended:
            self._served._cancelled += 1  # noqa: SLF001
        super().cancel()
