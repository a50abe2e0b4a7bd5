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
    """Emit the items of `source` that have not come before.

        --1--2--1--3--2-->
            distinct()
        --1--2-----3----->

    Args:
        source: Where the items come from.
        key: Two items are the same if their keys are equal; called once an item, in the task that delivers it. The
            item itself, by default. Keys must be hashable.

    Demand: Passed up unchanged, and one more item asked for in the place of each dropped one. Every key is remembered
        for the length of the stream, without limit.
    Holds: None: an item is passed on at once, for the subscriber to hold, or dropped, and then it is done. What is kept
        are keys, from which nothing is ever emitted; so there is nothing that an `ack` could wait for.
    Errors: What `key` raises, and a key that is not hashable (`TypeError`), ends the stream; the item counts as failed.
    Cancels: The source, when that happens.
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
