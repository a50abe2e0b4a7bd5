"""The subscribers behind the terminals of a stream: plain signals in, one callback out.

Each sink gets a function `on_change`. It calls the function when its terminal has something to do: the subscription has
ended, the outstanding demand is so low that more should be requested, or an awaited item has come. Then the terminal's
task looks at the sink's attributes. Therefore a sink never waits, and it does not know trio.

A terminal requests from its own task and never inside `on_next`. Otherwise a synchronous source would go on for ever
inside one call, and no other task would run. Some sources answer later, such as a link, whose window bounds the items
under way. From them a sink that takes all items requests all at once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from itertools import repeat, starmap
from operator import length_hint
from typing import Any, Final, Generic, TypeVar

from rstreams._checks.functions import refuse_unrun
from rstreams._checks.publishers import require_subscription
from rstreams._core.claimed_items import ClaimedItems
from rstreams._core.demand import SLICE, UNBOUNDED
from rstreams._core.fast_paths import draws_of, signals_later
from rstreams._core.gathering import ClaimsInOrder, Gathering, gather
from rstreams._core.holds import NO_HOLD
from rstreams._core.kept_items import KeptItems, UnmadeRun
from rstreams._core.sight import CANCEL, Scannable, Waits, Way
from rstreams._core.subscription import ENDED, checked_error
from rstreams._stages.stage import GatherAck, cannot_hold_all
from rstreams.abc import Hold, Subscription
from rstreams.errors import SpecViolation

T = TypeVar("T")

_MADE_AT_ONCE: Final = 64
"""The most items that are made at a time: they fit the cache of a processor."""

_LARGE_WINDOW: Final = 128
"""The least window of which one half is worth asking for while the other half is given out: to ask costs a turn."""


class Sink(Scannable, ABC, Generic[T]):
    """The base of all sinks: one subscription, its demand and its end.

    Attributes:
        ended: Whether the subscription is over: completed, failed or cancelled.
        error: The error that it failed with, else None.
        outstanding: Items requested and not yet received.
        takes_all: Whether it takes all items, until the end.
    """

    __slots__ = ("_on_change", "_subscription", "_top_up_at", "ended", "error", "outstanding")

    takes_all = False

    def __init__(self, on_change: Callable[[], None]) -> None:
        self._on_change: Final = on_change
        self._subscription: Subscription = ENDED
        self._top_up_at = 0
        self.ended = False
        self.error: BaseException | None = None
        self.outstanding = 0

    # the publisher calls these

    def on_subscribe(self, subscription: Subscription) -> None:
        """Receive the subscription; earlier requests are passed on now."""
        require_subscription(subscription)
        if self._subscription is not ENDED or self.ended:
            subscription.cancel()  # 2.5: at most one live subscription
            return
        self._subscription = subscription
        if self.outstanding:
            if self.takes_all and signals_later(subscription):
                self.outstanding = UNBOUNDED
            subscription.request(self.outstanding)

    @abstractmethod
    def on_next(self, item: T) -> None:
        """Receive an item."""

    def on_error(self, error: BaseException) -> None:
        """Receive the failure."""
        if not self.ended:
            self.ended = True
            self.error = checked_error(error)
            self._on_change()

    def on_complete(self) -> None:
        """Receive the end."""
        if not self.ended:
            self.ended = True
            self._on_change()

    def waits_to(self, way: Way) -> Waits:
        """Return the events that it waits for; no stage can wait for its cancel."""
        return [] if way == CANCEL else None

    # the terminal calls these

    def request(self, n: int, *, top_up_at: int = 0) -> None:
        """Request `n` more items, also before the subscription has come.

        `on_change` is called when no more than `top_up_at` items are left outstanding.
        """
        self._top_up_at = top_up_at
        self.outstanding += n
        self._subscription.request(n)

    def cancel(self) -> None:
        """End the subscription from this side, also before it has come; does nothing once it has ended."""
        if not self.ended:
            self.ended = True
            self._subscription.cancel()

    def _received(self) -> None:
        self.outstanding -= 1
        if self.outstanding == self._top_up_at:
            self._on_change()

    def _received_run(self, items: int) -> None:
        before = self.outstanding
        self.outstanding -= items
        if before > self._top_up_at >= self.outstanding:
            self._on_change()

    def _keep_run(self, line: ClaimedItems[T], items: Iterator[T]) -> None:
        """Keep the items of a run in `line`, and say so if it was empty."""
        kept = line.items
        before = len(kept)
        try:
            line.put_run(items)
        finally:
            self.outstanding -= len(kept) - before
            if not before and kept:
                self._on_change()

    def _fail_item(self, error: BaseException) -> None:
        """End the subscription because the item in `on_next` could not be processed: it is given back as failed."""
        self._subscription.hold().fail(error)
        self.cancel()
        self.error = error
        self._on_change()


class ListSink(Sink[T]):
    """Collects all items, and keeps claims on them until its terminal settles them or gives them back.

    Attributes:
        items: The items so far.
    """

    __slots__ = ("_ack", "_append", "_gathering", "items")

    takes_all = True

    def __init__(self, on_change: Callable[[], None], ack: GatherAck = "within_window") -> None:
        super().__init__(on_change)
        self.items: list[T] = []
        self._ack = ack
        self._append = self.items.append
        self._gathering: Gathering | None = None  # the claims, if the items need any

    def on_subscribe(self, subscription: Subscription) -> None:
        """Receive the subscription, unless all items must be held and the source has more than can be held."""
        require_subscription(subscription)
        if self._ack == "on_receipt" or self._subscription is not ENDED or self.ended:
            super().on_subscribe(subscription)
            return
        insists = self._ack == "on_result"
        if insists:
            error = cannot_hold_all(subscription, "to_list(ack='on_result')")
            if error is not None:
                subscription.cancel()
                self.on_error(error)
                return
        self._gathering = gather(subscription, loose=not insists)
        if self._gathering is not None:
            self._append = self._append_kept
        super().on_subscribe(subscription)

    def settle(self) -> None:
        """Settle all items as done: the list is handed to the caller."""
        if self._gathering is not None:
            self._gathering.done()

    def give_back(self) -> None:
        """Give all items back: the list is not handed to the caller."""
        if self._gathering is not None:
            self._gathering.release()

    def on_next(self, item: T) -> None:
        """Receive an item into the list."""
        if not self.ended:
            self._append(item)
            self._received()

    def on_run(self, items: Iterator[T]) -> None:
        """Receive many items into the list."""
        if not self.ended:
            before = len(self.items)
            try:
                if self._gathering is None or self._gathering.whole_runs:
                    self.items.extend(items)
                else:
                    for item in items:
                        self._append_kept(item)
            finally:
                self._received_run(len(self.items) - before)

    def _append_kept(self, item: T) -> None:
        assert self._gathering is not None, "asked for before"
        self.items.append(item)
        self._gathering.keep()


class FirstSink(Sink[T]):
    """Takes one item and cancels.

    Attributes:
        first: The item, or None.
    """

    __slots__ = ("_hold", "first")

    def __init__(self, on_change: Callable[[], None]) -> None:
        super().__init__(on_change)
        self.first: T | None = None
        self._hold: Hold = NO_HOLD

    def on_next(self, item: T) -> None:
        """Receive the item, and cancel."""
        if not self.ended:
            self.first = item
            self._hold = self._subscription.hold()
            self.cancel()
            self._on_change()

    def settle(self) -> None:
        """Settle the item as done: it is handed to the caller."""
        self._hold.done()

    def give_back(self) -> None:
        """Give the item back: it is not handed to the caller."""
        self._hold.release()


class ForEachSink(Sink[T]):
    """Calls a function with each item; an error of it fails the item and ends the subscription."""

    __slots__ = ("_function",)

    takes_all = True

    def __init__(self, on_change: Callable[[], None], function: Callable[[T], object]) -> None:
        super().__init__(on_change)
        self._function = function

    def on_next(self, item: T) -> None:
        """Receive an item and call the function with it."""
        if self.ended:
            return
        try:
            result = self._function(item)
            if result is not None:
                refuse_unrun("for_each", "function", result)
        except Exception as error:
            self._fail_item(error)
        else:
            self.outstanding -= 1
            if self.outstanding == self._top_up_at:
                self._on_change()

    def on_run(self, items: Iterator[T]) -> None:
        """Receive many items, and call the function with each."""
        function = self._function
        received = 0
        try:
            for item in items:
                try:
                    result = function(item)
                    if result is not None:
                        refuse_unrun("for_each", "function", result)
                except Exception as error:
                    self._fail_item(error)
                    break
                received += 1
                if self.ended:
                    break
        finally:
            self._received_run(received)


class BufferSink(Sink[T]):
    """Keeps up to `window` items for a consumer that takes them in their order.

    It requests the whole window at first. It fills the window up again when half of it is neither outstanding nor kept,
    and when no item is kept and at most one more than half of the window is outstanding. Both together are never more
    than the window. With a window of 1 it requests the next item when the consumer wants it, and not before. The item
    is then as new as it can be. Items that can be drawn are drawn when the consumer wants some, up to a window of them.

    The consumer takes a batch of items, and gives them out one by one, without a call. An item is done when the
    consumer gives out the next one, or wants another batch. Items that came before they were made (`TakesUnmadeRuns`)
    are made with their batch. If one cannot be made, the batch ends before it. It is refused when the consumer wants
    more.

    Attributes:
        asked: Whether it has asked a source for more that answers only when other tasks have run. Then it is better to
            let them run soon than to give out all other items first. The consumer sets it to False when they have run.
        closed: Whether `close` has been called.
        untold: Whether the consumer is to call `tell` when it gives out an item.
        draws: Whether items come only when they are wanted, and never by themselves.
    """

    __slots__ = (
        "_claims",
        "_draw",
        "_kept",
        "_later",
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

    def __init__(self, on_change: Callable[[], None], window: int) -> None:
        super().__init__(on_change)
        self._window = window
        self._kept: KeptItems[T] = KeptItems()  # the batch is the first of them
        self._to_give: Iterator[Any] = iter(())  # has as many steps as the batch has items
        self._size = 0  # of the batch
        self._settled = 0  # items of the batch whose claims have ended
        self._claims: ClaimsInOrder | None = None  # on the items that wait or are in hand, if they need any
        self._draw: Callable[[int], list[T]] | None = None
        self._later = False  # the source answers a request only when other tasks have run
        self.asked = False
        self.closed = False
        self.untold = False
        self.draws = False
        self.tell: Callable[[], None] = self._settle_past
        """Have the source know that the items given out before the last one are done."""
        self.request(window)

    # the publisher calls these

    def on_subscribe(self, subscription: Subscription) -> None:
        """Receive the subscription, and request the window unless the items can be drawn."""
        require_subscription(subscription)
        if self._subscription is ENDED and not self.ended:
            self._draw = draws_of(subscription)
            self._later = self._window >= _LARGE_WINDOW and signals_later(subscription)
            if self._draw is not None:
                self.draws, self.outstanding = True, 0
            gathering = gather(subscription, loose=False)
            if gathering is not None:
                claims = self._claims = gathering.in_order()
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
        self._kept.put((item,))
        if self._claims is not None:
            self._claims.keep()
        if len(self._kept) == 1:
            self._on_change()

    def on_run(self, items: Iterator[T]) -> None:
        """Receive many items and keep them; the consumer is told once."""
        if self.ended:
            return
        kept, claims = self._kept, self._claims
        before = len(kept)
        try:
            if claims is None or claims.whole_runs:
                kept.put(items)
            else:
                for item in items:
                    kept.put((item,))
                    claims.keep()
        finally:
            self._received_more(before)

    def on_unmade_run(self, run: UnmadeRun) -> None:
        """Receive many items that are made when the consumer wants them; the consumer is told once."""
        if not self.ended:
            before = len(self._kept)
            self._kept.put_unmade(run)
            self._received_more(before)

    def _received_more(self, before: int) -> None:
        kept = len(self._kept)
        self.outstanding -= kept - before
        if not before and kept:
            self._on_change()

    # the consumer calls these

    def want(self) -> bool:
        """Say that all items given out are done, and that others are wanted; return whether there are some."""
        self._settle(self._size)
        kept = self._kept
        while kept and not kept.made:
            kept.make(1)
            if kept.error is not None and not kept.made:
                self._refuse(kept.error)
        if kept:
            return True
        if self._draw is not None and not self.ended:
            kept.put(self._draw(min(self._window, SLICE)))
        elif self.outstanding < self._window and self.outstanding <= self._window // 2 + 1 and not self.ended:
            self.request(self._window - self.outstanding)
        return bool(kept)

    def take(self, most: int) -> tuple[Iterator[T], int]:
        """Return a batch of up to `most` items, which the consumer gives out, and its size; there must be an item."""
        kept = self._kept
        kept.make(min(most, _MADE_AT_ONCE))
        size = min(len(kept.made), most)
        if not (self.draws or self.ended):
            half = self._window // 2
            unmet = self.outstanding + len(kept) - 1  # behind the first item
            if unmet <= half and self._window > 1:
                self.request(self._window - unmet)
                unmet = self.outstanding + len(kept) - 1
                self.asked = self._later
            size = max(1, min(size, unmet - half))  # more is requested with the item behind these
            if self.asked:
                size = 1
        self._size, self._settled = size, 0
        self._to_give = repeat((), size)
        return starmap(kept.made.popleft, self._to_give), size  # an item that is given out is let go at once

    def _refuse(self, error: BaseException) -> None:
        """End the first item, which cannot be made."""
        if self._claims is not None:
            self._claims.fail(error)
        if self._kept.refuse():
            self.outstanding += 1
            return
        self.cancel()
        self.error = error
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
            self._settle(given - 1)
            if self._claims is not None and self._settled < given:
                self._claims.fail(error)
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
        self._settle(self._given - 1)

    @property
    def _given(self) -> int:
        """How many items of the batch have been given out."""
        return self._size - length_hint(self._to_give)

    def _settle(self, end: int) -> None:
        """Say that the items of the batch before `end` are done."""
        items = end - self._settled
        if items > 0:
            self._settled = end
            if self._claims is not None:
                self._claims.done(items)
