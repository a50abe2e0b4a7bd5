"""What every operator must do, written once: a test class for an operator inherits these tests and describes it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

import pytest

from rstreams._core.demand import UNBOUNDED
from rstreams._core.sight import counts_of
from rstreams._stages.stage import Stage
from rstreams.abc import Publisher, Subscription
from rstreams.errors import DemandError
from rstreams.sources.from_iterable import from_iterable
from rstreams.stream._explain import reported
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.operators.paced import Quick, Slow

ITEMS = [1, 2, 3, 4, 5, 6, 7]


class OperatorContract:
    """The common tests, for an operator with one source.

    Attributes:
        build: Applies the operator to a source of whole numbers.
        model: What comes out, for what went in before the source completed.
        slowly: What comes out where the source does not wait and one at a time is asked for; None is as `model` says.
        requests: For a first request downstream, the requests that reach the source.
        forwards_holds: Whether an item's outcome can depend on what becomes of the items emitted.
        holds_what_it_keeps: Whether it has a hold on each item that `explain` tells is buffered, and on no other.
    """

    build: ClassVar[Callable[[Publisher[int]], Publisher[Any]]]
    model: ClassVar[Callable[[Sequence[int]], Sequence[Any]]]
    slowly: ClassVar[Callable[[Sequence[int]], Sequence[Any]] | None] = None
    requests: ClassVar[tuple[tuple[int, list[int]], ...]]
    forwards_holds: ClassVar[bool] = True
    holds_what_it_keeps: ClassVar[bool] = True

    def settle(self) -> None:
        """Let tasks run, for an operator that has some."""

    def feed(self, source: ManualPublisher[int], items: Iterable[int]) -> None:
        for item in items:
            if not source.cancelled:
                source.next(item)
                self.settle()

    def play(self, source: ManualPublisher[int], items: Iterable[int]) -> None:
        self.feed(source, items)
        if not source.cancelled:
            source.complete()
            self.settle()

    def subscribe(
        self, request: int = UNBOUNDED, *, hold: bool = False, on_item: Callable[[Any], object] | None = None
    ) -> tuple[ManualPublisher[int], ProbeSubscriber[Any]]:
        source = ManualPublisher[int]()
        probe = ProbeSubscriber[Any](request, hold=hold, on_item=on_item)
        type(self).build(source).subscribe(probe)
        return source, probe

    # values

    @pytest.mark.parametrize("items", [[], [1], [1, 2], [3, 1], ITEMS])
    def test_emits_what_the_model_says(self, items: list[int]) -> None:
        source, probe = self.subscribe()

        self.play(source, items)

        assert probe.items == list(type(self).model(items))
        assert probe.signals == ["on_subscribe", *["on_next"] * len(probe.items), "on_complete"]

    def test_an_empty_source_needs_no_demand_to_end(self) -> None:
        source, probe = self.subscribe(0)

        source.complete()

        waits = bool(type(self).model([]))  # there is something to emit, and nobody has asked for it
        assert probe.signals == (["on_subscribe"] if waits else ["on_subscribe", "on_complete"])

    def test_each_subscriber_starts_afresh(self) -> None:
        publisher = type(self).build(from_iterable(ITEMS))

        for _ in range(2):
            probe = ProbeSubscriber[Any](UNBOUNDED)
            publisher.subscribe(probe)
            self.settle()
            assert probe.items == list(type(self).model(ITEMS))
            assert probe.completed

    def test_nobody_cannot_subscribe(self) -> None:
        with pytest.raises(TypeError, match=r"1\.9"):
            type(self).build(ManualPublisher[int]()).subscribe(None)  # type: ignore[arg-type]

    # demand

    def test_nothing_is_requested_before_something_is(self) -> None:
        source, _ = self.subscribe(0)

        assert source.requests == []

    def test_requests_reach_the_source_exactly(self) -> None:
        for request, expected in type(self).requests:
            source, _ = self.subscribe(request)
            assert source.requests == expected, request

    @pytest.mark.parametrize("step", [1, 2, 3])
    def test_items_come_as_requested_and_no_more(self, step: int) -> None:
        probe = ProbeSubscriber[Any]()
        type(self).build(from_iterable(ITEMS)).subscribe(probe)
        expected = self._read_slowly()

        for requested in range(step, len(expected) + step + 1, step):
            probe.request(step)
            self.settle()
            assert probe.items == expected[:requested]
        probe.request(UNBOUNDED)
        self.settle()

        assert probe.items == expected
        assert probe.completed

    @pytest.mark.parametrize("n", [0, -1, UNBOUNDED * -1])
    def test_a_wrong_demand_ends_the_stream(self, n: int) -> None:
        source, probe = self.subscribe(1)

        probe.request(n)

        assert isinstance(probe.error, DemandError)
        assert probe.signals == ["on_subscribe", "on_error"]
        assert source.cancelled or n in source.requests

    def test_requesting_one_more_in_on_next_does_not_recurse(self) -> None:
        many = range(2_000)  # more than the stack has room for
        depths: list[int] = []
        probe = ProbeSubscriber[Any](1)

        def on_item(_item: object) -> None:
            depths.append(stack_depth())
            probe.request(1)

        probe.on_item = on_item
        type(self).build(from_iterable(many)).subscribe(probe)
        self.settle()

        assert probe.items == list(type(self).model(many))
        assert probe.completed
        assert max(depths) - min(depths) < 20

    # a slow and a quick side

    def test_a_slow_source_and_a_quick_subscriber(self) -> None:
        slow, probe = Slow[int](), ProbeSubscriber[Any](UNBOUNDED)
        type(self).build(slow).subscribe(probe)
        self.settle()
        assert probe.signals in ([], ["on_subscribe"])
        expected = list(type(self).model(ITEMS))

        source = slow.answer()
        self.settle()
        for item in ITEMS:
            if source.cancelled:
                break
            source.next(item)
            self.settle()
            assert probe.items == expected[: len(probe.items)]
        if not source.cancelled:
            source.complete()
            self.settle()

        assert probe.items == expected
        assert probe.signals == ["on_subscribe", *["on_next"] * len(expected), "on_complete"]

    def test_a_quick_source_and_a_slow_subscriber(self) -> None:
        source, probe = Quick(ITEMS), ProbeSubscriber[Any]()
        type(self).build(source).subscribe(probe)
        self.settle()
        assert source.requests == []
        expected = self._read_slowly()

        for requested in range(1, len(expected) + 1):
            probe.request(1)
            self.settle()
            assert probe.items == expected[:requested]
        probe.request(1)
        self.settle()

        assert probe.items == expected
        assert probe.completed
        assert None not in source.outcomes

    def _read_slowly(self) -> list[Any]:
        return list((type(self).slowly or type(self).model)(ITEMS))

    # errors

    def test_an_error_of_the_source_that_comes_first(self) -> None:
        source, probe = self.subscribe()
        error = ValueError("first")

        source.error(error)

        assert probe.error is error
        assert probe.signals == ["on_subscribe", "on_error"]

    def test_an_error_of_the_source_needs_no_demand(self) -> None:
        source, probe = self.subscribe(0)
        error = ValueError("first")

        source.error(error)

        assert probe.error is error

    def test_an_error_of_the_source_midway(self) -> None:
        source, probe = self.subscribe()
        error = ValueError("midway")
        self.feed(source, ITEMS[:1])
        before = list(probe.items)

        source.error(error)
        self.settle()

        assert probe.error is error
        assert probe.items in (before, list(type(self).model(ITEMS[:1])))  # nothing that only a completion makes
        assert probe.signals[-1] == "on_error"
        assert not source.cancelled  # 2.3: there is nothing to cancel any more
        assert None not in source.outcomes

    def test_nothing_follows_the_end(self) -> None:
        source, probe = self.subscribe()
        self.play(source, ITEMS)
        signals = list(probe.signals)

        source.error(ValueError("late"))
        source.complete()
        probe.request(1)
        probe.cancel()
        self.settle()

        assert probe.signals == signals

    def test_a_source_that_has_ended_is_left_alone(self) -> None:
        for end in ("complete", "error"):
            source, probe = self.subscribe(0)
            source.complete() if end == "complete" else source.error(ValueError())

            probe.request(1)
            self.settle()
            probe.cancel()

            assert not source.cancelled  # 2.4
            assert source.requests in ([], dict(type(self).requests)[1])  # 3.6: a source does nothing about it

    def test_a_subscriber_that_raises_counts_as_having_cancelled(self) -> None:
        error = ArithmeticError("by the subscriber")

        def on_item(_item: object) -> None:
            raise error

        source, probe = self.subscribe(on_item=on_item)
        with pytest.raises(ArithmeticError) as caught:
            self.play(source, ITEMS)

        assert caught.value is error
        assert len(probe.items) == 1
        assert set(source.outcomes) <= {"done", "failed", "released"}

    # cancel

    def test_cancel_before_the_first_item(self) -> None:
        source, probe = self.subscribe()

        probe.cancel()
        source.next(1)
        source.error(ValueError("late"))
        source.complete()
        self.settle()

        assert source.cancelled
        assert probe.signals == ["on_subscribe"]

    def test_cancel_in_on_subscribe(self) -> None:
        source = ManualPublisher[int]()

        class CancelsAtOnce(ProbeSubscriber[Any]):
            def on_subscribe(self, subscription: Subscription) -> None:
                super().on_subscribe(subscription)
                subscription.cancel()
                subscription.request(1)

        probe = CancelsAtOnce()
        type(self).build(source).subscribe(probe)

        assert source.cancelled or source.subscriptions == 0
        assert source.requests in ([], [1])  # 3.6: a source does nothing about it
        assert probe.signals == ["on_subscribe"]

    def test_cancel_midway(self) -> None:
        source, probe = self.subscribe(on_item=lambda _item: probe.cancel())

        self.feed(source, ITEMS)
        ended = source.cancelled
        if not ended:
            source.complete()
            self.settle()

        assert len(probe.items) == 1
        assert probe.signals == ["on_subscribe", "on_next"]
        assert None not in source.outcomes

    def test_cancel_with_items_kept(self) -> None:
        source, probe = self.subscribe()
        self.feed(source, ITEMS[:1])

        probe.cancel()
        probe.cancel()

        assert source.cancelled
        assert None not in source.outcomes

    # holds

    def test_items_are_done_when_nobody_holds_them(self) -> None:
        source, _ = self.subscribe()

        self.play(source, ITEMS)

        assert set(source.outcomes) == {"done"}

    @pytest.mark.parametrize("settle_by", ["done", "fail", "release"])
    def test_what_a_subscriber_holds_reaches_the_source(self, settle_by: str) -> None:
        source, probe = self.subscribe(hold=True)
        self.play(source, ITEMS)
        error = ValueError("by the holder")

        for hold in probe.holds:
            if settle_by == "fail":
                hold.fail(error)
            else:
                getattr(hold, settle_by)()

        expected = {"done": "done", "fail": "failed", "release": "released"}[settle_by]
        assert None not in source.outcomes
        assert set(source.outcomes) <= {"done", expected}
        if self.forwards_holds:
            assert expected in source.outcomes

    # what explain tells

    @pytest.mark.parametrize("first", [1, 2, 3, UNBOUNDED])
    def test_its_counts_are_true(self, first: int) -> None:
        source, probe = self.subscribe(0)
        self.tells_the_truth(source, probe, 0)
        requested = first

        probe.request(first)
        self.tells_the_truth(source, probe, requested)
        for item in ITEMS:
            if not source.outstanding and not probe.ended:
                probe.request(2)
                requested = min(requested + 2, UNBOUNDED)
            if source.cancelled or not source.outstanding:
                break
            source.next(item)
            self.tells_the_truth(source, probe, requested)
            self.settle()
            self.tells_the_truth(source, probe, requested)
        if not source.cancelled:
            source.complete()
            self.settle()
            self.tells_the_truth(source, probe, requested, complete=True)

    def tells_the_truth(
        self, source: ManualPublisher[int], probe: ProbeSubscriber[Any], requested: int, *, complete: bool = False
    ) -> None:
        if probe.ended:
            return
        for each in sources_of(probe._subscribed()):
            if isinstance(each, Stage):  # it has the operator's name, not that of what it shares with others
                assert not reported(each).name.startswith("_")
        counts = counts_of(probe._subscribed())
        assert counts is not None
        assert min(counts.requested, UNBOUNDED) == requested
        assert counts.delivered == len(probe.items)
        assert counts.buffered >= 0
        if type(self).holds_what_it_keeps:
            assert counts.buffered == source.outcomes.count(None)
        if not source.cancelled and not complete:
            assert source in sources_of(probe._subscribed())

    # subscriptions

    def test_a_second_subscription_is_cancelled(self) -> None:
        source, probe = self.subscribe(1)
        other = ManualPublisher[int]()

        other.subscribe(source._subscribed())

        assert other.cancelled
        assert not source.cancelled
        assert probe.signals == ["on_subscribe"]


class FunctionContract(OperatorContract):
    """The common tests of an operator with a user function that is called once an item.

    Attributes:
        failing: Applies the operator with a user function that does what it is given.
    """

    failing: ClassVar[Callable[[Publisher[int], Callable[[], object]], Publisher[Any]]]

    def test_what_a_user_function_raises_ends_the_stream(self) -> None:
        error = ZeroDivisionError("by the user")

        def fail() -> None:
            raise error

        source, probe = self._subscribe_with(fail)
        self.feed(source, ITEMS)

        assert probe.error is error
        assert probe.signals == ["on_subscribe", "on_error"]
        assert source.cancelled
        assert source.outcomes == ["failed"]
        assert source.errors == [error]

    def test_stop_iteration_is_an_error_like_any_other(self) -> None:
        error = StopIteration("by the user")

        def fail() -> None:
            raise error

        source, probe = self._subscribe_with(fail)
        self.feed(source, ITEMS)

        # An async function cannot raise it: Python makes a RuntimeError of it.
        assert error in (probe.error, getattr(probe.error, "__cause__", None))

    def test_a_user_function_may_cancel(self) -> None:
        source, probe = self._subscribe_with(lambda: probe.cancel())  # noqa: PLW0108 - there is no probe yet
        self.feed(source, ITEMS)

        assert source.cancelled
        assert probe.signals == ["on_subscribe"]
        assert None not in source.outcomes

    def test_after_a_cancel_a_user_function_is_not_called(self) -> None:
        called: list[None] = []
        source, probe = self._subscribe_with(lambda: called.append(None))
        probe.cancel()

        source.next(1)
        self.settle()

        assert called == []

    def _subscribe_with(self, function: Callable[[], object]) -> tuple[ManualPublisher[int], ProbeSubscriber[Any]]:
        source = ManualPublisher[int]()
        probe = ProbeSubscriber[Any](UNBOUNDED)
        type(self).failing(source, function).subscribe(probe)
        return source, probe


def sources_of(subscription: Subscription) -> list[Subscription]:
    """Return all that `explain` finds from a subscription up."""
    upstreams: Sequence[Subscription] = getattr(subscription, "upstreams", tuple)()
    return [subscription, *(found for each in upstreams for found in sources_of(each))]


def stack_depth() -> int:
    frame, depth = sys._getframe(), 0
    while frame.f_back is not None:
        frame, depth = frame.f_back, depth + 1
    return depth
