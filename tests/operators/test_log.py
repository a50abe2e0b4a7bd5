from __future__ import annotations

import logging

import pytest

from rstreams._core.demand import UNBOUNDED
from rstreams.errors import ConfigError
from rstreams.operators.log import log
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.operators.contract import OperatorContract


class TestLog(OperatorContract):
    build = log
    model = list
    requests = ((1, [1]), (5, [5]))


def _logged(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records]


def test_every_signal_is_a_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "rstreams.log")
    source, probe = ManualPublisher[str](), ProbeSubscriber[str](2)
    log(source, "orders", level=logging.DEBUG).subscribe(probe)
    source.next("tea")
    probe.request(UNBOUNDED)
    source.complete()
    assert _logged(caplog) == [
        "orders: on_subscribe",
        "orders: request(2)",
        "orders: on_next('tea')",
        "orders: request(unbounded)",
        "orders: on_complete",
    ]
    assert {record.levelno for record in caplog.records} == {logging.DEBUG}


def test_an_error_is_logged_with_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "rstreams.log")
    error = LookupError("no tea")
    source = ManualPublisher[str]()
    log(source).subscribe(ProbeSubscriber[str]())
    source.error(error)
    source.error(error)
    [_, record] = caplog.records
    assert record.getMessage() == "stream: on_error(LookupError('no tea'))"
    assert record.exc_info is not None
    assert record.exc_info[1] is error


def test_a_cancel_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "rstreams.log")
    probe = ProbeSubscriber[str]()
    log(ManualPublisher[str]()).subscribe(probe)
    probe.cancel()
    probe.cancel()
    assert _logged(caplog) == ["stream: on_subscribe", "stream: cancel"]


@pytest.mark.parametrize("bad", ["INFO", None, True])
def test_a_level_is_a_number(bad: object) -> None:
    with pytest.raises(ConfigError, match=r"log\(level=.*\): level must be a number"):
        log(ManualPublisher[int](), level=bad)  # type: ignore[arg-type]
