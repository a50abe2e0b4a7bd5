"""The state of the source in the log and in Spark's progress, in virtual time."""

from __future__ import annotations

import pytest
import trio
import trio.testing
from rstreams_spark import _report
from rstreams_spark._report import Report, SourceCounts


class Played:
    """A source whose counters the test sets."""

    def __init__(self, ask_every_s: float = 5.0) -> None:
        self.counts = SourceCounts()
        self.queued: int | None = 5
        self.asked = 0
        self.report = Report("the source", "h:5672", lambda: self.counts, self.count_queued, lambda: ask_every_s)

    async def count_queued(self) -> int | None:
        self.asked += 1
        return self.queued


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The lines of the log."""
    said: list[str] = []
    monkeypatch.setattr(_report, "say", lambda _event, where, what: said.append(f"{where}: {what}"))
    return said


async def minutes(played: Played, *counts: SourceCounts) -> None:
    """Let the report watch a minute with each of the counters."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(played.report.watch)
        for each in counts:
            await trio.sleep(30)
            played.counts = each
            await trio.sleep(30.5)
        nursery.cancel_scope.cancel()


async def test_a_line_each_minute_tells_what_moved(autojump_clock: trio.testing.MockClock, lines: list[str]) -> None:
    played = Played()
    await minutes(played, SourceCounts(taken=600, unsettled=60, redelivered=2, repeated=1))
    assert lines == [
        (
            "the source: 600 rows in 60 s (10/s); credit 0, unsettled 60, redelivered 2, connections lost 0, "
            "queued at the peer 5, left out by their message ids 1"
        )
    ]
    assert played.report.progress(1000) == {
        "messages": 1605,
        "peer": "h:5672",
        "queued": 5,
        "credit": 0,
        "unsettled": 60,
        "redelivered": 2,
        "repeated": 1,
        "connectionsLost": 0,
        "rowsPerSecond": 10.0,
    }


async def test_messages_that_were_taken_since_the_peer_was_asked_are_counted_once(
    autojump_clock: trio.testing.MockClock, lines: list[str]
) -> None:
    played = Played(ask_every_s=60.0)
    played.counts, played.queued = SourceCounts(taken=10, waiting=10), 30
    async with trio.open_nursery() as nursery:
        nursery.start_soon(played.report.watch)
        await trio.sleep(1)
        assert played.report.progress(1000)["messages"] == 1050
        played.counts = SourceCounts(taken=20, waiting=10)
        assert played.report.progress(1000)["messages"] == 1050
        played.counts = SourceCounts(taken=60)
        assert played.report.progress(1000)["messages"] == 1060
        played.queued = 7
        await trio.sleep(60)
        assert played.report.progress(1000)["messages"] == 1067
        nursery.cancel_scope.cancel()


async def test_a_message_that_is_on_its_way_when_the_peer_is_asked_is_counted(
    autojump_clock: trio.testing.MockClock, lines: list[str]
) -> None:
    played = Played()
    asked = played.count_queued

    async def come_first() -> int | None:
        queued = await asked()
        played.counts = SourceCounts(waiting=5)
        return queued

    played.report = Report("the source", "h:5672", lambda: played.counts, come_first, lambda: 60.0)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(played.report.watch)
        await trio.sleep(1)
        assert played.report.progress(0)["messages"] == 5 + played.queued
        nursery.cancel_scope.cancel()


async def test_without_rows_a_line_tells_the_reason_more_and_more_rarely(
    autojump_clock: trio.testing.MockClock, lines: list[str]
) -> None:
    await minutes(Played(), *[SourceCounts(credit=100)] * 9)
    assert [line.partition("; ")[0] for line in lines] == [
        f"the source: no row for {minute} min: the peer has credit and sends nothing" for minute in (1, 2, 4, 8)
    ]


@pytest.mark.parametrize(
    ("counts", "reason"),
    [
        (SourceCounts(waiting=3), "3 messages are here, and Spark has not asked for a batch"),
        (SourceCounts(unsettled=10), "no credit is left, because Spark has not committed the last batch"),
    ],
)
async def test_the_reason_is_the_one(
    autojump_clock: trio.testing.MockClock, lines: list[str], counts: SourceCounts, reason: str
) -> None:
    await minutes(Played(), counts)
    assert f"no row for 1 min: {reason}; credit 0" in lines[0]


async def test_a_lost_connection_is_told_and_not_asked(
    autojump_clock: trio.testing.MockClock, lines: list[str]
) -> None:
    played = Played()
    played.report.on_away()
    await minutes(played, SourceCounts())
    assert "no row for 1 min: the connection is lost; " in lines[0]
    assert "connections lost 1" in lines[0]
    assert played.asked == 0
    played.report.on_back()
    await minutes(played, SourceCounts())
    assert played.asked > 0


async def test_a_peer_that_does_not_tell_is_asked_once(
    autojump_clock: trio.testing.MockClock, lines: list[str]
) -> None:
    played = Played()
    played.queued = None
    await minutes(played, SourceCounts())
    assert played.asked == 1
    assert "queued at the peer not told" in lines[0]
    assert played.report.progress(0)["queued"] is None


@pytest.mark.parametrize(("ask_every_s", "asked"), [(5.0, 25), (60.0, 3)])
async def test_a_peer_is_asked_as_often_as_it_may_be(
    autojump_clock: trio.testing.MockClock, lines: list[str], ask_every_s: float, asked: int
) -> None:
    played = Played(ask_every_s)
    await minutes(played, SourceCounts(), SourceCounts())
    assert played.asked == asked


async def test_a_peer_that_keeps_messages_back_is_told_once(
    autojump_clock: trio.testing.MockClock, lines: list[str]
) -> None:
    played = Played()
    await minutes(played, *[SourceCounts(taken=10_000, credit=90_000, unsettled=10_000)] * 2)
    assert [line for line in lines if "max_unsettled" in line] == [
        (
            "the source: 5 messages wait at the peer, which sends none: it lets no more than 10000 be unsettled, and "
            "maxMessagesPerTrigger allows 90000 more. Batches end with fewer rows. Raise the limit of the peer (of a "
            "Node: max_unsettled, max_unsettled_bytes, total_unsettled_bytes), or set maxMessagesPerTrigger to it"
        )
    ]


@pytest.mark.parametrize(
    ("queued", "counts"),
    [
        (0, SourceCounts(taken=10, credit=90, unsettled=10)),
        (None, SourceCounts(taken=10, credit=90, unsettled=10)),
        (5, SourceCounts(taken=10, unsettled=100)),
        (5, SourceCounts(credit=100)),
    ],
)
async def test_no_other_rest_is_taken_for_that(
    autojump_clock: trio.testing.MockClock, lines: list[str], queued: int | None, counts: SourceCounts
) -> None:
    played = Played()
    played.queued = queued
    await minutes(played, counts, counts)
    assert not [line for line in lines if "max_unsettled" in line]
