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
        source: Where the items come from; they must be hashable.
        ack: When an item is done. "within_window": with the set; where more items come than the window of a link
            can hold, the oldest before. "on_result": with the set, always. "on_receipt": as soon as it is in the set.

    Demand: The first request asks the source for all it has (`UNBOUNDED`). The set grows without limit.
    Holds: Every item is held, and shares the outcome of the set; on a cancel or an error they are given back
        (released). Behind a link no more are held than its window has room for: where more come, the oldest are
        accepted.
    Errors: `ConfigError` at the call for a wrong `ack`, and as `on_error` for "on_result" behind a link whose window
        cannot hold all items, or whose items come settled. An item that is not hashable ends the stream with a
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
