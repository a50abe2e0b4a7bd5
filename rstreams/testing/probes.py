"""The two ends of a test: a subscriber that records every signal, and a publisher that the test plays by hand.

    source = ManualPublisher[int]()
    probe = ProbeSubscriber[int](request=2)
    map(source, str).subscribe(probe)
    source.next(1)
    assert probe.items == ["1"]
    assert source.requested == 2
    assert source.outcomes == ["done"]

Both keep all signals in plain attributes, for plain asserts. Neither checks the specification by itself, with two
exceptions that are always mistakes of a stage or of the test: an item sent without demand, and a hold taken
outside `on_next`, raise `AssertionError`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, Literal, TypeAlias, TypeVar

from rstreams._checks.publishers import require_subscriber
from rstreams._core.demand import UNBOUNDED, add_demand, demand_error
from rstreams._core.sight import CANCEL, Counts, Scannable, Waits, Way
from rstreams.abc import Hold, Subscriber, Subscription

__all__ = ["ManualPublisher", "Outcome", "ProbeSubscriber"]

T = TypeVar("T")

Outcome: TypeAlias = Literal["done", "failed", "released"]
"""The outcome of an item; of several holds the worst outcome wins, as for `rstreams.abc.Hold`."""


class ProbeSubscriber(Scannable, Generic[T]):
    """A subscriber that records its signals, and requests as the test tells it.

    Attributes:
        items: The items received, in order.
        error: The error of `on_error`, else None.
        completed: Whether `on_complete` came.
        signals: The name of every signal received, in order; it also shows a signal after the end.
        subscription: The last subscription received, else None; but a second one while the first lives is cancelled.
        holds: One hold for each item, if the probe was made with `hold=True`; the test settles them.
        on_item: Called with each item after it is recorded; it may request, cancel or raise.
    """

    def __init__(self, request: int = 0, *, hold: bool = False, on_item: Callable[[T], object] | None = None) -> None:
        """Make a probe.

        Args:
            request: Items requested in `on_subscribe`; 0 requests nothing.
            hold: Take a hold on each item and keep it in `holds`.
            on_item: See the attribute.
        """
        self.items: list[T] = []
        self.error: BaseException | None = None
        self.completed = False
        self.signals: list[str] = []
        self.subscription: Subscription | None = None
        self.holds: list[Hold] = []
        self.on_item = on_item
        self._first_request = request
        self._hold = hold
        self._live = False

    @property
    def ended(self) -> bool:
        """Tell whether `on_complete` or `on_error` came."""
        return self.completed or self.error is not None

    def request(self, n: int) -> None:
        """Request `n` more items."""
        self._subscribed().request(n)

    def cancel(self) -> None:
        """Cancel the subscription."""
        self._live = False
        self._subscribed().cancel()

    def waits_to(self, way: Way) -> Waits:
        """Return the events that it waits for; no stage can wait for its cancel."""
        return [] if way == CANCEL else None

    def on_subscribe(self, subscription: Subscription) -> None:
        """Record the subscription, and request the first items; a second one is cancelled (2.5)."""
        self.signals.append("on_subscribe")
        if self._live:
            subscription.cancel()
            return
        self._live = True
        self.subscription = subscription
        if self._first_request:
            subscription.request(self._first_request)

    def on_next(self, item: T) -> None:
        """Record an item."""
        self.signals.append("on_next")
        self.items.append(item)
        if self._hold:
            self.holds.append(self._subscribed().hold())
        if self.on_item is not None:
            self.on_item(item)

    def on_error(self, error: BaseException) -> None:
        """Record the failure."""
        self.signals.append("on_error")
        self._live = False
        self.error = error

    def on_complete(self) -> None:
        """Record the end."""
        self.signals.append("on_complete")
        self._live = False
        self.completed = True

    def _subscribed(self) -> Subscription:
        if self.subscription is None:
            msg = "this probe has not been subscribed to anything"
            raise AssertionError(msg)
        return self.subscription


class ManualPublisher(Scannable, Generic[T]):
    """A publisher played by the test, which behaves like a link: it counts demand and records how each item ended.

    It serves one subscriber at a time, the last that subscribed. Signals are sent even after a cancel, because a
    stage must be ready for them (Reactive Streams 2.8).

    Attributes:
        requested: Items requested so far, in all; `UNBOUNDED` once saturated.
        requests: The argument of every `request`, in order.
        cancelled: Whether the subscription was cancelled.
        subscriptions: How often `subscribe` was called.
        outcomes: How each sent item ended, in order; None while it is held. An item without a hold is "done" when
            `on_next` returns, and "failed" when that raises.
        errors: For each item sent, the error it was failed with, else None.
        on_request: Called with the argument of each valid request; it may send items.
    """

    def __init__(self, on_request: Callable[[int], object] | None = None) -> None:
        """Make a publisher that sends nothing by itself."""
        self.requested = 0
        self.requests: list[int] = []
        self.cancelled = False
        self.subscriptions = 0
        self.outcomes: list[Outcome | None] = []
        self.errors: list[BaseException | None] = []
        self.on_request = on_request
        self._subscriber: Subscriber[T] | None = None
        self._delivering: _Delivery | None = None
        self._sent_before = 0  # to the subscribers before this one

    @property
    def outstanding(self) -> int:
        """Return how many items were requested and not yet sent."""
        return self.requested - len(self.outcomes)

    def subscribe(self, subscriber: Subscriber[T]) -> None:
        """Take on `subscriber` in place of the one before."""
        require_subscriber(subscriber)
        self.subscriptions += 1
        self.requested = self._sent_before = len(self.outcomes)
        self.cancelled = False
        self._subscriber = subscriber
        subscriber.on_subscribe(self)

    def next(self, *items: T) -> None:
        """Send items; without demand for one, raise `AssertionError`. An error of `on_next` is raised here."""
        subscriber = self._subscribed()
        for item in items:
            if self.outstanding < 1:
                msg = f"{item!r} was sent without demand (Reactive Streams rule 1.1)"
                raise AssertionError(msg)
            delivery = _Delivery(self)
            before, self._delivering = self._delivering, delivery
            try:
                subscriber.on_next(item)
            except BaseException as error:
                delivery.settle("failed", error)
                raise
            finally:
                self._delivering = before
            delivery.settle("done", None)

    def error(self, error: BaseException) -> None:
        """Send `on_error`."""
        self._subscribed().on_error(error)

    def complete(self) -> None:
        """Send `on_complete`."""
        self._subscribed().on_complete()

    # the subscription's side

    def request(self, n: int) -> None:
        """Record demand; an invalid one is answered with `on_error(DemandError)` (3.9)."""
        self.requests.append(n)
        error = demand_error(n)
        if error is not None:
            self.error(error)
            return
        self.requested = add_demand(self.requested, n)
        if self.on_request is not None:
            self.on_request(n)

    def cancel(self) -> None:
        """Record the cancel."""
        self.cancelled = True

    def counts(self) -> Counts:
        """Return how many items this subscriber has requested and received, for `explain`."""
        requested = UNBOUNDED if self.requested == UNBOUNDED else self.requested - self._sent_before
        return Counts(requested, len(self.outcomes) - self._sent_before)

    def hold(self) -> Hold:
        """Take a hold on the item being sent; outside `on_next`, raise `AssertionError`."""
        if self._delivering is None:
            msg = "hold() was called outside on_next: there is no item to hold"
            raise AssertionError(msg)
        return self._delivering.hold()

    def _subscribed(self) -> Subscriber[T]:
        if self._subscriber is None:
            msg = "nobody has subscribed to this publisher"
            raise AssertionError(msg)
        return self._subscriber


_WORST_FIRST: Final[tuple[Outcome, ...]] = ("failed", "released", "done")


class _Delivery:
    """One item sent: open until the publisher's own claim on it and every hold have been settled."""

    def __init__(self, publisher: ManualPublisher[T]) -> None:
        self._publisher = publisher
        self._index = len(publisher.outcomes)
        self._claims = 1
        self._told: set[Outcome] = set()
        publisher.outcomes.append(None)
        publisher.errors.append(None)

    def hold(self) -> Hold:
        self._claims += 1
        return _RecordedHold(self)

    def settle(self, outcome: Outcome, error: BaseException | None) -> None:
        self._claims -= 1
        self._told.add(outcome)
        if error is not None and self._publisher.errors[self._index] is None:
            self._publisher.errors[self._index] = error
        if not self._claims:
            worst: Outcome = next(told for told in _WORST_FIRST if told in self._told)
            self._publisher.outcomes[self._index] = worst


class _RecordedHold:
    def __init__(self, delivery: _Delivery) -> None:
        self._delivery: _Delivery | None = delivery

    def done(self) -> None:
        self._settle("done", None)

    def fail(self, error: BaseException) -> None:
        self._settle("failed", error)

    def release(self) -> None:
        self._settle("released", None)

    def _settle(self, outcome: Outcome, error: BaseException | None) -> None:
        delivery, self._delivery = self._delivery, None
        if delivery is not None:
            delivery.settle(outcome, error)
