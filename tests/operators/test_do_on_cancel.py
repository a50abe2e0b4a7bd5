import logging

import pytest

from rstreams._core.demand import UNBOUNDED
from rstreams.operators.do_on_cancel import do_on_cancel
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.operators.contract import OperatorContract


class TestDoOnCancel(OperatorContract):
    build = staticmethod(lambda source: do_on_cancel(source, lambda: None))
    model = list
    requests = ((1, [1]), (5, [5]), (UNBOUNDED, [UNBOUNDED]))


def test_the_function_is_called_once_before_the_source_is_cancelled() -> None:
    seen: list[bool] = []
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](1)
    do_on_cancel(source, lambda: seen.append(source.cancelled)).subscribe(probe)

    probe.cancel()
    probe.cancel()

    assert seen == [False]
    assert source.cancelled


def test_after_the_end_there_is_no_cancel() -> None:
    called: list[None] = []
    for end in ("complete", "error"):
        source, probe = ManualPublisher[int](), ProbeSubscriber[int](1)
        do_on_cancel(source, lambda: called.append(None)).subscribe(probe)
        source.complete() if end == "complete" else source.error(ValueError())
        probe.cancel()

    assert called == []


def test_what_the_function_raises_is_logged_and_the_source_is_cancelled(caplog: pytest.LogCaptureFixture) -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](1)
    do_on_cancel(source, lambda: 1 / 0).subscribe(probe)
    with caplog.at_level(logging.ERROR, "rstreams"):
        probe.cancel()

    assert source.cancelled
    assert probe.signals == ["on_subscribe"]
    assert "the function of do_on_cancel failed" in caplog.text
    assert "ZeroDivisionError" in caplog.text


def test_a_function_may_cancel_and_a_source_that_answers_it_is_not_heard() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](1)

    def function() -> None:
        probe.cancel()
        source.next(1)
        source.complete()

    do_on_cancel(source, function).subscribe(probe)
    probe.cancel()

    assert source.cancelled
    assert probe.signals == ["on_subscribe"]
