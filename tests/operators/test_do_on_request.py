from rstreams._core.demand import UNBOUNDED
from rstreams.errors import DemandError
from rstreams.operators.do_on_request import do_on_request
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.operators.contract import OperatorContract


class TestDoOnRequest(OperatorContract):
    build = staticmethod(lambda source: do_on_request(source, lambda _: None))
    model = list
    requests = ((1, [1]), (5, [5]), (UNBOUNDED, [UNBOUNDED]))


def test_the_function_sees_each_request_before_the_source() -> None:
    seen: list[tuple[int, list[int]]] = []
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](2)
    do_on_request(source, lambda n: seen.append((n, list(source.requests)))).subscribe(probe)
    probe.request(3)
    probe.cancel()
    probe.request(4)

    assert seen == [(2, []), (3, [2])]


def test_a_wrong_demand_is_not_shown() -> None:
    seen: list[int] = []
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](2)
    do_on_request(source, seen.append).subscribe(probe)
    probe.request(0)

    assert isinstance(probe.error, DemandError)
    assert seen == [2]


def test_what_the_function_raises_ends_the_stream() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](1)
    do_on_request(source, lambda _: 1 / 0).subscribe(probe)

    assert isinstance(probe.error, ZeroDivisionError)
    assert probe.signals == ["on_subscribe", "on_error"]
    assert source.cancelled
    assert source.requests == []


def test_a_function_may_cancel() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int]()
    do_on_request(source, lambda _: probe.cancel()).subscribe(probe)
    probe.request(1)

    assert source.cancelled
    assert probe.signals == ["on_subscribe"]
