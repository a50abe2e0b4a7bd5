import pytest

from rstreams._core.demand import UNBOUNDED
from rstreams.errors import NoItem
from rstreams.operators.first import first
from rstreams.sources.empty import empty
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.operators.contract import FunctionContract
from tests.operators.folding_contract import FoundFirstContract


class TestFirst(FoundFirstContract):
    build = staticmethod(first)
    model = staticmethod(lambda items: items[:1])
    requests = ((1, [1]), (5, [1]), (UNBOUNDED, [1]))


class TestFirstThatPasses(FoundFirstContract, FunctionContract):
    build = staticmethod(lambda source: first(source, lambda x: x < 3))
    model = staticmethod(lambda items: [x for x in items if x < 3][:1])
    requests = ((1, [1]), (5, [1]), (UNBOUNDED, [1]))
    failing = staticmethod(lambda source, function: first(source, lambda _: function()))


def test_one_item_is_asked_for_and_the_source_cancelled() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](UNBOUNDED)
    first(source).subscribe(probe)
    assert source.requests == [1]
    source.next(1)
    assert (probe.items, probe.completed, source.cancelled) == ([1], True, True)


def test_the_first_that_passes_a_test() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](1)
    first(source, lambda x: x > 1).subscribe(probe)
    source.next(1, 2)
    assert (probe.items, probe.completed, source.cancelled) == ([2], True, True)
    assert source.requests == [1, 1]


def test_none_is_an_error_without_demand() -> None:
    probe = ProbeSubscriber[int]()
    first(empty()).subscribe(probe)
    assert isinstance(probe.error, NoItem)
    assert str(probe.error) == "first(): the stream completed without such an item"


def test_each_subscriber_gets_an_error_of_its_own() -> None:
    publisher = first(empty())
    probes = [ProbeSubscriber[int](1) for _ in range(2)]
    for probe in probes:
        publisher.subscribe(probe)
    assert probes[0].error is not probes[1].error


def test_the_item_is_held_by_whoever_holds_it() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](1, hold=True)
    first(source).subscribe(probe)
    source.next(1)
    assert source.outcomes == [None]
    probe.holds[0].done()
    assert source.outcomes == ["done"]


def test_an_error_of_the_source_passes_through() -> None:
    source, probe, error = ManualPublisher[int](), ProbeSubscriber[int](1), LookupError()
    first(source).subscribe(probe)
    source.error(error)
    assert probe.error is error


def test_what_the_predicate_raises_ends_the_stream() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](1)
    first(source, lambda x: 1 // x).subscribe(probe)
    source.next(0)
    assert isinstance(probe.error, ZeroDivisionError)
    assert source.outcomes == ["failed"]


def test_nobody_cannot_subscribe() -> None:
    with pytest.raises(TypeError, match=r"1\.9"):
        first(ManualPublisher[int]()).subscribe(None)  # type: ignore[arg-type]
