"""to_dict: a dict of all items."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, overload

from rstreams._checks.choices import require_choice
from rstreams._checks.functions import require_plain
from rstreams._stages.folds import Folding
from rstreams._stages.stage import GatherAck, Lifted
from rstreams.abc import Publisher, Subscriber

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")


@overload
def to_dict(
    source: Publisher[T], key: Callable[[T], K], *, ack: GatherAck = "within_window"
) -> Publisher[dict[K, T]]: ...
@overload
def to_dict(
    source: Publisher[T], key: Callable[[T], K], value: Callable[[T], V], *, ack: GatherAck = "within_window"
) -> Publisher[dict[K, V]]: ...
def to_dict(
    source: Publisher[T],
    key: Callable[[T], Any],
    value: Callable[[T], Any] | None = None,
    *,
    ack: GatherAck = "within_window",
) -> Publisher[dict[Any, Any]]:
    """Gather the items of `source` into a dict by `key(item)`, and emit it at the end.

        --a--bb--cc--|
         to_dict(len)
        -------------{1:a,2:cc}|

    Args:
        source: The publisher of the items.
        key: Returns an item's key, which must be hashable. Of several items with the same key, the last one stays.
            Called once for each item, in the task that delivers it; it must not block.
        value: Returns the value for an item; by default the item itself.
        ack: When an item is done. "within_window": with the dict; if more items come than the window of a link can
            hold, the oldest ones earlier. "on_result": always with the dict. "on_receipt": as soon as it is in the
            dict.

    Demand: The first request asks the source for all items (`UNBOUNDED`). The dict grows without limit.
    Holds: Every item is held, and shares the outcome of the dict. On a cancel or an error the items are given back
        (released). Behind a link, at most as many items are held as its window has room for; if more come, the oldest
        ones are accepted.
    Errors: `ConfigError` at the call for a wrong `ack`. `ConfigError` as `on_error` for "on_result" behind a link whose
        window cannot hold all items, or whose items come settled. An exception that `key` or `value` raises, or a
        `TypeError` for a key that is not hashable, ends the stream; the item counts as failed.
    Cancels: The source, when `key` or `value` raises, and for a key that is not hashable.
    Spec: Reactive Streams 1.1, 2.13.

    Example:
        >>> await Stream.of("a", "bb", "cc").to_dict(len).to_list()
        [{1: 'a', 2: 'cc'}]
        >>> await Stream.of("a", "bb").to_dict(len, str.upper).to_list()
        [{1: 'A', 2: 'BB'}]
    """
    require_plain("to_dict", "key", key)
    if value is not None:
        require_plain("to_dict", "value", value)
    require_choice("to_dict", "ack", ack, GatherAck)
    return Lifted(source, lambda downstream: _ToDict(downstream, key, value, ack))


class _ToDict(Folding[T, dict[Any, Any]]):
    __slots__ = ("_items", "_key", "_value")

    def __init__(
        self,
        downstream: Subscriber[dict[Any, Any]],
        key: Callable[[T], Any],
        value: Callable[[T], Any] | None,
        ack: GatherAck,
    ) -> None:
        super().__init__(downstream, "to_dict", ack)
        self._key = key
        self._value = value
        self._items: dict[Any, Any] = {}

    def _fold(self, item: T) -> bool:
        self._items[self._key(item)] = item if self._value is None else self._value(item)
        return False

    def _result(self) -> dict[Any, Any]:
        return self._items
