from collections.abc import Iterator
from itertools import count

import pytest
import trio
import trio.testing

from rstreams._core.demand import SLICE, UNBOUNDED
from rstreams.abc import Publisher, Subscriber
from rstreams.operators.map import map as map_
from rstreams.operators.merge import merge
from rstreams.operators.take import take
from rstreams.runtime.scope import Scope
from rstreams.sources.empty import empty
from rstreams.sources.fail import fail
from rstreams.sources.from_iterable import from_iterable
from rstreams.sources.generate import generate
from rstreams.sources.of import of
from rstreams.sources.range import range as range_
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.operators.contract import OperatorContract


class TestMergeOne(OperatorContract):
    build = staticmethod(merge)
    model = staticmethod(lambda items: items)
    requests = ((1, [32]), (5, [32]), (UNBOUNDED, [32]))


class TestMergeWithEmpty(OperatorContract):
    build = staticmethod(lambda source: merge(empty(), source, of()))
    model = staticmethod(lambda items: items)
    requests = ((1, [32]), (5, [32]), (UNBOUNDED, [32]))


def _merged(
    request: int = 0, *, hold: bool = False
) -> tuple[ManualPublisher[int], ManualPublisher[int], ProbeSubscriber[int]]:
    one, two, probe = ManualPublisher[int](), ManualPublisher[int](), ProbeSubscriber[int](request, hold=hold)
    merge(one, two).subscribe(probe)
    return one, two, probe


def test_nothing_at_all_is_an_empty_stream() -> None:
    probe = ProbeSubscriber[int]()

    merge().subscribe(probe)

    assert probe.signals == ["on_subscribe", "on_complete"]


def test_what_is_no_publisher_is_named() -> None:
    with pytest.raises(TypeError, match=r"merge\(\*sources\): source 0 must be a Publisher, not None"):
        merge(None)  # type: ignore[arg-type]


def test_items_are_emitted_as_they_come() -> None:
    one, two, probe = _merged(UNBOUNDED)

    one.next(1)
    two.next(10)
    one.next(2)
    one.complete()
    two.next(20)
    two.complete()

    assert probe.items == [1, 10, 2, 20]
    assert probe.signals[-1] == "on_complete"


def test_items_wait_for_demand_and_take_turns() -> None:
    one, two, probe = _merged(1)
    one.next(1, 2, 3, 4)
    two.next(10, 20)
    one.complete()
    two.complete()
    assert probe.items == [1]

    probe.request(2)
    assert probe.items == [1, 2, 10]
    probe.request(3)

    assert probe.items == [1, 2, 10, 3, 20, 4]
    assert probe.completed


def test_no_more_than_the_prefetch_is_drawn_ahead() -> None:
    one, two, probe = _merged(1)

    one.next(*range(32))
    assert one.outstanding == 0
    probe.request(22)
    assert one.requests == [32]
    probe.request(1)  # the 24th leaves

    assert one.requests == [32, 24]
    assert two.requests == [32]


def test_a_source_subscribed_to_is_asked_for_nothing_before_there_is_demand() -> None:
    one, two, probe = _merged(0)
    assert (one.requests, two.requests) == ([], [])

    probe.request(1)

    assert (one.requests, two.requests) == ([32], [32])


def test_endless_sources_that_answer_at_once_take_turns() -> None:
    probe = ProbeSubscriber[int](UNBOUNDED)

    take(merge(from_iterable(count(0, 2)), from_iterable(count(1, 2))), 1000).subscribe(probe)

    assert probe.items == list(range(1000))


def test_sources_without_end_in_sight_leave_no_item_out() -> None:
    probe = ProbeSubscriber[int](1, on_item=lambda _: probe.request(1))

    merge(range_(10_000), range_(10_000, 15_000), range_(15_000, 15_001)).subscribe(probe)

    assert sorted(probe.items) == list(range(15_001))
    assert probe.completed


def test_the_first_error_ends_it_all_when_its_turn_has_come() -> None:
    error = ValueError()
    one, two, probe = _merged(1)
    one.next(1, 2, 3, 4)
    two.next(10)

    two.error(error)
    assert not probe.ended
    probe.request(3)

    assert probe.error is error
    assert probe.items == [1, 2, 10, 3]
    assert one.cancelled
    assert not two.cancelled  # 2.3
    assert one.outcomes == ["done", "done", "done", "released"]
    assert two.outcomes == ["done"]


def test_an_error_with_nothing_before_it_needs_no_demand() -> None:
    one, two, probe = _merged(1)
    one.next(1)

    two.error(ValueError())

    assert isinstance(probe.error, ValueError)
    assert probe.items == [1]


def test_sources_that_fail_by_the_same_cause_have_all_their_turns() -> None:
    error = ValueError()
    one, two, probe = _merged(1)
    one.next(1, 2, 3, 4)
    two.next(10)

    two.error(error)
    one.error(error)
    probe.request(9)

    assert probe.items == [1, 2, 10, 3, 4]
    assert probe.error is error


def test_sources_after_one_that_fails_at_once_are_not_subscribed_to() -> None:
    one, two, probe = ManualPublisher[int](), ManualPublisher[int](), ProbeSubscriber[int]()

    merge(map_(one, lambda x: x), _failing(), two).subscribe(probe)

    assert isinstance(probe.error, LookupError)
    assert one.cancelled
    assert two.subscriptions == 0


def _failing() -> ManualPublisher[int]:
    class Failing(ManualPublisher[int]):
        def subscribe(self, subscriber: Subscriber[int]) -> None:
            super().subscribe(subscriber)
            self.error(LookupError())

    return Failing()


def test_a_cancel_reaches_all_sources_and_gives_items_back() -> None:
    one, two, probe = _merged(1)
    one.next(1, 2)
    two.next(10)

    probe.cancel()
    one.next(3)

    assert one.cancelled
    assert two.cancelled
    assert one.outcomes == ["done", "released", "done"]
    assert two.outcomes == ["released"]
    assert probe.items == [1]


def test_items_that_waited_are_held_where_they_come_from() -> None:
    one, two, probe = _merged(1, hold=True)
    one.next(1, 2)
    two.next(10)
    probe.request(5)
    assert probe.items == [1, 2, 10]
    assert (one.outcomes, two.outcomes) == ([None, None], [None])

    probe.holds[0].done()
    probe.holds[1].fail(ValueError())
    probe.holds[2].release()

    assert one.outcomes == ["done", "failed"]
    assert two.outcomes == ["released"]


def test_items_that_waited_are_done_when_nobody_holds_them() -> None:
    one, _, probe = _merged(1)
    one.next(1, 2, 3)
    assert one.outcomes == ["done", None, None]

    probe.request(1)

    assert one.outcomes == ["done", "done", None]


def test_a_source_that_sends_while_another_s_item_is_emitted_waits_its_turn() -> None:
    one, two, probe = _merged(UNBOUNDED)
    depth, deepest = 0, 0

    def on_item(item: int) -> None:
        nonlocal depth, deepest
        depth += 1
        deepest = max(depth, deepest)
        if item < 50:
            two.next(item + 100)
            two.next(item + 200)
        depth -= 1

    probe.on_item = on_item
    one.next(1, 2)

    assert probe.items == [1, 101, 201, 2, 102, 202]
    assert deepest == 1


def test_completion_while_the_last_item_is_emitted_comes_after_it() -> None:
    one, two, probe = _merged(UNBOUNDED)
    two.complete()
    signals: list[str] = []

    def on_item(_: int) -> None:
        one.complete()
        signals.extend(probe.signals)

    probe.on_item = on_item
    one.next(1)

    assert "on_complete" not in signals
    assert probe.completed


def test_a_subscriber_that_raises_cancels_all_sources() -> None:
    def on_item(_: int) -> None:
        raise ArithmeticError

    one, two, probe = _merged(1)
    probe.on_item = on_item
    with pytest.raises(ArithmeticError):
        one.next(1)
    two.next(10)

    assert two.cancelled
    assert one.outcomes == ["failed"]


def test_a_subscriber_that_raises_for_an_item_that_waited_fails_it() -> None:
    def on_item(_: int) -> None:
        raise ArithmeticError

    one, two, probe = _merged(1)
    one.next(1, 2, 3)
    probe.on_item = on_item
    with pytest.raises(ArithmeticError):
        probe.request(1)

    assert one.cancelled
    assert two.cancelled
    assert one.outcomes == ["done", "failed", "released"]


def test_a_second_subscription_of_a_source_is_cancelled() -> None:
    one, _, probe = _merged(1)
    other = ManualPublisher[int]()

    other.subscribe(one._subscribed())

    assert other.cancelled
    assert not one.cancelled
    assert probe.signals == ["on_subscribe"]


# in a scope


def _endless() -> Publisher[int]:
    return generate(0, lambda n: (n, n + 1))


async def test_endless_sources_let_other_tasks_run() -> None:
    probe = ProbeSubscriber[int](UNBOUNDED)
    async with Scope():
        merge(_endless(), _endless()).subscribe(probe)
        first = len(probe.items)
        while len(probe.items) < 4 * SLICE:
            await trio.lowlevel.checkpoint()
        probe.cancel()
    assert 0 < first <= SLICE
    assert probe.items == [n for n in range(len(probe.items) // 2 + 1) for _ in range(2)][: len(probe.items)]


async def test_between_turns_items_wait_behind_those_before_them() -> None:
    manual, probe = ManualPublisher[int](), ProbeSubscriber[int](UNBOUNDED)
    async with Scope():
        take(merge(range_(2 * SLICE), manual), 2 * SLICE + 1).subscribe(probe)
        manual.next(-1)
        probe.request(1)
        assert len(probe.items) <= SLICE
        while not probe.completed:
            await trio.lowlevel.checkpoint()
    assert sorted(probe.items) == list(range(-1, 2 * SLICE))


async def test_a_cancel_between_turns_leaves_nothing_behind() -> None:
    probe = ProbeSubscriber[int](UNBOUNDED)
    async with Scope() as scope:
        merge(_endless(), _endless()).subscribe(probe)
        taken = len(probe.items)
        probe.cancel()
        await trio.testing.wait_all_tasks_blocked()
        assert not scope.nursery.child_tasks
    assert len(probe.items) == taken


# delayed errors, and sources over plain iterators


def test_delayed_errors_wait_for_the_others_and_come_together() -> None:
    one, two, three = ManualPublisher[int](), ManualPublisher[int](), ManualPublisher[int]()
    probe = ProbeSubscriber[int](1)
    merge(one, two, three, delay_errors=True).subscribe(probe)
    first, second = ValueError(), KeyError()
    one.next(1, 2)
    one.error(first)
    two.error(second)
    assert probe.items == [1]
    probe.request(5)
    three.next(3)
    assert not probe.ended
    three.complete()

    assert probe.items == [1, 2, 3]
    assert isinstance(probe.error, ExceptionGroup)
    assert probe.error.exceptions == (first, second)
    assert str(probe.error) == "merge: 2 streams failed (2 sub-exceptions)"
    assert not three.cancelled  # 2.3


def test_one_delayed_error_stays_itself() -> None:
    error, probe = LookupError(), ProbeSubscriber[int](UNBOUNDED)

    merge(fail(error), range_(3), delay_errors=True).subscribe(probe)

    assert probe.items == [0, 1, 2]
    assert probe.error is error


def test_an_iterator_that_raises_midway() -> None:
    probe = ProbeSubscriber[int](UNBOUNDED)
    merge(from_iterable(1 // (1 - x) for x in range(3)), range_(10, 13)).subscribe(probe)
    assert probe.items == [1, 10]
    assert isinstance(probe.error, ZeroDivisionError)

    delayed = ProbeSubscriber[int](UNBOUNDED)
    merge(from_iterable(1 // (1 - x) for x in range(3)), range_(10, 13), delay_errors=True).subscribe(delayed)
    assert delayed.items == [1, 10, 11, 12]
    assert isinstance(delayed.error, ZeroDivisionError)


def test_plain_iterators_are_drawn_as_requested_and_no_further() -> None:
    drawn: list[int] = []
    probe = ProbeSubscriber[int](3)

    merge(from_iterable(drawn.append(x) or x for x in range(9)), range_(10, 19)).subscribe(probe)  # type: ignore[func-returns-value]

    assert probe.items == [0, 10, 1]
    assert drawn == [0, 1]


def test_ranges_complete_right_behind_their_last_item() -> None:
    probe = ProbeSubscriber[int](4)

    merge(range_(2), range_(10, 12), empty()).subscribe(probe)

    assert probe.items == [0, 10, 1, 11]
    assert probe.completed


def test_an_iterator_is_closed_when_it_is_cancelled() -> None:
    closed: list[bool] = []

    def numbers() -> Iterator[int]:
        try:
            yield from range(10)
        finally:
            closed.append(True)

    probe = ProbeSubscriber[int](2)
    merge(from_iterable(numbers()), range_(10)).subscribe(probe)
    probe.cancel()

    assert closed == [True]
    assert probe.items == [0, 0]


def test_a_subscriber_that_raises_for_a_drawn_item_ends_it() -> None:
    def on_item(_: int) -> None:
        raise StopIteration

    manual, probe = ManualPublisher[int](), ProbeSubscriber[int](on_item=on_item)
    merge(range_(10), range_(10), manual).subscribe(probe)
    with pytest.raises(StopIteration):
        probe.request(UNBOUNDED)

    assert probe.items == [0]
    assert manual.cancelled
    assert probe.signals == ["on_subscribe", "on_next"]


def test_an_iterator_that_cancels_while_it_is_drawn_from(caplog: pytest.LogCaptureFixture) -> None:
    probe = ProbeSubscriber[int]()
    closed: list[bool] = []

    def numbers() -> Iterator[int]:
        try:
            probe.cancel()
            yield 1
        finally:
            closed.append(True)

    merge(from_iterable(numbers()), range_(10)).subscribe(probe)
    probe.request(5)

    assert probe.items == []
    assert closed == [True]
    assert not caplog.records
