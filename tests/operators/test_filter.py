import pytest

from rstreams._core.demand import UNBOUNDED
from rstreams.operators.filter import filter as filter_
from rstreams.sources.range import range as range_
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.operators.contract import FunctionContract


class TestFilter(FunctionContract):
    build = staticmethod(lambda source: filter_(source, lambda x: x % 2))
    model = staticmethod(lambda items: [x for x in items if x % 2])
    requests = ((1, [1]), (5, [5]), (UNBOUNDED, [UNBOUNDED]))
    failing = staticmethod(lambda source, function: filter_(source, lambda _: function()))


def test_each_item_dropped_is_asked_for_again() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](2)
    filter_(source, lambda x: x > 10).subscribe(probe)

    source.next(1, 2, 11, 3, 12)

    assert probe.items == [11, 12]
    assert source.requests == [2, 1, 1, 1]
    assert source.outstanding == 0
    assert source.outcomes == ["done"] * 5


def test_nothing_is_asked_for_again_once_demand_is_unbounded() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](1)
    filter_(source, lambda x: x > 10).subscribe(probe)
    probe.request(UNBOUNDED)

    source.next(1, 2, 3)

    assert source.requests == [1, UNBOUNDED]


@pytest.mark.slow
def test_a_million_dropped_items_need_no_stack() -> None:
    probe = ProbeSubscriber[int](1)

    filter_(range_(1_000_001), lambda x: x == 1_000_000).subscribe(probe)

    assert probe.items == [1_000_000]


def test_truth_that_cannot_be_told_is_an_error_of_the_predicate() -> None:
    class Undecided:
        def __bool__(self) -> bool:
            raise ValueError

    source, probe = ManualPublisher[int](), ProbeSubscriber[int](1)
    filter_(source, lambda _: Undecided()).subscribe(probe)

    source.next(1)

    assert isinstance(probe.error, ValueError)
    assert source.outcomes == ["failed"]
