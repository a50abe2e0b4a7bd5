import pytest

from rstreams._demand import UNBOUNDED
from rstreams.operators.switch_map import switch_map
from rstreams.sources.from_iterable import from_iterable
from rstreams.sources.of import of
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.operators.contract import FunctionContract


class TestSwitchMap(FunctionContract):
    holds_what_it_keeps = False  # the outer item is held whose stream is running
    build = staticmethod(lambda source: switch_map(source, of))
    model = staticmethod(lambda items: items)
    requests = ((1, [UNBOUNDED]), (5, [UNBOUNDED]), (UNBOUNDED, [UNBOUNDED]))
    failing = staticmethod(lambda source, function: switch_map(source, lambda _: function()))

    @pytest.mark.parametrize("step", [1, 5])
    def test_items_come_as_requested_and_no_more(self, step: int) -> None:
        probe = ProbeSubscriber[int](1)
        switch_map(from_iterable([1, 2, 3]), lambda x: of(x, x * 10)).subscribe(probe)
        assert probe.items == [1]

        probe.request(step)
        probe.request(step)

        assert probe.items == [1, 3, 30]  # the streams of 1 and 2 were switched away from
        assert probe.completed

    test_requesting_one_more_in_on_next_does_not_recurse = None  # see the test of the demand carried over


def test_an_outer_item_switched_away_from_is_done_and_the_unmet_demand_goes_on() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[str](3)
    inners = [ManualPublisher[str](), ManualPublisher[str]()]
    switch_map(source, lambda x: inners[x]).subscribe(probe)
    source.next(0)
    inners[0].next("a")
    source.next(1)
    inners[0].next("late")
    inners[1].next("b")

    assert probe.items == ["a", "b"]
    assert inners[0].cancelled
    assert (inners[0].requests, inners[1].requests) == ([3], [2])
    assert source.outcomes == ["done", None]
    source.complete()
    assert not probe.completed
    inners[1].complete()
    assert probe.completed


def test_an_outer_item_that_comes_out_of_on_next_waits_until_that_has_returned() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](9)
    switch_map(source, lambda x: of(x, x * 10)).subscribe(probe)
    depth = 0

    def on_item(item: int) -> None:
        nonlocal depth
        assert not depth  # signals come one after the other (1.3)
        depth += 1
        if item == 1:
            source.next(2, 3)
            source.complete()
        depth -= 1

    probe.on_item = on_item
    source.next(1)

    assert probe.items == [1, 3, 30]
    assert probe.completed
    assert source.outcomes == ["done", "done", "done"]


def test_an_outer_item_that_waits_for_on_next_is_given_back_on_cancel() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](9)
    switch_map(source, of).subscribe(probe)

    def on_item(_item: int) -> None:
        source.next(2)
        assert source.outcomes[1] is None
        probe.cancel()

    probe.on_item = on_item
    source.next(1)

    assert probe.items == [1]
    assert source.cancelled
    assert source.outcomes[1] == "released"
