"""to_set: a set of all items."""

from __future__ import annotations

from typing import TypeVar

from rstreams._checks.choices import require_choice
from rstreams._stages.folds import Folding
from rstreams._stages.stage import GatherAck, Lifted
from rstreams.abc import Publisher, Subscriber

T = TypeVar("T")


def to_set(source: Publisher[T], *, ack: GatherAck = "within_window") -> Publisher[set[T]]:
    """Gather the items of `source` into a set, and emit it at the end.

        --1--2--1--|
            to_set
        -----------{1,2}|

    Args:
        source: The publisher of the items; they must be hashable.
        ack: When an item is done. "within_window": with the set; if more items come than the window of a link can hold,
            the oldest ones earlier. "on_result": always with the set. "on_receipt": as soon as it is in the set.

    Demand: The first request asks the source for all items (`UNBOUNDED`). The set grows without limit.
    Holds: Every item is held, and shares the outcome of the set. On a cancel or an error the items are given back
        (released). Behind a link, at most as many items are held as its window has room for; if more come, the oldest
        ones are accepted.
    Errors: `ConfigError` at the call for a wrong `ack`. `ConfigError` as `on_error` for "on_result" behind a link whose
        window cannot hold all items, or whose items come settled. An item that is not hashable ends the stream with a
        `TypeError`, and counts as failed.
    Cancels: The source, with such an item.
    Spec: Reactive Streams 1.1, 2.13.

    Example:
        >>> await Stream.of(1, 2, 1).to_set().to_list()
        [{1, 2}]
    """
    require_choice("to_set", "ack", ack, GatherAck)
    return Lifted(source, lambda downstream: _ToSet(downstream, ack))


class _ToSet(Folding[T, set[T]]):
    __slots__ = ("_items",)

    def __init__(self, downstream: Subscriber[set[T]], ack: GatherAck) -> None:
        super().__init__(downstream, "to_set", ack)
        self._items: set[T] = set()

    def _fold(self, item: T) -> bool:
        self._items.add(item)
        return False

    def _result(self) -> set[T]:
        return self._items
