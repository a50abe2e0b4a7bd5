from rstreams._core.demand import UNBOUNDED
from rstreams.operators.merge_sorted import merge_sorted
from rstreams.sources.empty import empty
from rstreams.sources.of import of
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.operators.contract import OperatorContract


class TestMergeSorted(OperatorContract):
    build = staticmethod(lambda source: merge_sorted(source, empty(), key=lambda _: 0))
    model = staticmethod(lambda items: items)
    requests = ((1, [32]), (5, [32]), (UNBOUNDED, [32]))


def test_the_smallest_comes_next_and_every_live_source_is_waited_for() -> None:
    one, two, probe = ManualPublisher[int](), ManualPublisher[int](), ProbeSubscriber[int](UNBOUNDED)
    merge_sorted(one, two).subscribe(probe)
    one.next(1, 4)
    assert probe.items == []

    two.next(2, 3)
    assert probe.items == [1, 2, 3]
    two.complete()

    assert probe.items == [1, 2, 3, 4]


def test_the_key_decides_and_of_equal_items_the_earlier_source_goes_first() -> None:
    probe = ProbeSubscriber[str](UNBOUNDED)

    merge_sorted(of("a", "ccc"), of("b", "dd"), key=len).subscribe(probe)

    assert probe.items == ["a", "b", "dd", "ccc"]
    assert probe.completed


def test_a_key_that_raises_fails_its_item() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](1)
    merge_sorted(source, key=lambda x: 1 // x).subscribe(probe)

    source.next(0)

    assert isinstance(probe.error, ZeroDivisionError)
    assert source.outcomes == ["failed"]
    assert source.cancelled


def test_items_that_cannot_be_compared() -> None:
    probe = ProbeSubscriber[object](1)

    merge_sorted(of(1), of("a")).subscribe(probe)

    assert isinstance(probe.error, TypeError)
