"""Chapters 1 and 3 of the specification: the rules for a publisher and its subscription."""

from __future__ import annotations

import gc
import weakref
from typing import Any, TypeVar

from rstreams._core.demand import UNBOUNDED
from rstreams.abc import Hold, Publisher
from rstreams.errors import DemandError
from rstreams.testing.verification._ends import Recorder
from rstreams.testing.verification._publisher_under_test import PublisherUnderTest
from rstreams.testing.verification._rules import UNTESTED, rule

T = TypeVar("T")

_NO_HOLD = "the subscription needs a method hold(), which returns a Hold, such as rstreams.abc.NO_HOLD"


class PublisherVerification(PublisherUnderTest[T]):
    """The publisher's rules; subclass it as `TestMyPublisher`, with a method that makes yours.

    Spec: Reactive Streams 1.1-1.11 and 3.2-3.17, as in the TCK's PublisherVerification.
    """

    # the settings

    @rule("", elements=1, fewest=1, completion=True)
    def test_required_create_publisher1_must_produce_a_stream_of_exactly1_element(self) -> None:
        self._produces(1)

    @rule("", elements=3, fewest=3, completion=True)
    def test_required_create_publisher3_must_produce_a_stream_of_exactly3_elements(self) -> None:
        self._produces(3)

    def _produces(self, elements: int) -> None:
        recorder = self.subscribe(self.make(elements))
        for count in range(1, elements + 1):
            self.request(recorder, 1)
            self.expect_items(recorder, count)
        self.expect_completion(recorder)
        assert len(recorder.items) == elements

    @rule("")
    def test_required_validate_max_elements_from_publisher(self) -> None:
        assert 0 <= self.min_elements_from_publisher <= self.max_elements_from_publisher <= UNBOUNDED

    @rule("")
    def test_required_validate_bounded_depth_of_on_next_and_request_recursion(self) -> None:
        assert self.bounded_depth_of_on_next_and_request_recursion >= 1

    @rule("")
    def test_required_hold_must_return_a_hold_inside_on_next(self) -> None:
        """Not in the TCK, but a rule for every `rstreams.abc.Subscription`: stages that keep items call it."""
        elements = self.up_to(1)
        holds: list[object] = []
        recorder = self.subscribe(self.make(elements), on_item=lambda me: holds.append(me.hold()))
        assert callable(getattr(recorder.subscription, "hold", None)), _NO_HOLD
        self.request(recorder, 1)
        self.env.settle()
        for hold in holds:
            assert isinstance(hold, Hold), f"{_NO_HOLD}; it returned {hold!r}"
            self.env.act(hold.done)
        self.env.act(recorder.cancel)

    # chapter 1

    @rule("1.1", elements=1)
    def test_required_spec101_subscription_request_must_result_in_the_correct_number_of_produced_elements(self) -> None:
        elements = self.up_to(5)
        recorder = self.subscribe(self.make(elements))
        self.env.settle()
        assert recorder.items == [], "an item came before the first request"
        count = 0
        for requests in [(1,), (1, 2)]:
            for n in requests:
                self.request(recorder, n)
                count = min(count + n, elements)
            self.expect_items(recorder, count)
        assert recorder.error is None

    @rule("1.2", elements=1, completion=True)
    def test_required_spec102_may_signal_less_than_requested_and_terminate_subscription(self) -> None:
        elements = self.up_to(3)
        recorder = self.subscribe(self.make(elements))
        self.request(recorder, 10)
        self.expect_completion(recorder)
        assert recorder.signals == ["on_subscribe", *["on_next"] * elements, "on_complete"]

    @rule("1.3", completion=True)
    def test_stochastic_spec103_must_signal_on_methods_sequentially(self) -> None:
        elements = self.up_to(10)
        for _ in range(self.iterations):
            publisher = self.make(elements)
            # One more than there are items: some publishers look for their end only then.
            recorder = self.subscribe(publisher, 1, on_item=lambda me: me.request(1))
            self.expect_completion(recorder)
            assert len(recorder.items) == elements

    @property
    def iterations(self) -> int:
        """How often a stochastic test is repeated: 1 is enough in virtual time, where every run is the same."""
        return 1

    @rule("1.4", optional=True, failure=True)
    def test_optional_spec104_must_signal_on_error_when_fails(self) -> None:
        recorder = self.subscribe(self.failed())
        self.expect_error(recorder)
        self.env.settle()
        assert recorder.signals == ["on_subscribe", "on_error"]

    @rule("1.5", elements=1, completion=True)
    def test_required_spec105_must_signal_on_complete_when_finite_stream_terminates(self) -> None:
        elements = self.up_to(3)
        recorder = self.subscribe(self.make(elements))
        for count in range(1, elements + 1):
            self.request(recorder, 1)
            self.expect_items(recorder, count)
        self.expect_completion(recorder)
        self.env.settle()
        assert recorder.signals == ["on_subscribe", *["on_next"] * elements, "on_complete"]

    @rule("1.5", optional=True, fewest=0, completion=True)
    def test_optional_spec105_empty_stream_must_terminate_by_signalling_on_complete(self) -> None:
        recorder = self.subscribe(self.make(0))
        self.request(recorder, 1)
        self.expect_completion(recorder)
        self.env.settle()
        assert recorder.signals == ["on_subscribe", "on_complete"]

    @rule("1.6", completion=True)
    def test_untested_spec106_must_consider_subscription_cancelled_after_on_error_or_on_complete_has_been_called(
        self,
    ) -> None:
        self._is_silent_after_the_end(self.make(self.up_to(1)))

    @rule("1.7", completion=True)
    def test_required_spec107_must_not_emit_further_signals_once_on_complete_has_been_signalled(self) -> None:
        recorder = self.subscribe(self.make(self.up_to(1)), 10)
        self.expect_completion(recorder)
        self.request(recorder, 10)
        assert recorder.signals[-1] == "on_complete"

    @rule("1.7", failure=True)
    def test_untested_spec107_must_not_emit_further_signals_once_on_error_has_been_signalled(self) -> None:
        self._is_silent_after_the_end(self.failed())

    def _is_silent_after_the_end(self, publisher: Publisher[T]) -> None:
        recorder = self.subscribe(publisher, 10)
        self.expect(lambda: recorder.ended, f"no end after {recorder.signals}")
        signals = list(recorder.signals)
        self.request(recorder, 10)
        self.request(recorder, 0)
        self.env.act(recorder.cancel)
        assert recorder.signals == signals, "the subscription counts as cancelled (1.6)"

    @rule("1.8")
    def test_untested_spec108_possibly_canceled_subscription_should_not_receive_on_error_or_on_complete_signals(
        self,
    ) -> None:
        recorder = self.subscribe(self.make(self.up_to(3)))
        signals = list(recorder.signals)
        self.env.act(recorder.cancel)
        self.request(recorder, 10)
        assert recorder.signals == signals

    @rule("1.9")
    def test_untested_spec109_subscribe_should_not_throw_non_fatal_throwable(self) -> None:
        publishers = [self.make(self.up_to(1))] + ([self.failed()] if self.can_fail else [])
        for publisher in publishers:
            recorder = Recorder[T](self.env)
            self.env.act(lambda publisher=publisher, recorder=recorder: publisher.subscribe(recorder))  # type: ignore[misc]

    @rule("1.9")
    def test_required_spec109_subscribe_throw_npe_on_null_subscriber(self) -> None:
        publisher = self.make(self.up_to(1))
        self.refuses_none(lambda: publisher.subscribe(None))  # type: ignore[arg-type]

    @rule("1.9")
    def test_required_spec109_must_issue_on_subscribe_for_non_null_subscriber(self) -> None:
        recorder = self.subscribe(self.make(self.up_to(1)))
        assert recorder.signals[0] == "on_subscribe"
        assert recorder.signals.count("on_subscribe") == 1

    @rule("1.9", failure=True)
    def test_required_spec109_may_reject_calls_to_subscribe_if_publisher_is_unable_or_unwilling_to_serve_them_rejection_must_trigger_on_error_after_on_subscribe(  # noqa: E501 - the TCK's own name
        self,
    ) -> None:
        recorder = self.subscribe(self.failed())
        self.expect_error(recorder)
        assert recorder.signals == ["on_subscribe", "on_error"]

    @rule("1.10")
    def test_untested_spec110_reject_a_subscription_request_if_the_same_subscriber_subscribes_twice(self) -> None:
        """It may be rejected or not: the subscriber cancels a second subscription, and the first is not hurt."""
        elements = self.up_to(3)
        publisher = self.make(elements)
        recorder = self.subscribe(publisher)
        self.env.act(lambda: publisher.subscribe(recorder))
        self.request(recorder, elements + 1)
        self.expect_items(recorder, elements)

    @rule("1.11", optional=True)
    def test_optional_spec111_may_support_multi_subscribe(self) -> None:
        publisher = self.make(self.up_to(1))
        first, second = self.subscribe(publisher), self.subscribe(publisher)
        self.env.settle()
        assert second.signals == first.signals, "the second subscriber was refused"
        for recorder in (first, second):
            self.env.act(recorder.cancel)

    @rule("1.11", optional=True, elements=1)
    def test_optional_spec111_registered_subscribers_must_receive_on_next_or_on_complete_signals(self) -> None:
        publisher = self.make(self.up_to(1))
        recorders = [self.subscribe(publisher), self.subscribe(publisher)]
        for recorder in recorders:
            self.request(recorder, 1)
        for recorder in recorders:
            self.expect(lambda recorder=recorder: recorder.items or recorder.completed, "neither an item nor the end")  # type: ignore[misc]
            self.env.act(recorder.cancel)

    @rule("1.11", optional=True, elements=1, completion=True)
    def test_optional_spec111_multicast_must_produce_the_same_elements_in_the_same_sequence_to_all_of_its_subscribers_when_requesting_one_by_one(  # noqa: E501
        self,
    ) -> None:
        elements = self.up_to(5)
        publisher = self.make(elements)
        first, second, third = (self.subscribe(publisher) for _ in range(3))
        for recorder, n in [(first, 1), (second, 2), (first, 1), (third, 3), (third, 1), (third, 1), (second, 3)]:
            self.request(recorder, n)
            self.expect_items(recorder, min(recorder.requested, elements))
        for n in (2, 1):
            self.request(first, n)
        for recorder in (first, second, third):
            self.expect_completion(recorder)
        assert first.items == second.items == third.items
        assert len(first.items) == elements

    @rule("1.11", optional=True, elements=1)
    def test_optional_spec111_multicast_must_produce_the_same_elements_in_the_same_sequence_to_all_of_its_subscribers_when_requesting_many_upfront(  # noqa: E501
        self,
    ) -> None:
        self._many_upfront()

    @rule("1.11", optional=True, elements=1, completion=True)
    def test_optional_spec111_multicast_must_produce_the_same_elements_in_the_same_sequence_to_all_of_its_subscribers_when_requesting_many_upfront_and_complete_as_expected(  # noqa: E501
        self,
    ) -> None:
        for recorder in self._many_upfront():
            self.expect_completion(recorder)

    def _many_upfront(self) -> list[Recorder[T]]:
        elements = self.up_to(3)
        publisher = self.make(elements)
        recorders = [self.subscribe(publisher) for _ in range(3)]
        for recorder in recorders:
            self.request(recorder, elements + 1 if self.signals_completion else elements)
        for recorder in recorders:
            self.expect_items(recorder, elements)
            assert recorder.items == recorders[0].items
        return recorders

    # chapter 3

    @rule("3.2", elements=1)
    def test_required_spec302_must_allow_synchronous_request_calls_from_on_next_and_on_subscribe(self) -> None:
        elements = self.up_to(20)
        recorder = self.subscribe(self.make(elements), 1, 1, 1, on_item=lambda me: me.request(1))
        self.expect(lambda: len(recorder.items) >= elements, f"{len(recorder.items)} items of {elements} came")
        assert recorder.error is None
        self.env.act(recorder.cancel)

    @rule("3.3", elements=2)
    def test_required_spec303_must_not_allow_unbounded_recursion(self) -> None:
        bound = self.bounded_depth_of_on_next_and_request_recursion
        elements = self.up_to(self.recursion_test_elements + bound)
        recorder = self.subscribe(self.make(elements), on_item=lambda me: me.request(1))
        self.request(recorder, 1)
        self.expect(lambda: len(recorder.items) >= elements, f"{len(recorder.items)} items of {elements} came")
        self.env.act(recorder.cancel)
        assert recorder.deepest <= bound, f"{recorder.deepest} calls of on_next were open at a time"

    @property
    def recursion_test_elements(self) -> int:
        """How many items the test of rule 3.3 takes."""
        return 200

    @rule("3.4", untested=f"{UNTESTED}: no signal shows how heavy a computation was")
    def test_untested_spec304_request_should_not_perform_heavy_computations(self) -> None: ...

    @rule("3.5", untested=f"{UNTESTED}: no signal shows how heavy a computation was")
    def test_untested_spec305_cancel_must_not_synchronously_perform_heavy_computation(self) -> None: ...

    @rule("3.6")
    def test_required_spec306_after_subscription_is_cancelled_request_must_be_nops(self) -> None:
        recorder = self.subscribe(self.make(self.up_to(3)))
        signals = list(recorder.signals)
        self.env.act(recorder.cancel)
        for n in (1, 1, 1, 0, -1, UNBOUNDED):
            self.request(recorder, n)
        assert recorder.signals == signals

    @rule("3.7")
    def test_required_spec307_after_subscription_is_cancelled_additional_cancelations_must_be_nops(self) -> None:
        recorder = self.subscribe(self.make(self.up_to(3)))
        signals = list(recorder.signals)
        self.env.act(recorder.cancel)
        for _ in range(3):
            self.env.act(recorder.cancel)
        assert recorder.signals == signals

    @rule("3.9")
    def test_required_spec309_request_zero_must_signal_illegal_argument_exception(self) -> None:
        self._refuses(0)

    @rule("3.9")
    def test_required_spec309_request_negative_number_must_signal_illegal_argument_exception(self) -> None:
        for n in self.wrong_demands:
            self._refuses(n)

    @rule("3.9", optional=True)
    def test_optional_spec309_request_negative_number_may_signal_illegal_argument_exception_with_specific_message(
        self,
    ) -> None:
        assert "3.9" in str(self._refuses(-7)), "the message does not name the rule"

    def _refuses(self, n: Any) -> BaseException:  # noqa: ANN401 - also values that are not numbers
        publisher = self.make(self.up_to(10))
        if self.max_elements_from_publisher:
            recorder = self.subscribe(publisher)
            self.request(recorder, n)
        else:  # a later request would come behind the end
            recorder = Recorder[T](self.env, n)
            self.env.act(lambda: publisher.subscribe(recorder))
        error = self.expect_error(recorder)
        self.request(recorder, 1)
        assert isinstance(error, (DemandError, ValueError)), f"a DemandError or ValueError expected, {error!r} came"
        assert recorder.signals == ["on_subscribe", "on_error"]
        return error

    @rule("3.12", elements=1)
    def test_required_spec312_cancel_must_make_the_publisher_to_eventually_stop_signaling(self) -> None:
        elements = self.up_to(20)
        recorder = self.subscribe(self.make(elements), on_item=lambda me: me.cancel() if len(me.items) == 1 else None)
        self.request(recorder, 10)
        self.request(recorder, 5)
        self.expect(lambda: recorder.items, "no item came")
        self.env.settle()
        assert len(recorder.items) <= 15
        if self.stops_at_once:
            assert recorder.signals == ["on_subscribe", "on_next"]

    @rule("3.13")
    def test_required_spec313_cancel_must_make_the_publisher_eventually_drop_all_references_to_the_subscriber(
        self,
    ) -> None:
        publisher = self.make(self.up_to(3))
        gc.freeze()  # the objects from before are not searched: pytest has very many
        try:
            gone = self._cancelled(publisher)

            def dropped() -> bool:
                gc.collect()
                return gone() is None

            self.expect(dropped, "the publisher still refers to a subscriber that has cancelled")
        finally:
            gc.unfreeze()

    def _cancelled(self, publisher: Publisher[T]) -> weakref.ref[Recorder[T]]:
        recorder = self.subscribe(publisher)
        self.request(recorder, 1)
        self.env.act(recorder.cancel)
        return weakref.ref(recorder)

    @rule("3.17", completion=True)
    def test_required_spec317_must_support_a_pending_element_count_up_to_long_max_value(self) -> None:
        self._completes_for(UNBOUNDED)

    @rule("3.17", completion=True)
    def test_required_spec317_must_support_a_cumulative_pending_element_count_up_to_long_max_value(self) -> None:
        self._completes_for(UNBOUNDED // 2, UNBOUNDED // 2, 1)

    def _completes_for(self, *requests: int) -> None:
        elements = self.up_to(3)
        recorder = self.subscribe(self.make(elements), *requests)
        self.expect_completion(recorder)
        assert len(recorder.items) == elements

    @rule("3.17", elements=1)
    def test_required_spec317_must_not_signal_on_error_when_pending_above_long_max_value(self) -> None:
        elements = self.up_to(20)

        def more(me: Recorder[T]) -> None:
            if len(me.items) <= 10:
                me.request(UNBOUNDED - 1)
            else:
                me.cancel()

        recorder = self.subscribe(self.make(elements), on_item=more)
        self.request(recorder, 1)
        self.expect(lambda: len(recorder.items) >= min(11, elements), f"only {len(recorder.items)} items came")
        assert recorder.error is None
