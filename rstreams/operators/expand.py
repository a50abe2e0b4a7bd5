"""expand: each item, then the items that a function makes of it, and so on."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterable, Callable, Iterable
from typing import TypeVar

from rstreams._checks.functions import require_plain
from rstreams._checks.numbers import require_count
from rstreams._core.subscription import ENDED
from rstreams._stages.arbiter import Arbiter
from rstreams._stages.in_turns import InTurns
from rstreams._stages.stage import Lifted
from rstreams.abc import Publisher, Subscriber
from rstreams.errors import BufferOverflow
from rstreams.sources._returned import returning_streams

T = TypeVar("T")
R = TypeVar("R")


def expand(
    source: Publisher[R],
    function: Callable[[R], Publisher[R] | Iterable[R] | AsyncIterable[R]],
    *,
    depth: int | None = None,
    max_pending: int = 1024,
) -> Publisher[R]:
    """Emit the items of `source`, then those of `function(item)` for each of them, and so on, level by level.

        --1-----2--|
         expand(x -> 10x, depth=1)
        --1-----2--10--20--|

    Args:
        source: The publisher of the items of the first level.
        function: Called once for each emitted item, when its turn comes; it must not block. Its result is a
            publisher, an iterable or an async iterable, but no text; where it is empty, that branch ends.
        depth: The number of levels below the items of `source`; without limit by default.
        max_pending: How many items may wait to be expanded; at least 1.

    Demand: The source, and later the current inner stream, is asked for exactly the items requested and not yet
        received.
    Holds: Items pass through. An item that waits to be expanded is not held.
    Errors: `ConfigError` at the call if `max_pending` is less than 1 or `depth` is negative. `BufferOverflow` if more
        than `max_pending` items wait to be expanded. The stream also ends if `function` raises, if its result is no
        stream (`TypeError`), or if an inner stream fails.
    Cancels: The current source, on a `BufferOverflow`.
    Context: In a scope, streams that end at once let other tasks run after 5 ms.
    Spec: Reactive Streams 1.1, 2.13, 3.3, 3.17.

    Example:
        >>> await Stream.of(1).expand(lambda x: Stream.of(x * 2, x * 3), depth=2).to_list()
        [1, 2, 3, 4, 6, 6, 9]
    """
    require_plain("expand", "function", function)
    require_count("expand", "max_pending", max_pending, 1)
    if depth is not None:
        require_count("expand", "depth", depth, 0, unit="")
    streams = returning_streams("expand", "function", function)
    return Lifted(source, lambda downstream: _Expand(downstream, streams, depth, max_pending))


class _Expand(Arbiter[T]):
    __slots__ = ("_depth", "_due", "_function", "_level", "_loop", "_max_pending", "_pending")

    operator = "expand"

    def __init__(
        self,
        downstream: Subscriber[T],
        function: Callable[[T], Publisher[T]],
        depth: int | None,
        max_pending: int,
    ) -> None:
        super().__init__(downstream)
        self._function = function
        self._depth = depth
        self._max_pending = max_pending
        self._pending: deque[tuple[T, int]] = deque()  # with the level of each
        self._level = 0  # the level of the current source's items
        self._due = False
        self._loop = InTurns(self._go_on)

    def on_next(self, item: T) -> None:
        if self._ended:
            return
        super().on_next(item)
        if self._ended or self._level == self._depth:
            return
        if len(self._pending) == self._max_pending:
            msg = f"expand: more than {self._max_pending} items wait to be expanded (max_pending={self._max_pending})"
            self._fail(BufferOverflow(msg))
            return
        self._pending.append((item, self._level))

    def on_complete(self) -> None:
        """Expand the next item; a stream that completes at once only makes the loop run again (3.3)."""
        self._upstream = ENDED  # 2.3, 2.4
        self._due = True
        self._loop.run()

    def _go_on(self) -> bool:
        if not self._due or self._ended:
            return False
        self._due = False
        if self._pending:
            self._expand(*self._pending.popleft())
        else:
            super().on_complete()
        return True

    def _expand(self, item: T, level: int) -> None:
        try:
            source = self._function(item)
        except Exception as error:
            self._fail(error)
            return
        if not self._ended:  # the function may have cancelled
            self._level = level + 1
            self._switch_to(source)

    @property
    def moves(self) -> bool:
        return super().moves or self._loop.moves

    def _let_go(self) -> None:
        self._loop.stop()
        self._pending.clear()
