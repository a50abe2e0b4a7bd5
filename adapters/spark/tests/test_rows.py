from __future__ import annotations

import pytest
from rstreams_spark._rows import RowPublisher, SentRows

from rstreams.errors import DeliveryFailed
from rstreams.testing.probes import ProbeSubscriber

MESSAGES = [b"0", b"1", b"2"]
ROWS = SentRows(range(10, 13), MESSAGES)


def test_rows_go_out_as_demand_comes_and_then_complete() -> None:
    room: list[int] = []
    rows, probe = RowPublisher(lambda: room.append(len(probe.items))), ProbeSubscriber[bytes]()
    rows.add(ROWS[0:2])
    rows.subscribe(probe)
    assert (rows.first, rows.added, rows.waiting) == (10, 2, 2)
    probe.request(1)
    assert probe.items == MESSAGES[:1]
    probe.request(5)
    assert probe.items == MESSAGES[:2]
    assert room == [2]
    rows.add(ROWS[2:3])
    rows.finish()
    assert probe.items == MESSAGES
    assert (rows.first, rows.added, rows.waiting) == (10, 3, 0)
    assert room == [2, 3]
    assert probe.signals == ["on_subscribe", "on_next", "on_next", "on_next", "on_complete"]


def test_it_completes_at_once_when_all_was_sent_before() -> None:
    rows, probe = RowPublisher(), ProbeSubscriber[bytes](request=9)
    rows.subscribe(probe)
    rows.add(ROWS)
    assert not probe.completed
    rows.finish()
    assert probe.completed


def test_requesting_inside_on_next_does_not_recurse() -> None:
    probe = ProbeSubscriber[bytes](request=1, on_item=lambda _: probe.request(1))
    rows = RowPublisher()
    rows.add(SentRows(range(5_000), [b"x"] * 5_000))
    rows.finish()
    rows.subscribe(probe)
    assert len(probe.items) == 5_000
    assert probe.completed


def test_nothing_follows_a_cancel() -> None:
    probe = ProbeSubscriber[bytes](request=2, on_item=lambda _: probe.cancel())
    rows = RowPublisher()
    rows.add(ROWS)
    rows.subscribe(probe)
    probe.request(1)
    assert probe.signals == ["on_subscribe", "on_next"]


@pytest.mark.parametrize("how", ["fail", "release"])
def test_the_first_row_not_accepted_is_remembered(how: str) -> None:
    rows, probe = RowPublisher(), ProbeSubscriber[bytes](request=3, hold=True)
    rows.add(ROWS)
    rows.subscribe(probe)
    probe.holds[0].done()
    assert (rows.accepted, rows.refused) == (1, None)
    if how == "fail":
        probe.holds[2].fail(DeliveryFailed("rejected"))
    else:
        probe.holds[2].release()
    probe.holds[1].release()
    assert (rows.accepted, rows.refused) == (1, (12, MESSAGES[2]))
