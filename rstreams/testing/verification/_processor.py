"""Chapter 4 of the specification: a processor obeys the rules of both its sides, and passes errors on."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Generic, TypeVar

from rstreams.abc import Publisher, Subscriber, Subscription
from rstreams.operators.concat import concat
from rstreams.operators.map import map as map_
from rstreams.sources.fail import fail
from rstreams.sources.from_iterable import from_iterable
from rstreams.testing.verification._ends import HelperPublisher, VerificationError
from rstreams.testing.verification._publisher import PublisherVerification
from rstreams.testing.verification._rules import rule
from rstreams.testing.verification._subscriber_whitebox import (
    PuppetOf,
    SubscriberWhiteboxVerification,
    WhiteboxProbe,
)

T = TypeVar("T")


class IdentityProcessorVerification(PublisherVerification[T], SubscriberWhiteboxVerification[T]):
    """The rules of both sides, for a processor that passes on each item unchanged; subclass it as `TestMyProcessor`.

    Spec: Reactive Streams 4.1 and 4.2, as in the TCK's IdentityProcessorVerification.
    """

    @abstractmethod
    def create_identity_processor(self, source: Publisher[T]) -> Publisher[T]:
        """Return the downstream side of your processor over the upstream `source`.

        An operator is applied to `source`; a `Processor` object is subscribed to `source`, and returned.
        """

    @property
    def does_coordinated_emission(self) -> bool:
        """Whether an item is emitted only when all of its subscribers have requested."""
        return False

    # the parts of both sides

    def create_helper_publisher(self, elements: int) -> Publisher[T]:
        """Return the publisher upstream: `elements` items."""
        return from_iterable([self.create_element(number) for number in range(1, elements + 1)])

    def create_publisher(self, elements: int) -> Publisher[T]:
        """Return the processor, over a publisher of `elements` items."""
        return self.create_identity_processor(self.create_helper_publisher(elements))

    def create_failed_publisher(self) -> Publisher[T] | None:
        """Return the processor, over a failing publisher."""
        return self.create_identity_processor(fail(VerificationError("failed")))

    def create_subscriber(self, probe: WhiteboxProbe[T]) -> Subscriber[T]:
        """Return the processor's upper side; the lower one tells the probe."""
        upper_side = UpperSide[T]()
        self.create_identity_processor(upper_side).subscribe(_Telling(probe))
        return upper_side

    # the tests of a processor

    @rule("1.4")
    def test_required_spec104_must_call_on_error_on_all_its_subscribers_if_it_encounters_a_non_recoverable_error(
        self,
    ) -> None:
        source, processor = self._processor()
        first, second = self.subscribe(processor), self.subscribe(processor)
        asking = [first, second] if self.does_coordinated_emission else [first]
        for recorder in asking:
            self.request(recorder, 1)
        item = self._send(source)
        for recorder in asking:
            self.expect_items(recorder, 1)
            assert recorder.items == [item]
            self.request(recorder, 1)
        error = VerificationError("1.4")
        self.env.act(lambda: source.fail(error))
        for recorder in (first, second):
            assert self.is_same_error(error, self.expect_error(recorder))

    @rule("4.2")
    def test_must_immediately_pass_on_on_error_events_received_from_its_upstream_to_its_downstream(self) -> None:
        source, processor = self._processor()
        recorder = self.subscribe(processor)
        error = VerificationError("4.2")
        self.env.act(lambda: source.fail(error))
        assert self.is_same_error(error, self.expect_error(recorder))

    @rule("")
    def test_required_an_error_must_come_behind_the_items_that_came_before_it(self) -> None:
        """Not in the TCK, but a law of rstreams: an error takes the place of the completion, whatever the source."""
        items = [self.create_element(number) for number in range(1, 4)]
        for make in (_failing, _failing_in_a_loop, _failing_in_a_stage):
            for requests in ([10], [1, 1, 1, 1]):
                error = VerificationError("items before an error")
                recorder = self.subscribe(self.env.act(lambda: self.create_identity_processor(make(items, error))))  # noqa: B023 - called at once
                for count, n in enumerate(requests, 1):
                    self.request(recorder, n)
                    if n == 1 and count <= len(items):
                        self.expect_items(recorder, count)
                assert self.is_same_error(error, self.expect_error(recorder))
                assert recorder.items == items, f"lost before an error: {items[len(recorder.items) :]}"

    @rule("2.1")
    def test_required_must_request_from_upstream_for_elements_that_have_been_requested_long_ago(self) -> None:
        source, processor = self._processor()
        first = self.subscribe(processor)
        self.request(first, 20)
        for count in (1, 2):
            self._send(source)
            self.expect_items(first, count)
        second = self.subscribe(processor)
        if self.does_coordinated_emission:
            self.request(second, 1)
        last = self._send(source)
        self.expect_items(first, 3)
        assert first.items[-1] == last
        if not self.does_coordinated_emission:
            assert second.items == [], "an item came before the first request"
            self.request(second, 1)
            if self.env.until(lambda: len(source.subscriptions) > 1 and source.subscriptions[1].outstanding):
                self._send(source)  # a subscriber of its own subscription upstream
        self.expect_items(second, 1)
        self.env.act(source.complete)
        for recorder in (first, second):
            self.expect(lambda recorder=recorder: recorder.completed, "no on_complete")  # type: ignore[misc]

    def _processor(self) -> tuple[HelperPublisher[T], Publisher[T]]:
        source = HelperPublisher[T](self.env)
        return source, self.env.act(lambda: self.create_identity_processor(source))

    def _send(self, source: HelperPublisher[T]) -> T:
        self.expect(lambda: any(each.outstanding > 0 for each in source.subscriptions), "no request came upstream")
        item = self.create_element(sum(each.sent for each in source.subscriptions) + 1)
        self.env.act(lambda: source.send(item))
        return item


def _failing(items: Sequence[T], error: Exception) -> Publisher[T]:
    def until_it_fails() -> Iterator[T]:
        yield from items
        raise error

    return from_iterable(until_it_fails())


def _failing_in_a_loop(items: Sequence[T], error: Exception) -> Publisher[T]:
    return map_(_failing(items, error), lambda item: item)


def _failing_in_a_stage(items: Sequence[T], error: Exception) -> Publisher[T]:
    return concat(from_iterable(items), fail(error))


class UpperSide(Generic[T]):
    """The source of the tested processor, and then its upper side: signals of the test here go to its subscriber.

    A processor at the other end of a network subscribes to its source later than it is subscribed to.
    """

    def __init__(self) -> None:
        self._subscriber: Subscriber[T] | None = None

    def subscribe(self, subscriber: Subscriber[T]) -> None:
        """Take the processor's upper side; it gets its subscription from the test."""
        self._subscriber = subscriber

    def on_subscribe(self, subscription: Subscription) -> None:
        """Pass it on."""
        self._upper_side.on_subscribe(subscription)

    def on_next(self, item: T) -> None:
        """Pass it on."""
        self._upper_side.on_next(item)

    def on_error(self, error: BaseException) -> None:
        """Pass it on."""
        self._upper_side.on_error(error)

    def on_complete(self) -> None:
        """Pass it on."""
        self._upper_side.on_complete()

    @property
    def _upper_side(self) -> Subscriber[T]:
        assert self._subscriber is not None, "the processor has not subscribed to its source"
        return self._subscriber


class _Telling(Generic[T]):
    """A subscriber downstream that reports its signals to the probe."""

    def __init__(self, probe: WhiteboxProbe[T]) -> None:
        self._probe = probe

    def on_subscribe(self, subscription: Subscription) -> None:
        if subscription is None:
            msg = "on_subscribe takes a Subscription, not None (2.13)"
            raise TypeError(msg)
        self._probe.register_on_subscribe(PuppetOf(subscription))

    def on_next(self, item: T) -> None:
        self._probe.register_on_next(item)

    def on_error(self, error: BaseException) -> None:
        if error is None:
            msg = "on_error takes an exception, not None (2.13)"
            raise TypeError(msg)
        self._probe.register_on_error(error)

    def on_complete(self) -> None:
        self._probe.register_on_complete()
