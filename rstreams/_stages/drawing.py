"""Items that are drawn many at a time, for a subscriber that takes them in runs; see `fast_paths.Drawable`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, TypeVar

from rstreams._core.demand import SLICE, add_demand, take_demand
from rstreams._core.fast_paths import draws_of
from rstreams._core.scheduler import current_scheduler
from rstreams._core.turn import Turn
from rstreams.abc import Cancellable

T = TypeVar("T")

_LEAST_COST: Final = 16
"""A draw of few items counts as so many, because the calls around it cost more than the items."""


class Drawing(Generic[T]):
    """Draws as many items as are requested, in turns of the scope, and hands them on in runs.

    A request from inside `take` only adds to a number. The loop sees it when `take` has returned.

    Requests may come from a loop of the subscriber that never ends while items come. Therefore, when `SLICE` items have
    been drawn since the last turn, a request is answered in the next turn.
    """

    __slots__ = ("_busy", "_draw", "_end", "_left", "_next_turn", "_owed", "_scheduler", "_stopped", "_take", "_turn")

    def __init__(self, draw: Callable[[int], list[T]], take: Callable[[list[T]], None]) -> None:
        """Draw nothing yet.

        Args:
            draw: Draws items, as `Drawable` says.
            take: Takes a run of them.
        """
        self._draw = draw
        self._take = take
        self._scheduler = current_scheduler.get(None)
        self._turn = Turn(self._scheduler)
        self._left = SLICE  # items before other tasks must run
        self._next_turn: Cancellable | None = None
        self._owed = 0
        self._busy = False
        self._stopped = False
        self._end: Callable[[], None] | None = None

    def request(self, n: int) -> None:
        """Draw `n` more items, now and in later turns."""
        self._owed = add_demand(self._owed, n)
        if self._busy or self._next_turn is not None:
            return
        if self._left > 0 or self._scheduler is None:
            self._go_on()
        else:
            self._next_turn = self._scheduler.call_later(0, self._begin_turn)

    def end(self, tell: Callable[[], None]) -> None:
        """Draw no more, because the source has ended; `tell` is called behind the items that are being drawn."""
        self._stopped = True
        if self._busy:
            self._end = tell
        else:
            tell()

    def stop(self) -> None:
        """Draw no more."""
        self._stopped = True
        if self._next_turn is not None:
            self._next_turn.cancel()

    def _begin_turn(self) -> None:
        self._next_turn = None
        self._left = SLICE
        self._go_on()

    def _go_on(self) -> None:
        turn, drawn = self._turn.begin(), 0
        self._busy = True
        try:
            while self._owed and not self._stopped:
                wanted = min(self._owed, SLICE)
                run = self._draw(wanted)
                self._owed = take_demand(self._owed, len(run))
                drawn += len(run)
                if run:
                    self._take(run)
                is_over = turn.is_over(drawn if len(run) == wanted else SLICE)
                if is_over and self._owed and not self._stopped:
                    self._next_turn = turn.go_on(self._begin_turn)
                    return
        finally:
            self._busy = False
            self._left -= max(drawn, _LEAST_COST)
        end, self._end = self._end, None
        if end is not None:
            end()


def drawing_from(subscription: object, take: Callable[[list[T]], None]) -> Drawing[T] | None:
    """Return a `Drawing` of the items of a subscription, in `on_subscribe`; None if they cannot be drawn."""
    draw = draws_of(subscription)
    return None if draw is None else Drawing(draw, take)
