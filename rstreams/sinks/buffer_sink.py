"""The sink behind `async for`: it keeps items until the loop takes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import repeat, starmap
from operator import length_hint
from typing import Any, Final, TypeVar

from rstreams._checks.publishers import require_subscription
from rstreams._core.claims_in_order import ClaimsInOrder, gather
from rstreams._core.demand import SLICE
from rstreams._core.fast_paths import draws_of, signals_later
from rstreams._core.kept_errors import KeptError
from rstreams._core.kept_items import KeptItems
from rstreams._core.run import Run
from rstreams._core.sight import Asked
from rstreams._core.subscription import ENDED
from rstreams._core.windows import WINDOW, window_ahead_of
from rstreams.abc import Subscription
from rstreams.culprits import Culprit
from rstreams.errors import SpecViolation
from rstreams.sinks.sink import Sink

T = TypeVar("T")

_MADE_AT_ONCE: Final = 64
"""The most items that are made at a time: they fit the cache of a processor."""

_LARGE_WINDOW: Final = 128
"""The least window of which one half is worth asking for while the other half is given out: to ask costs a turn."""


class BufferSink(Sink[T]):
    """Keeps up to `window` items for a consumer that takes them in their order.

    It requests the whole window at first. It fills the window up again when half of it is neither outstanding nor kept,
    and when no item is kept and at most one more than half of the window is outstanding. Both together are never more
    than the window. With a window of 1 it requests the next item when the consumer wants it, and not before. The item
    is then as new as it can be. Items that can be drawn are drawn when the consumer wants some, up to a window of them.
    The default window changes with that of a link (`window_ahead_of`), when more is to be requested. When it becomes
    smaller, items that have been requested still come.

    The consumer takes a batch of items, and gives them out one by one, without a call. An item is done when the
    consumer gives out the next one, or wants another batch. Items of a run that waits (`_core.run`) are made with their
    batch. If one cannot be made, the batch ends before it. It is refused when the consumer wants
    more.

    Attributes:
        asked: Whether it has asked a source for more that answers only when other tasks have run. Then it is better to
            let them run soon than to give out all other items first. The consumer sets it to False when they have run.
        closed: Whether `close` has been called.
        untold: Whether the consumer is to call `tell` when it gives out an item.
        draws: Whether items come only when they are wanted, and never by themselves.
        makes_later: Whether it makes the items of a run when they are wanted.
    """

    operator = "loop"
    makes_later = True

    __slots__ = (
        "_claims",
        "_draw",
        "_follows",
        "_kept",
        "_later",
        "_past",
        "_settled",
        "_size",
        "_to_give",
        "_window",
        "asked",
        "closed",
        "draws",
        "tell",
        "untold",
    )

    def __init__(self, on_change: Callable[[], None], window: int | None) -> None:
        super().__init__(on_change)
        self._follows = window is None  # the window of the link
        self._window = WINDOW if window is None else window
        self._kept: KeptItems[T] = KeptItems()  # the batch is the first of them
        self._to_give: Iterator[Any] = iter(())  # has as many steps as the batch has items
        self._size = 0  # of the batch
        self._settled = 0  # items of the batch whose claims have ended
        self._past = 0  # items of batches before whose claims have not ended; the source asks for them
        self._claims: ClaimsInOrder | None = None  # on the items that wait or are in hand, if they need any
        self._draw: Callable[[int], list[T]] | None = None
        self._later = False  # the source answers a request only when other tasks have run
        self.asked = False
        self.closed = False
        self.untold = False
        self.draws = False
        self.tell: Callable[[], None] = self._settle_past
        """Have the source know that the items given out before the last one are done."""
        self.request(self._window)

    # the publisher calls these

    def on_subscribe(self, subscription: Subscription) -> None:
        """Receive the subscription, and request the window unless the items can be drawn."""
        require_subscription(subscription)
        if self._subscription is ENDED and not self.ended:
            self._draw = draws_of(subscription)
            self._later = self._window >= _LARGE_WINDOW and signals_later(subscription)
            self._follows = self._follows and self._later
            if self._draw is not None:
                self.draws, self.outstanding = True, 0
            claims = self._claims = gather(subscription, loose=False)
            if claims is not None:
                self.untold = True
                if claims.asks:
                    self.tell = self._announce
        super().on_subscribe(subscription)

    def on_next(self, item: T) -> None:
        """Receive an item and keep it, with a claim on it."""
        if self.ended:
            return
        if self.outstanding == 0:
            self._fail_item(SpecViolation("1.1", "the publisher sent more items than were requested"))
            return
        self.outstanding -= 1
        kept = self._kept
        if kept.unmade:
            kept.put((item,))
        else:
            kept.made.append(item)
        if self._claims is not None:
            self._claims.keep()
        if len(kept.made) + kept.unmade == 1:
            self._on_change()

    def on_run(self, run: Run[T]) -> None:
        """Receive many items, which are made when the consumer wants them; the consumer is told once."""
        if self.ended:
            return
        before = self._waiting
        try:
            self._kept.put_run(run, self._claims)
        finally:
            self._received_more(before)

    @property
    def _waiting(self) -> int:
        """How many items wait."""
        return len(self._kept.made) + self._kept.unmade

    def _received_more(self, before: int) -> None:
        kept = self._waiting
        self.outstanding -= kept - before
        if not before and kept:
            self._on_change()

    def blame(self, asked: Asked) -> Culprit | None:
        """Return that the consumer is not through with the items that it has, if it has some."""
        if not (self._given or self._waiting or not (self.outstanding or self.draws)):
            return None
        told = f"slow handler: the loop of {asked.consumer} is not through with its item"
        return asked.blame("slow_handler", told)

    # the consumer calls these

    def want(self) -> bool:
        """Say that all items given out are done, and that others are wanted; return whether there are some."""
        self._end_batch()
        kept = self._kept
        while kept.unmade and not kept.made:
            kept.make(1)
            if kept.error is not None and not kept.made:
                self._refuse(kept.error)
        if kept.made:
            return True
        if self._draw is not None and not self.ended:
            kept.put(self._draw(min(self._window, SLICE)))
        elif self.outstanding < self._window and self.outstanding <= self._window // 2 + 1 and not self.ended:
            self.request(self._window - self.outstanding)
        return self._waiting > 0

    def take(self, most: int) -> tuple[Iterator[T], int]:
        """Return a batch of up to `most` items, which the consumer gives out, and its size; there must be an item."""
        kept = self._kept
        if kept.unmade:
            kept.make(min(most, _MADE_AT_ONCE))
        size = min(len(kept.made), most)
        if not (self.draws or self.ended):
            unmet = self.outstanding + self._waiting - 1  # behind the first item
            if unmet <= self._window // 2 and self._follows:
                self._window = window_ahead_of(self._subscription)
            half = self._window // 2
            if unmet <= half and self._window > 1:
                self.request(self._window - unmet)
                unmet = self.outstanding + self._waiting - 1
                self.asked = self._later
            size = max(1, min(size, unmet - half))  # more is requested with the item behind these
            if self.asked:
                size = 1
        self._size, self._settled = size, 0
        self._to_give = repeat((), size)
        return starmap(kept.made.popleft, self._to_give), size  # an item that is given out is let go at once

    def _refuse(self, error: BaseException) -> None:
        """End the first item, which cannot be made."""
        self._settle(0)
        if self._claims is not None:
            self._claims.take().fail(error)
        if self._kept.refuse():
            self.outstanding += 1
            return
        self.cancel()
        self.failure = KeptError(error)
        self._forget()

    def _forget(self) -> None:
        """Give back the items that were never given out."""
        self._kept.clear()
        if self._claims is not None:
            self._claims.release()

    def close(self, error: BaseException | None) -> None:
        """End it all: the item given out last is done, or failed with `error`; those never given out are released."""
        self.closed = True
        given = self._given
        if error is None:
            self._settle(given)
        else:
            self._settle_past()
            if self._claims is not None and self._settled < given:
                self._claims.take().fail(error)
        self.cancel()  # first: what is given back must not come again
        self._forget()

    def _announce(self) -> None:
        assert self._claims is not None, "otherwise nothing is to be told"
        self.untold = False
        self._claims.announce(self._settle_announced)

    def _settle_announced(self) -> None:
        self.untold = True
        self._settle_past()

    def _settle_past(self) -> None:
        self._settle(max(self._given - 1, 0))

    def _end_batch(self) -> None:
        """Say that all items of the batch are done; if the source asks for them, leave it to the source to end them."""
        self._past += self._size - self._settled
        self._size = self._settled = 0
        self._to_give = iter(())
        if self.untold or self._claims is None or not self._claims.asks:
            self._settle(0)

    @property
    def _given(self) -> int:
        """How many items of the batch have been given out."""
        return self._size - length_hint(self._to_give)

    def _settle(self, end: int) -> None:
        """End the claims on the items of the batch before `end`, and on those of the batches before."""
        items = self._past + end - self._settled
        if items > 0:
            self._past, self._settled = 0, end
            if self._claims is not None:
                self._claims.done(items)
