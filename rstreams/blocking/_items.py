"""The items of an open stream, for a `for` loop in a thread."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from time import monotonic
from typing import Generic, Self, TypeVar

from rstreams._checks.numbers import require_count
from rstreams._core.subscription import ENDED, checked_error
from rstreams.abc import Hold, Subscription
from rstreams.errors import RStreamsError
from rstreams.runtime.context_managers import entered
from rstreams.runtime.portal import Portal
from rstreams.runtime.scope import Scope
from rstreams.stream import Stream

T = TypeVar("T")


@entered("with stream.open() as items:")
def open_items(portal: Portal, stream: Stream[T], window: int) -> Iterator[Items[T]]:
    require_count("open", "window", window, 1)
    items = Items[T](portal, window)
    with portal.enter(Scope()):
        try:
            portal.run(items.subscribe_to, stream)
            yield items
        except BaseException as error:
            portal.run(items.end, error)
            raise
        portal.run(items.end, None)


class Items(Generic[T]):
    """The items of an open stream, for a `for` loop in a thread.

    An item is done when the next one is asked for. The connection's thread is told that in batches: at the latest 10 ms
    later, or when the loop has no further item to take. When the block ends, the item given out last is done if the
    block ended well, and failed if it raised. Items that had come and were not given out are released.

    Context: One thread takes the items; the signals come in the connection's thread.
    """

    _TOLD_AFTER_S = 0.01

    def __init__(self, portal: Portal, window: int) -> None:
        self._portal = portal
        self._window = window
        self._subscription: Subscription = ENDED
        self._changed = threading.Condition()
        self._kept: deque[tuple[T, Hold]] = deque()
        self._ended = False
        self._closed = False
        self._error: BaseException | None = None
        self._last: Hold | None = None  # the hold on the item given out last
        self._done: list[Hold] = []  # done items that the connection's thread does not know of
        self._told_at = monotonic()

    # the thread that loops

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T:
        """Return the next item; waits for it.

        Errors: The error of the stream, after the items before it; `RStreamsError` after the block.
        """
        if self._closed:
            msg = "this stream has been closed: its items end with the `with` block that opened it"
            raise RStreamsError(msg)
        if self._last is not None:
            self._done.append(self._last)
            self._last = None
        if not self._kept or len(self._done) * 2 >= self._window or monotonic() - self._told_at > self._TOLD_AFTER_S:
            self._tell()
        with self._changed:
            while not self._kept and not self._ended:
                self._changed.wait()
            if self._kept:
                item, self._last = self._kept.popleft()
                return item
        error = self._error
        if error is None:
            raise StopIteration
        if not isinstance(error, StopIteration):
            raise error
        msg = "the stream failed with StopIteration"  # raised here it would look like the end (PEP 479)
        raise RuntimeError(msg) from error

    def _tell(self) -> None:
        done, self._done = self._done, []
        self._told_at = monotonic()
        if done:
            self._portal.post(self._settle, done)

    # the connection's thread

    async def subscribe_to(self, stream: Stream[T]) -> None:
        """Subscribe to the stream whose items these are."""
        stream.subscribe(self)

    async def end(self, error: BaseException | None) -> None:
        """End the subscription: `error` is the error of the block."""
        self._closed = True
        with self._changed:
            self._ended = True
            kept, self._kept = self._kept, deque()
        for hold in self._done:
            hold.done()
        if self._last is not None and error is None:
            self._last.done()
        elif self._last is not None and error is not None:
            self._last.fail(error)
        for _, hold in kept:
            hold.release()
        self._subscription.cancel()

    def _settle(self, done: list[Hold]) -> None:
        for hold in done:
            hold.done()
        self._subscription.request(len(done))

    def on_subscribe(self, subscription: Subscription) -> None:
        """Ask for a window of items; a second subscription is cancelled (2.5), and one that comes after the block."""
        if self._subscription is not ENDED or self._closed:
            subscription.cancel()
            return
        self._subscription = subscription
        subscription.request(self._window)

    def on_next(self, item: T) -> None:
        """Keep the item for the thread that loops."""
        hold = self._subscription.hold()
        with self._changed:
            if not self._ended:
                self._kept.append((item, hold))
                self._changed.notify()
                return
        hold.release()

    def on_error(self, error: BaseException) -> None:
        """End the loop with the error, after the kept items."""
        self._error = checked_error(error)
        self.on_complete()

    def on_complete(self) -> None:
        """End the loop, after the kept items."""
        with self._changed:
            self._ended = True
            self._changed.notify()
