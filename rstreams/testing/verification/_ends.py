"""The kit's own ends: a subscriber and a publisher that obey the rules, and note those that the other side breaks."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from rstreams._core.claims import NO_HOLD
from rstreams._core.demand import UNBOUNDED, add_demand
from rstreams.abc import Hold, Subscriber, Subscription
from rstreams.testing.verification._environment import Environment

T = TypeVar("T")


class VerificationError(Exception):
    """The error with which the kit fails streams."""


class Recorder(Generic[T]):
    """A subscriber that records, and notes every signal that should not have come.

    Attributes:
        signals: The names of the signals, in order.
        seconds: Subscriptions that came after the first; all are cancelled (2.5).
    """

    def __init__(
        self,
        env: Environment,
        *at_first: int,
        on_item: Callable[[Recorder[T]], object] | None = None,
        strictly_serial: bool = False,
    ) -> None:
        """Make a subscriber that requests `at_first` in `on_subscribe`, each by a call of its own.

        After each item it calls `on_item` with itself.
        """
        self.items: list[T] = []
        self.error: BaseException | None = None
        self.completed = False
        self.signals: list[str] = []
        self.subscription: Subscription | None = None
        self.seconds = 0
        self.requested = 0
        self.deepest = 0  # how many calls of on_next were open at a time
        self.on_item = on_item
        self._env = env
        self._at_first = at_first
        self._strictly_serial = strictly_serial
        self._open: list[str] = []
        self._thread = 0

    @property
    def ended(self) -> bool:
        """Tell whether a terminal signal came."""
        return self.completed or self.error is not None

    def request(self, n: int) -> None:
        """Request from the subscription, which has come."""
        assert self.subscription is not None
        if isinstance(n, int) and n > 0:
            self.requested = add_demand(self.requested, n)
        self.subscription.request(n)

    def cancel(self) -> None:
        """Cancel the subscription, which has come."""
        assert self.subscription is not None
        self.subscription.cancel()

    def hold(self) -> Hold:
        """Take a hold on the item that is being received."""
        assert self.subscription is not None
        return self.subscription.hold()

    def on_subscribe(self, subscription: Subscription) -> None:
        """Receive the subscription; a second one is cancelled."""
        if subscription is None:
            msg = "on_subscribe takes a Subscription, not None (2.13)"
            raise TypeError(msg)
        if self.subscription is not None:
            self.seconds += 1
            subscription.cancel()
            return
        self.subscription = subscription
        self._enter("on_subscribe")
        for n in self._at_first:
            self.request(n)
        self._open.pop()

    def on_next(self, item: T) -> None:
        """Receive an item."""
        self._enter("on_next")
        self.items.append(item)
        if len(self.items) > self.requested and self.requested < UNBOUNDED:
            self._env.violate("1.1", f"item {len(self.items)} came, and only {self.requested} were requested")
        self.deepest = max(self.deepest, self._open.count("on_next"))
        if self.on_item is not None:
            self.on_item(self)
        self._open.pop()

    def on_error(self, error: BaseException) -> None:
        """Receive the failure."""
        if error is None:
            msg = "on_error takes an exception, not None (2.13)"
            raise TypeError(msg)
        self._enter("on_error")
        self.error = error
        self._open.pop()

    def on_complete(self) -> None:
        """Receive the end."""
        self._enter("on_complete")
        self.completed = True
        self._open.pop()

    def _enter(self, signal: str) -> None:
        if self.subscription is None:
            self._env.violate("1.9", f"{signal} came before on_subscribe")
        if self.ended:
            self._env.violate("1.7", f"{signal} came after {self.signals[-1]}")
        if self._open and (self._strictly_serial or self._thread != threading.get_ident()):
            self._env.violate("1.3", f"{signal} came while {self._open[-1]} was being handled")
        self.signals.append(signal)
        self._open.append(signal)
        self._thread = threading.get_ident()


class Upstream:
    """A subscription that records the calls that a subscriber makes on it.

    Attributes:
        calls: "request" and "cancel", in order.
        requested: Items requested in all.
        sent: Items sent.
        on_request: Called with each request; it may send.
    """

    def __init__(self, env: Environment, on_request: Callable[[int], object] | None = None) -> None:
        self.calls: list[str] = []
        self.requested = 0
        self.sent = 0
        self.cancelled = False
        self.threads: set[int] = set()
        self.on_request = on_request
        self._env = env

    @property
    def outstanding(self) -> int:
        """Return the items requested and not sent."""
        return self.requested - self.sent

    def request(self, n: int) -> None:
        """Record demand."""
        self._enter("request")
        if not isinstance(n, int) or n < 1:
            self._env.violate("3.9", f"the subscriber requested {n!r} items")
        elif not self.cancelled:
            self.requested = add_demand(self.requested, n)
            if self.on_request is not None:
                self.on_request(n)

    def cancel(self) -> None:
        """Record the cancel."""
        self._enter("cancel")
        self.cancelled = True

    def hold(self) -> Hold:
        """Return a hold that does nothing."""
        return NO_HOLD

    def _enter(self, call: str) -> None:
        self.calls.append(call)
        self.threads.add(threading.get_ident())


class HelperPublisher(Generic[T]):
    """A publisher that the test plays, to any number of subscribers, each with a subscription of its own."""

    def __init__(self, env: Environment) -> None:
        self.subscriptions: list[Upstream] = []
        self._subscribers: list[Subscriber[T]] = []
        self._env = env

    def subscribe(self, subscriber: Subscriber[T]) -> None:
        """Give `subscriber` a subscription."""
        subscription = Upstream(self._env)
        self.subscriptions.append(subscription)
        self._subscribers.append(subscriber)
        subscriber.on_subscribe(subscription)

    def send(self, item: T) -> None:
        """Send an item to each subscriber that asked for one."""
        for subscription, subscriber in zip(self.subscriptions, self._subscribers, strict=True):
            if subscription.outstanding > 0 and not subscription.cancelled:
                subscription.sent += 1
                subscriber.on_next(item)

    def fail(self, error: BaseException) -> None:
        """End every subscription with `error`."""
        for subscription, subscriber in zip(self.subscriptions, self._subscribers, strict=True):
            if not subscription.cancelled:
                subscriber.on_error(error)

    def complete(self) -> None:
        """End every subscription."""
        for subscription, subscriber in zip(self.subscriptions, self._subscribers, strict=True):
            if not subscription.cancelled:
                subscriber.on_complete()
