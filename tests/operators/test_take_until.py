import pytest

from rstreams._core.demand import UNBOUNDED
from rstreams.operators.take_until import take_until
from rstreams.sources.empty import empty
from rstreams.sources.never import never
from rstreams.sources.of import of
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.operators.beside_contract import BesideContract
from tests.operators.contract import OperatorContract


class TestTakeUntil(BesideContract):
    beside = staticmethod(take_until)
    operator = "take_until"
    build = staticmethod(lambda source: take_until(source, never()))
    model = list
    requests = ((1, [1]), (5, [5]), (UNBOUNDED, [UNBOUNDED]))


class TestTakeUntilEmpty(OperatorContract):
    build = staticmethod(lambda source: take_until(source, empty()))
    model = list
    requests = ((1, [1]),)


def _subscribed() -> tuple[ManualPublisher[int], ManualPublisher[str], ProbeSubscriber[int]]:
    source, boundary, probe = ManualPublisher[int](), ManualPublisher[str](), ProbeSubscriber[int](9)
    take_until(source, boundary).subscribe(probe)
    return source, boundary, probe


def test_the_first_item_of_the_boundary_ends_the_stream() -> None:
    source, boundary, probe = _subscribed()
    source.next(1)
    boundary.next("stop")
    assert (probe.items, probe.completed) == ([1], True)
    assert source.cancelled
    assert boundary.cancelled


def test_nothing_follows_it() -> None:
    source, boundary, probe = _subscribed()
    boundary.next("stop")
    source.next(1)
    source.complete()
    assert probe.signals == ["on_subscribe", "on_complete"]


def test_a_boundary_that_is_there_at_once() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](9)
    take_until(source, of("stop")).subscribe(probe)
    assert probe.signals == ["on_subscribe", "on_complete"]
    assert source.cancelled


def test_a_boundary_that_is_there_before_the_first_item_of_a_quick_source() -> None:
    probe = ProbeSubscriber[int](9)
    take_until(of(1, 2, 3), of("stop")).subscribe(probe)
    assert probe.signals == ["on_subscribe", "on_complete"]


@pytest.mark.parametrize("first", ["next", "error"])
def test_a_boundary_that_comes_out_of_on_next_waits_until_that_has_returned(first: str) -> None:
    source, boundary, probe = _subscribed()

    def on_item(_item: int) -> None:
        boundary.next("stop") if first == "next" else boundary.error(LookupError())
        probe.request(1)
        assert not probe.ended

    probe.on_item = on_item
    source.next(1)
    assert probe.signals == ["on_subscribe", "on_next", "on_complete" if first == "next" else "on_error"]
    assert source.cancelled
    assert source.requests == [9]  # and nothing for what will not come any more


def test_a_subscriber_that_raises_ends_the_boundary_too() -> None:
    source, boundary, probe = _subscribed()

    def on_item(_item: int) -> None:
        raise ArithmeticError

    probe.on_item = on_item
    with pytest.raises(ArithmeticError):
        source.next(1)
    assert boundary.cancelled
