import functools
import operator

import pytest

from rstreams._core.demand import UNBOUNDED
from rstreams.errors import NoItem
from rstreams.operators.buffer_count import buffer_count
from rstreams.operators.reduce import reduce
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.operators.contract import FunctionContract


class TestReduce(FunctionContract):
    build = staticmethod(lambda source: reduce(source, lambda total, x: total + x, 100))
    model = staticmethod(lambda items: [sum(items, start=100)])
    requests = ((1, [UNBOUNDED]), (5, [UNBOUNDED]), (UNBOUNDED, [UNBOUNDED]))
    failing = staticmethod(lambda source, function: reduce(source, lambda _total, _x: function(), None))
    forwards_holds = False  # an item is done when it is folded in

    def test_cancel_midway(self) -> None:
        source, probe = self.subscribe()
        self.feed(source, [1, 2])

        probe.cancel()
        source.complete()

        assert source.cancelled
        assert probe.signals == ["on_subscribe"]


@pytest.mark.parametrize("items", [[5], [5, 1], [5, 1, 2, 3]])
def test_without_a_seed_the_first_item_is_the_seed(items: list[int]) -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](1)
    reduce(source, operator.sub).subscribe(probe)

    source.next(*items)
    source.complete()

    assert probe.items == [functools.reduce(operator.sub, items)]


def test_without_a_seed_the_accumulator_may_fail() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](1)
    reduce(source, operator.floordiv).subscribe(probe)

    source.next(1, 0)

    assert isinstance(probe.error, ZeroDivisionError)
    assert source.outcomes == ["released", "failed"]


def test_without_a_seed_an_empty_stream_has_no_result() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](1)
    reduce(source, operator.add).subscribe(probe)

    source.complete()

    assert isinstance(probe.error, NoItem)
    assert str(probe.error) == "reduce() without a seed: the stream completed without an item"


@pytest.mark.parametrize("item", [None, 0, ...])
def test_without_a_seed_one_item_is_the_result(item: object) -> None:
    source, probe = ManualPublisher[object](), ProbeSubscriber[object](1)
    reduce(source, lambda a, b: (a, b)).subscribe(probe)

    source.next(item)
    source.complete()

    assert probe.items == [item]
    assert source.outcomes == ["done"]


def test_the_result_waits_for_demand() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int]()
    reduce(source, lambda total, x: total + x, 7).subscribe(probe)

    source.complete()
    assert probe.signals == ["on_subscribe"]
    probe.request(1)

    assert probe.items == [7]
    assert probe.completed
    assert source.requests == []  # 2.3: it is over there


def test_a_result_that_waits_can_be_cancelled() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int]()
    reduce(source, lambda total, x: total + x, 7).subscribe(probe)
    source.complete()

    probe.cancel()
    probe.request(1)

    assert probe.signals == ["on_subscribe"]
    assert not source.cancelled


def test_the_source_is_asked_once() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](1)
    reduce(source, lambda total, x: total + x, 0).subscribe(probe)

    probe.request(1)
    probe.request(UNBOUNDED)

    assert source.requests == [UNBOUNDED]


def test_more_demand_while_the_result_is_emitted_brings_no_second_one() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](1, on_item=lambda _: probe.request(1))
    reduce(source, lambda total, x: total + x, 0).subscribe(probe)

    source.next(1, 2)
    source.complete()

    assert probe.signals == ["on_subscribe", "on_next", "on_complete"]


def test_cancel_while_the_result_is_emitted_leaves_out_the_completion() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](1, on_item=lambda _: probe.cancel())
    reduce(source, lambda total, x: total + x, 0).subscribe(probe)

    source.complete()

    assert probe.signals == ["on_subscribe", "on_next"]


def test_the_window_of_a_link_does_not_limit_what_comes_after_it() -> None:
    class Link(ManualPublisher[int]):
        window = 2

    source, probe = Link(), ProbeSubscriber[list[int]](1)

    buffer_count(reduce(source, lambda total, x: total + x, 0), 10).subscribe(probe)
    source.next(1, 2)
    source.complete()

    assert probe.items == [[3]]
    assert probe.completed
