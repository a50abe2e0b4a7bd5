import logging

import pytest

from rstreams._core.demand import UNBOUNDED
from rstreams.operators.do_finally import do_finally
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.operators.contract import OperatorContract


class TestDoFinally(OperatorContract):
    build = staticmethod(lambda source: do_finally(source, lambda _: None))
    model = list
    requests = ((1, [1]), (5, [5]), (UNBOUNDED, [UNBOUNDED]))


@pytest.mark.parametrize("how", ["complete", "error", "cancel"])
def test_the_function_is_called_once_with_how_it_ended(how: str) -> None:
    seen: list[tuple[str, list[str], bool]] = []
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](1)
    do_finally(source, lambda how: seen.append((how, list(probe.signals), source.cancelled))).subscribe(probe)
    source.next(1)

    ends = {"complete": source.complete, "error": lambda: source.error(ValueError()), "cancel": probe.cancel}
    ends[how]()
    for end in ends.values():
        end()

    behind = ["on_subscribe", "on_next", *([] if how == "cancel" else [f"on_{how}"])]
    assert seen == [(how, behind, how == "cancel")]


def test_a_subscriber_that_cancels_at_the_end_has_not_cancelled() -> None:
    seen: list[str] = []

    class CancelsLate(ProbeSubscriber[int]):
        def on_complete(self) -> None:
            super().on_complete()
            self.cancel()

    source = ManualPublisher[int]()
    do_finally(source, seen.append).subscribe(CancelsLate(1))
    source.complete()

    assert seen == ["complete"]


@pytest.mark.parametrize("how", ["complete", "error", "cancel"])
def test_what_the_function_raises_is_logged(how: str, caplog: pytest.LogCaptureFixture) -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](1)
    do_finally(source, lambda _: 1 / 0).subscribe(probe)
    with caplog.at_level(logging.ERROR, "rstreams"):
        {"complete": source.complete, "error": lambda: source.error(ValueError()), "cancel": probe.cancel}[how]()

    assert probe.signals == ["on_subscribe", *([] if how == "cancel" else [f"on_{how}"])]
    assert "the function of do_finally failed" in caplog.text
