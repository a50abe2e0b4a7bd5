"""on_overflow_reduce: a source that is not slowed down; what waits of it is folded into one item."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from rstreams._holds import NO_HOLD, SharedHold
from rstreams.abc import Hold, Publisher, Subscriber
from rstreams.errors import ConfigError
from rstreams.operators._overflow import Unslowed
from rstreams.operators._stage import Ack, Lifted, require_plain

T = TypeVar("T")


def on_overflow_reduce(
    source: Publisher[T],
    function: Callable[[T, T], T],
    *,
    ack: Ack = "on_receipt",
) -> Publisher[T]:
    """Emit the items of `source` as they come, and fold those that nobody has asked for into one that waits.

        --1--2--3--4------>
        on_overflow_reduce(+)
        --1----------9--->

    Args:
        source: Where the items come from.
        function: Called with the item that waits and the one that comes; what it returns waits in their place.
        ack: When an item that waits counts as done: "on_receipt" as soon as it is kept, "on_emit" when what it was
            folded into is.

    Demand: The first request asks the source for all it has (`UNBOUNDED`). One item is kept.
    Holds: None for an item that waits, unless `ack` is "on_emit": all that were folded into one share its outcome then,
        and are given back (released) on a cancel or an error. Over a link no more than its window are folded into one
        in that case; the sender waits until it has been emitted.
    Errors: `ConfigError` at the call for another `ack`. What `function` raises ends the stream with that very
        exception; the item that came counts as failed. An error of the source passes through at once, without the item
        that waits; completion comes behind it.
    Cancels: The source, when `function` raises.
    Spec: Reactive Streams 1.1.

    Example:
        >>> async with Stream.range(6).on_overflow_reduce(lambda sum, x: sum + x).open(window=1) as numbers:
        ...     print([number async for number in numbers])
        [0, 15]
    """
    require_plain("on_overflow_reduce", "function", function)
    if ack not in {"on_receipt", "on_emit"}:
        msg = f"on_overflow_reduce(ack={ack!r}): ack must be 'on_receipt' or 'on_emit'"
        raise ConfigError(msg)
    return Lifted(source, lambda downstream: _OverflowReduce(downstream, function, holds=ack == "on_emit"))


class _OverflowReduce(Unslowed[T]):
    __slots__ = ("_folded", "_function", "_holds")

    operator = "on_overflow_reduce"

    def __init__(self, downstream: Subscriber[T], function: Callable[[T, T], T], *, holds: bool) -> None:
        super().__init__(downstream)
        self._function = function
        self._holds = holds
        self._folded: list[Hold] = []  # on what was folded into the item that waits

    def _wait(self, item: T) -> None:
        if self._kept:
            self._fold(item)
            return
        self._folded = []
        self._hold()
        self._kept.append((item, SharedHold(self._folded)))

    def _fold(self, item: T) -> None:
        waiting, hold = self._kept[0]
        before, self._busy = self._busy, True  # what waits is not to be emitted while it is being folded
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
        if self._holds and (hold := self._upstream.hold()) is not NO_HOLD:
            self._folded.append(hold)
