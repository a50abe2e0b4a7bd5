"""An item that must exist: a stream without one fails, with the name of the operator that asked for it."""

from __future__ import annotations

from rstreams._stages.required_item import required
from rstreams.errors import NoItem
from rstreams.testing import ManualPublisher, ProbeSubscriber


def test_a_stream_without_an_item_fails() -> None:
    probe, source = ProbeSubscriber[int](1), ManualPublisher[int]()
    required(source, "first()").subscribe(probe)
    source.complete()
    assert isinstance(probe.error, NoItem)
    assert str(probe.error).startswith("first(): ")


def test_items_and_their_end_pass() -> None:
    probe, source = ProbeSubscriber[int](2), ManualPublisher[int]()
    required(source, "first()").subscribe(probe)
    source.next(1, 2)
    source.complete()
    assert (probe.items, probe.completed) == ([1, 2], True)
