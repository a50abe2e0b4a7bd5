"""distinct_until_changed: an item only if it differs from the one before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from rstreams._checks.functions import require_plain
from rstreams._stages.filtering_stage import Dropping
from rstreams._stages.stage import Lifted
from rstreams.abc import Publisher, Subscriber

T = TypeVar("T")

_NOTHING: Final = object()


def distinct_until_changed(source: Publisher[T], key: Callable[[T], object] | None = None) -> Publisher[T]:
    """Emit the items of `source` that differ from the one before.

        --1--1--2--2--1-->
         distinct_until_changed()
        --1-----2-----1-->

    Args:
        source: The publisher of the items.
        key: Called once for each item, in the task that delivers it. Two items with equal keys are the same. By default
            the key is the item itself.

    Demand: Passed up unchanged. For each dropped item, which is done, one more is requested. One key is remembered.
    Errors: An exception that `key` or the comparison raises ends the stream unchanged; the item counts as failed.
    Cancels: The source, in these cases.
    Spec: Reactive Streams 1.1, 2.13, 3.3.

    Example:
        >>> await Stream.of(1, 1, 2, 2, 1).distinct_until_changed().to_list()
        [1, 2, 1]
    """
    if key is not None:
        require_plain("distinct_until_changed", "key", key)
    return Lifted(source, lambda downstream: _DistinctUntilChanged(downstream, key))


class _DistinctUntilChanged(Dropping[T]):
    __slots__ = ("_before", "_key")

    operator = "distinct_until_changed"
    only_reacts = True

    def __init__(self, downstream: Subscriber[T], key: Callable[[T], object] | None) -> None:
        super().__init__(downstream)
        self._key = key
        self._before: object = _NOTHING

    def on_next(self, item: T) -> None:
        if self._ended:
            return
        try:
            key = item if self._key is None else self._key(item)
            changed = self._before is _NOTHING or bool(key != self._before)
        except Exception as error:
            self._fail_item(error)
            return
        if self._ended:  # the function may have cancelled
            return
        self._before = key
        if changed:
            self._downstream.on_next(item)
        else:
            self._drop()
