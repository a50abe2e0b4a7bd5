from rstreams._core.demand import UNBOUNDED
from rstreams.operators.merge_priority import merge_priority
from rstreams.sources.empty import empty
from rstreams.sources.fail import fail
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.operators.contract import OperatorContract


class TestMergePriority(OperatorContract):
    build = staticmethod(lambda source: merge_priority(empty(), source))
    model = staticmethod(lambda items: items)
    requests = ((1, [32]), (5, [32]), (UNBOUNDED, [32]))


def test_waiting_items_of_earlier_sources_go_first() -> None:
    one, two, probe = ManualPublisher[int](), ManualPublisher[int](), ProbeSubscriber[int](1)
    merge_priority(one, two).subscribe(probe)
    two.next(10, 11, 12)
    one.next(1, 2)

    probe.request(3)

    assert probe.items == [10, 1, 2, 11]


def test_delayed_errors_wait_for_the_others() -> None:
    one, probe, error = ManualPublisher[int](), ProbeSubscriber[int](9), ValueError()
    merge_priority(fail(error), one, delay_errors=True).subscribe(probe)
    one.next(1)
    assert not probe.ended

    one.complete()

    assert probe.items == [1]
    assert probe.error is error
