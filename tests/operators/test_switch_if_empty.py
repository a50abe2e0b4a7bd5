import pytest

from rstreams._core.demand import UNBOUNDED
from rstreams.operators.switch_if_empty import switch_if_empty
from rstreams.sources.empty import empty
from rstreams.sources.never import never
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.operators.contract import OperatorContract


class TestSwitchIfEmpty(OperatorContract):
    build = staticmethod(lambda source: switch_if_empty(source, empty()))
    model = list
    requests = ((1, [1]), (5, [5]), (UNBOUNDED, [UNBOUNDED]))


def test_the_other_gets_the_demand_of_an_empty_source() -> None:
    source, other, probe = ManualPublisher[int](), ManualPublisher[int](), ProbeSubscriber[int](3)
    switch_if_empty(source, other).subscribe(probe)
    assert other.subscriptions == 0
    source.complete()
    assert other.requests == [3]
    other.next(8)
    probe.request(1)
    other.complete()
    assert (probe.items, probe.completed) == ([8], True)
    assert other.requests == [3, 1]


def test_the_other_is_left_alone_if_there_was_an_item() -> None:
    source, other, probe = ManualPublisher[int](), ManualPublisher[int](), ProbeSubscriber[int](3)
    switch_if_empty(source, other).subscribe(probe)
    source.next(1)
    source.complete()
    assert other.subscriptions == 0
    assert probe.completed


def test_a_cancel_reaches_the_other() -> None:
    source, other, probe = ManualPublisher[int](), ManualPublisher[int](), ProbeSubscriber[int](3)
    switch_if_empty(source, other).subscribe(probe)
    source.complete()
    probe.cancel()
    assert other.cancelled


def test_an_other_that_is_empty_too() -> None:
    probe = ProbeSubscriber[int]()
    switch_if_empty(empty(), empty()).subscribe(probe)
    assert probe.completed


def test_the_other_is_a_publisher() -> None:
    with pytest.raises(TypeError, match=r"switch_if_empty\(other\): other must be a Publisher, not 7"):
        switch_if_empty(never(), 7)  # type: ignore[arg-type]
