"""An item that belongs to several parts is done when the last of them has no use for it."""

from __future__ import annotations

from rstreams._stages.part import Shared


def test_the_last_part_that_leaves_an_item_is_told() -> None:
    shared = Shared()
    shared.copies += 2
    assert [shared.leave() for _ in range(3)] == [False, False, True]
