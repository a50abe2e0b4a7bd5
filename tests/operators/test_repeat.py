from concurrent.futures import ThreadPoolExecutor

import pytest

from rstreams._core.demand import UNBOUNDED
from rstreams.errors import DemandError, SpecViolation
from rstreams.operators.repeat import repeat
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.operators.again_contract import AgainContract


class TestRepeat(AgainContract):
    again = staticmethod(repeat)
    operator = "repeat"
    least = 1
    after_failure = False
    build = staticmethod(lambda source: repeat(source, 1))
    model = list
    requests = ((1, [1]), (5, [5]), (UNBOUNDED, [UNBOUNDED]))


def test_without_demand_it_waits_for_a_request() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](1)
    repeat(source, 2).subscribe(probe)
    source.next(1)
    source.complete()
    source.complete()  # a source that breaks 1.7 is not taken for the next one
    assert source.subscriptions == 1
    probe.request(2)
    assert source.subscriptions == 2
    assert source.requests == [1, 2]
    source.next(2)
    source.complete()

    assert probe.items == [1, 2]
    assert probe.completed
    assert not source.cancelled


def test_a_wrong_demand_while_it_waits_ends_it() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](1)
    repeat(source).subscribe(probe)
    source.next(1)
    source.complete()
    probe.request(0)
    probe.request(1)

    assert isinstance(probe.error, DemandError)
    assert source.subscriptions == 1


def test_a_request_from_another_thread_while_it_waits_changes_nothing() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](1)
    repeat(source).subscribe(probe)
    source.next(1)
    source.complete()
    with ThreadPoolExecutor(1) as threads, pytest.raises(SpecViolation):
        threads.submit(probe.request, 1).result()
    assert source.subscriptions == 1
    probe.request(1)

    assert source.subscriptions == 2


def test_an_error_ends_it_and_the_source_is_not_asked_again() -> None:
    source, probe, error = ManualPublisher[int](), ProbeSubscriber[int](5), ValueError()
    repeat(source).subscribe(probe)
    source.complete()
    source.error(error)
    probe.request(1)

    assert probe.error is error
    assert source.subscriptions == 2
