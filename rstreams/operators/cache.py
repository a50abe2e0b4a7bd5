"""cache: one run of a source, all of whose items are kept for all subscribers."""

from __future__ import annotations

from typing import TypeVar

from rstreams._checks.choices import require_choice
from rstreams._checks.numbers import require_count
from rstreams._core.claims import NO_HOLD
from rstreams._core.demand import UNBOUNDED
from rstreams._stages.connectable import AutoConnected
from rstreams._stages.log import Log
from rstreams._stages.stage import Ack
from rstreams.abc import Hold, Publisher
from rstreams.errors import BufferOverflow

T = TypeVar("T")


def cache(source: Publisher[T], *, max_items: int | None = None, ack: Ack = "on_receipt") -> Publisher[T]:
    """Run `source` once, and give every subscriber all of its items from the first.

        --1--2--3-----------|
               cache()
        --1--2--3-----------|
        -----------1--2--3--|

    The first subscriber begins the run.

    Args:
        source: The publisher of the items.
        max_items: The most items that are kept; None keeps all items for as long as the publisher lives.
        ack: When an item counts as processed: "on_receipt", as soon as it is kept, or "on_emit", when all subscribers
            that were there when it came have handled it.

    Demand: Each subscriber gets the items at its own pace. The source is asked for the highest demand of all
        subscribers. A slow subscriber holds up no other, because all items are kept anyway.
    Holds: With "on_emit" an item is failed if one of those subscribers failed it. An item that waits for a slow
        subscriber stays held; therefore the window of a link limits how far the others get ahead.
    Errors: `ConfigError` at the call if `max_items` is less than 1, or if `ack` is not one of the two. `BufferOverflow`
        for one item more than `max_items`: it is given back (released) and the source is cancelled. This error, or an
        error of the source, comes after the kept items, for every subscriber. If the `on_next` of a subscriber raises,
        that subscriber counts as cancelled, and the exception is logged.
    Cancels: The source, for one item more than `max_items`. When subscribers cancel, the source is not cancelled: the
        next subscriber continues the run.
    Context: The tasks and timers of the source belong to the run, and to no subscriber's scope: whoever leaves, and
        however, the run goes on. It ends when nobody has its publisher any more.
    Spec: Reactive Streams 1.1, 1.3, 1.11, 2.13.

    Example:
        >>> drawn = []
        >>> numbers = Stream.range(3).do_on_next(drawn.append).cache()
        >>> await numbers.to_list(), await numbers.to_list(), drawn
        ([0, 1, 2], [0, 1, 2], [0, 1, 2])
    """
    if max_items is not None:
        require_count("cache", "max_items", max_items, 1)
    require_choice("cache", "ack", ack, Ack)
    return AutoConnected.over(source, lambda: _Cache(max_items, ack))


class _Cache(Log[T]):
    __slots__ = ("_holding", "_max_items")

    def __init__(self, max_items: int | None, ack: Ack) -> None:
        super().__init__("cache", UNBOUNDED, UNBOUNDED)
        self._max_items = max_items
        self._holding = ack == "on_emit"

    def on_next(self, item: T) -> None:
        if self.head != self._max_items or self.over:
            super().on_next(item)
            return
        self._upstream.hold().release()  # no subscriber has seen it
        self._upstream.cancel()
        self.on_error(
            BufferOverflow(f"cache(max_items={self._max_items}): {self._max_items} items are kept, and one more came")
        )

    def hold(self) -> Hold:
        return super().hold() if self._holding else NO_HOLD
