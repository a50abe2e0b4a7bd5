"""switch_if_empty: another stream in the place of an empty one."""

from __future__ import annotations

from typing import TypeVar

from rstreams._checks.publishers import require_publisher
from rstreams._stages.arbiter import Arbiter
from rstreams._stages.stage import Lifted
from rstreams.abc import Publisher, Subscriber

T = TypeVar("T")
R = TypeVar("R")


def switch_if_empty(source: Publisher[T], other: Publisher[R]) -> Publisher[T | R]:
    """Emit the items of `source`; if it completes without any, go on with `other`.

        --------|
                --8--9--|
         switch_if_empty
        ----------8--9--|

    Args:
        source: The publisher of the items.
        other: Subscribed to only if `source` is empty.

    Demand: Goes to `source`; if it is empty, to `other`.
    Errors: `TypeError` at the call if `other` is not a publisher. Errors of both pass through.
    Cancels: The current publisher, when the stream is cancelled.
    Spec: Reactive Streams 1.1, 3.17.

    Example:
        >>> await Stream.empty().switch_if_empty(Stream.of("nothing")).to_list()
        ['nothing']
    """
    require_publisher("switch_if_empty", "other", other)
    return Lifted(source, lambda downstream: _SwitchIfEmpty[T | R](downstream, other))


class _SwitchIfEmpty(Arbiter[T]):
    __slots__ = ("_other",)

    operator = "switch_if_empty"

    def __init__(self, downstream: Subscriber[T], other: Publisher[T]) -> None:
        super().__init__(downstream)
        self._other: Publisher[T] | None = other

    def on_next(self, item: T) -> None:
        self._other = None
        super().on_next(item)

    def on_complete(self) -> None:
        other, self._other = self._other, None
        if other is None or self._ended:
            super().on_complete()
        else:
            self._switch_to(other)
