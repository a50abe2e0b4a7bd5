"""Subscriptions without a source: for a stage that has none, and before a failure."""

from __future__ import annotations

from typing import TypeVar

from rstreams._core.claims import NO_HOLD
from rstreams.abc import Hold, Subscriber
from rstreams.errors import SpecViolation

R = TypeVar("R")


class EndedSubscription:
    """The subscription of a stage that has no source, not yet or not any more; all its calls do nothing."""

    __slots__ = ()

    def request(self, n: int) -> None:
        """Do nothing: no items come (3.6)."""

    def cancel(self) -> None:
        """Do nothing (3.7)."""

    def hold(self) -> Hold:
        """Return a hold that does nothing."""
        return NO_HOLD


ENDED = EndedSubscription()


def checked_error(error: BaseException | None) -> BaseException:
    """Return the argument of `on_error`, or an error for None, which would look like success and breaks rule 2.13."""
    return SpecViolation("2.13", "on_error takes an exception, not None") if error is None else error


class _Unmade(EndedSubscription):
    """The subscription that comes before a failure. `ENDED` would tell a stage that its source has ended."""

    __slots__ = ("cancelled",)

    def __init__(self) -> None:
        self.cancelled = False

    def cancel(self) -> None:
        """Stop all further signals; the failure is not signalled either (3.12)."""
        self.cancelled = True


def subscribe_failed(subscriber: Subscriber[R], error: BaseException) -> None:
    """Tell a subscriber that its subscription could not be made: `on_subscribe`, then `on_error` (1.4, 1.9)."""
    subscription = _Unmade()
    subscriber.on_subscribe(subscription)
    if not subscription.cancelled:
        subscriber.on_error(error)
