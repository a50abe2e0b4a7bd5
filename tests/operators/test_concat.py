import pytest

from rstreams._core.demand import UNBOUNDED
from rstreams.errors import DemandError
from rstreams.operators.concat import concat
from rstreams.sources.empty import empty
from rstreams.sources.fail import fail
from rstreams.sources.from_iterable import from_iterable
from rstreams.sources.of import of
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.operators.contract import OperatorContract
from tests.operators.paced import Slow


class TestConcatFirst(OperatorContract):
    build = staticmethod(lambda source: concat(source, of(8, 9)))
    model = staticmethod(lambda items: [*items, 8, 9])
    requests = ((1, [1]), (5, [5]), (UNBOUNDED, [UNBOUNDED]))


class TestConcatLast(OperatorContract):
    build = staticmethod(lambda source: concat(empty(), of(), source))
    model = staticmethod(lambda items: items)
    requests = ((1, [1]), (5, [5]), (UNBOUNDED, [UNBOUNDED]))


def test_nothing_at_all_is_an_empty_stream() -> None:
    probe = ProbeSubscriber[int]()

    concat().subscribe(probe)

    assert probe.signals == ["on_subscribe", "on_complete"]


def test_what_is_no_publisher_is_named() -> None:
    with pytest.raises(TypeError, match=r"concat\(\*sources\): source 1 must be a Publisher, not \[1, 2\]"):
        concat(of(1), [1, 2])  # type: ignore[arg-type]


def test_unmet_demand_is_carried_over_to_the_next_source() -> None:
    first, second, probe = ManualPublisher[int](), ManualPublisher[int](), ProbeSubscriber[int](5)
    concat(first, second).subscribe(probe)

    first.next(1, 2)
    assert second.subscriptions == 0
    first.complete()
    assert second.requests == [3]
    probe.request(2)
    second.next(3, 4, 5, 6, 7)

    assert first.requests == [5]
    assert second.requests == [3, 2]
    assert probe.items == [1, 2, 3, 4, 5, 6, 7]


def test_no_unmet_demand_is_no_request() -> None:
    first, second, probe = ManualPublisher[int](), ManualPublisher[int](), ProbeSubscriber[int](1)
    concat(first, second).subscribe(probe)
    first.next(1)
    first.complete()

    assert second.subscriptions == 1
    assert second.requests == []


def test_unbounded_demand_stays_unbounded() -> None:
    first, second, probe = ManualPublisher[int](), ManualPublisher[int](), ProbeSubscriber[int](UNBOUNDED)
    concat(first, second).subscribe(probe)
    first.next(1, 2)
    first.complete()

    assert second.requests == [UNBOUNDED]


def test_demand_that_comes_between_two_sources_is_not_lost() -> None:
    slow = Slow[int]()
    first, probe = ManualPublisher[int](), ProbeSubscriber[int](2)
    concat(first, slow).subscribe(probe)
    first.next(1)
    first.complete()
    probe.request(3)
    second = slow.answer()

    assert second.requests == [4]


def test_a_wrong_demand_between_two_sources_ends_the_stream() -> None:
    slow = Slow[int]()
    probe = ProbeSubscriber[int](2)
    concat(empty(), slow).subscribe(probe)
    probe.request(0)
    second = slow.answer()

    assert isinstance(probe.error, DemandError)
    assert second.cancelled


def test_cancelled_between_two_sources_the_next_one_is_cancelled_when_it_answers() -> None:
    slow = Slow[int]()
    probe = ProbeSubscriber[int](2)
    concat(empty(), slow).subscribe(probe)
    probe.cancel()
    second = slow.answer()

    assert second.cancelled
    assert second.requests == []


def test_an_error_keeps_later_sources_unsubscribed() -> None:
    error = ValueError()
    first, second, probe = ManualPublisher[int](), ManualPublisher[int](), ProbeSubscriber[int](2)
    concat(first, second).subscribe(probe)

    first.error(error)

    assert probe.error is error
    assert second.subscriptions == 0


def test_a_cancel_reaches_the_current_source_and_keeps_later_ones_unsubscribed() -> None:
    first, second, third = ManualPublisher[int](), ManualPublisher[int](), ManualPublisher[int]()
    probe = ProbeSubscriber[int](2)
    concat(first, second, third).subscribe(probe)
    first.complete()

    probe.cancel()
    second.complete()

    assert not first.cancelled
    assert second.cancelled
    assert third.subscriptions == 0


def test_items_are_held_where_they_come_from() -> None:
    first, second = ManualPublisher[int](), ManualPublisher[int]()
    probe = ProbeSubscriber[int](5, hold=True)
    concat(first, second).subscribe(probe)
    first.next(1)
    first.complete()
    second.next(2)

    probe.holds[0].fail(ValueError())
    probe.holds[1].done()

    assert first.outcomes == ["failed"]
    assert second.outcomes == ["done"]


def test_ten_thousand_empty_sources_need_no_stack() -> None:
    probe = ProbeSubscriber[int](1)

    concat(*[empty() for _ in range(10_000)], of(1)).subscribe(probe)

    assert probe.items == [1]
    assert probe.completed


@pytest.mark.slow
def test_ten_thousand_sources_of_one_item_need_no_stack() -> None:
    probe = ProbeSubscriber[int](1, on_item=lambda _: probe.request(1))

    concat(*[from_iterable([x]) for x in range(10_000)]).subscribe(probe)

    assert probe.items == list(range(10_000))
    assert probe.completed


def test_delayed_errors_wait_for_the_later_sources() -> None:
    first, second = ValueError(), KeyError()
    probe = ProbeSubscriber[int](UNBOUNDED)

    concat(fail(first), of(1), fail(second), of(2), delay_errors=True).subscribe(probe)

    assert probe.items == [1, 2]
    assert isinstance(probe.error, ExceptionGroup)
    assert probe.error.exceptions == (first, second)


def test_one_delayed_error_stays_itself() -> None:
    error, probe = ValueError(), ProbeSubscriber[int](UNBOUNDED)

    concat(of(1), fail(error), delay_errors=True).subscribe(probe)

    assert probe.items == [1]
    assert probe.error is error
