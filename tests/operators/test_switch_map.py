import pytest

from rstreams._core.demand import UNBOUNDED
from rstreams.abc import Publisher
from rstreams.operators.switch_map import switch_map
from rstreams.sources.from_iterable import from_iterable
from rstreams.sources.of import of
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.operators.contract import ITEMS, FunctionContract


class TestSwitchMap(FunctionContract):
    holds_what_it_keeps = False  # the outer item is held whose stream is running
    build = staticmethod(lambda source: switch_map(source, of))
    model = staticmethod(lambda items: items)
    slowly = staticmethod(lambda items: [items[0], items[-1]])  # the streams between were switched away from
    requests = ((1, [UNBOUNDED]), (5, [UNBOUNDED]), (UNBOUNDED, [UNBOUNDED]))
    failing = staticmethod(lambda source, function: switch_map(source, lambda _: function()))

    @pytest.mark.parametrize("step", [1, 2, 3])
    def test_items_come_as_requested_and_no_more(self, step: int) -> None:
        """The source does not wait: streams that nobody asks for an item are switched away from, but for the last."""
        probe = ProbeSubscriber[int](step)

        switch_map(from_iterable(ITEMS), of).subscribe(probe)
        assert probe.items == ITEMS[:step]
        assert not probe.completed
        probe.request(1)

        assert probe.items == [*ITEMS[:step], ITEMS[-1]]
        assert probe.completed


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


def test_an_interrupt_of_the_function_passes_and_leaves_no_item_unsettled() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](1)

    def interrupt(_item: int) -> Publisher[int]:
        raise KeyboardInterrupt

    switch_map(source, interrupt).subscribe(probe)
    with pytest.raises(KeyboardInterrupt):
        source.next(1)

    assert source.outcomes == ["failed"]
    assert source.cancelled
    assert probe.signals == ["on_subscribe"]
