"""Lists of a number of items that overlap, or leave gaps: what is asked for, held and given back."""

from __future__ import annotations

from rstreams._stages.counted_lists import Overlapping
from rstreams.testing import ManualPublisher, ProbeSubscriber


def played(count: int, skip: int, demand: int) -> tuple[ManualPublisher[int], ProbeSubscriber[list[int]]]:
    probe, source = ProbeSubscriber[list[int]](demand), ManualPublisher[int]()
    source.subscribe(Overlapping(probe, count, skip))
    return source, probe


def test_an_item_is_done_with_the_last_list_that_has_it() -> None:
    source, probe = played(3, 1, 2)
    assert source.requests == [4]
    source.next(1, 2, 3)
    assert probe.items == [[1, 2, 3]]
    assert source.outcomes == ["done", None, None]
    source.next(4)
    assert probe.items == [[1, 2, 3], [2, 3, 4]]
    assert source.outcomes == ["done", "done", None, None]


def test_what_has_begun_comes_with_the_end() -> None:
    source, probe = played(3, 2, 5)
    source.next(1, 2, 3, 4)
    source.complete()
    assert (probe.items, probe.completed) == ([[1, 2, 3], [3, 4]], True)
    assert source.outcomes == ["done"] * 4


def test_a_cancel_gives_back_what_is_in_no_list_yet() -> None:
    source, probe = played(3, 3, 5)
    source.next(1, 2)
    probe.cancel()
    assert source.outcomes == ["released", "released"]
