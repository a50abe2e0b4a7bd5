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
from collections import deque
from collections.abc import Callable, Iterator
from typing import Final, Generic, TypeVar

from rstreams._checks.functions import refuse_unrun
from rstreams._checks.publishers import require_subscription
from rstreams._core.demand import UNBOUNDED
from rstreams._core.fast_paths import signals_later
from rstreams._core.gathering import Gathering, gather
from rstreams._core.holds import NO_HOLD
from rstreams._core.sight import CANCEL, Scannable, Waits, Way
from rstreams._core.subscription import ENDED, checked_error
from rstreams._stages.stage import GatherAck, cannot_hold_all
from rstreams.abc import Hold, Subscription
from rstreams.errors import SpecViolation

T = TypeVar("T")


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
    """Keeps up to `window` items for a consumer that takes them one by one, each with its hold.

    It requests the whole window at first, and fills it up again when half of it is neither outstanding nor kept. Thus
    kept and outstanding items together are never more than the window. With a window of 1 it requests the next item
    when it is wanted, and not before: then the item is as new as it can be.

    Attributes:
        closed: Whether `close` has been called.
    """

    __slots__ = ("_in_hand", "_kept", "_window", "closed")

    def __init__(self, on_change: Callable[[], None], window: int) -> None:
        super().__init__(on_change)
        self._window = window
        self._kept: deque[tuple[T, Hold]] = deque()
        self._in_hand: Hold | None = None
        self.closed = False
        self.request(window)

    @property
    def kept(self) -> int:
        """Return how many items wait to be taken."""
        return len(self._kept)

    def on_next(self, item: T) -> None:
        """Receive an item and keep it, with a hold."""
        if self.ended:
            return
        if self.outstanding == 0:
            self._fail_item(SpecViolation("1.1", "the publisher sent more items than were requested"))
            return
        self.outstanding -= 1
        self._kept.append((item, self._subscription.hold()))
        if len(self._kept) == 1:
            self._on_change()

    def take(self) -> T:
        """Return the item that has waited longest; there must be one, and the one before must have been settled."""
        item, self._in_hand = self._kept.popleft()
        unmet = self.outstanding + len(self._kept)
        if unmet <= self._window // 2 and not self.ended and self._window > 1:
            self.request(self._window - unmet)
        return item

    def want(self) -> None:
        """Settle the item taken last as done, and note that another one is wanted."""
        self.settle()
        if self._window == 1 and not self.outstanding and not self._kept and not self.ended:
            self.request(1)

    def settle(self) -> None:
        """Settle the item taken last as done."""
        hold, self._in_hand = self._in_hand, None
        if hold is not None:
            hold.done()

    def close(self, error: BaseException | None) -> None:
        """End the subscription: the item taken last is done, or failed with `error`; items never taken are released."""
        self.closed = True
        if error is None:
            self.settle()
        elif self._in_hand is not None:
            self._in_hand.fail(error)
            self._in_hand = None
        self.cancel()  # first, because items that are given back must not come again
        while self._kept:
            self._kept.popleft()[1].release()
