"""What take_until and skip_until share: beside their source they read another stream, for its first item."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import pytest

from rstreams._stages.stage import Stage
from rstreams.abc import Publisher, Subscription
from rstreams.sources.fail import fail
from rstreams.sources.never import never
from rstreams.sources.of import of
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.operators.contract import OperatorContract


class BesideContract(OperatorContract):
    """The common tests of an operator with a boundary.

    Attributes:
        beside: Applies the operator to a source and a boundary.
        operator: Its name.
    """

    beside: ClassVar[Callable[[Publisher[int], Any], Publisher[int]]]
    operator: ClassVar[str]

    def with_boundary(self) -> tuple[ManualPublisher[int], ManualPublisher[str], ProbeSubscriber[int]]:
        source, boundary, probe = ManualPublisher[int](), ManualPublisher[str](), ProbeSubscriber[int](9)
        type(self).beside(source, boundary).subscribe(probe)
        return source, boundary, probe

    def test_a_boundary_is_a_publisher(self) -> None:
        text = rf"{self.operator}\(boundary\): boundary must be a Publisher, not 7"
        with pytest.raises(TypeError, match=text):
            type(self).beside(never(), 7)

    def test_an_error_of_the_boundary_fails_the_stream(self) -> None:
        source, boundary, probe = self.with_boundary()
        error = LookupError()
        boundary.error(error)
        assert probe.error is error
        assert source.cancelled

    def test_a_boundary_that_fails_at_once(self) -> None:
        source, probe, error = ManualPublisher[int](), ProbeSubscriber[int](9), LookupError()
        type(self).beside(source, fail(error)).subscribe(probe)
        assert probe.signals == ["on_subscribe", "on_error"]
        assert probe.error is error
        assert source.cancelled

    @pytest.mark.parametrize("boundary", [of("now"), fail(LookupError())])
    def test_a_subscriber_that_cancels_at_once_hears_nothing_of_the_boundary(self, boundary: Publisher[str]) -> None:
        class CancelsAtOnce(ProbeSubscriber[int]):
            def on_subscribe(self, subscription: Subscription) -> None:
                super().on_subscribe(subscription)
                subscription.cancel()

        source, probe = ManualPublisher[int](), CancelsAtOnce()
        type(self).beside(source, boundary).subscribe(probe)
        assert probe.signals == ["on_subscribe"]
        assert source.cancelled

    @pytest.mark.parametrize("end", ["complete", "error", "cancel"])
    def test_the_boundary_ends_with_the_stream(self, end: str) -> None:
        source, boundary, probe = self.with_boundary()
        if end == "complete":
            source.complete()
        elif end == "error":
            source.error(LookupError())
        else:
            probe.cancel()
        assert boundary.cancelled

    def test_the_boundary_is_one_of_its_upstreams_while_it_runs(self) -> None:
        source, boundary, probe = self.with_boundary()
        stage = probe.subscription
        assert isinstance(stage, Stage)
        assert len(stage.upstreams()) == 2
        boundary.complete()
        assert len(stage.upstreams()) == 1
        source.complete()
