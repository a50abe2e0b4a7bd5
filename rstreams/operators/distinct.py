"""distinct: each item once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from rstreams._checks.functions import require_plain
from rstreams._stages.filtering_stage import Dropping
from rstreams._stages.stage import Lifted
from rstreams.abc import Publisher, Subscriber

T = TypeVar("T")


def distinct(source: Publisher[T], key: Callable[[T], object] | None = None) -> Publisher[T]:
    """Emit the items of `source` that differ from all items before.

        --1--2--1--3--2-->
            distinct()
        --1--2-----3----->

    Args:
        source: The publisher of the items.
        key: Called once for each item, in the task that delivers it. Two items with equal keys are the same. Keys must
            be hashable. By default the key is the item itself.

    Demand: Passed up unchanged. For each dropped item one more is requested. Every key is remembered as long as the
        stream runs, without limit.
    Holds: None. An item is emitted at once, and its subscriber may hold it; or it is dropped, and is done. Only keys
        are kept, and they are never emitted. Therefore this operator has no option `ack`.
    Errors: An exception that `key` raises, or a `TypeError` for a key that is not hashable, ends the stream; the item
        counts as failed.
    Cancels: The source, in these cases.
    Spec: Reactive Streams 1.1, 2.13, 3.3.

    Example:
        >>> await Stream.of("tea", "Tea", "milk").distinct(str.lower).to_list()
        ['tea', 'milk']
    """
    if key is not None:
        require_plain("distinct", "key", key)
    return Lifted(source, lambda downstream: _Distinct(downstream, key))


class _Distinct(Dropping[T]):
    __slots__ = ("_key", "_keys")

    operator = "distinct"
    only_reacts = True

    def __init__(self, downstream: Subscriber[T], key: Callable[[T], object] | None) -> None:
        super().__init__(downstream)
        self._key = key
        self._keys: set[Any] = set()

    def on_next(self, item: T) -> None:
        if self._ended:
            return
        known = len(self._keys)
        try:
            self._keys.add(item if self._key is None else self._key(item))
        except Exception as error:
            self._fail_item(error)
            return
        if self._ended:  # the function may have cancelled
            return
        if len(self._keys) > known:
            self._downstream.on_next(item)
        else:
            self._drop()
