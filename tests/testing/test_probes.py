import pytest

from rstreams._core.claims import claims_on
from rstreams._core.demand import UNBOUNDED
from rstreams.errors import DemandError
from rstreams.operators import map as mapped
from rstreams.testing import ManualPublisher, ProbeSubscriber


def test_the_example_of_the_module() -> None:
    source = ManualPublisher[int]()
    probe = ProbeSubscriber[str](request=2)
    mapped(source, str).subscribe(probe)

    source.next(1)

    assert probe.items == ["1"]
    assert source.requested == 2
    assert source.outstanding == 1
    assert source.outcomes == ["done"]
    assert probe.signals == ["on_subscribe", "on_next"]
    assert not probe.ended


def test_demand_is_counted_and_saturates() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int]()
    source.subscribe(probe)

    probe.request(3)
    probe.request(UNBOUNDED)

    assert source.requests == [3, UNBOUNDED]
    assert source.requested == UNBOUNDED


def test_a_request_for_nothing_is_an_error() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int]()
    source.subscribe(probe)

    probe.request(0)

    assert isinstance(probe.error, DemandError)
    assert probe.ended


def test_a_publisher_can_answer_requests() -> None:
    source = ManualPublisher[int](on_request=lambda n: source.next(*range(n)))
    probe = ProbeSubscriber[int](3)

    source.subscribe(probe)

    assert probe.items == [0, 1, 2]


def test_an_item_without_demand_is_a_mistake() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](1)
    source.subscribe(probe)
    source.next(1)

    with pytest.raises(AssertionError, match="2 was sent without demand"):
        source.next(2)


def test_nothing_can_be_sent_to_nobody() -> None:
    with pytest.raises(AssertionError, match="nobody has subscribed"):
        ManualPublisher[int]().next(1)


def test_a_probe_without_a_subscription_cannot_request() -> None:
    with pytest.raises(AssertionError, match="not been subscribed"):
        ProbeSubscriber[int]().request(1)


def test_a_hold_outside_on_next_is_a_mistake() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](1)
    source.subscribe(probe)
    source.next(1)

    with pytest.raises(AssertionError, match="outside on_next"):
        source.hold()


def test_holds_keep_the_outcome_open() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](3, hold=True)
    source.subscribe(probe)
    source.next(1, 2, 3)
    assert source.outcomes == [None, None, None]

    error = ValueError()
    probe.holds[0].done()
    probe.holds[1].fail(error)
    probe.holds[2].release()

    assert source.outcomes == ["done", "failed", "released"]
    assert source.errors == [None, error, None]


def test_a_hold_is_settled_once() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](1, hold=True)
    source.subscribe(probe)
    source.next(1)

    probe.holds[0].release()
    probe.holds[0].fail(ValueError())

    assert source.outcomes == ["released"]


def test_the_worst_outcome_of_several_holds_wins() -> None:
    source = ManualPublisher[int]()
    probe = ProbeSubscriber[int](1, hold=True, on_item=lambda _: probe.holds.append(source.hold()))
    source.subscribe(probe)
    source.next(1)

    probe.holds[0].fail(ValueError())
    assert source.outcomes == [None]
    probe.holds[1].done()

    assert source.outcomes == ["failed"]


def test_a_subscriber_that_raises_fails_the_item() -> None:
    def refuse(item: int) -> None:
        raise ValueError(item)

    source, probe = ManualPublisher[int](), ProbeSubscriber[int](1, on_item=refuse)
    source.subscribe(probe)

    with pytest.raises(ValueError, match="7"):
        source.next(7)

    assert source.outcomes == ["failed"]
    assert isinstance(source.errors[0], ValueError)


def test_signals_go_on_after_a_cancel() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](1)
    source.subscribe(probe)

    probe.cancel()
    source.next(1)
    source.complete()

    assert source.cancelled
    assert probe.signals == ["on_subscribe", "on_next", "on_complete"]
    assert probe.completed


def test_a_new_subscriber_takes_the_place_of_the_one_before() -> None:
    source, first, second = ManualPublisher[int](), ProbeSubscriber[int](5), ProbeSubscriber[int](1)
    source.subscribe(first)
    first.cancel()
    source.subscribe(second)

    source.next(1)
    source.error(ValueError())

    assert source.subscriptions == 2
    assert not source.cancelled
    assert source.outstanding == 0
    assert first.items == []
    assert second.items == [1]
    assert second.ended


def test_a_recorded_hold_can_be_shared() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](1, hold=True)
    source.subscribe(probe)
    source.next(1)

    claims_on(*probe.holds).release()

    assert source.outcomes == ["released"]


def test_a_second_subscription_is_cancelled_while_the_first_lives() -> None:
    probe, first, second = ProbeSubscriber[int](1), ManualPublisher[int](), ManualPublisher[int]()
    first.subscribe(probe)
    second.subscribe(probe)
    assert (first.cancelled, second.cancelled) == (False, True)
    assert second.requests == []
    probe.request(2)
    assert first.requests == [1, 2]

    first.complete()
    third = ManualPublisher[int]()
    third.subscribe(probe)
    assert (third.cancelled, third.requests) == (False, [1])
