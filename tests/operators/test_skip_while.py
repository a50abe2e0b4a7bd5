import pytest

from rstreams._core.demand import UNBOUNDED
from rstreams.operators.skip_while import skip_while
from rstreams.sources.range import range as range_
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.operators.contract import FunctionContract


class TestSkipWhile(FunctionContract):
    build = staticmethod(lambda source: skip_while(source, lambda x: x < 3))
    model = staticmethod(lambda items: items[next((i for i, x in enumerate(items) if x >= 3), len(items)) :])
    requests = ((1, [1]), (5, [5]), (UNBOUNDED, [UNBOUNDED]))
    failing = staticmethod(lambda source, function: skip_while(source, lambda _: function()))


def test_each_item_dropped_is_asked_for_again_and_done() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](2)
    skip_while(source, lambda x: x < 3).subscribe(probe)
    source.next(1, 2, 3, 1)
    assert probe.items == [3, 1]
    assert source.requests == [2, 1, 1]
    assert source.outcomes == ["done"] * 4


def test_the_predicate_is_not_called_any_more_once_it_was_false() -> None:
    seen: list[int] = []
    probe = ProbeSubscriber[int](UNBOUNDED)
    skip_while(range_(5), lambda x: seen.append(x) or x < 2).subscribe(probe)  # type: ignore[func-returns-value]
    assert seen == [0, 1, 2]


@pytest.mark.slow
def test_many_dropped_items_need_no_stack() -> None:
    probe = ProbeSubscriber[int](1)
    skip_while(range_(100_001), lambda x: x < 100_000).subscribe(probe)
    assert probe.items == [100_000]
