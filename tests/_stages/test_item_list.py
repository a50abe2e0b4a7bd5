"""The list that readers go along: what stays, what is settled, and what is given back."""

from __future__ import annotations

import gc
import weakref

from rstreams._core.claims import claims_on
from rstreams._stages.item_list import ItemList, ListedItem


class OneHold:
    """A hold that notes how it ended."""

    def __init__(self) -> None:
        self.how = ""

    def done(self) -> None:
        self.how = "done"

    def fail(self, error: BaseException) -> None:  # noqa: ARG002 - as the protocol says
        self.how = "failed"

    def release(self) -> None:
        self.how = "released"


def filled(items: ItemList[int], count: int) -> tuple[list[OneHold], ListedItem[int]]:
    holds = [OneHold() for _ in range(count)]
    added = [items.add(10 * i, i, claims_on(hold)) for i, hold in enumerate(holds)]
    return holds, added[0]


def test_a_reader_goes_along_to_the_end() -> None:
    items = ItemList[int](history=0)
    _, at = filled(items, 3)
    got = []
    reader: ListedItem[int] | None = at
    while reader is not None:
        got.append((reader.index, reader.item))
        reader = items.after(reader)
    assert got == [(0, 0), (1, 10), (2, 20)]


def test_what_all_have_passed_is_done_and_the_rest_is_given_back() -> None:
    items = ItemList[int](history=0)
    holds, _ = filled(items, 3)
    items.settle_before(2)
    assert [hold.how for hold in holds] == ["done", "done", ""]
    items.let_go()
    assert [hold.how for hold in holds] == ["done", "done", "released"]
    assert items.first is None


def test_a_later_reader_starts_with_the_history() -> None:
    items = ItemList[int](history=2)
    assert items.first is None
    for i in range(5):
        items.remember(10 * i, i)
    first = items.first
    assert first is not None
    assert (first.index, first.item) == (3, 30)


def test_only_history_is_trimmed_and_it_holds_nothing() -> None:
    items = ItemList[int](history=1)
    holds, _ = filled(items, 1)
    items.settle_before(1)
    items.remember(10, 1)
    items.let_go()
    assert [hold.how for hold in holds] == ["done"]


class Item:
    """An item that can be watched."""


def test_an_item_that_nobody_can_reach_is_freed() -> None:
    items = ItemList[Item](history=1)
    item = Item()
    watched = weakref.ref(item)
    items.remember(item, 0)
    del item
    assert watched() is not None
    items.remember(Item(), 1)
    gc.collect()
    assert watched() is None
