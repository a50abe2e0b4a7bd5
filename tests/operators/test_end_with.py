from rstreams._core.demand import UNBOUNDED
from rstreams.operators.end_with import end_with
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.operators.contract import OperatorContract


class TestEndWithNothing(OperatorContract):
    build = staticmethod(end_with)
    model = list
    requests = ((1, [1]), (5, [5]), (UNBOUNDED, [UNBOUNDED]))


def test_what_the_source_leaves_unmet_is_met() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](3)
    end_with(source, 8, 9, 10).subscribe(probe)
    source.next(1)
    source.complete()
    assert (probe.items, probe.completed) == ([1, 8, 9], False)
    probe.request(1)
    assert (probe.items, probe.completed) == ([1, 8, 9, 10], True)


def test_without_demand_the_items_wait() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int]()
    end_with(source, 8).subscribe(probe)
    source.complete()
    assert (probe.items, probe.completed) == ([], False)
    probe.request(1)
    assert (probe.items, probe.completed) == ([8], True)


def test_behind_an_error_they_are_left_out() -> None:
    source, probe, error = ManualPublisher[int](), ProbeSubscriber[int](UNBOUNDED), ValueError("first")
    end_with(source, 8, 9).subscribe(probe)
    source.error(error)
    assert (probe.items, probe.error) == ([], error)


def test_a_cancel_among_the_items() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](on_item=lambda _: probe.cancel())
    end_with(source, 8, 9).subscribe(probe)
    probe.request(UNBOUNDED)
    source.complete()
    assert probe.items == [8]
    assert not probe.completed
