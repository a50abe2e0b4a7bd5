"""Every public source and operator under the verification kit."""

from __future__ import annotations

from typing import Any

import pytest

import rstreams.observables
import rstreams.push
from rstreams.abc import Publisher, Subscriber
from rstreams.sources.fail import fail
from rstreams.sources.never import never
from rstreams.testing import ManualPublisher, ProbeSubscriber, VirtualScheduler
from rstreams.testing.verification import IdentityProcessorVerification, PublisherVerification
from tests.conformance.house import House
from tests.conformance.subjects import (
    ITEMLESS,
    PROCESSORS,
    PUBLISHERS,
    SINGLES,
    Operator,
    public_modules,
    public_name,
    quick_first,
)


class TestPublishers(House, PublisherVerification[Any]):
    recursion_test_elements = 2_000

    @pytest.fixture(params=quick_first(PUBLISHERS))
    def subject(self, request: pytest.FixtureRequest) -> object:
        return request.param

    def create_publisher(self, elements: int) -> Publisher[Any]:
        return PUBLISHERS[str(self.case)](elements)


class TestSingles(House, PublisherVerification[Any]):
    min_elements_from_publisher = max_elements_from_publisher = 1

    @pytest.fixture(params=quick_first(SINGLES))
    def subject(self, request: pytest.FixtureRequest) -> object:
        return request.param

    def create_publisher(self, elements: int) -> Publisher[Any]:
        assert elements == 1
        return SINGLES[str(self.case)]()


class TestItemless(House, PublisherVerification[Any]):
    max_elements_from_publisher = 0

    @pytest.fixture(params=quick_first(ITEMLESS))
    def subject(self, request: pytest.FixtureRequest) -> object:
        return request.param

    def create_publisher(self, elements: int) -> Publisher[Any]:
        assert elements == 0
        return ITEMLESS[str(self.case)]()


class TestNever(House, PublisherVerification[Any]):
    max_elements_from_publisher = 0
    signals_completion = False

    @pytest.fixture
    def subject(self) -> object:
        return "never"

    def create_publisher(self, elements: int) -> Publisher[Any]:
        assert elements == 0
        return never()


class TestFail(House, PublisherVerification[Any]):
    max_elements_from_publisher = 0
    signals_completion = False
    can_fail = True

    @pytest.fixture
    def subject(self) -> object:
        return "fail"

    def create_publisher(self, elements: int) -> Publisher[Any]:
        assert elements == 0
        return fail(LookupError())

    def create_failed_publisher(self) -> Publisher[Any] | None:
        return fail(LookupError())


class TestProcessors(House, IdentityProcessorVerification[Any]):
    recursion_test_elements = 2_000
    can_fail = True

    @pytest.fixture(params=quick_first(PROCESSORS))
    def subject(self, request: pytest.FixtureRequest) -> object:
        return request.param

    def create_identity_processor(self, source: Publisher[Any]) -> Publisher[Any]:
        return PROCESSORS[str(self.case)](source)

    def create_failed_publisher(self) -> Publisher[Any] | None:
        return IdentityProcessorVerification.create_failed_publisher(self)


NAMES = {public_name(key) for key in [*PUBLISHERS, *PROCESSORS, *SINGLES, *ITEMLESS, "never", "fail"]}


@pytest.mark.parametrize("package", ["sources", "operators"])
def test_each_public_source_and_operator_is_among_the_subjects(package: str) -> None:
    missing = sorted(public_modules(package) - NAMES)
    assert not missing, f"add an entry to tests/conformance/<family>_cases.py for {missing}"


def test_each_push_source_and_both_ways_from_reactivex_are_among_the_subjects() -> None:
    assert set(rstreams.push.__all__) - {"EmitResult"} <= NAMES
    assert {"from_observable", "rx"} <= NAMES & set(rstreams.observables.__all__)


# what the TCK does not ask


@pytest.fixture(params=quick_first(PROCESSORS))
def operator(request: pytest.FixtureRequest) -> Operator:
    return PROCESSORS[request.param]


def test_an_operator_over_a_silent_source_is_silent(operator: Operator, virtual_scheduler: VirtualScheduler) -> None:
    probe = ProbeSubscriber[Any](1)
    operator(never()).subscribe(probe)
    virtual_scheduler.advance(60)
    assert probe.signals == ["on_subscribe"]


def test_what_an_end_brings_out_requests_nothing_of_the_source(
    operator: Operator, virtual_scheduler: VirtualScheduler
) -> None:
    """Rule 2.3, with items kept and a subscriber that asks for more as they come."""
    source, probe = ManualPublisher[Any](), ProbeSubscriber[Any](1)
    probe.on_item = lambda _: probe.request(1)
    operator(source).subscribe(probe)
    source.next(1)
    requests = list(source.requests)
    source.complete()
    assert source.requests == requests
    virtual_scheduler.advance(60)
    assert source.requests == requests
    assert not source.cancelled
    assert probe.items == [1]
    assert probe.completed


def test_an_item_that_is_none_is_an_item(operator: Operator, virtual_scheduler: VirtualScheduler) -> None:
    source, probe = ManualPublisher[Any](), ProbeSubscriber[Any](1)
    operator(source).subscribe(probe)
    source.next(None)
    virtual_scheduler.advance(60)
    assert probe.items == [None]


def test_a_subscription_that_is_none_is_refused_by_the_rules_name(
    operator: Operator, virtual_scheduler: VirtualScheduler
) -> None:
    class Broken(ManualPublisher[Any]):
        def subscribe(self, subscriber: Subscriber[Any]) -> None:
            subscriber.on_subscribe(None)  # type: ignore[arg-type]

    probe = ProbeSubscriber[Any]()
    with pytest.raises(TypeError, match=r"2\.13"):
        operator(Broken()).subscribe(probe)
        virtual_scheduler.advance(60)
        assert probe.error is not None, "neither raised nor signalled"
        raise probe.error
