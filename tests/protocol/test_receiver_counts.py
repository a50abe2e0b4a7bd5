"""What a link's subscription tells of itself, and the thread it belongs to."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from rstreams._core.demand import UNBOUNDED
from rstreams._core.sight import ASK, CANCEL, SEND, Counts
from rstreams.errors import SpecViolation
from rstreams.protocol.frames import Flow
from tests.protocol.played import LOST, PlayedReceiver


@pytest.mark.parametrize("requested", [5, UNBOUNDED])
def test_it_counts_what_was_requested_and_handed_over(requested: int) -> None:
    played = PlayedReceiver(request=requested)
    assert played.end.counts() == Counts(requested, 0)

    played.transfer(3)

    assert played.end.counts() == Counts(requested, 3)
    assert played.end.label == "link"
    assert not played.end.ended


def test_it_counts_what_came_before_its_turn() -> None:
    seen: list[Counts] = []
    played = PlayedReceiver(request=5, on_item=lambda _item: seen.append(played.end.counts()))

    played.transfer(2)

    assert seen == [Counts(5, 0, 1), Counts(5, 1)]  # the first by itself, as long as nobody knows how slow it is
    assert played.end.counts() == Counts(5, 2)


def test_in_a_silence_its_subscriber_must_ask_unless_items_are_still_to_come() -> None:
    played = PlayedReceiver(request=1)
    assert played.end.waits_when_quiet(SEND) is None, "one is on its way"
    played.transfer(1)
    assert played.end.waits_when_quiet(SEND) == [(ASK, played.probe)]
    assert played.end.waits_when_quiet(CANCEL) is None
    played.driver.wire = 1  # a sender that sends more
    played.transfer(1)
    assert played.end.waits_when_quiet(SEND) is None, "one is here that was not asked for"


def test_it_has_ended_when_no_signal_can_come() -> None:
    cancelled, lost = PlayedReceiver(), PlayedReceiver()

    cancelled.probe.cancel()
    lost.driver.lose(LOST)

    assert cancelled.end.ended
    assert lost.end.ended


def _in_another_thread(function: Callable[[], object]) -> BaseException | None:
    raised: list[BaseException] = []

    def call() -> None:
        try:
            function()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=call, name="worker")
    thread.start()
    thread.join()
    return raised[0] if raised else None


def test_calls_from_another_thread_are_refused_and_change_nothing() -> None:
    played = PlayedReceiver(request=2)
    played.driver.take_sent()

    for call, text in ((lambda: played.probe.request(1), "request(1)"), (played.probe.cancel, "cancel()")):
        error = _in_another_thread(call)
        assert isinstance(error, SpecViolation)
        assert error.rule == "2.7"
        assert f"{text} was called in thread 'worker'" in str(error)

    assert played.driver.sent == []
    played.probe.request(6)
    played.transfer(2)
    assert played.driver.take_sent()[0] != Flow(0)
    assert played.end.counts() == Counts(8, 2)
