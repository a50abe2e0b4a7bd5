"""The work of `map`: over an iterator it runs in its loop, over anything else in a stage."""

from __future__ import annotations

import pytest

from rstreams._stages.emission import IteratorPublisher
from rstreams._stages.map_step import shown_as
from rstreams.sources import of
from rstreams.testing import ManualPublisher, ProbeSubscriber


def test_over_an_iterator_there_is_no_stage() -> None:
    probe = ProbeSubscriber[str](2)
    shown = shown_as(of(1, 2), str)
    assert isinstance(shown, IteratorPublisher)
    shown.subscribe(probe)
    assert probe.items == ["1", "2"]


@pytest.mark.parametrize("item", [1, "x"])
def test_over_other_sources_it_is_a_stage(item: object) -> None:
    probe, source = ProbeSubscriber[str](1), ManualPublisher[object]()
    shown_as(source, str).subscribe(probe)
    source.next(item)
    assert (probe.items, source.outcomes) == ([str(item)], ["done"])
