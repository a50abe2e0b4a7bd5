"""Chapter 2 of the specification, for a subscriber that tells the test its signals and obeys the test."""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar, cast

from rstreams.abc import Subscriber, Subscription
from rstreams.testing.verification._ends import Upstream, VerificationError
from rstreams.testing.verification._environment import Environment
from rstreams.testing.verification._rules import NULL_REFUSED, UNTESTED, Verification, rule

T = TypeVar("T")

BETWEEN_THREADS = f"{UNTESTED}: it is about what one thread sees of another"
A_RIGHT_OF_PUBLISHERS = f"{UNTESTED}: a right of publishers, which a subscriber cannot break"
SIGNALS_ARE_CALLS = f"{UNTESTED}: it is about a subscriber with heavy work, which no signal shows"


class SubscriberPuppet(Protocol):
    """The way in which the test controls the subscriber."""

    def trigger_request(self, elements: int) -> None:
        """Have the subscriber request."""
        ...

    def signal_cancel(self) -> None:
        """Have the subscriber cancel."""
        ...


class WhiteboxProbe(Generic[T]):
    """The signals that the subscriber has reported; it calls the four methods."""

    def __init__(self, env: Environment) -> None:
        self.puppet: SubscriberPuppet | None = None
        self.items: list[T] = []
        self.error: BaseException | None = None
        self.completed = False
        self._env = env

    @property
    def ended(self) -> bool:
        """Tell whether a terminal signal was received."""
        return self.completed or self.error is not None

    def register_on_subscribe(self, puppet: SubscriberPuppet) -> None:
        """Tell that the first subscription came."""
        if self.puppet is not None:
            self._env.violate("2.5", "the subscriber took a second subscription")
        self.puppet = puppet

    def register_on_next(self, item: T) -> None:
        """Tell that an item came."""
        self.items.append(item)

    def register_on_error(self, error: BaseException) -> None:
        """Tell that the failure came."""
        if self.ended:
            self._env.violate("1.7", "on_error was registered after the end")
        self.error = error

    def register_on_complete(self) -> None:
        """Tell that the end came."""
        if self.ended:
            self._env.violate("1.7", "on_complete was registered after the end")
        self.completed = True


class SubscriberTests(Verification, Generic[T]):
    """The base of the white box and the black box."""

    def create_element(self, element: int) -> T:
        """Return an item to send; `element` counts them from 1. The default sends the number itself."""
        return cast("T", element)


class TestedSubscriber(Generic[T]):
    """The tested subscriber between the subscription that the test watches and the probe."""

    def __init__(self, tests: SubscriberTests[T], subscriber: Subscriber[T], upstream: Upstream) -> None:
        self.upstream = upstream
        self.subscriber = subscriber
        self._tests = tests
        self._seen = 0
        tests.env.act(lambda: subscriber.on_subscribe(upstream))

    def expect_request(self) -> int:
        """Wait for demand not seen before, and return it."""
        self._tests.expect(lambda: self.upstream.requested > self._seen, "no request came")
        new = self.upstream.requested - self._seen
        self._seen = self.upstream.requested
        return new

    def signal_next(self) -> T:
        """Send an item."""
        self.upstream.sent += 1
        item = self._tests.create_element(self.upstream.sent)
        self._tests.env.act(lambda: self.subscriber.on_next(item))
        return item

    def signal(self, signal: Callable[[Subscriber[T]], None]) -> None:
        """Send another signal."""
        self._tests.env.act(lambda: signal(self.subscriber))

    def expect_cancelling(self) -> None:
        """Wait for the cancel."""
        self._tests.expect(lambda: self.upstream.cancelled, "no cancel came")


class SubscriberWhiteboxVerification(SubscriberTests[T]):
    """The subscriber's rules, for one that can be watched and controlled; subclass it as `TestMySubscriber`.

    Spec: Reactive Streams 2.1-2.13 and 3.1-3.16, as in the TCK's SubscriberWhiteboxVerification.
    """

    @abstractmethod
    def create_subscriber(self, probe: WhiteboxProbe[T]) -> Subscriber[T]:
        """Return a new subscriber that registers its signals with `probe`, and gives it a puppet."""

    def is_same_error(self, sent: BaseException, received: BaseException) -> bool:
        """Tell whether the error received is the one sent; across a network it is another object."""
        return received is sent

    # the parts of the tests

    def stage(self, upstream: Upstream | None = None) -> tuple[TestedSubscriber[T], WhiteboxProbe[T]]:
        """Return a subscriber with its subscription, and its probe."""
        probe = WhiteboxProbe[T](self.env)
        subscriber = self.env.act(lambda: self.create_subscriber(probe))
        stage = TestedSubscriber(self, subscriber, upstream or Upstream(self.env))
        self.expect(lambda: probe.puppet, "the subscriber did not register its puppet in on_subscribe")
        return stage, probe

    def trigger_request(self, probe: WhiteboxProbe[T], n: int) -> None:
        """Have the subscriber request."""
        puppet = probe.puppet
        assert puppet is not None
        self.env.act(lambda: puppet.trigger_request(n))

    def signal_cancel(self, probe: WhiteboxProbe[T]) -> None:
        """Have the subscriber cancel."""
        puppet = probe.puppet
        assert puppet is not None
        self.env.act(puppet.signal_cancel)

    def expect_next(self, probe: WhiteboxProbe[T], *items: T) -> None:
        """Expect to have received exactly these items by now."""
        self.expect(lambda: len(probe.items) >= len(items), f"{list(items)} expected, {probe.items} came")
        assert probe.items == list(items)

    def expect_failure(self, probe: WhiteboxProbe[T], sent: BaseException) -> None:
        """Expect to have received the error that was sent."""
        self.expect(lambda: probe.error, "the subscriber did not register on_error")
        assert probe.error is not None
        assert self.is_same_error(sent, probe.error), f"{sent!r} was sent, {probe.error!r} came"

    # the tests

    @rule("")
    def test_required_exercise_whitebox_happy_path(self) -> None:
        stage, probe = self.stage()
        self.trigger_request(probe, 1)
        self.trigger_request(probe, 1)
        requested = stage.expect_request()
        first = stage.signal_next()
        self.expect_next(probe, first)
        self.trigger_request(probe, 1)
        if requested == 1:
            stage.expect_request()
        second = stage.signal_next()
        self.expect_next(probe, first, second)
        self.signal_cancel(probe)
        stage.expect_cancelling()

    @rule("2.1")
    def test_required_spec201_must_signal_demand_via_subscription_request(self) -> None:
        stage, probe = self.stage()
        self.trigger_request(probe, 1)
        stage.expect_request()
        self.expect_next(probe, stage.signal_next())

    @rule("2.2", untested=SIGNALS_ARE_CALLS)
    def test_untested_spec202_should_asynchronously_dispatch(self) -> None: ...

    @rule("2.3")
    def test_required_spec203_must_not_call_methods_on_subscription_or_publisher_in_on_complete(self) -> None:
        self._leaves_the_subscription_alone(lambda subscriber: subscriber.on_complete())

    @rule("2.3")
    def test_required_spec203_must_not_call_methods_on_subscription_or_publisher_in_on_error(self) -> None:
        self._leaves_the_subscription_alone(lambda subscriber: subscriber.on_error(VerificationError("2.3")))

    def _leaves_the_subscription_alone(self, end: Callable[[Subscriber[T]], None]) -> None:
        for demand in (0, 1):
            stage, probe = self.stage()
            if demand:
                self.trigger_request(probe, demand)
            calls = list(stage.upstream.calls)
            stage.signal(end)
            assert stage.upstream.calls == calls

    @rule("2.4")
    def test_untested_spec204_must_consider_the_subscription_as_cancelled_in_after_recieving_on_complete_or_on_error(
        self,
    ) -> None:
        ends: list[Callable[[Subscriber[T]], None]] = [
            lambda subscriber: subscriber.on_complete(),
            lambda subscriber: subscriber.on_error(VerificationError("2.4")),
        ]
        for end in ends:
            stage, probe = self.stage()
            self.trigger_request(probe, 1)
            stage.signal(end)
            self.expect(lambda probe=probe: probe.ended, "the subscriber did not register the end")  # type: ignore[misc]
            calls = list(stage.upstream.calls)
            self.signal_cancel(probe)
            assert "cancel" not in stage.upstream.calls[len(calls) :]

    @rule("2.5")
    def test_required_spec205_must_call_subscription_cancel_if_it_already_has_an_subscription_and_receives_another_on_subscribe_signal(  # noqa: E501 - the TCK's own name
        self,
    ) -> None:
        stage, _ = self.stage()
        second = Upstream(self.env)
        stage.signal(lambda subscriber: subscriber.on_subscribe(second))
        self.expect(lambda: second.cancelled, "the second subscription was not cancelled")
        assert second.requested == 0
        assert not stage.upstream.cancelled, "the first subscription was cancelled"

    @rule("2.6")
    def test_untested_spec206_must_call_subscription_cancel_if_it_is_no_longer_valid(self) -> None:
        stage, probe = self.stage()
        self.signal_cancel(probe)
        stage.expect_cancelling()

    @rule("2.7")
    def test_untested_spec207_must_ensure_all_calls_on_its_subscription_take_place_from_the_same_thread_or_take_care_of_synchronization(  # noqa: E501
        self,
    ) -> None:
        assert len(self._used().threads) == 1

    @rule("2.8")
    def test_required_spec208_must_be_prepared_to_receive_on_next_signals_after_having_called_subscription_cancel(
        self,
    ) -> None:
        stage, probe = self.stage()
        self.trigger_request(probe, 1)
        stage.expect_request()
        self.signal_cancel(probe)
        stage.expect_cancelling()
        stage.signal_next()
        self.trigger_request(probe, 1)
        self.trigger_request(probe, 1)
        assert not probe.ended

    @rule("2.9")
    def test_required_spec209_must_be_prepared_to_receive_an_on_complete_signal_with_preceding_request_call(
        self,
    ) -> None:
        self._completes(1)

    @rule("2.9")
    def test_required_spec209_must_be_prepared_to_receive_an_on_complete_signal_without_preceding_request_call(
        self,
    ) -> None:
        self._completes(0)

    def _completes(self, demand: int) -> None:
        stage, probe = self.stage()
        if demand:
            self.trigger_request(probe, demand)
        stage.signal(lambda subscriber: subscriber.on_complete())
        self.expect(lambda: probe.completed, "the subscriber did not register on_complete")

    @rule("2.10")
    def test_required_spec210_must_be_prepared_to_receive_an_on_error_signal_with_preceding_request_call(self) -> None:
        self._fails(2)

    @rule("2.10")
    def test_required_spec210_must_be_prepared_to_receive_an_on_error_signal_without_preceding_request_call(
        self,
    ) -> None:
        self._fails(0)

    def _fails(self, demand: int) -> None:
        stage, probe = self.stage()
        if demand:
            self.trigger_request(probe, demand)
        error = VerificationError("2.10")
        stage.signal(lambda subscriber: subscriber.on_error(error))
        self.expect_failure(probe, error)

    @rule("2.11", untested=BETWEEN_THREADS)
    def test_untested_spec211_must_make_sure_that_all_calls_on_its_methods_happen_before_the_processing_of_the_respective_events(  # noqa: E501
        self,
    ) -> None: ...

    @rule("2.12")
    def test_untested_spec212_must_not_call_on_subscribe_more_than_once_based_on_object_equality_spec_violation(
        self,
    ) -> None:
        stage, probe = self.stage()
        stage.signal(lambda subscriber: subscriber.on_subscribe(Upstream(self.env)))
        # A second registration would be a violation; and the first subscription goes on.
        self.trigger_request(probe, 1)
        stage.expect_request()
        self.expect_next(probe, stage.signal_next())

    @rule("2.13")
    def test_untested_spec213_failing_on_signal_invocation(self) -> None:
        """Every signal returns normally, also one that comes too late."""
        stage, probe = self.stage()
        self.trigger_request(probe, 2)
        stage.signal_next()
        stage.signal(lambda subscriber: subscriber.on_complete())
        stage.signal(lambda subscriber: subscriber.on_error(VerificationError("late")))
        stage.signal(lambda subscriber: subscriber.on_complete())
        stage.signal_next()
        assert probe.completed

    @rule("2.13")
    def test_required_spec213_on_subscribe_must_throw_null_pointer_exception_when_parameters_are_null(self) -> None:
        probe = WhiteboxProbe[T](self.env)
        subscriber = self.env.act(lambda: self.create_subscriber(probe))
        self.refuses_none(lambda: subscriber.on_subscribe(cast("Subscription", None)))

    @rule("2.13")
    def test_required_spec213_on_next_must_throw_null_pointer_exception_when_parameters_are_null(self) -> None:
        """None is an item like any other in Python: it is taken as one or refused, and never ignored."""
        stage, probe = self.stage()
        self.trigger_request(probe, 1)
        stage.upstream.sent += 1
        refused = self.tried(lambda: stage.subscriber.on_next(cast("T", None)))
        if not isinstance(refused, NULL_REFUSED):
            assert refused is None
            self.expect(lambda: probe.items or probe.error, "None was neither taken nor refused")
            assert probe.error is not None or probe.items == [None]

    @rule("2.13")
    def test_required_spec213_on_error_must_throw_null_pointer_exception_when_parameters_are_null(self) -> None:
        """It is refused, or reported as a failure; it must not look like success."""
        stage, probe = self.stage()
        refused = self.tried(lambda: stage.subscriber.on_error(cast("BaseException", None)))
        if not isinstance(refused, NULL_REFUSED):
            assert refused is None
            self.expect(lambda: isinstance(probe.error, Exception), "on_error(None) was neither refused nor a failure")
        assert not probe.completed

    @rule("3.1")
    def test_untested_spec301_must_not_be_called_outside_subscriber_context(self) -> None:
        assert self._used().threads == {self.env.call(threading.get_ident)}

    def _used(self) -> Upstream:
        stage, probe = self.stage()
        for _ in range(3):
            self.trigger_request(probe, 1)
        stage.expect_request()
        stage.signal_next()
        self.signal_cancel(probe)
        stage.expect_cancelling()
        return stage.upstream

    @rule("3.8")
    def test_required_spec308_request_must_register_given_number_elements_to_be_produced(self) -> None:
        stage, probe = self.stage()
        self.trigger_request(probe, 2)
        requested = stage.expect_request()
        first = stage.signal_next()
        self.expect_next(probe, first)
        if requested < 2:
            stage.expect_request()
        second = stage.signal_next()
        self.expect_next(probe, first, second)
        self.trigger_request(probe, 3)
        assert probe.items == [first, second]

    @rule("3.10")
    def test_untested_spec310_request_may_synchronously_call_on_next_on_subscriber(self) -> None:
        stage, probe = self.stage()
        stage.upstream.on_request = lambda n: self._answer(stage, n)
        self.trigger_request(probe, 3)
        self.expect_next(probe, *[self.create_element(number) for number in (1, 2, 3)])

    def _answer(self, stage: TestedSubscriber[T], n: int) -> None:
        for _ in range(min(n, 3 - stage.upstream.sent)):
            stage.upstream.sent += 1
            stage.subscriber.on_next(self.create_element(stage.upstream.sent))

    @rule("3.11")
    def test_untested_spec311_request_may_synchronously_call_on_complete_or_on_error(self) -> None:
        for error in (None, VerificationError("3.11")):
            stage, probe = self.stage()
            stage.upstream.on_request = lambda _, stage=stage, error=error: (
                stage.subscriber.on_complete() if error is None else stage.subscriber.on_error(error)
            )
            self.trigger_request(probe, 1)
            self.expect(lambda probe=probe: probe.ended, "the subscriber did not register the end")  # type: ignore[misc]
            assert probe.completed == (error is None)

    @rule("3.14", untested=A_RIGHT_OF_PUBLISHERS)
    def test_untested_spec314_cancel_may_cause_the_publisher_to_shutdown_if_no_other_subscription_exists(
        self,
    ) -> None: ...

    @rule("3.15")
    def test_untested_spec315_cancel_must_not_throw_exception_and_must_signal_on_error(self) -> None:
        _, probe = self.stage()
        for _ in range(3):
            self.signal_cancel(probe)
        assert not probe.ended

    @rule("3.16")
    def test_untested_spec316_request_must_not_throw_exception_and_must_on_error_the_subscriber(self) -> None:
        _, probe = self.stage()
        self.trigger_request(probe, 1)
        self.signal_cancel(probe)
        self.trigger_request(probe, 1)
        assert not probe.ended


class PuppetOf:
    """The puppet of a subscriber whose subscription the test may use itself."""

    def __init__(self, subscription: Subscription) -> None:
        self._subscription = subscription

    def trigger_request(self, elements: int) -> None:
        """Request."""
        self._subscription.request(elements)

    def signal_cancel(self) -> None:
        """Cancel."""
        self._subscription.cancel()
