"""The item that comes before all others: the first of equal ones, by a key if there is one."""

from __future__ import annotations

from operator import gt, lt

from rstreams._stages.extremes import extreme
from rstreams.errors import NoItem
from rstreams.sources import of
from rstreams.testing import ProbeSubscriber


def test_the_first_of_equal_items() -> None:
    words = of("pear", "fig", "kiwi", "nut")
    for before, word in ((lt, "fig"), (gt, "pear")):
        probe = ProbeSubscriber[str](1)
        extreme(words, "extreme", len, before).subscribe(probe)
        assert (probe.items, probe.completed) == ([word], True)


def test_without_a_key_items_are_compared_themselves() -> None:
    probe = ProbeSubscriber[int](1)
    extreme(of(3, 1, 2), "extreme", None, lt).subscribe(probe)
    assert probe.items == [1]


def test_without_items_there_is_none() -> None:
    probe = ProbeSubscriber[int](1)
    extreme(of(), "extreme", None, lt).subscribe(probe)
    assert isinstance(probe.error, NoItem)
