"""The same source again: shared by retry, retry_backoff and repeat.

Theory of operation. `_again` subscribes again, with the unmet demand (see `arbiter`). A source may end inside the call
of `subscribe` or `request`. `_again` is then called before that call has returned, and only sets `_due`. The loop that
is running goes on with it. Nothing recurses.

In a scope the loop goes on for one `Turn`, and then in the scope's next turn. A source that always fails at once does
not keep other tasks out, and can be cancelled. Without a scope there is no other turn. An endless loop then fails after
`SLICE` subscriptions in a row without an item, because nothing could end it. With items it is like any endless source:
items come as long as they are wanted, and a subscriber can cancel when it gets one.

A source that has ended sends nothing more (1.7). Therefore it need not be told apart from the next one. If it breaks
the rule and sends a signal before the next source is there, that signal is ignored. A second end would cause a second
try, and a second timer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from rstreams._core.demand import SLICE
from rstreams._core.subscription import ENDED
from rstreams._core.turn import Turn
from rstreams._stages.arbiter import Arbiter
from rstreams._stages.emission import log_dropped
from rstreams._stages.stage import Stage, raised_during
from rstreams.abc import Cancellable, Publisher, Subscriber, Subscription
from rstreams.errors import ConfigError

T = TypeVar("T")


class Resubscribing(Arbiter[T]):
    """A stage that subscribes to its source again; the operator says when."""

    __slots__ = ("_due", "_endless", "_looping", "_next_at", "_next_turn", "_source", "_source_over")

    def __init__(self, downstream: Subscriber[T], source: Publisher[T], *, endless: str | None = None) -> None:
        """Make a stage.

        Args:
            downstream: The subscriber.
            source: The publisher to subscribe to.
            endless: The error text for an endless loop without a scope; None if the operator has a limit of its own.
        """
        super().__init__(downstream)
        self._endless = endless
        self._source_over = False  # and the next one is not there yet
        self._source = source
        self._next_turn: Cancellable | None = None
        self._next_at = 0.0
        self._looping = False
        self._due = False

    @property
    def waits_for(self) -> str:
        """The reason for waiting that `explain` shows."""
        if self._next_turn is None or self._scheduler is None or not self._source_over:
            return ""
        return f"its next try is in {max(self._next_at - self._scheduler.now(), 0):.1f} s"

    def on_subscribe(self, subscription: Subscription) -> None:
        if self._awaiting:
            self._source_over = False
        super().on_subscribe(subscription)

    def on_next(self, item: T) -> None:
        if not self._source_over:
            super().on_next(item)

    def on_error(self, error: BaseException) -> None:
        if not self._source_over:
            super().on_error(error)

    def on_complete(self) -> None:
        if not self._source_over:
            super().on_complete()

    def request(self, n: int) -> None:
        # A source that ends inside this call is subscribed to again after it, not inside it.
        looping, self._looping = self._looping, True
        try:
            super().request(n)
        finally:
            self._looping = looping
        if not looping and self._due and self._next_turn is None:
            self._take_turn()

    @property
    def moves(self) -> bool:
        """Whether it is subscribing again, or will do so."""
        return self._looping or self._next_turn is not None or super().moves

    def _again(self, delay_s: float = 0.0) -> None:
        """Subscribe to the source again, after `delay_s` seconds."""
        self._rest()
        self._due = True
        if delay_s and self._scheduler is not None:
            self._next_turn = self._scheduler.call_later(delay_s, self._take_turn)
            self._next_at = self._scheduler.now() + delay_s
        elif not self._looping:
            self._take_turn()

    def _rest(self) -> None:
        """Note that the source has ended."""
        self._upstream = ENDED
        self._source_over = True

    def _take_turn(self) -> None:
        self._next_turn = None
        self._looping = True
        turn = Turn(self._scheduler).begin()
        steps = fruitless = 0
        emissions = self._emissions
        try:
            while self._due and not self._ended and self._next_turn is None:
                if steps >= turn.look_at and turn.is_over(steps):
                    self._next_turn = turn.go_on(self._take_turn)
                    return
                if fruitless == SLICE and self._scheduler is None and self._endless is not None:
                    self._due = False
                    self._fail(ConfigError(self._endless))
                    return
                self._due = False
                self._subscribe()
                steps += 1
                fruitless = fruitless + 1 if self._emissions == emissions else 0
                emissions = self._emissions
        finally:
            self._looping = False

    def _subscribe(self) -> None:
        try:
            self._switch_to(self._source)
        except Exception as error:
            if not self._awaiting or self._ended:
                raise  # raised by the subscriber during a signal (2.13)
            self._awaiting = False  # the source breaks 1.9: another try would not help
            self._fail(error)

    def _let_go(self) -> None:
        if self._next_turn is not None:
            self._next_turn.cancel()
            self._next_turn = None


def worth_it(predicate: Callable[[Exception], object] | None, stage: Stage[T, T], error: Exception) -> Exception | None:
    """Return the error that ends the stream of `stage`, or None if it should try again; the predicate may cancel."""
    try:
        again = predicate is None or bool(predicate(error))
    except Exception as raised:
        if stage.ended:
            log_dropped(raised, "a predicate failed")
        return raised_during(raised, error)
    return None if again else error
