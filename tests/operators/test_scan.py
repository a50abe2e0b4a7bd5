import operator
from itertools import accumulate

import pytest

from rstreams import Stream
from rstreams._core.demand import UNBOUNDED
from rstreams.operators.scan import scan
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.operators.contract import FunctionContract, OperatorContract


class TestScan(FunctionContract):
    build = staticmethod(lambda source: scan(source, lambda total, x: total + x, 100))
    model = staticmethod(lambda items: list(accumulate(items, initial=100))[1:])
    requests = ((1, [1]), (5, [5]), (UNBOUNDED, [UNBOUNDED]))
    failing = staticmethod(lambda source, function: scan(source, lambda _total, _x: function(), None))


def test_the_result_may_be_of_another_type_than_the_items() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[str](3)
    scan(source, lambda text, x: f"{text}{x}", "").subscribe(probe)

    source.next(1, 2, 3)

    assert probe.items == ["1", "12", "123"]


def test_an_item_is_held_alone_not_with_those_before_it() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](3, hold=True)
    scan(source, lambda total, x: total + x, 0).subscribe(probe)
    source.next(1, 2)

    probe.holds[1].fail(ValueError())

    assert source.outcomes == [None, "failed"]


class TestScanWithoutSeed(OperatorContract):
    build = staticmethod(lambda source: scan(source, operator.sub))
    model = staticmethod(lambda items: list(accumulate(items, operator.sub)))
    requests = ((1, [1]), (5, [5]), (UNBOUNDED, [UNBOUNDED]))


@pytest.mark.parametrize("first", [None, 0, (), ...])
def test_without_a_seed_the_first_item_is_emitted_as_it_is(first: object) -> None:
    source, probe = ManualPublisher[object](), ProbeSubscriber[object](3)
    scan(source, lambda a, b: (a, b)).subscribe(probe)

    source.next(first, 1, 2)

    assert probe.items == [first, (first, 1), ((first, 1), 2)]


async def test_each_subscriber_without_a_seed_begins_with_its_first_item() -> None:
    running = Stream.of(1, 2, 3).scan(operator.add)

    assert [await running.to_list() for _ in range(2)] == [[1, 3, 6]] * 2
