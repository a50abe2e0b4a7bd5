from rstreams._core.demand import UNBOUNDED
from rstreams.errors import NoItem
from rstreams.operators.last import last
from rstreams.sources.empty import empty
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.operators.contract import FunctionContract
from tests.operators.folding_contract import FoundLastContract


class TestLast(FoundLastContract):
    build = staticmethod(last)
    model = staticmethod(lambda items: items[-1:])
    requests = ((1, [UNBOUNDED]), (5, [UNBOUNDED]), (UNBOUNDED, [UNBOUNDED]))


class TestLastThatPasses(FoundLastContract, FunctionContract):
    build = staticmethod(lambda source: last(source, lambda x: x < 3))
    model = staticmethod(lambda items: [x for x in items if x < 3][-1:])
    requests = ((1, [UNBOUNDED]), (5, [UNBOUNDED]), (UNBOUNDED, [UNBOUNDED]))
    failing = staticmethod(lambda source, function: last(source, lambda _: function()))


def test_the_last_item_waits_for_the_end_and_for_demand() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](1)
    last(source).subscribe(probe)
    assert source.requests == [UNBOUNDED]
    source.next(1, 2, 3)
    assert (probe.items, source.outcomes) == ([], ["done", "done", None])
    source.complete()
    assert (probe.items, probe.completed) == ([3], True)


def test_the_last_that_passes_a_test() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](1)
    last(source, lambda x: x < 3).subscribe(probe)
    source.next(1, 2, 3)
    source.complete()
    assert probe.items == [2]


def test_none_is_an_error() -> None:
    probe = ProbeSubscriber[int](1)
    last(empty()).subscribe(probe)
    assert isinstance(probe.error, NoItem)
    assert "last()" in str(probe.error)


def test_a_cancel_gives_the_item_kept_back() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](1)
    last(source).subscribe(probe)
    source.next(1, 2)
    probe.cancel()
    assert source.outcomes == ["done", "released"]
