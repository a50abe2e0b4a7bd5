from rstreams._demand import UNBOUNDED
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
