"""Chapter 2 of the specification, for a subscriber that can only be seen from outside."""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Callable
from typing import TypeVar, cast

from rstreams.abc import Subscriber, Subscription
from rstreams.testing.verification._ends import Upstream, VerificationError
from rstreams.testing.verification._rules import NULL_REFUSED, UNTESTED, rule
from rstreams.testing.verification._subscriber_whitebox import (
    A_RIGHT_OF_PUBLISHERS,
    BETWEEN_THREADS,
    SIGNALS_ARE_CALLS,
    SubscriberTests,
    TestedSubscriber,
)

T = TypeVar("T")

NOTHING_TO_CALL = f"{UNTESTED}: a black box cannot be told to do it"


class SubscriberBlackboxVerification(SubscriberTests[T]):
    """The subscriber's rules, as far as they show from outside; subclass it as `TestMySubscriber`.

    Spec: Reactive Streams 2.1-2.13 and 3.1-3.16, as in the TCK's SubscriberBlackboxVerification.
    """

    @abstractmethod
    def create_subscriber(self) -> Subscriber[T]:
        """Return a new subscriber."""

    def trigger_request(self, subscriber: Subscriber[T]) -> None:
        """Have `subscriber` request, if it does not by itself."""

    def error_of(self, subscriber: Subscriber[T]) -> BaseException | None:
        """Return the error of `subscriber`, if it can be seen."""
        del subscriber
        return None

    def is_same_error(self, sent: BaseException, seen: BaseException) -> bool:
        """Tell whether the error seen is the one sent."""
        return seen is sent

    # the parts of the tests

    def stage(self) -> TestedSubscriber[T]:
        """Return a subscriber with its subscription."""
        return TestedSubscriber(self, self.env.act(self.create_subscriber), Upstream(self.env))

    def requested(self) -> TestedSubscriber[T]:
        """Return a subscriber that has requested."""
        stage = self.stage()
        self.env.act(lambda: self.trigger_request(stage.subscriber))
        stage.expect_request()
        return stage

    # the tests

    @rule("2.1")
    def test_required_spec201_blackbox_must_signal_demand_via_subscription_request(self) -> None:
        stage = self.requested()
        for _ in range(min(stage.upstream.requested, 512)):
            if not stage.upstream.cancelled:
                stage.signal_next()
        stage.signal(lambda subscriber: subscriber.on_complete())

    @rule("2.2", untested=SIGNALS_ARE_CALLS)
    def test_untested_spec202_blackbox_should_asynchronously_dispatch(self) -> None: ...

    @rule("2.3")
    def test_required_spec203_blackbox_must_not_call_methods_on_subscription_or_publisher_in_on_complete(self) -> None:
        self._leaves_the_subscription_alone(lambda subscriber: subscriber.on_complete())

    @rule("2.3")
    def test_required_spec203_blackbox_must_not_call_methods_on_subscription_or_publisher_in_on_error(self) -> None:
        self._leaves_the_subscription_alone(lambda subscriber: subscriber.on_error(VerificationError("2.3")))

    def _leaves_the_subscription_alone(self, end: Callable[[Subscriber[T]], None]) -> None:
        for stage in (self.stage(), self.requested()):
            calls = list(stage.upstream.calls)
            stage.signal(end)
            assert stage.upstream.calls == calls

    @rule("2.4", untested=NOTHING_TO_CALL)
    def test_untested_spec204_blackbox_must_consider_the_subscription_as_cancelled_in_after_recieving_on_complete_or_on_error(  # noqa: E501 - the TCK's own name
        self,
    ) -> None: ...

    @rule("2.5")
    def test_required_spec205_blackbox_must_call_subscription_cancel_if_it_already_has_an_subscription_and_receives_another_on_subscribe_signal(  # noqa: E501
        self,
    ) -> None:
        stage, second = self.stage(), Upstream(self.env)
        stage.signal(lambda subscriber: subscriber.on_subscribe(second))
        self.expect(lambda: second.cancelled, "the second subscription was not cancelled")
        assert second.requested == 0
        assert not stage.upstream.cancelled, "the first subscription was cancelled"

    @rule("2.6", untested=NOTHING_TO_CALL)
    def test_untested_spec206_blackbox_must_call_subscription_cancel_if_it_is_no_longer_valid(self) -> None: ...

    @rule("2.7")
    def test_untested_spec207_blackbox_must_ensure_all_calls_on_its_subscription_take_place_from_the_same_thread_or_take_care_of_synchronization(  # noqa: E501
        self,
    ) -> None:
        stage = self.requested()
        stage.signal_next()
        assert len(stage.upstream.threads) == 1

    @rule("2.8", untested=NOTHING_TO_CALL)
    def test_untested_spec208_blackbox_must_be_prepared_to_receive_on_next_signals_after_having_called_subscription_cancel(  # noqa: E501
        self,
    ) -> None: ...

    @rule("2.9")
    def test_required_spec209_blackbox_must_be_prepared_to_receive_an_on_complete_signal_with_preceding_request_call(
        self,
    ) -> None:
        self.requested().signal(lambda subscriber: subscriber.on_complete())

    @rule("2.9")
    def test_required_spec209_blackbox_must_be_prepared_to_receive_an_on_complete_signal_without_preceding_request_call(
        self,
    ) -> None:
        self.stage().signal(lambda subscriber: subscriber.on_complete())

    @rule("2.10")
    def test_required_spec210_blackbox_must_be_prepared_to_receive_an_on_error_signal_with_preceding_request_call(
        self,
    ) -> None:
        self._fails(self.requested())

    @rule("2.10")
    def test_required_spec210_blackbox_must_be_prepared_to_receive_an_on_error_signal_without_preceding_request_call(
        self,
    ) -> None:
        self._fails(self.stage())

    def _fails(self, stage: TestedSubscriber[T]) -> None:
        error = VerificationError("2.10")
        stage.signal(lambda subscriber: subscriber.on_error(error))
        seen = self.error_of(stage.subscriber)
        assert seen is None or self.is_same_error(error, seen), f"{error!r} was sent, {seen!r} is seen"

    @rule("2.11", untested=BETWEEN_THREADS)
    def test_untested_spec211_blackbox_must_make_sure_that_all_calls_on_its_methods_happen_before_the_processing_of_the_respective_events(  # noqa: E501
        self,
    ) -> None: ...

    @rule("2.12")
    def test_untested_spec212_blackbox_must_not_call_on_subscribe_more_than_once_based_on_object_equality(self) -> None:
        """The same subscriber subscribed twice goes on with the first subscription."""
        stage = self.stage()
        stage.signal(lambda subscriber: subscriber.on_subscribe(Upstream(self.env)))
        self.env.act(lambda: self.trigger_request(stage.subscriber))
        stage.expect_request()
        stage.signal_next()

    @rule("2.13")
    def test_untested_spec213_blackbox_failing_on_signal_invocation(self) -> None:
        """Every signal returns normally, also one that comes too late."""
        stage = self.requested()
        stage.signal_next()
        stage.signal(lambda subscriber: subscriber.on_complete())
        stage.signal(lambda subscriber: subscriber.on_error(VerificationError("late")))
        stage.signal(lambda subscriber: subscriber.on_complete())
        stage.signal_next()

    @rule("2.13")
    def test_required_spec213_blackbox_on_subscribe_must_throw_null_pointer_exception_when_parameters_are_null(
        self,
    ) -> None:
        subscriber = self.env.act(self.create_subscriber)
        self.refuses_none(lambda: subscriber.on_subscribe(cast("Subscription", None)))

    @rule("2.13")
    def test_required_spec213_blackbox_on_next_must_throw_null_pointer_exception_when_parameters_are_null(self) -> None:
        """None is an item like any other in Python: it is taken as one, or refused."""
        stage = self.requested()
        stage.upstream.sent += 1
        error = self.tried(lambda: stage.subscriber.on_next(cast("T", None)))
        assert error is None or isinstance(error, NULL_REFUSED)

    @rule("2.13")
    def test_required_spec213_blackbox_on_error_must_throw_null_pointer_exception_when_parameters_are_null(
        self,
    ) -> None:
        """It is refused, or taken as a failure."""
        stage = self.stage()
        error = self.tried(lambda: stage.subscriber.on_error(cast("BaseException", None)))
        seen = error or self.error_of(stage.subscriber)
        assert isinstance(seen, Exception), "on_error(None) was neither refused nor taken for a failure"

    @rule("3.1")
    def test_untested_spec301_blackbox_must_not_be_called_outside_subscriber_context(self) -> None:
        assert self.requested().upstream.threads == {self.env.call(threading.get_ident)}

    @rule("3.8")
    def test_untested_spec308_blackbox_request_must_register_given_number_elements_to_be_produced(self) -> None:
        stage = self.requested()
        for _ in range(min(stage.upstream.outstanding, 10)):
            stage.signal_next()

    @rule("3.10")
    def test_untested_spec310_blackbox_request_may_synchronously_call_on_next_on_subscriber(self) -> None:
        self._answered(lambda subscriber: subscriber.on_next(self.create_element(1)))

    @rule("3.11")
    def test_untested_spec311_blackbox_request_may_synchronously_call_on_complete_or_on_error(self) -> None:
        self._answered(lambda subscriber: subscriber.on_complete())
        self._answered(lambda subscriber: subscriber.on_error(VerificationError("3.11")))

    def _answered(self, answer: Callable[[Subscriber[T]], None]) -> None:
        answered: list[None] = []

        def once(_: int) -> None:
            if not answered:
                answered.append(None)
                answer(subscriber)

        subscriber = self.env.act(self.create_subscriber)
        self.env.act(lambda: subscriber.on_subscribe(Upstream(self.env, once)))
        self.env.act(lambda: self.trigger_request(subscriber))
        self.expect(lambda: answered, "no request came")

    @rule("3.14", untested=A_RIGHT_OF_PUBLISHERS)
    def test_untested_spec314_blackbox_cancel_may_cause_the_publisher_to_shutdown_if_no_other_subscription_exists(
        self,
    ) -> None: ...

    @rule("3.15", untested=NOTHING_TO_CALL)
    def test_untested_spec315_blackbox_cancel_must_not_throw_exception_and_must_signal_on_error(self) -> None: ...

    @rule("3.16", untested=NOTHING_TO_CALL)
    def test_untested_spec316_blackbox_request_must_not_throw_exception_and_must_on_error_the_subscriber(
        self,
    ) -> None: ...
