"""One of the streams that a stream is split into: a group or a window. The stage in `splitter` feeds it."""

# ruff: noqa: SLF001 - the parts and their stage work closely together

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, Generic, Protocol, TypeAlias, TypeVar

from rstreams._checks.publishers import require_subscriber
from rstreams._core.claims import Claims, claims_on
from rstreams._core.demand import demand_error
from rstreams._core.kept_errors import KeptError
from rstreams._core.scheduler import current_scheduler
from rstreams._core.sight import ASK, SEND, Counts, Scannable, Waits, Way
from rstreams._core.subscription import subscribe_failed
from rstreams._core.threads import get_ident, refuse_thread
from rstreams._stages.item_bound import ItemBound, OpenOutcomes
from rstreams._stages.lookout import Lookout
from rstreams._stages.run_tasks import RunTasks
from rstreams._stages.stage import window_of
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


class Splits(Protocol[T]):
    """What the parts use of their stage (`splitter`); see there."""

    operator: ClassVar[str]
    part_name: str
    _ended: bool
    _over: bool
    _thread: int

    @property
    def failure(self) -> BaseException | None:
        """The error that takes the place of the completion, also if it waits further up."""
        ...

    @property
    def standing(self) -> Any:  # noqa: ANN401 - as in `Scannable`
        """The object that knows what must happen before an item comes."""
        ...

    def upstreams(self) -> Sequence[Subscription]:
        """Return the subscriptions that the items come from."""
        ...

    def cancel(self) -> None:
        """End the stream of parts."""
        ...

    def _fail(self, error: BaseException) -> None: ...

    def _forgotten(self, part: Part[T]) -> None: ...

    def _stop_if_idle(self, last: Scheduler | None = None) -> None: ...


class Part(Scannable, Generic[T]):
    """One of the streams: a publisher for one subscriber, and its subscription.

    Attributes:
        send: Takes an item straight to the subscriber, while no item waits and there is demand; else None.
        complete: No more items come; some may wait, and an error.
        ended: It is over: all items are sent, or it was cancelled, or it has failed.
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
        "_parts",
        "_queue",
        "complete",
        "delivered",
        "ended",
        "requested",
        "scheduler",
        "send",
        "subscriber",
        "taken",
    )

    def __init__(self, parts: LiveParts[T]) -> None:
        self._parts = parts
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
        self.ended = False
        self.taken = False
        self.scheduler: Scheduler | None = None

    def subscribe(self, subscriber: Subscriber[T]) -> None:
        require_subscriber(subscriber)
        if self.taken or self.ended:
            error = self._error if self.ended and not self.taken else None
            what = self._parts.stage.part_name
            text = f"a {what} of {self._parts.stage.operator} takes only one subscriber, and it has had one"
            subscribe_failed(subscriber, RStreamsError(text) if error is None else error)
            return
        self.taken = True
        self.subscriber = subscriber
        self.scheduler = scope = current_scheduler.get(None)
        if scope is not self._parts.scope:
            self._parts.tasks.watch(scope)
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
        if get_ident() != self._parts.stage._thread:
            refuse_thread(f"request({n})", self._parts.stage._thread)
        if self.ended:
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
        if get_ident() != self._parts.stage._thread:
            refuse_thread("cancel()", self._parts.stage._thread)
        if not self.ended:
            self._parts.cancelled(self, self.shut(None))
        self.subscriber = None

    def hold(self) -> Hold:
        emitting = self._emitting
        return self._parts.bound.upstream.hold() if emitting is None else emitting.hold()

    @property
    def window(self) -> int:
        """The most items that can be held at once before no further one comes."""
        return window_of(self._parts.bound.upstream)

    @property
    def failure(self) -> BaseException | None:
        """The error that waits behind its items, here or further up."""
        if not self.complete:
            return self._parts.stage.failure
        return None if self._failure is None else self._failure.error

    # for `explain`

    @property
    def downstream(self) -> object:
        """The subscriber."""
        return self.subscriber

    @property
    def label(self) -> str:
        """The word for a part."""
        return self._parts.stage.part_name

    def runs(self) -> Sequence[Subscription]:
        """Return a list of itself, if it has its subscriber."""
        return [self] if self.taken else []

    def counts(self) -> Counts:
        """Return the numbers of items requested, received and waiting."""
        return Counts(self.requested, self.delivered, len(self._queue))

    def upstreams(self) -> Sequence[Subscription]:
        """Return the subscription that the items of all parts come from."""
        return self._parts.stage.upstreams()

    # the stage calls these

    @property
    def ready(self) -> bool:
        """Tell whether an item would go straight through."""
        return self.requested > self.delivered and not self._busy and not self._queue and not self.ended

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
            self._parts.broken(error, self)
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
            self._parts.forget(self)  # a subscriber that comes later finds it complete; no signal is needed before
        elif not self._busy:
            self._drain()

    def shut(self, error: BaseException | None) -> Sequence[Entry[T]]:
        """End it without a signal, and return the items that waited; a later subscriber gets the error."""
        self.ended = True
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
        if way != SEND or self.ended or self._busy:
            return None
        more: list[tuple[Way, object]] = [(ASK, self.subscriber)] if self.requested == self.delivered else []
        if self._queue:
            return more or None
        items: Waits = None if self.complete else self._parts.stage.standing.waits_for_items()
        return None if items is None else more + items

    def _drain(self) -> None:
        """Send waiting items as far as they were requested, and end after the last."""
        subscriber = self.subscriber
        if subscriber is None or self.ended:
            return
        sent = self._emit_waiting(subscriber) if self._queue and self.requested > self.delivered else 0
        if self.complete and not self._queue and not self.ended:
            failure = None if self._failure is None else self._failure.again()
            self.shut(failure)
            self._parts.forget(self)
            if failure is None:
                subscriber.on_complete()
            else:
                subscriber.on_error(failure)
        elif self.requested > self.delivered and not self._queue and not self.ended:
            self._open()
        if sent:
            self._parts.bound.leave(sent)  # last, because the source may answer at once, also with items for this part

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
                    self._parts.broken(error, self)
                    raise
                kept.done()
        finally:
            self._emitting = None
            self._busy = False
        return sent


class LiveParts(Generic[T]):
    """The parts that get items or have some waiting; all of them together have one bound, and the tasks of the source.

    Attributes:
        stage: The stage that the parts belong to.
        live: The parts.
        scope: The scope of the stream of parts; what was taken in it is cancelled when it ends.
        tasks: The tasks and timers of the source, and the scopes of all subscribers.
        bound: The bound on the items of all parts.
        outcomes: The outcomes of items in cancelled parts.
    """

    __slots__ = ("bound", "live", "outcomes", "scope", "stage", "tasks")

    def __init__(self, stage: Splits[T], prefetch: int, lookout: Lookout) -> None:
        self.stage = stage
        self.live: dict[Part[T], None] = {}
        self.scope: Scheduler | None = current_scheduler.get(None)
        self.tasks = RunTasks(self)
        self.tasks.open()
        self.bound = ItemBound(prefetch, lookout, self.tasks.scheduler)
        self.outcomes = OpenOutcomes(self.bound, self.tasks.scheduler)

    # the operator calls these

    def share(self, parts: Iterable[Part[T]], item: T) -> None:
        """Give the item in `on_next` to each of these parts, of which there may be several or none."""
        bound, shared = self.bound, Shared()
        kept = False
        for part in parts:
            if part.ready:
                part.pass_on(item)
            elif not part.ended:
                if not kept:
                    kept = True
                    bound.kept += 1
                shared.copies += 1
                part.keep(item, bound.upstream.hold(), shared)
        if shared.leave():
            bound.leave(1, kept=kept)
        else:
            bound.come()

    def keep(self, part: Part[T], item: T) -> None:
        """Keep the item in `on_next`, which belongs only to this part."""
        self.bound.kept += 1
        part.keep(item, self.bound.upstream.hold(), None)
        self.bound.come()

    # parts and their stage call these

    def forget(self, part: Part[T]) -> None:
        """Note that a part has ended, and all its items have been sent."""
        self.live.pop(part, None)
        self.see_if_through()

    def cancelled(self, part: Part[T], waiting: Sequence[Entry[T]]) -> None:
        """Note that a part was cancelled with these items waiting."""
        self.live.pop(part, None)
        self.stage._forgotten(part)
        for _, hold, shared in waiting:
            if shared is None or shared.leave():
                self.bound.forget(1)
            if self.stage._ended:
                hold.release()
            else:
                self.outcomes.add(hold)
        self.stage._stop_if_idle(part.scheduler)
        self.see_if_through()
        self.outcomes.wait()

    def broken(self, error: BaseException, part: Part[T]) -> None:
        """End all streams because the subscriber of a part raised: the source also gets the error (2.13)."""
        self.live.pop(part, None)
        self.give_back(part.shut(None))
        self.see_if_through()
        if not self.stage._over:
            self.stage._fail(error)

    def close_untaken(self) -> None:
        """Close the parts without a subscriber: no more items come for whoever subscribes later."""
        for part in tuple(self.live):
            if not part.taken:
                del self.live[part]
                self.stage._forgotten(part)
                what = f"this {self.stage.part_name} of {self.stage.operator}"
                late = RStreamsError(f"{what} was not subscribed to before its stream was cancelled")
                self.give_back(part.shut(late))

    def give_back(self, waiting: Sequence[Entry[T]]) -> None:
        """Give back the items that waited in a part."""
        for _, hold, shared in waiting:
            if shared is None or shared.leave():
                self.bound.forget(1)
            hold.release()

    def end_tasks(self, last: Scheduler | None = None) -> None:
        """End the tasks of the source; the scope `last`, or that of a subscriber, waits for it."""
        if last is None:
            taken = (part.scheduler for part in self.live if part.taken) if self.stage._ended else iter(())
            last = next(taken, self.scope)
        self.tasks.end(last)
        self.see_if_through()

    def see_if_through(self) -> None:
        """Watch no scope any more, if the source is over and no part is left."""
        if self.stage._over and not self.live:
            self.tasks.forget_all()

    # the tasks of the source call these

    def leave_with(self, scope: Scheduler) -> None:
        """Take out all subscribers of a scope that ends."""
        for part in tuple(self.live):
            if part.taken and part.scheduler is scope:
                part.cancel()
        if scope is self.scope:
            self.stage.cancel()

    def task_failed(self, error: BaseException) -> bool:
        """End all streams with the error of a task; return whether a subscriber has been told."""
        if self.stage._over:
            return False
        self.stage._fail(error)
        return True
