"""A source that is not slowed down, with a limit to its waiting items: shared by the on_overflow family.

Theory of operation. The source is asked once for all its items. Up to `size` items wait for demand (see
`waiting_items`). The strategy decides about an item for which there is no room. This is the stage of the whole family
except on_overflow_reduce:

    error, drop   no item waits
    latest        one item waits, and the next one replaces it

`suspend` and `resume` end here, as demand does. A pause below cannot pause such a source.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias, TypeVar

from rstreams._core.claims import Claims
from rstreams._core.demand import UNBOUNDED
from rstreams._stages.emission import log_dropped
from rstreams._stages.waiting_items import WaitingItems
from rstreams.abc import Subscriber
from rstreams.errors import BufferOverflow

T = TypeVar("T")

Strategy: TypeAlias = Literal["error", "drop_oldest", "drop_newest"]


class Unslowed(WaitingItems[T]):
    """A stage that asks its source for all items."""

    __slots__ = ("_asked",)

    def __init__(self, downstream: Subscriber[T]) -> None:
        super().__init__(downstream)
        self._asked = False

    def suspend(self) -> None:
        """Do nothing: the source is not slowed down."""

    def resume(self) -> None:
        """Do nothing."""

    def _ask(self) -> None:
        if not self._asked:
            self._asked = True
            self._upstream.request(UNBOUNDED)


class Overflowing(Unslowed[T]):
    """A stage that lets a number of items wait, and applies its strategy to any further one."""

    __slots__ = ("_on_drop", "_overflow", "_size", "_strategy")

    def __init__(
        self,
        downstream: Subscriber[T],
        size: int,
        strategy: Strategy,
        *,
        on_drop: Callable[[T], object] | None = None,
        overflow: str = "",
    ) -> None:
        """Make a stage.

        Args:
            downstream: The subscriber.
            size: The most items that wait.
            strategy: The treatment of an item for which there is no room.
            on_drop: Called with each item that is dropped.
            overflow: The text of the `BufferOverflow`.
        """
        super().__init__(downstream)
        self._size = size
        self._strategy = strategy
        self._on_drop = on_drop
        self._overflow = overflow

    def _wait(self, item: T) -> None:
        if len(self._kept) < self._size:
            self._keep(item)
        elif self._strategy == "drop_newest":
            self._drop_newest(item)
        elif self._strategy == "drop_oldest":
            self._keep(item)
            self._drop_oldest(*self._kept.popleft())
        else:
            self._upstream.hold().release()  # it was not processed
            self._fail(BufferOverflow(self._overflow))

    def _drop_newest(self, item: T) -> None:
        if self._on_drop is not None:
            try:
                self._on_drop(item)
            except Exception as error:
                self._fail_item(error)

    def _drop_oldest(self, item: T, hold: Claims) -> None:
        if self._on_drop is not None:
            try:
                self._on_drop(item)
            except Exception as error:
                hold.fail(error)
                if self._ended:
                    log_dropped(error, "on_drop failed")
                else:
                    self._fail(error)
                return
        hold.done()
