from rstreams._core.demand import UNBOUNDED
from rstreams.operators.start_with import start_with
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.operators.contract import OperatorContract


class TestStartWithNothing(OperatorContract):
    build = staticmethod(start_with)
    model = list
    requests = ((1, [1]), (5, [5]), (UNBOUNDED, [UNBOUNDED]))


def test_the_source_gets_the_demand_that_is_left() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](1)
    start_with(source, 8, 9).subscribe(probe)
    assert (probe.items, source.subscriptions) == ([8], 0)
    probe.request(3)
    assert (probe.items, source.requests) == ([8, 9], [2])
    source.next(1)
    source.complete()
    assert (probe.items, probe.completed) == ([8, 9, 1], True)


def test_an_error_of_the_source_comes_behind_the_items() -> None:
    source, probe, error = ManualPublisher[int](), ProbeSubscriber[int](UNBOUNDED), ValueError("first")
    start_with(source, 8, 9).subscribe(probe)

    source.error(error)

    assert probe.items == [8, 9]
    assert probe.error is error


def test_a_cancel_among_the_items_leaves_the_source_alone() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](on_item=lambda _: probe.cancel())
    start_with(source, 8, 9).subscribe(probe)

    probe.request(UNBOUNDED)

    assert probe.items == [8]
    assert source.subscriptions == 0


def test_one_item_at_a_time_out_of_on_next() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](on_item=lambda _: probe.request(1))
    start_with(source, 8, 9).subscribe(probe)

    probe.request(1)
    source.next(1)
    source.complete()

    assert probe.items == [8, 9, 1]
    assert source.requests == [1, 1]
    assert probe.completed
