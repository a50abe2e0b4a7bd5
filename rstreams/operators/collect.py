"""collect: a list of all items."""

from __future__ import annotations

from typing import TypeVar

from rstreams.abc import Publisher, Subscriber
from rstreams.operators._folding import Folding, require_ack
from rstreams.operators._stage import Ack, Lifted

T = TypeVar("T")


def collect(source: Publisher[T], *, ack: Ack = "on_receipt") -> Publisher[list[T]]:
    """Gather the items of `source` into a list, and emit it at the end.

        --1--2--1--|
            collect
        -----------[1,2,1]|

    Args:
        source: Where the items come from.
        ack: When an item is done: "on_receipt", as soon as it is in the list, or "on_emit", when the list has been
            handled.

    Demand: The first request asks the source for all it has (`UNBOUNDED`). The list grows without limit.
    Holds: With `ack="on_emit"` every item is held, and shares the outcome of the list; on a cancel or an error they are
        given back (released).
    Errors: `ConfigError` at the call for a wrong `ack`, and as `on_error` for "on_emit" behind a link, whose window
        bounds what can be held. An error of the source passes through, and the list is lost.
    Cancels: Nothing by itself.
    Spec: Reactive Streams 1.1, 2.13.

    Example:
        >>> await Stream.of("tea", "milk").collect().map(", ".join).to_list()
        ['tea, milk']
    """
    require_ack("collect", ack)
    return Lifted(source, lambda downstream: _Collect(downstream, ack))


class _Collect(Folding[T, list[T]]):
    __slots__ = ("_items",)

    def __init__(self, downstream: Subscriber[list[T]], ack: Ack) -> None:
        super().__init__(downstream, "collect", ack)
        self._items: list[T] = []

    def _fold(self, item: T) -> bool:
        self._items.append(item)
        return False

    def _result(self) -> list[T]:
        return self._items
