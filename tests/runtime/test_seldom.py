"""Lines of the log that peers can cause: the first of a kind and a peer at once, then one count a second."""

from __future__ import annotations

import logging

import pytest
import trio

from rstreams._events.event import LogEvent
from rstreams.runtime.seldom import LINES_OF_THREADS

logger = logging.getLogger("rstreams.of_test")
REFUSED = LogEvent("test.refused", logger.name, logging.WARNING, "refused %(number)d")
FAILED = LogEvent("test.failed", logger.name, logging.ERROR, "all failed")


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.name == logger.name]


def warn(peer: str, number: int) -> None:
    REFUSED.tell(peer, number=number)


async def test_one_line_a_second_and_a_count(autojump_clock: object, caplog: pytest.LogCaptureFixture) -> None:
    del autojump_clock
    for number in range(8):  # at 0.0, 0.3, ..., 2.1 seconds
        warn("192.0.2.1", number)
        await trio.sleep(0.3)
    assert told(caplog) == [
        "refused 0",
        "3 more of this kind about 192.0.2.1, the last: refused 3",
        "3 more of this kind about 192.0.2.1, the last: refused 6",
    ]
    await trio.sleep(2)
    assert told(caplog)[3:] == ["1 more of this kind about 192.0.2.1, the last: refused 7"]
    warn("192.0.2.1", 500)
    assert told(caplog)[4:] == ["refused 500"], "there was a second of silence"
    await trio.sleep(2)
    assert len(told(caplog)) == 5


async def test_other_peers_and_other_kinds_are_told(autojump_clock: object, caplog: pytest.LogCaptureFixture) -> None:
    del autojump_clock
    for _ in range(2):
        warn("a%s", 1)
        warn("b", 2)
        FAILED.tell(raised=ValueError("first" if not _ else "second"))
    assert told(caplog) == ["refused 1", "refused 2", "all failed"]
    assert caplog.records[-1].exc_info is not None
    assert caplog.records[-1].funcName == "test_other_peers_and_other_kinds_are_told"
    await trio.sleep(1.5)
    assert told(caplog)[3:] == [
        "1 more of this kind about a%s, the last: refused 1",
        "1 more of this kind about b, the last: refused 2",
        "1 more of this kind, the last: all failed (ValueError: second)",
    ]


def test_what_was_counted_is_told_at_the_end_of_the_run(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        for number in range(3):
            warn("a", number)
        await trio.lowlevel.checkpoint()

    trio.run(main)
    assert told(caplog) == ["refused 0", "2 more of this kind about a, the last: refused 2"]


async def test_many_peers_are_counted_together(
    autojump_clock: object, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    del autojump_clock
    monkeypatch.setattr("rstreams._events.seldom.MOST_KINDS", 10)
    for number in range(30):
        warn(f"peer {number}", number)
    assert len(told(caplog)) == 11
    await trio.sleep(1.5)
    assert told(caplog)[-1].startswith("19 more of this kind, the last: ")


def test_threads_without_a_run(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("rstreams._machine.monotonic_clock", lambda: now)
    for number in range(3):
        warn("a", number)
    assert told(caplog) == ["refused 0"]
    now += 5
    warn("b", 7)
    assert told(caplog)[1:] == ["2 more of this kind about a, the last: refused 2", "refused 7"]
    now += 5
    warn("a", 8)
    assert told(caplog)[3:] == ["refused 8"], "there were five seconds of silence"
    warn("a", 9)
    now += 5
    warn("a", 10)
    assert told(caplog)[4:] == ["2 more of this kind about a, the last: refused 10"]
    warn("a", 11)
    LINES_OF_THREADS.forget()
    assert told(caplog)[5:] == ["1 more of this kind about a, the last: refused 11"]


def test_below_the_level_nothing_is_counted(caplog: pytest.LogCaptureFixture) -> None:
    event = LogEvent("test.nothing", logger.name, logging.DEBUG, "nothing")
    event.tell()
    event.tell()
    LINES_OF_THREADS.forget()
    assert told(caplog) == []
