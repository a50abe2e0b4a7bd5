"""TestPublisher: a `ManualPublisher` with assertions about its subscriber, which can be told to misbehave."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Literal, TypeAlias, TypeVar

from rstreams._core.demand import UNBOUNDED
from rstreams.errors import ConfigError
from rstreams.testing.probes import ManualPublisher

__all__ = ["Misbehaviour", "TestPublisher"]

T = TypeVar("T")

Misbehaviour: TypeAlias = Literal["without_demand", "after_end"]
"""The mistakes that a `TestPublisher` can be allowed: send without demand (1.1), send after its end (1.7)."""


class TestPublisher(ManualPublisher[T]):
    """A publisher that the test plays, with assertions about the demand that reaches it.

    By itself it keeps the rules: an item without demand, or a signal after its end, fails the test that sends it.

    Args:
        misbehave: The mistakes that it may make, to see how a subscriber reacts.
        on_request: As of `ManualPublisher`.
    """

    __test__: ClassVar[bool] = False  # its name is not that of a test class

    def __init__(self, *misbehave: Misbehaviour, on_request: Callable[[int], object] | None = None) -> None:
        super().__init__(on_request)
        unknown = [each for each in misbehave if each not in ("without_demand", "after_end")]
        if unknown:
            msg = f"TestPublisher({unknown[0]!r}): it must be 'without_demand' or 'after_end'"
            raise ConfigError(msg)
        self._misbehave = frozenset(misbehave)
        self._ended = False
        self._most_outstanding = 0

    # signals

    def next(self, *items: T) -> None:
        """Send items, as `ManualPublisher.next`."""
        for item in items:
            self._check_not_ended(f"next({item!r})")
            if self.outstanding < 1 and "without_demand" in self._misbehave:
                self.requested += 1  # for the count of the base class: it was not requested
            super().next(item)

    def error(self, error: BaseException) -> None:
        """Send `on_error`."""
        self._check_not_ended(f"error({error!r})")
        self._ended = True
        super().error(error)

    def complete(self) -> None:
        """Send `on_complete`."""
        self._check_not_ended("complete()")
        self._ended = True
        super().complete()

    def request(self, n: int) -> None:
        """Record demand."""
        super().request(n)
        self._most_outstanding = max(self._most_outstanding, self.outstanding)

    # assertions about its subscriber

    def assert_subscribed(self) -> None:
        """Assert that there was a subscriber."""
        assert self.subscriptions, "nobody has subscribed"

    def assert_requested(self, items: int) -> None:
        """Assert that exactly `items` items have been requested in all."""
        assert self.requested == items, f"{items} items should have been requested; it was {self._requests()}"

    def assert_min_requested(self, items: int) -> None:
        """Assert that at least `items` items have been requested."""
        assert self.requested >= items, f"{items} items or more should have been requested; it was {self._requests()}"

    def assert_max_outstanding(self, items: int) -> None:
        """Assert that at most `items` items were requested and not yet sent, at any time."""
        most = self._most_outstanding
        assert most <= items, f"at most {items} items should have been outstanding; at one time it was {most}"

    def assert_cancelled(self) -> None:
        """Assert that the subscription was cancelled."""
        assert self.cancelled, "the subscription was not cancelled"

    def assert_not_cancelled(self) -> None:
        """Assert that the subscription was not cancelled."""
        assert not self.cancelled, "the subscription was cancelled"

    def assert_all_done(self) -> None:
        """Assert that every item sent has been acknowledged as done."""
        assert set(self.outcomes) <= {"done"}, f"not every item is done: {self.outcomes}"

    def _requests(self) -> str:
        total = "without limit" if self.requested == UNBOUNDED else str(self.requested)
        return f"{total}, by request({'), request('.join(map(str, self.requests))})" if self.requests else "none"

    def _check_not_ended(self, what: str) -> None:
        if self._ended and "after_end" not in self._misbehave:
            msg = f"{what} comes after the end of the stream (Reactive Streams rule 1.7)"
            raise AssertionError(msg)
