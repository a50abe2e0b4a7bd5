"""collect: a list of all items."""

from __future__ import annotations

from typing import TypeVar

from rstreams._checks.choices import require_choice
from rstreams._stages.folds import Folding
from rstreams._stages.stage import GatherAck, Lifted
from rstreams.abc import Publisher, Subscriber

T = TypeVar("T")


def collect(source: Publisher[T], *, ack: GatherAck = "within_window") -> Publisher[list[T]]:
    """Gather the items of `source` into a list, and emit it at the end.

        --1--2--1--|
            collect
        -----------[1,2,1]|

    Args:
        source: The publisher of the items.
        ack: When an item is done. "within_window": with the list; if more items come than the window of a link can
            hold, the oldest ones earlier. "on_result": always with the list. "on_receipt": as soon as it is in the
            list.

    Demand: The first request asks the source for all items (`UNBOUNDED`). The list grows without limit.
    Holds: Every item is held, and shares the outcome of the list. On a cancel or an error the items are given back
        (released). Behind a link, at most as many items are held as its window has room for; if more come, the oldest
        ones are accepted.
    Errors: `ConfigError` at the call for a wrong `ack`. `ConfigError` as `on_error` for "on_result" behind a link whose
        window cannot hold all items, or whose items come settled. An error of the source passes through, and the list
        is lost.
    Cancels: Nothing by itself.
    Spec: Reactive Streams 1.1, 2.13.

    Example:
        >>> await Stream.of("tea", "milk").collect().map(", ".join).to_list()
        ['tea, milk']
    """
    require_choice("collect", "ack", ack, GatherAck)
    return Lifted(source, lambda downstream: _Collect(downstream, ack))


class _Collect(Folding[T, list[T]]):
    __slots__ = ("_items",)

    def __init__(self, downstream: Subscriber[list[T]], ack: GatherAck) -> None:
        super().__init__(downstream, "collect", ack)
        self._items: list[T] = []

    def _fold(self, item: T) -> bool:
        self._items.append(item)
        return False

    def _result(self) -> list[T]:
        return self._items
