"""The item that comes before all others in some order: shared by min and max."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from rstreams._stages.folds import Folding
from rstreams._stages.stage import Lifted
from rstreams.abc import Publisher, Subscriber
from rstreams.errors import NoItem

T = TypeVar("T")


class Ordered(Protocol):
    """A type whose values can be compared with each other."""

    def __lt__(self, other: Any, /) -> bool:  # noqa: ANN401 - as in `min`
        """Tell whether this value is less."""
        ...


def extreme(
    source: Publisher[T], operator: str, key: Callable[[T], Any] | None, before: Callable[[Any, Any], bool]
) -> Publisher[T]:
    """Emit the item whose key is `before` those of all others; without items, fail with `NoItem`."""
    return Lifted(source, lambda downstream: _Extreme(downstream, operator, key, before))


class _Extreme(Folding[T, T]):
    __slots__ = ("_before", "_best", "_key")

    def __init__(
        self,
        downstream: Subscriber[T],
        operator: str,
        key: Callable[[T], Any] | None,
        before: Callable[[Any, Any], bool],
    ) -> None:
        super().__init__(downstream, operator)
        self._key = key
        self._before = before
        self._best: tuple[T, Any] | None = None  # with its key

    def _fold(self, item: T) -> bool:
        key = item if self._key is None else self._key(item)
        if self._best is None or self._before(key, self._best[1]):
            self._best = item, key
        return False

    def _result(self) -> T:
        if self._best is None:
            msg = f"{self._operator}(): the stream completed without an item"
            raise NoItem(msg)
        return self._best[0]
