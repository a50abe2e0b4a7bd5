"""on_overflow_reduce: a source that is not slowed down; items without demand are folded into one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from rstreams._checks.choices import require_choice
from rstreams._checks.functions import require_plain
from rstreams._core.claims import NO_HOLD, claims_on
from rstreams._core.claims_in_order import ClaimsInOrder, gather
from rstreams._stages.overflow import Unslowed
from rstreams._stages.stage import GatherAck, Lifted, cannot_hold
from rstreams.abc import Publisher, Subscriber, Subscription

T = TypeVar("T")


def on_overflow_reduce(
    source: Publisher[T],
    function: Callable[[T, T], T],
    *,
    ack: GatherAck = "within_window",
) -> Publisher[T]:
    """Emit the items of `source` as they come, and fold items that come without demand into one that waits.

        --1--2--3--4------>
        on_overflow_reduce(+)
        --1----------9--->

    Args:
        source: The publisher of the items.
        function: Called with the item that waits and the new item; its result waits in their place.
        ack: When an item that waits is done. "within_window": with the item it was folded into; if more items come than
            the window of a link can hold, the oldest ones earlier. "on_result": always with the item it was folded
            into. "on_receipt": as soon as it is kept.

    Demand: The first request asks the source for all items (`UNBOUNDED`). One item is kept.
    Holds: All items that were folded into one share its outcome, and are given back (released) on a cancel. With
        "on_receipt" an item that waits is not held. With "on_result" at most as many items are folded into one as the
        window of a link holds; the sender then waits until that one has been emitted.
    Errors: `ConfigError` at the call for a wrong `ack`. An exception that `function` raises ends the stream unchanged;
        the item that came counts as failed. The end of the source, completion or error, comes after the item that
        waits.
    Cancels: The source, when `function` raises.
    Spec: Reactive Streams 1.1.

    Example:
        >>> async with Stream.range(6).on_overflow_reduce(lambda sum, x: sum + x).open(window=1) as numbers:
        ...     print([number async for number in numbers])
        [0, 15]
    """
    require_plain("on_overflow_reduce", "function", function)
    require_choice("on_overflow_reduce", "ack", ack, GatherAck)
    return Lifted(source, lambda downstream: _OverflowReduce(downstream, function, ack))


class _OverflowReduce(Unslowed[T]):
    __slots__ = ("_ack", "_folded", "_function")

    operator = "on_overflow_reduce"

    def __init__(self, downstream: Subscriber[T], function: Callable[[T, T], T], ack: GatherAck) -> None:
        super().__init__(downstream)
        self._function = function
        self._ack = ack
        self._folded: ClaimsInOrder | None = None  # the holds of the items that were folded into the item that waits

    def on_subscribe(self, subscription: Subscription) -> None:
        error = cannot_hold(subscription, "on_overflow_reduce(ack='on_result')") if self._ack == "on_result" else None
        if self._accepts_source(subscription, error):
            super().on_subscribe(subscription)

    def _wait(self, item: T) -> None:
        if self._kept:
            self._fold(item)
            return
        self._folded = None
        if self._ack != "on_receipt":
            self._folded = gather(self._upstream, loose=self._ack == "within_window")
        self._hold()
        self._kept.append((item, NO_HOLD if self._folded is None else claims_on(self._folded)))

    def _fold(self, item: T) -> None:
        waiting, hold = self._kept[0]
        before, self._busy = self._busy, True  # the item that waits must not be emitted while it is being folded
        try:
            folded = self._function(waiting, item)
        except Exception as error:
            self._fail_item(error)
            return
        finally:
            self._busy = before
        if not self._ended:  # the function may have cancelled
            self._kept[0] = (folded, hold)
            self._hold()
            self._drain()

    def _hold(self) -> None:
        if self._folded is not None:
            self._folded.keep()
