"""The state of the sink in the executor's log, in virtual time."""

from __future__ import annotations

import os

import pytest
import trio
import trio.testing
from rstreams_spark import _sink_report
from rstreams_spark._rows import RowPublisher, SentRows
from rstreams_spark._sink_report import SinkReport

from rstreams.abc import Claims, Run, Subscription


class Link:
    """A receiver that gives credit, and settles when the test says so."""

    def __init__(self) -> None:
        self.runs: list[Claims] = []

    def on_subscribe(self, subscription: Subscription) -> None:
        subscription.request(10)

    def on_run(self, run: Run[bytes]) -> None:
        self.runs.append(run.keep(len(list(run.items()))))

    def on_next(self, item: bytes) -> None: ...

    def on_error(self, error: BaseException) -> None: ...

    def on_complete(self) -> None: ...


async def test_a_minute_with_accepted_rows_has_a_line(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: list[str] = []
    monkeypatch.setattr(_sink_report, "say", lambda _event, where, what: lines.append(f"{where}: {what}"))
    report, link, lane = SinkReport("the sink"), Link(), RowPublisher()
    report.begin(lane)
    lane.subscribe(link)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(report.watch)
        await trio.sleep(1)
        lane.add(SentRows(range(6), [b""] * 6))
        link.runs[0].done()
        lane.add(SentRows(range(6, 18), [b""] * 12))
        await trio.sleep(60)
        link.runs[1].done()
        lane.request(5)
        report.on_away()
        await trio.sleep(60)
        report.end(lane)
        await trio.sleep(60)
        nursery.cancel_scope.cancel()
    worker = f"the sink, worker {os.getpid()}"
    assert lines == [
        f"{worker}: 6 rows in 60 s (0/s); credit 0, unsettled 4, waiting to be sent 8, connections lost 0",
        f"{worker}: 4 rows in 60 s (0/s); credit 0, unsettled 5, waiting to be sent 3, connections lost 1",
    ]
    assert report.accepted == 10
