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
        source: Where the items come from.
        key: Two items are the same if their keys are equal; called once an item, in the task that delivers it. The
            item itself, by default.

    Demand: Passed up unchanged, and one more item asked for in the place of each dropped one, which is done. One key is
        remembered.
    Errors: What `key`, or the comparison, raises ends the stream with that very exception; the item counts as failed.
    Cancels: The source, when that happens.
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
