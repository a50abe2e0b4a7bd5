"""A question that one item can answer."""

from __future__ import annotations

import pytest

from rstreams._stages.yes_or_no import settled
from rstreams.testing import ManualPublisher, ProbeSubscriber


@pytest.mark.parametrize("by", [True, False])
def test_the_first_item_that_settles_it_answers(*, by: bool) -> None:
    probe, source = ProbeSubscriber[bool](1), ManualPublisher[int]()
    settled(source, "question", lambda item: item > 2, by=by).subscribe(probe)
    source.next(1, 2)
    assert probe.items == []
    source.next(3)
    assert (probe.items, probe.completed, source.cancelled) == ([by], True, True)


@pytest.mark.parametrize("by", [True, False])
def test_without_such_an_item_the_end_answers(*, by: bool) -> None:
    probe, source = ProbeSubscriber[bool](1), ManualPublisher[int]()
    settled(source, "question", lambda item: item > 2, by=by).subscribe(probe)
    source.next(1)
    source.complete()
    assert (probe.items, probe.completed) == ([not by], True)
