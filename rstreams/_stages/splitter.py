"""One stream made into several, one after the other or side by side: shared by group_by and the windows.

Theory of operation. The stage emits parts: publishers of one subscriber each (groups, windows). An item belongs to one
part, or to several that overlap. If the part's subscriber has asked and nothing waits before the item, the item goes
straight through. Otherwise it is kept in the part's queue, with a hold. There is one bound for all parts: items kept
and items asked for are together at most `prefetch` (less, if a link's window is less). When `prefetch` items wait,
nothing more is asked for, and parts whose subscribers do ask wait too. `deadlock` then looks whether that can end.

Counts. Of `_bound` items, `_kept` wait here, `_left` have left and were not yet requested again, and the rest is on its
way. Items that have left are requested again in batches, at the latest when no item is on its way (`_ask_at`).

Lifetimes. The stream of parts (`_ended`) and each part end on their own. A cancel of the stream of parts closes the
parts without a subscriber; the others go on. The source (`_over`) is cancelled when no part is left that could get
items. Its error reaches all, behind their items. If a subscriber raises, all end at once. The tasks and timers of the
source belong to no subscriber's scope (`run_tasks`): a part outlives the stream of parts.

Outcomes. Items have holds, parts have none. Items that wait in a cancelled part are done, because nobody will process
them. But a stage such as flat_map that is cancelled or fails cancels its parts first, and the stream of parts
afterwards; then all waiting items are given back. Therefore the outcome stays open (`_undecided`) until the turn is
over. If a part is cancelled after the end of the stream, the items that wait in it are given back.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import TypeVar

from rstreams._checks.publishers import require_error, require_subscription
from rstreams._core.claims import NO_HOLD
from rstreams._core.claims_in_order import ClaimsInOrder
from rstreams._core.demand import UNBOUNDED, add_demand, take_demand
from rstreams._core.kept_errors import KeptError
from rstreams._core.scheduler import call_in, current_scheduler
from rstreams._core.sight import ASK, CANCEL, SEND, Counts, Waits, Way
from rstreams._core.subscription import ENDED
from rstreams._core.threads import get_ident, refuse_thread
from rstreams._stages.emission import log_dropped
from rstreams._stages.lookout import Lookout
from rstreams._stages.part import Entry, Part, Shared, too_late
from rstreams._stages.reach import keepers_of
from rstreams._stages.run_tasks import RunTasks
from rstreams._stages.stage import Stage, window_of
from rstreams.abc import Cancellable, Hold, Scheduler, Subscriber, Subscription

T = TypeVar("T")
P = TypeVar("P")


class Splitting(Stage[T, P]):
    """A stage that emits parts; the operator decides when a part begins and ends, and which items belong to it."""

    __slots__ = (
        "_ask_at",
        "_bound",
        "_demand",
        "_emitted",
        "_failure",
        "_kept",
        "_later",
        "_left",
        "_lookout",
        "_over",
        "_parts",
        "_refill",
        "_sending",
        "_started",
        "_tasks",
        "_undecided",
        "_unsent",
        "scheduler",
        "scope",
    )

    part_name = "part"

    def __init__(self, downstream: Subscriber[P], prefetch: int) -> None:
        super().__init__(downstream)
        self._bound = prefetch
        self._kept = self._left = 0
        self._refill = self._ask_at = prefetch - prefetch // 4
        self._demand = 0  # for parts
        self._emitted = 0
        self._started = self._sending = self._over = False
        self._failure: KeptError[BaseException] | None = None  # it takes the place of the completion
        self._parts: dict[Part[T], None] = {}  # parts that get items or have items waiting
        self._unsent: deque[tuple[Part[T], P]] = deque()  # not requested yet; each has an item
        self._undecided: list[Hold] = []
        self.scope: Scheduler | None = current_scheduler.get(None)  # of the stream of parts
        self._tasks = RunTasks(self)
        self._tasks.open()
        self.scheduler: Scheduler | None = self._tasks.scheduler  # of the run
        self._later: Cancellable | None = None
        self._lookout = Lookout(self)

    # upstream calls these

    def on_subscribe(self, subscription: Subscription) -> None:
        require_subscription(subscription)
        if self._upstream is not ENDED or self._ended:
            subscription.cancel()  # 2.5
            return
        self._bound = min(self._bound, window_of(subscription))
        self._refill = self._ask_at = self._bound - self._bound // 4
        self._tasks.watch(self.scope)
        self._sending = True  # signals come one after the other (1.3)
        try:
            call_in(self.scope, super().on_subscribe, subscription)
        finally:
            self._sending = False
        if self._demand and not self._ended:
            self._start_up()
        self._send_parts()

    def on_error(self, error: BaseException) -> None:
        if not self._over:
            self._failure = KeptError(require_error(error))
            self.on_complete()

    def on_complete(self) -> None:
        if not self._over:
            self._over = True
            self._upstream = ENDED  # 2.3, 2.4
            self._quit(release=False)
            self._end_tasks()
            failure, parts = self._failure, tuple(self._parts)
            if failure is not None:
                self._send_parts()  # first: a stage that joins the parts knows then that they all fail by one cause
            for part in parts:
                if not part.complete:
                    part.close(failure)
            self._send_parts()

    # downstream calls these

    def request(self, n: int) -> None:
        if not self._accepts_more(n):
            return
        if self._started:
            self._send_parts()
        elif not self._sending:
            self._start_up()

    def cancel(self) -> None:
        self.require_own_thread()
        if self._ended:
            return
        self._ended = True
        self._unsent.clear()
        for part in tuple(self._parts):
            if not part.taken:
                del self._parts[part]
                self._forgotten(part)
                self._give_back(part.shut(too_late(self)))
        self._decide(release=True)
        self._stop_if_idle(self.scope)
        self._see_if_through()
        self._ask()  # the items that were given back have left

    def hold(self) -> Hold:
        return NO_HOLD  # a part is not an item

    def gather(self, *, loose: bool) -> ClaimsInOrder | None:  # noqa: ARG002 - the name in the protocol
        return None

    def counts(self) -> Counts:
        return Counts(self._requested, self._emitted, self._kept)

    @property
    def window(self) -> int:
        return UNBOUNDED

    @property
    def failure(self) -> BaseException | None:
        return super().failure if self._failure is None else self._failure.error

    # the operator writes these

    def _start(self) -> None:
        """Begin, with the first request for parts; the source is asked after it."""

    def _stop(self) -> None:
        """Stop the streams or timers beside the source: no more items come."""

    def _forgotten(self, part: Part[T]) -> None:
        """Note that a part gets no more items because it was cancelled."""

    # the operator calls these

    def _accepts_more(self, n: int) -> bool:
        """Add `n` to the demand for parts, if it is a valid demand."""
        if not self._accepts(n):
            return False
        self._demand = add_demand(self._demand, n)
        return True

    def _add(self, part: Part[T], shown: P) -> None:
        """Add a new part, to be emitted as `shown` by `_send_parts`."""
        self._parts[part] = None
        self._unsent.append((part, shown))

    def _send_parts(self) -> None:
        """Emit new parts as far as they were requested, and end after the last."""
        if self._sending:
            return
        self._sending = True
        try:
            while self._unsent and self._demand:
                _, shown = self._unsent.popleft()
                self._demand = take_demand(self._demand, 1)
                self._emitted += 1
                call_in(self.scope, self._downstream.on_next, shown)
        except BaseException as error:
            self.broken(error, None)
            raise
        finally:
            self._sending = False
        if self._over and not self._unsent and not self._ended:
            self._ended = True
            if self._failure is None:
                self._downstream.on_complete()
            else:
                self._downstream.on_error(self._failure.again())

    def _share(self, parts: Iterable[Part[T]], item: T) -> None:
        """Give the item in `on_next` to each of these parts, of which there may be several or none."""
        shared = Shared()
        kept = False
        for part in parts:
            if part.ready:
                part.pass_on(item)
            elif not part.over:
                if not kept:
                    kept = True
                    self._kept += 1
                shared.copies += 1
                part.keep(item, self._upstream.hold(), shared)
        if shared.leave():
            self._has_left(1, kept=kept)
        else:
            self._has_come()

    def _keep(self, part: Part[T], item: T) -> None:
        """Keep the item in `on_next`, which belongs only to this part."""
        self._kept += 1
        part.keep(item, self._upstream.hold(), None)
        self._has_come()

    def _fail(self, error: BaseException) -> None:
        upstream, self._upstream = self._upstream, ENDED
        self._over = True
        self._fail_all(error, upstream)

    def _fail_item(self, error: BaseException) -> None:
        if self._over:
            log_dropped(error, "a function failed")
        else:
            self._upstream.hold().fail(error)
            self._end(error)

    def _end(self, failure: BaseException | None = None) -> None:
        """End the stream early, as if the source had ended: the source is cancelled."""
        if not self._over:
            self._failure = None if failure is None else KeptError(failure)
            self._upstream.cancel()
            self.on_complete()

    def _ask(self) -> None:
        """Request as many items as have left, if it is time to."""
        left = self._left
        if left >= self._ask_at and left and self._started and not self._over:
            self._left = 0
            self._upstream.request(left)

    # parts call these

    def broken(self, error: BaseException, part: Part[T] | None) -> None:
        """End all streams because a subscriber raised: the source also gets the error (2.13)."""
        if part is None:
            self._ended = True
        else:
            self._parts.pop(part, None)
            self._give_back(part.shut(None))
        self._see_if_through()
        if not self._over:
            self._fail(error)

    def sent(self, items: int) -> None:
        """Note that `items` kept items have left a part for good."""
        self._has_left(items)

    def forget(self, part: Part[T]) -> None:
        """Note that a part has ended, and all its items have been sent."""
        self._parts.pop(part, None)
        if self._over:
            self._see_if_through()

    def cancelled(self, part: Part[T], waiting: Sequence[Entry[T]]) -> None:
        """Note that a part was cancelled with these items waiting."""
        self._parts.pop(part, None)
        self._forgotten(part)
        for _, hold, shared in waiting:
            if shared is None or shared.leave():
                self._forget_kept(1)
            if self._ended:
                hold.release()
            elif hold is not NO_HOLD:
                self._undecided.append(hold)
        self._stop_if_idle(part.scheduler)
        self._see_if_through()
        if self.scheduler is None:
            self._decide_done()
        elif self._later is None and (self._undecided or (self._left >= self._ask_at and not self._over)):
            self._later = self.scheduler.call_later(0, self._decide_done)

    def watch(self, scope: Scheduler | None) -> None:
        """Have the parts of a scope cancelled when it ends."""
        self._tasks.watch(scope)

    def require_own_thread(self, n: int | None = None) -> None:
        """Refuse a request of `n` from another thread, or a cancel if `n` is None."""
        if get_ident() != self._thread:
            refuse_thread("cancel()" if n is None else f"request({n})", self._thread)

    def hold_item(self) -> Hold:
        """Claim the item that is being passed straight on."""
        return self._upstream.hold()

    @property
    def item_window(self) -> int:
        """The most items that can be held at once."""
        return window_of(self._upstream)

    # called by `explain` and the search for a deadlock, see `_core.sight`

    @property
    def numbers(self) -> tuple[int, int, int]:
        """The number of live parts, of items kept, and the limit for these."""
        return len(self._parts), self._kept, self._bound

    @property
    def stands(self) -> str:
        """The numbers as text."""
        live, kept, bound = self.numbers
        return (
            f"{self.label} has {live} live {self.part_name}s and keeps {kept} items for {self.part_name}s that are "
            f"not read, the most it may keep (prefetch={bound})"
        )

    @property
    def blocked(self) -> bool:
        """Tell whether it may keep no more items, and therefore requests none."""
        return not self._over and self._kept == self._bound

    def disconnect(self, error: BaseException) -> None:
        """End all of it with an error."""
        self._fail(error)

    def waits_to(self, way: Way) -> Waits:
        """Return the events that must happen first."""
        if way == ASK:
            return self._waits_to_ask()
        if way == CANCEL:
            return None if self._ended else [(CANCEL, self._downstream)]
        if self._over:
            return None if self.moves or not self._unsent else [(ASK, self._downstream)]
        waits = self.waits_for_items()
        if waits is not None and (self._unsent or not self._demand):
            waits.append((ASK, self._downstream))
        return waits

    def waits_for_items(self) -> Waits:
        """Return the events that must happen before an item or the end comes."""
        return None if self._over or self.moves else [(ASK, self), *((SEND, each) for each in self._callers())]

    @property
    def moves(self) -> bool:
        return self._sending or self._later is not None or bool(self._unsent and self._demand)

    def _waits_to_ask(self) -> Waits:
        if self._over or self.moves:
            return None
        waits: list[tuple[Way, object]] = [(SEND, each) for each in self._callers()]
        if not self._started or self._unsent:
            waits.append((ASK, self._downstream))
        if not self.blocked:  # what it may ask for is asked for
            return waits
        unsent = {id(part) for part, _ in self._unsent}
        full = [part for part in self._parts if part.waiting and id(part) not in unsent]
        if any(part.emitting for part in full):
            return None
        waits.extend((ASK, part.subscriber) for part in full if part.taken)
        untaken = {id(part) for part in full if not part.taken}
        if untaken:
            waits.append((CANCEL, self._downstream))  # closes them
        full.clear()  # who holds a part counts as a keeper
        keepers = keepers_of(untaken, self)
        return None if keepers is None else [*waits, *((SEND, each) for each in keepers)]

    # inside

    def _start_up(self) -> None:
        self._started = True
        self._start()
        if not self._over:
            self._upstream.request(self._bound)

    def _has_come(self) -> None:
        """Note that a requested item is kept, and make sure that another one is always on its way."""
        free = self._bound - self._kept
        if free < self._ask_at:
            self._ask_at = free or 1
        if self._left >= free:
            if self._left:
                self._ask()
            elif not self._over:
                self._lookout.begin(self.scheduler)

    def _has_left(self, items: int, *, kept: bool = True) -> None:
        """Note that `items` items have left for good, and request as many if it is time to."""
        self._forget_kept(items, kept=kept)
        self._ask()

    def _forget_kept(self, items: int, *, kept: bool = True) -> None:
        if kept:
            self._kept -= items
        self._left += items
        free = self._bound - self._kept
        self._ask_at = self._refill if self._refill < free else free or 1

    def _decide_done(self) -> None:
        self._decide(release=False)
        self._ask()

    def _decide(self, *, release: bool) -> None:
        undecided, self._undecided = self._undecided, []
        if self._later is not None:
            self._later.cancel()
            self._later = None
        for hold in undecided:
            if release:
                hold.release()
            else:
                hold.done()

    def _give_back(self, waiting: Sequence[Entry[T]]) -> None:
        for _, hold, shared in waiting:
            if shared is None or shared.leave():
                self._forget_kept(1)
            hold.release()

    def _stop_if_idle(self, last: Scheduler | None = None) -> None:
        """Cancel the source if no part is left that could get an item; `last` is the scope of who has left."""
        if self._ended and not self._over and all(part.complete for part in self._parts):
            self._over = True
            self._quit()
            upstream, self._upstream = self._upstream, ENDED
            upstream.cancel()
            self._end_tasks(last)

    def _quit(self, *, release: bool = True) -> None:
        self._decide(release=release)
        self._lookout.stop()
        self._stop()

    def _end_tasks(self, last: Scheduler | None = None) -> None:
        self._tasks.end(self._a_scope() if last is None else last)
        self._see_if_through()

    def _see_if_through(self) -> None:
        if self._over and not self._parts:
            self._tasks.forget_all()

    def _a_scope(self) -> Scheduler | None:
        """Return the scope of a subscriber."""
        taken = (part.scheduler for part in self._parts if part.taken) if self._ended else iter(())
        return next(taken, self.scope)

    def leave_with(self, scope: Scheduler) -> None:
        """Take out all subscribers of a scope that ends."""
        for part in tuple(self._parts):
            if part.taken and part.scheduler is scope:
                part.cancel()
        if scope is self.scope:
            self.cancel()

    def task_failed(self, error: BaseException) -> bool:
        """End all streams with the error of a task; return whether a subscriber has been told."""
        if self._over:
            return False
        self._fail(error)
        return True

    def _fail_all(self, error: BaseException, upstream: Subscription = ENDED) -> None:
        ended, self._ended = self._ended, True
        parts, self._parts = self._parts, {}
        self._unsent.clear()
        self._quit()
        for part in parts:
            self._give_back(part.shut(error))
        upstream.cancel()
        self._end_tasks()
        for part in parts:
            part.tell(error)
        if not ended:
            self._downstream.on_error(error)
