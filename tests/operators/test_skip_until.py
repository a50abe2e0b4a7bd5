from rstreams._core.demand import UNBOUNDED
from rstreams.operators.skip_until import skip_until
from rstreams.sources.of import of
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.operators.beside_contract import BesideContract


class TestSkipUntil(BesideContract):
    beside = staticmethod(skip_until)
    operator = "skip_until"
    build = staticmethod(lambda source: skip_until(source, of("go")))
    model = list
    requests = ((1, [1]), (5, [5]), (UNBOUNDED, [UNBOUNDED]))


def _subscribed() -> tuple[ManualPublisher[int], ManualPublisher[str], ProbeSubscriber[int]]:
    source, boundary, probe = ManualPublisher[int](), ManualPublisher[str](), ProbeSubscriber[int](2)
    skip_until(source, boundary).subscribe(probe)
    return source, boundary, probe


def test_items_before_the_boundary_are_dropped_and_asked_for_again() -> None:
    source, boundary, probe = _subscribed()
    source.next(1, 2)
    boundary.next("go")
    source.next(3, 4)
    assert probe.items == [3, 4]
    assert source.requests == [2, 1, 1]
    assert source.outcomes == ["done"] * 4
    assert boundary.cancelled


def test_a_boundary_without_items_lets_none_through() -> None:
    source, boundary, probe = _subscribed()
    boundary.complete()
    source.next(1)
    source.complete()
    assert probe.signals == ["on_subscribe", "on_complete"]


def test_a_boundary_that_is_there_before_the_first_item_of_a_quick_source() -> None:
    probe = ProbeSubscriber[int](9)
    skip_until(of(1, 2, 3), of("go")).subscribe(probe)
    assert probe.items == [1, 2, 3]
