"""The two ends of a subscription's life that every publisher shares: the argument check and the dead subscription."""

from __future__ import annotations

from collections.abc import AsyncIterable, Iterable
from functools import lru_cache
from typing import TypeVar

from rstreams._core.holds import NO_HOLD
from rstreams.abc import Hold, Subscriber, Subscription
from rstreams.errors import SpecViolation

R = TypeVar("R")


class EndedSubscription:
    """The subscription of a stage that has none (yet, or any more): every call does nothing."""

    __slots__ = ()

    def request(self, n: int) -> None:
        """Do nothing: there is nothing to come (3.6)."""

    def cancel(self) -> None:
        """Do nothing (3.7)."""

    def hold(self) -> Hold:
        """Return a hold that does nothing."""
        return NO_HOLD


ENDED = EndedSubscription()


def require_subscriber(subscriber: object) -> None:
    """Raise `TypeError` for a subscriber that is None (1.9), or is none at all."""
    if not hasattr(subscriber, "on_subscribe"):
        rule = " (Reactive Streams rule 1.9)" if subscriber is None else ""
        hint = "; to have a function called with each item: `await stream.for_each(f)`" if callable(subscriber) else ""
        msg = f"subscribe() takes a Subscriber, not {subscriber!r}{rule}{hint}"
        raise TypeError(msg)


def require_subscription(subscription: Subscription | None) -> None:
    """Raise `TypeError` for a subscription that is None (2.13), or lacks a method."""
    if subscription is None:
        msg = "on_subscribe() takes a Subscription, not None (Reactive Streams rule 2.13)"
        raise TypeError(msg)
    for method in _unwritten(type(subscription)):
        if method not in getattr(subscription, "__dict__", ()):
            how = ": return rstreams.abc.NO_HOLD if its items need no acknowledgement" if method == "hold" else ""
            msg = f"on_subscribe() takes a Subscription, but {subscription!r} has no method {method}(){how}"
            raise TypeError(msg)


@lru_cache(maxsize=256)
def _unwritten(kind: object) -> tuple[str, ...]:
    """Return the methods a kind of subscription lacks, or has only from the protocol, which does nothing in them."""
    return tuple(
        method
        for method in ("request", "cancel", "hold")
        if getattr(kind, method, None) in (None, getattr(Subscription, method))
    )


def checked_error(error: BaseException | None) -> BaseException:
    """Return the argument of `on_error`, or for a None, which would look like success, the rule it breaks (2.13)."""
    return SpecViolation("2.13", "on_error takes an exception, not None") if error is None else error


def hint_for(items: object) -> str:
    """Say how what is no publisher becomes one, at the end of a sentence; "" if it cannot."""
    if isinstance(items, AsyncIterable):
        return "; Stream.from_async_iterable(...) makes one of it"
    if isinstance(items, Iterable) and not isinstance(items, str | bytes):
        return "; Stream.from_iterable(...) makes one of it"
    return ""


class _Unmade(EndedSubscription):
    """The subscription a failure is told of with: not `ENDED`, which to a stage says that its source is through."""

    __slots__ = ("cancelled",)

    def __init__(self) -> None:
        self.cancelled = False

    def cancel(self) -> None:
        """Want to hear nothing, the failure included (3.12)."""
        self.cancelled = True


def subscribe_failed(subscriber: Subscriber[R], error: BaseException) -> None:
    """Tell a subscriber that its subscription could not be made: `on_subscribe`, then `on_error` (1.4, 1.9)."""
    subscription = _Unmade()
    subscriber.on_subscribe(subscription)
    if not subscription.cancelled:
        subscriber.on_error(error)
