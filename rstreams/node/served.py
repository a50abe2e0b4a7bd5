"""A served stream: a publisher of this process under an address; each link has its own subscription of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

from rstreams._checks.numbers import require_seconds
from rstreams._checks.publishers import hint_for, is_publisher, require_subscriber
from rstreams._core.fast_paths import draws_of
from rstreams._core.run import Run, runs_of
from rstreams._stages.stage import Stage
from rstreams.abc import Publisher, Subscriber
from rstreams.errors import ConfigError
from rstreams.net.links.encoding import encoded_for
from rstreams.node.address import Address, LinkRequest, Supply, require_address_name
from rstreams.node.state_lines import served_line
from rstreams.node.statistics import AddressTotals, ServedStatistics
from rstreams.protocol.unsettled import ItemSize

T = TypeVar("T")


class Served(Address, Generic[T]):
    """A publisher under an address: each subscription here subscribes to the publisher, and is counted.

    Args:
        name: The address.
        publisher: The publisher of the items; each subscriber's demand reaches it.
        encode: Returns the value to send for an item; None: the item itself is sent.
        keep_s: How long a subscription is kept after its connection is lost, in seconds; see `Node.serve`.

    Attributes:
        delivered: How many items subscribers have got.
        completed: How many subscriptions have completed.
        failed: How many have failed.
        cancelled: How many were cancelled.

    Demand: Passed up unchanged.
    Errors: `ConfigError` for a name or a publisher that is not allowed. Errors of the publisher are passed on.
    Cancels: The publisher's subscription, when the subscriber cancels.
    """

    kind = "served stream"
    table = "served"
    _incarnation: str | None = None

    def __init__(
        self,
        name: str,
        publisher: Publisher[T],
        encode: Callable[[T], object] | None = None,
        *,
        keep_s: float = 0.0,
    ) -> None:
        self.name = require_address_name(self.kind, name)
        self._keep_s = require_seconds(f"served stream {name!r}", "keep_s", keep_s, zero=True)
        self._away = 0
        if isinstance(publisher, type) or not is_publisher(publisher):
            what = f"a Stream or another Publisher, not {publisher!r:.80}{hint_for(publisher)}"
            msg = f"served stream {name!r}: publisher={type(publisher).__name__}: it must be {what}"
            raise ConfigError(msg)
        self._publisher: Publisher[Any] = encoded_for(name, publisher, encode)
        self._size = ItemSize()
        self._subscriptions = 0
        self.delivered = self.completed = self.failed = self.cancelled = 0

    def subscribe(self, subscriber: Subscriber[T]) -> None:
        """Subscribe `subscriber` to the publisher.

        Errors: `TypeError` if `subscriber` is None (1.9).
        """
        require_subscriber(subscriber)
        self.count_subscriber(self._publisher, subscriber)

    def count_subscriber(self, publisher: Publisher[Any], subscriber: Subscriber[Any]) -> None:
        """Subscribe `subscriber` to a publisher of this address, and count it and its items."""
        self._subscriptions += 1
        publisher.subscribe(_Counted(self, subscriber))

    def supply(self, link: LinkRequest) -> Supply:  # noqa: ARG002 - each link gets the same
        """Return the publisher; each link subscribes to it."""
        return Supply(self, size=self._size, keep_s=self._keep_s, on_away=self._count_away)

    def _count_away(self, by: int) -> None:
        self._away += by

    def explain(self) -> str:
        """Return how many subscribers there are, and how many items they got."""
        return served_line(self.name, self.statistics())

    def tally(self) -> AddressTotals:
        """Return the totals: nothing comes or is kept here."""
        return AddressTotals(self.delivered, self.delivered, self.delivered)

    def statistics(self) -> ServedStatistics:
        """Return the address's counters."""
        ended = self.completed + self.failed + self.cancelled
        return ServedStatistics(
            subscriptions=self._subscriptions,
            subscribers=self._subscriptions - ended,
            delivered=self.delivered,
            completed=self.completed,
            failed=self.failed,
            cancelled=self.cancelled,
            away=self._away,
            incarnation=self._incarnation or "",
        )


class _Counted(Stage[T, T]):
    __slots__ = ("_served",)

    operator = "served"

    def __init__(self, served: Served[T], downstream: Subscriber[T]) -> None:
        super().__init__(downstream)
        self._served = served

    def on_next(self, item: T) -> None:
        if not self._ended:
            self._served.delivered += 1
            self._downstream.on_next(item)

    @property
    def on_run(self) -> Callable[[Run[T]], None] | None:
        """The function that passes a run on and counts its items; None if the subscriber takes none."""
        pass_on = runs_of(self._downstream)
        if pass_on is None:
            return None

        def pass_counted(run: Run[T]) -> None:
            if self._ended:
                return
            if run.drops:
                pass_on(run.then(self._counted))
                return
            before = run.taken  # the rest of a run may come with another call, behind an item that cannot be made
            try:
                pass_on(run)
            except BaseException:
                before += run.in_hand
                raise
            finally:
                self._served.delivered += run.taken - before

        return pass_counted

    def _counted(self, items: Iterator[T]) -> Iterator[T]:
        for item in items:
            self._served.delivered += 1
            yield item

    def draws(self) -> Callable[[int], list[T]] | None:
        """Return a function that draws items and counts them; see `rstreams._core.fast_paths.draws_of`."""
        draw = draws_of(self._upstream)
        if draw is None:
            return None
        served = self._served

        def draw_counted(n: int) -> list[T]:
            items = draw(n)
            served.delivered += len(items)
            return items

        return draw_counted

    def on_error(self, error: BaseException) -> None:
        if not self._ended:
            self._served.failed += 1
        super().on_error(error)

    def on_complete(self) -> None:
        if not self._ended:
            self._served.completed += 1
        super().on_complete()

    def cancel(self) -> None:
        if not self._ended:
            self._served.cancelled += 1
        super().cancel()
