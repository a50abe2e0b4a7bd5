"""The same source again: shared by retry, retry_backoff and repeat.

Theory of operation. `_again` subscribes anew, and what is requested and unmet goes with it (see `_arbiter`). A source
that ends inside the call of `subscribe` or `request` comes back to `_again` before that has returned: it only leaves a
note then (`_due`), and the loop that runs takes it up, so that nothing recurses. In a scope the loop goes on for
`SLICE` subscriptions or `TURN_S` seconds, and then in the scope's next turn: a source that fails at once, again and
again, keeps nobody out, and can be cancelled.
"""

from __future__ import annotations

from typing import TypeVar

from rstreams._demand import SLICE, TURN_S
from rstreams._scheduler import current_scheduler
from rstreams._subscription import ENDED
from rstreams.abc import Cancellable, Publisher, Scheduler, Subscriber
from rstreams.operators._arbiter import Arbiter

T = TypeVar("T")


class Resubscribing(Arbiter[T]):
    """A stage that subscribes to its source again; the operator says when."""

    __slots__ = ("_due", "_looping", "_next_turn", "_scheduler", "_source")

    def __init__(self, downstream: Subscriber[T], source: Publisher[T]) -> None:
        super().__init__(downstream)
        self._source = source
        self._scheduler: Scheduler | None = current_scheduler.get(None)
        self._next_turn: Cancellable | None = None
        self._looping = False
        self._due = False

    def request(self, n: int) -> None:
        # A source that ends inside this call is subscribed to again behind it, not inside it.
        looping, self._looping = self._looping, True
        try:
            super().request(n)
        finally:
            self._looping = looping
        if not looping and self._due and self._next_turn is None:
            self._take_turn()

    def _again(self, delay_s: float = 0.0) -> None:
        """Subscribe to the source again, after `delay_s` seconds."""
        self._upstream = ENDED
        self._due = True
        if delay_s and self._scheduler is not None:
            self._next_turn = self._scheduler.call_later(delay_s, self._take_turn)
        elif not self._looping:
            self._take_turn()

    def _take_turn(self) -> None:
        self._next_turn = None
        self._looping = True
        began = 0.0 if self._scheduler is None else self._scheduler.now()
        steps = 0
        try:
            while self._due and not self._ended and self._next_turn is None:
                if steps and self._turn_is_over(steps, began):
                    return
                self._due = False
                self._switch_to(self._source)
                steps += 1
        finally:
            self._looping = False

    def _turn_is_over(self, steps: int, began: float) -> bool:
        # The clock is looked at after 1, 2, 4, 8... steps, as elsewhere.
        if self._scheduler is None or steps & (steps - 1):
            return False
        if steps < SLICE and self._scheduler.now() - began < TURN_S:
            return False
        self._next_turn = self._scheduler.call_later(0, self._take_turn)
        return True

    def _let_go(self) -> None:
        if self._next_turn is not None:
            self._next_turn.cancel()
            self._next_turn = None
