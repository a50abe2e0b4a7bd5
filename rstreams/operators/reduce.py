"""reduce: all items folded into one result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, overload

from rstreams._checks.choices import require_choice
from rstreams._checks.functions import require_plain
from rstreams._stages.folds import Folding
from rstreams._stages.stage import GatherAck, Lifted
from rstreams.abc import Publisher, Subscriber, Subscription
from rstreams.errors import NoItem

T = TypeVar("T")
R = TypeVar("R")


@overload
def reduce(
    source: Publisher[T], accumulator: Callable[[T, T], T], *, ack: GatherAck = "within_window"
) -> Publisher[T]: ...
@overload
def reduce(
    source: Publisher[T], accumulator: Callable[[R, T], R], seed: R, *, ack: GatherAck = "within_window"
) -> Publisher[R]: ...
def reduce(
    source: Publisher[Any], accumulator: Callable[[Any, Any], Any], seed: Any = ..., *, ack: GatherAck = "within_window"
) -> Publisher[Any]:
    """Fold all items of `source` into one result, and emit it when the source completes.

        --1--2--3--4--|
          reduce(+, 0)
        -------------10|

    Args:
        source: The publisher of the items.
        accumulator: Called once for each item, in the task that delivers it; it must not block.
        seed: The result before the first item, which is emitted if no item comes. Every subscription starts from this
            same object. Therefore the accumulator must return a new object and not change it. Without a seed the first
            item is the result before the second one.
        ack: When an item is done. "within_window": with the result; if more items come than the window of a link can
            hold, the oldest ones earlier. "on_result": always with the result. "on_receipt": as soon as it is folded.

    Demand: The first request asks the source for all items (`UNBOUNDED`). Only the result is kept.
    Holds: Every item is held, and shares the outcome of the result. On a cancel or an error the items are given back
        (released). Behind a link, at most as many items are held as its window has room for; if more come, the oldest
        ones are accepted.
    Errors: `NoItem` if there is no seed and the source completes without an item. `ConfigError` at the call for a wrong
        `ack`. `ConfigError` as `on_error` for "on_result" behind a link whose window cannot hold all items, or whose
        items come settled. An exception that `accumulator` raises ends the stream unchanged; the item counts as
        failed. After an error no result is emitted.
    Cancels: The source, when `accumulator` raises.
    Spec: Reactive Streams 1.1 (the result waits for demand), 2.13.

    Example:
        >>> await Stream.of(1, 2, 3, 4).reduce(lambda total, x: total + x, 0).to_list()
        [10]
        >>> await Stream.of(3, 1, 2).reduce(max).to_list()
        [3]
    """
    require_plain("reduce", "accumulator", accumulator)
    require_choice("reduce", "ack", ack, GatherAck)
    if seed is ...:
        return Lifted(source, lambda downstream: _ReduceItems(downstream, accumulator, ack))
    return Lifted(source, lambda downstream: _Reduce(downstream, accumulator, seed, ack))


class _Reduce(Folding[T, R]):
    __slots__ = ("_accumulator", "_quick", "_so_far")

    def __init__(self, downstream: Subscriber[R], accumulator: Callable[[R, T], R], seed: R, ack: GatherAck) -> None:
        super().__init__(downstream, "reduce", ack)
        self._accumulator = accumulator
        self._so_far = seed
        self._quick = False  # items are only folded, until the end

    def on_subscribe(self, subscription: Subscription) -> None:
        super().on_subscribe(subscription)
        self._quick = self._gathering is None and not self._ended and not self._known

    def on_next(self, item: T) -> None:
        if not self._quick:
            super().on_next(item)
            return
        try:
            self._so_far = self._accumulator(self._so_far, item)  # `_fold` without the call, which costs a third
        except Exception as error:
            self._fail_item(error)

    def on_complete(self) -> None:
        self._quick = False
        super().on_complete()

    def _let_go(self) -> None:
        self._quick = False
        super()._let_go()

    def _fold(self, item: T) -> bool:
        self._so_far = self._accumulator(self._so_far, item)
        return False

    def _result(self) -> R:
        return self._so_far


class _ReduceItems(Folding[T, T]):
    """Without a seed: the first item is the result before the second one."""

    __slots__ = ("_accumulator", "_so_far")

    def __init__(self, downstream: Subscriber[T], accumulator: Callable[[T, T], T], ack: GatherAck) -> None:
        super().__init__(downstream, "reduce", ack)
        self._accumulator = accumulator
        self._so_far: tuple[T] | None = None

    def _fold(self, item: T) -> bool:
        self._so_far = (item if self._so_far is None else self._accumulator(self._so_far[0], item),)
        return False

    def _result(self) -> T:
        if self._so_far is None:
            msg = "reduce() without a seed: the stream completed without an item"
            raise NoItem(msg)
        return self._so_far[0]
