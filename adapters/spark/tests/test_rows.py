from __future__ import annotations

import pytest
from rstreams_spark._rows import RowPublisher

from rstreams.errors import DeliveryFailed
from rstreams.message import Message
from rstreams.testing.probes import ProbeSubscriber

MESSAGES = [Message(body=body) for body in (b"0", b"1", b"2")]


def test_rows_go_out_as_demand_comes_and_then_complete() -> None:
    rows, probe = RowPublisher(MESSAGES), ProbeSubscriber[Message]()
    assert not rows.begun
    rows.subscribe(probe)
    assert rows.begun
    probe.request(2)
    assert probe.items == MESSAGES[:2]
    probe.request(5)
    assert probe.items == MESSAGES
    assert probe.signals == ["on_subscribe", "on_next", "on_next", "on_next", "on_complete"]


def test_requesting_inside_on_next_does_not_recurse() -> None:
    many = [Message(body=b"x")] * 5_000
    probe = ProbeSubscriber[Message](request=1, on_item=lambda _: probe.request(1))
    RowPublisher(many).subscribe(probe)
    assert len(probe.items) == 5_000
    assert probe.completed


def test_nothing_follows_a_cancel() -> None:
    probe = ProbeSubscriber[Message](request=2, on_item=lambda _: probe.cancel())
    RowPublisher(MESSAGES).subscribe(probe)
    probe.request(1)
    assert probe.signals == ["on_subscribe", "on_next"]


@pytest.mark.parametrize("how", ["fail", "release"])
def test_the_first_row_not_accepted_is_remembered(how: str) -> None:
    rows, probe = RowPublisher(MESSAGES), ProbeSubscriber[Message](request=3, hold=True)
    rows.subscribe(probe)
    probe.holds[0].done()
    assert (rows.accepted, rows.refused) == (1, None)
    if how == "fail":
        probe.holds[2].fail(DeliveryFailed("rejected"))
    else:
        probe.holds[2].release()
    probe.holds[1].release()
    assert (rows.accepted, rows.refused) == (1, 2)
