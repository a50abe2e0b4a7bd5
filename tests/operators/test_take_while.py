import pytest

from rstreams._core.demand import UNBOUNDED
from rstreams.operators.take_while import take_while
from rstreams.sources.range import range as range_
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.operators.contract import FunctionContract


class TestTakeWhile(FunctionContract):
    build = staticmethod(lambda source: take_while(source, lambda x: x < 4))
    model = staticmethod(lambda items: items[: next((i for i, x in enumerate(items) if x >= 4), len(items))])
    requests = ((1, [1]), (5, [5]), (UNBOUNDED, [UNBOUNDED]))
    failing = staticmethod(lambda source, function: take_while(source, lambda _: function()))

    def test_requesting_one_more_in_on_next_does_not_recurse(self) -> None:
        """All items of the contract's many pass, not the first four only."""
        probe = ProbeSubscriber[int](1)
        probe.on_item = lambda _: probe.request(1)
        take_while(range_(10_000), lambda x: x < 5_000).subscribe(probe)
        assert probe.items == [*range(5_000)]
        assert probe.completed


@pytest.mark.parametrize(("inclusive", "items"), [(False, [1, 2]), (True, [1, 2, 5])])
def test_the_last_item(inclusive: bool, items: list[int]) -> None:  # noqa: FBT001 - a parameter of the test
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](9)
    take_while(source, lambda x: x < 4, inclusive=inclusive).subscribe(probe)
    source.next(1, 2, 5)
    assert probe.items == items
    assert probe.completed
    assert source.cancelled
    assert source.outcomes == ["done"] * 3


def test_the_last_item_is_held_as_any_other() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](9, hold=True)
    take_while(source, lambda x: x < 4, inclusive=True).subscribe(probe)
    source.next(5)
    assert source.outcomes == [None]
    probe.holds[0].done()
    assert source.outcomes == ["done"]
