"""The publisher that is verified: how it is made, its abilities, and the parts of its tests."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from rstreams._core.demand import UNBOUNDED
from rstreams.abc import Publisher
from rstreams.testing.verification._ends import Recorder
from rstreams.testing.verification._rules import Rule, Verification

T = TypeVar("T")


class PublisherUnderTest(Verification, Generic[T]):
    """The settings of a publisher's verification; a subclass makes the publisher."""

    @abstractmethod
    def create_publisher(self, elements: int) -> Publisher[T]:
        """Return a publisher of exactly `elements` items, or of at least as many if yours never completes.

        Never called for more than `max_elements_from_publisher` or less than `min_elements_from_publisher`.
        """

    def create_failed_publisher(self) -> Publisher[T] | None:
        """Return a publisher that fails each subscription at once; None if yours cannot fail."""
        return None

    @property
    def max_elements_from_publisher(self) -> int:
        """The most items it can emit before it completes; `UNBOUNDED`, 2^63-1, if it never completes."""
        return UNBOUNDED - 1

    @property
    def min_elements_from_publisher(self) -> int:
        """The fewest items it can emit."""
        return 0

    @property
    def signals_completion(self) -> bool:
        """Whether it completes."""
        return self.max_elements_from_publisher < UNBOUNDED

    @property
    def bounded_depth_of_on_next_and_request_recursion(self) -> int:
        """How many calls of `on_next` may be open at a time, when each requests one more item (3.3)."""
        return 1

    @property
    def strictly_serial(self) -> bool:
        """Whether no signal may come while another is handled, even in the same thread: more than the TCK asks."""
        return False

    @property
    def stops_at_once(self) -> bool:
        """Whether no signal may follow a cancel: more than the specification asks, which says "eventually" (3.12)."""
        return False

    @property
    def wrong_demands(self) -> Sequence[Any]:
        """The values besides 0 that `request` must answer with an error."""
        return (-1, -(2**31), -(2**63))

    def lacks(self, verified: Rule) -> str:
        """Compare the rule's needs with the publisher's abilities."""
        if verified.elements > self.max_elements_from_publisher:
            return f"needs {verified.elements} item(s), and it has at most {self.max_elements_from_publisher}"
        if verified.fewest is not None and verified.fewest < self.min_elements_from_publisher:
            return f"needs {verified.fewest} item(s), and it has at least {self.min_elements_from_publisher}"
        if verified.completion and not self.signals_completion:
            return "needs completion, which it never signals"
        if verified.failure and not self.can_fail:
            return "needs a failing publisher, and it has no way of failing"
        return ""

    @property
    def can_fail(self) -> bool:
        """Whether `create_failed_publisher` is written."""
        return type(self).create_failed_publisher is not PublisherUnderTest.create_failed_publisher

    # the parts of the tests

    def up_to(self, elements: int) -> int:
        """Return `elements`, or the nearest number that the publisher can emit."""
        return max(min(elements, self.max_elements_from_publisher), self.min_elements_from_publisher)

    def make(self, elements: int) -> Publisher[T]:
        """Return a publisher, made where it lives."""
        return self.env.act(lambda: self.create_publisher(elements))

    def failed(self) -> Publisher[T]:
        """Return a failing publisher, made where it lives."""
        publisher = self.env.act(self.create_failed_publisher)
        assert publisher is not None
        return publisher

    def subscribe(
        self, publisher: Publisher[T], *at_first: int, on_item: Callable[[Recorder[T]], object] | None = None
    ) -> Recorder[T]:
        """Return a subscriber that has its subscription."""
        recorder = Recorder[T](self.env, *at_first, on_item=on_item, strictly_serial=self.strictly_serial)
        self.env.act(lambda: publisher.subscribe(recorder))
        self.expect(lambda: recorder.subscription, "subscribe was not answered by on_subscribe (1.9)")
        return recorder

    def request(self, recorder: Recorder[T], n: int) -> None:
        """Request, and run everything that follows."""
        self.env.act(lambda: recorder.request(n))

    def expect_items(self, recorder: Recorder[T], count: int) -> None:
        """Expect exactly `count` items by now."""
        self.expect(lambda: len(recorder.items) >= count, f"{count} items expected, {len(recorder.items)} came")
        self.env.settle()
        assert len(recorder.items) == count, f"{count} items expected, {len(recorder.items)} came"

    def expect_completion(self, recorder: Recorder[T]) -> None:
        """Expect `on_complete`; a publisher that looks for its end only at a request gets one more."""
        self.env.settle()
        if not recorder.ended:
            self.request(recorder, 1)
        self.expect(lambda: recorder.ended, f"no on_complete after {len(recorder.items)} items")
        assert recorder.completed, f"on_complete expected, {recorder.error!r} came"

    def expect_error(self, recorder: Recorder[T]) -> BaseException:
        """Expect `on_error`."""
        self.expect(lambda: recorder.ended, f"no on_error after {recorder.signals}")
        assert recorder.error is not None, "on_error expected, on_complete came"
        return recorder.error
