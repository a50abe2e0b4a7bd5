"""One of the streams that a stream is split into: a group or a window. The stage in `splitter` feeds it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeAlias, TypeVar

from rstreams._checks.publishers import require_subscriber
from rstreams._core.claims import Claims, claims_on
from rstreams._core.demand import demand_error
from rstreams._core.kept_errors import KeptError
from rstreams._core.scheduler import current_scheduler
from rstreams._core.sight import ASK, SEND, Counts, Scannable, Waits, Way
from rstreams._core.subscription import subscribe_failed
from rstreams.abc import Hold, Scheduler, Subscriber, Subscription
from rstreams.errors import RStreamsError

T = TypeVar("T")


class Shared:
    """The number of parts that keep an item which belongs to several."""

    __slots__ = ("copies",)

    def __init__(self) -> None:
        self.copies = 1  # the stage's own, until all parts have had the item

    def leave(self) -> bool:
        """Note that a part no longer keeps it, and tell whether that was the last one."""
        self.copies -= 1
        return not self.copies


Entry: TypeAlias = tuple[T, Hold, Shared | None]


class Whole(Protocol[T]):
    """The calls that a part makes to the stage that feeds it (`splitter`)."""

    @property
    def part_name(self) -> str:
        """The word for a part."""
        ...

    @property
    def label(self) -> str:
        """The operator's name."""
        ...

    @property
    def item_window(self) -> int:
        """The most items that can be held at once."""
        ...

    @property
    def scope(self) -> Scheduler | None:
        """The scope of the stream of parts; what was taken in it is cancelled when it ends."""
        ...

    @property
    def failure(self) -> BaseException | None:
        """The error that takes the place of the completion, also if it waits further up."""
        ...

    def upstreams(self) -> Sequence[Subscription]:
        """Return the subscriptions that the items come from."""
        ...

    def waits_for_items(self) -> Waits:
        """Return the events that must happen before an item or the end comes."""
        ...

    def watch(self, scope: Scheduler | None) -> None:
        """Have the parts of a scope cancelled when it ends."""
        ...

    def require_own_thread(self, n: int | None = None) -> None:
        """Refuse a request of `n` from another thread, or a cancel if `n` is None."""
        ...

    def hold_item(self) -> Hold:
        """Claim the item that is being passed straight on."""
        ...

    def sent(self, items: int) -> None:
        """Note that `items` kept items have left a part for good."""
        ...

    def forget(self, part: Part[T]) -> None:
        """Note that a part has ended, and all its items have been sent."""
        ...

    def cancelled(self, part: Part[T], waiting: Sequence[Entry[T]]) -> None:
        """Note that a part was cancelled with these items waiting."""
        ...

    def broken(self, error: BaseException, part: Part[T] | None) -> None:
        """End all parts because a subscriber raised."""
        ...


class Part(Scannable, Generic[T]):
    """One of the streams: a publisher for one subscriber, and its subscription.

    Attributes:
        send: Takes an item straight to the subscriber, while no item waits and there is demand; else None.
        complete: No more items come; some may wait, and an error.
        over: It has ended: all items are sent, or it was cancelled, or it has failed.
        taken: It has had its subscriber.
        scheduler: The scheduler of the scope its subscriber subscribed in, if there is one.
        requested: The number of items its subscriber has requested in all.
        delivered: The number of items sent there; `send` must be set to None with the item that makes it equal to
            `requested`.
    """

    __slots__ = (
        "_busy",
        "_emitting",
        "_error",
        "_failure",
        "_queue",
        "_splitting",
        "complete",
        "delivered",
        "over",
        "requested",
        "scheduler",
        "send",
        "subscriber",
        "taken",
    )

    def __init__(self, splitting: Whole[T]) -> None:
        self._splitting = splitting
        self._queue: deque[Entry[T]] = deque()
        self.requested = 0
        self.delivered = 0
        self._busy = False
        self._emitting: Claims | None = None
        self._error: BaseException | None = None
        self._failure: KeptError[BaseException] | None = None  # it takes the place of the completion
        self.subscriber: Subscriber[T] | None = None
        self.send: Callable[[T], None] | None = None
        self.complete = False
        self.over = False
        self.taken = False
        self.scheduler: Scheduler | None = None

    def subscribe(self, subscriber: Subscriber[T]) -> None:
        require_subscriber(subscriber)
        if self.taken or self.over:
            error = self._error if self.over and not self.taken else None
            what = self._splitting.part_name
            text = f"a {what} of {self._splitting.label} takes only one subscriber, and it has had one"
            subscribe_failed(subscriber, RStreamsError(text) if error is None else error)
            return
        self.taken = True
        self.subscriber = subscriber
        self.scheduler = scope = current_scheduler.get(None)
        if scope is not self._splitting.scope:
            self._splitting.watch(scope)
        self._busy = True  # signals come one after the other (1.3)
        try:
            subscriber.on_subscribe(self)
        except BaseException:
            self.cancel()
            raise
        finally:
            self._busy = False
        self._drain()

    # its subscriber calls these

    def request(self, n: int) -> None:
        self._splitting.require_own_thread(n)
        if self.over:
            return
        error = demand_error(n)
        if error is not None:
            subscriber = self.subscriber
            self.cancel()
            if subscriber is not None:
                subscriber.on_error(error)  # 3.9
            return
        self.requested += n
        if self._busy or self.send is not None:
            return
        if self._queue or self.complete:
            self._drain()
        else:
            self._open()

    def cancel(self) -> None:
        self._splitting.require_own_thread()
        if not self.over:
            self._splitting.cancelled(self, self.shut(None))
        self.subscriber = None

    def hold(self) -> Hold:
        emitting = self._emitting
        return self._splitting.hold_item() if emitting is None else emitting.hold()

    @property
    def window(self) -> int:
        """The most items that can be held at once before no further one comes."""
        return self._splitting.item_window

    @property
    def failure(self) -> BaseException | None:
        """The error that waits behind its items, here or further up."""
        if not self.complete:
            return self._splitting.failure
        return None if self._failure is None else self._failure.error

    # for `explain`

    @property
    def downstream(self) -> object:
        """The subscriber."""
        return self.subscriber

    @property
    def label(self) -> str:
        """The word for a part."""
        return self._splitting.part_name

    @property
    def ended(self) -> bool:
        """Whether the stream is over."""
        return self.over

    def runs(self) -> Sequence[Subscription]:
        """Return a list of itself, if it has its subscriber."""
        return [self] if self.taken else []

    def counts(self) -> Counts:
        """Return the numbers of items requested, received and waiting."""
        return Counts(self.requested, self.delivered, len(self._queue))

    def upstreams(self) -> Sequence[Subscription]:
        """Return the subscription that the items of all parts come from."""
        return self._splitting.upstreams()

    # the stage calls these

    @property
    def ready(self) -> bool:
        """Tell whether an item would go straight through."""
        return self.requested > self.delivered and not self._busy and not self._queue and not self.over

    @property
    def waiting(self) -> int:
        """Return how many items are kept."""
        return len(self._queue)

    @property
    def emitting(self) -> bool:
        """Tell whether it is sending items that wait."""
        return self._busy or (self.requested > self.delivered and bool(self._queue))

    def pass_on(self, item: T) -> None:
        """Send an item that need not wait."""
        subscriber = self.subscriber
        assert subscriber is not None
        self.delivered += 1
        self._busy = True
        try:
            subscriber.on_next(item)
        except BaseException as error:
            self._splitting.broken(error, self)
            raise
        finally:
            self._busy = False
        if self.complete or self._queue:
            self._drain()

    def keep(self, item: T, hold: Hold, shared: Shared | None) -> None:
        """Keep an item until it is asked for."""
        self.send = None
        self._queue.append((item, hold, shared))

    def close(self, failure: KeptError[BaseException] | None = None) -> None:
        """Note that no more items come, but the end: completion, or an error."""
        self.complete = True
        self._failure = failure
        if not self.taken and not self._queue:
            self._splitting.forget(self)  # a subscriber that comes later finds it complete; no signal is needed before
        elif not self._busy:
            self._drain()

    def shut(self, error: BaseException | None) -> Sequence[Entry[T]]:
        """End it without a signal, and return the items that waited; a later subscriber gets the error."""
        self.over = True
        self.send = None
        self._error = error
        queue, self._queue = self._queue, deque()
        return queue

    def tell(self, error: BaseException) -> None:
        """Pass an error to the subscriber, if there is one; `shut` was called before."""
        if self.subscriber is not None:
            self.subscriber.on_error(error)

    def waits_to(self, way: Way) -> Waits:
        """Return the events that must happen before its subscriber gets a signal."""
        if way != SEND or self.over or self._busy:
            return None
        more: list[tuple[Way, object]] = [(ASK, self.subscriber)] if self.requested == self.delivered else []
        if self._queue:
            return more or None
        items = None if self.complete else self._splitting.waits_for_items()
        return None if items is None else more + items

    def _drain(self) -> None:
        """Send waiting items as far as they were requested, and end after the last."""
        subscriber = self.subscriber
        if subscriber is None or self.over:
            return
        sent = self._emit_waiting(subscriber) if self._queue and self.requested > self.delivered else 0
        if self.complete and not self._queue and not self.over:
            failure = None if self._failure is None else self._failure.again()
            self.shut(failure)
            self._splitting.forget(self)
            if failure is None:
                subscriber.on_complete()
            else:
                subscriber.on_error(failure)
        elif self.requested > self.delivered and not self._queue and not self.over:
            self._open()
        if sent:
            self._splitting.sent(sent)  # last, because the source may answer at once, also with items for this part

    def _open(self) -> None:
        """Let items go straight to the subscriber while there is demand."""
        if self.subscriber is not None:
            self.send = self.subscriber.on_next

    def _emit_waiting(self, subscriber: Subscriber[T]) -> int:
        """Send waiting items that were requested; return how many have left for good."""
        self._busy = True
        sent = 0
        try:
            while self._queue and self.requested > self.delivered:
                item, hold, shared = self._queue.popleft()
                self.delivered += 1
                if shared is None or shared.leave():
                    sent += 1
                self._emitting = kept = claims_on(hold)
                try:
                    subscriber.on_next(item)
                except BaseException as error:
                    kept.fail(error)
                    self._splitting.broken(error, self)
                    raise
                kept.done()
        finally:
            self._emitting = None
            self._busy = False
        return sent


def too_late(splitting: Whole[T]) -> RStreamsError:
    """Return the error for a part that gets its subscriber when no more items come."""
    text = f"this {splitting.part_name} of {splitting.label} was not subscribed to before its stream was cancelled"
    return RStreamsError(text)
