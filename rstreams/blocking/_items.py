"""The items of an open stream, for a `for` loop in a thread.

Theory of operation. Two threads share the items. The connection's thread puts them in, by runs. The thread that loops
takes them out in batches, of half a window at most, and gives out an item of a batch without a lock. The position in
the batch says how many items the loop is through with. The connection's thread reads it, settles so many items, and
requests as many again. It does so in three cases:

    the loop has given out half of the window, or has nothing left to give out: it says so
    the loop gives out items one after the other: every 10 ms
    the loop gives out an item after a rest: 10 ms later; it says so once
"""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AbstractContextManager, asynccontextmanager
from operator import length_hint
from typing import Final, Generic, NamedTuple, Self, TypeVar

from rstreams._core.claims_in_order import ClaimsInOrder, gather
from rstreams._core.kept_errors import KeptError
from rstreams._core.run import Run
from rstreams._core.subscription import ENDED, checked_error
from rstreams._core.windows import WINDOW, window_ahead_of
from rstreams.abc import Cancellable, Scheduler, Subscription
from rstreams.culprits import Culprit
from rstreams.errors import RStreamsError
from rstreams.runtime.context_managers import entered
from rstreams.runtime.portal import Portal
from rstreams.runtime.scope import Scope
from rstreams.stream import Stream

T = TypeVar("T")

TOLD_AFTER_S: Final = 0.01
"""How long an item may be done before its source is told."""


@entered("with stream.open() as items:")
def open_items(portal: Portal, stream: Stream[T], window: int | None) -> Iterator[Items[T]]:
    opening: AbstractContextManager[Items[T]] = portal.enter(_subscribed(portal, stream, window))
    with opening as items:
        yield items


@asynccontextmanager
async def _subscribed(portal: Portal, stream: Stream[T], window: int | None) -> AsyncIterator[Items[T]]:
    async with Scope() as scope:
        items = Items[T](portal, scope.scheduler, window)
        try:
            stream.subscribe(items)
            yield items
        except BaseException as error:
            items.end(error)
            raise
        items.end(None)


class _Batch(NamedTuple, Generic[T]):
    """Items that the loop gives out; one object, so that another thread sees all of it change at once."""

    begin: int  # items given out before
    size: int
    items: Iterator[T]


class Items(Generic[T]):
    """The items of an open stream, for a `for` loop in a thread.

    An item is done when the next one is asked for. The connection's thread hears of it in batches: at the latest 10 ms
    later, or when the loop has nothing more to take. When the block ends, the item last given out is done if it ended
    well, and failed if it raised. Items that had come and were not given out are released.

    Context: One thread takes the items; the signals come in the connection's thread.
    """

    def __init__(self, portal: Portal, scheduler: Scheduler, window: int | None) -> None:
        self._portal = portal
        self._scheduler = scheduler
        self._follows = window is None  # the window of the link
        self._window = WINDOW if window is None else window
        self._changed = threading.Condition()
        self._kept: list[T] = []  # behind the batch
        self._ended = False
        self._closed = False
        self._error: KeptError[BaseException] | None = None
        # the thread that loops writes these
        self._batch = _Batch[T](0, 0, iter(()))
        self._in_hand = False  # whether the loop is at work on the item given out last
        self._told = 0  # items done when the connection's thread was told last
        self._untold = True  # whether the connection's thread is to be told of the next item; it sets this, too
        # the connection's thread writes these
        self._subscription: Subscription = ENDED
        self._claims: ClaimsInOrder | None = None  # on the items that wait or are in hand, if they need any
        self._receives = False  # a run of items, in whose middle the end may come
        self._source_ended = False
        self._settled = 0
        self._looks: Cancellable | None = None  # at the position of the loop, every 10 ms

    # the thread that loops

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T:
        """Return the next item; waits for it.

        Errors: The error of the stream, after the items before it; `RStreamsError` after the block.
        """
        for item in self._batch.items:
            if self._untold:
                self._untold = False
                self._portal.post(self._look_later)
            return item
        return self._first_of_next_batch()

    def _first_of_next_batch(self) -> T:
        if self._closed:
            msg = "this stream has been closed: its items end with the `with` block that opened it"
            raise RStreamsError(msg)
        self._in_hand = False
        given = self._batch.begin + self._batch.size
        if given > self._told and (not self._kept or (given - self._told) * 2 >= self._window):
            self._told = given
            self._portal.post(self._settle)
        half = max(1, self._window // 2)
        with self._changed:
            while not self._kept and not self._ended:
                self._changed.wait()
            items, self._kept = self._kept[:half], self._kept[half:]
        if items:
            self._batch = _Batch(given, len(items), iter(items))
            self._in_hand = True  # before the item is given out, see `_through`
            return next(self._batch.items)
        if self._error is None:
            raise StopIteration
        error = self._error.again()
        if not isinstance(error, StopIteration):
            raise error
        msg = "the stream failed with StopIteration"  # raised here it would look like the end (PEP 479)
        raise RuntimeError(msg) from error

    # the connection's thread

    def end(self, error: BaseException | None) -> None:
        """End the subscription: `error` is what the block raised. The other thread waits meanwhile."""
        self._closed = True
        with self._changed:
            self._ended = True
            self._kept = []
        if self._looks is not None:
            self._looks.cancel()
        if error is None:
            self._in_hand = False
        self._settle(asks=False)
        claims = self._claims
        if claims is not None:
            if self._in_hand and error is not None:
                claims.take().fail(error)
            claims.release()
        self._subscription.cancel()
        self._batch = _Batch(0, 0, iter(()))

    def _settle(self, *, asks: bool = True) -> None:
        """Settle what the loop is through with, and ask for as many items again."""
        items = self._through - self._settled
        if items > 0:
            self._settled += items
            if self._claims is not None:
                self._claims.done(items)
            if asks:
                self._ask(items)

    def _ask(self, items: int) -> None:
        """Ask for as many items again; for more or fewer if the window has changed with that of the link."""
        if self._follows:
            window = window_ahead_of(self._subscription)
            more = max(0, items + window - self._window)
            self._window += more - items
            items = more
        if items:
            self._subscription.request(items)

    @property
    def _through(self) -> int:
        """How many items the loop is through with, or a few less; it goes on meanwhile."""
        batch = self._batch
        given = batch.begin + batch.size - length_hint(batch.items)
        # The item given out last is the one in hand. If none is in hand now, `given` items were done before.
        return given - 1 if self._in_hand else given

    def _look_later(self) -> None:
        if self._looks is None and not self._closed:
            self._looks = self._scheduler.call_later(TOLD_AFTER_S, self._look)

    def _look(self) -> None:
        self._looks = None
        before = self._settled
        self._untold = True  # first: an item given out from now on is not overlooked
        self._settle()
        if self._settled > before:
            self._untold = False
            self._look_later()

    def culprit(self) -> Culprit | None:
        """Return that the loop is not through with its item; see `rstreams.culprits.Tells`."""
        if self._closed:
            return None
        return Culprit("slow_handler", "slow handler: the loop of a thread is not through with its item")

    def on_subscribe(self, subscription: Subscription) -> None:
        """Ask for a window of items; a second subscription is cancelled (2.5), and one that comes after the block."""
        if self._subscription is not ENDED or self._closed:
            subscription.cancel()
            return
        self._subscription = subscription
        self._claims = gather(subscription, loose=False)
        subscription.request(self._window)

    def on_next(self, item: T) -> None:
        """Keep the item for the thread that loops."""
        if self._claims is not None:
            self._claims.keep()
        self._keep([item])

    def on_run(self, run: Run[T]) -> None:
        """Keep many items for the thread that loops, which is woken once."""
        kept: list[T] = []
        self._receives = True
        try:
            run.put_into(kept, self._claims)
        finally:
            self._receives = False
            self._keep(kept)

    def _keep(self, items: Sequence[T] = ()) -> None:
        """Keep items, then end the loop behind them if the source has ended."""
        with self._changed:
            if not self._ended:
                self._kept += items
                self._ended = self._source_ended
                self._changed.notify()

    def on_error(self, error: BaseException) -> None:
        """End the loop with the error, after the kept items."""
        self._error = KeptError(checked_error(error))
        self.on_complete()

    def on_complete(self) -> None:
        """End the loop, after the kept items."""
        self._source_ended = True
        if not self._receives:
            self._keep()
