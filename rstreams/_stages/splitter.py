"""One stream made into several, one after the other or side by side: shared by group_by and the windows.

Theory of operation. The stage emits parts: publishers of one subscriber each (groups, windows). An item belongs to one
part, or to several that overlap. If the part's subscriber has asked and nothing waits before the item, the item goes
straight through. Otherwise it is kept in the part's queue, with a hold. There is one bound for all parts: items kept
and items asked for are together at most `prefetch` (less, if a link's window is less). When `prefetch` items wait,
nothing more is asked for, and parts whose subscribers do ask wait too. `deadlock` then looks whether that can end.

Counts (`ItemBound`). Of `limit` items, `kept` wait here, `left` have left and were not yet requested again, and the
rest is on its way. Items that have left are requested again in batches, at the latest when no item is on its way
(`ask_at`).

Lifetimes. The stream of parts (`_ended`) and each part end on their own. A cancel of the stream of parts closes the
parts without a subscriber; the others go on. The source (`_over`) is cancelled when no part is left that could get
items. Its error reaches all, behind their items. If a subscriber raises, all end at once. The tasks and timers of the
source belong to no subscriber's scope (`run_tasks`): a part outlives the stream of parts. `LiveParts` knows the parts
that are left, and the scopes of their subscribers.

Outcomes. Items have holds, parts have none. Items that wait in a cancelled part are done, because nobody will process
them. But a stage such as flat_map that is cancelled or fails cancels its parts first, and the stream of parts
afterwards; then all waiting items are given back. Therefore the outcome stays open (`OpenOutcomes`) until the turn
is over. If a part is cancelled after the end of the stream, the items that wait in it are given back.
"""

# ruff: noqa: SLF001 - a stage and what it says of itself

from __future__ import annotations

from collections import deque
from typing import Any, TypeVar

from rstreams._checks.publishers import require_error, require_subscription
from rstreams._core.claims import NO_HOLD
from rstreams._core.claims_in_order import ClaimsInOrder
from rstreams._core.demand import UNBOUNDED, add_demand, take_demand
from rstreams._core.kept_errors import KeptError
from rstreams._core.scheduler import call_in
from rstreams._core.sight import ASK, CANCEL, SEND, Counts, Waits, Way
from rstreams._core.subscription import ENDED
from rstreams._core.threads import get_ident, refuse_thread
from rstreams._stages.emission import log_dropped
from rstreams._stages.lookout import Lookout
from rstreams._stages.part import LiveParts, Part
from rstreams._stages.reach import keepers_of
from rstreams._stages.stage import Stage
from rstreams.abc import Hold, Scheduler, Subscriber, Subscription

T = TypeVar("T")
P = TypeVar("P")


class Splitting(Stage[T, P]):
    """A stage that emits parts; the operator decides when a part begins and ends, and which items belong to it."""

    __slots__ = (
        "_bound",
        "_demand",
        "_emitted",
        "_failure",
        "_over",
        "_parts",
        "_sending",
        "_started",
        "_unsent",
        "scheduler",
    )

    part_name = "part"

    def __init__(self, downstream: Subscriber[P], prefetch: int) -> None:
        super().__init__(downstream)
        self._demand = 0  # for parts
        self._emitted = 0
        self._started = self._sending = self._over = False
        self._failure: KeptError[BaseException] | None = None  # it takes the place of the completion
        self._unsent: deque[tuple[Part[T], P]] = deque()  # not requested yet; each has an item
        self._parts = LiveParts[T](self, prefetch, Lookout(self))
        self._bound = self._parts.bound
        self.scheduler: Scheduler | None = self._parts.tasks.scheduler

    # upstream calls these

    def on_subscribe(self, subscription: Subscription) -> None:
        require_subscription(subscription)
        if self._upstream is not ENDED or self._ended:
            subscription.cancel()  # 2.5
            return
        self._bound.open(subscription)
        self._parts.tasks.watch(self._parts.scope)
        self._sending = True  # signals come one after the other (1.3)
        try:
            call_in(self._parts.scope, super().on_subscribe, subscription)
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
            self._quit(release=False)
            self._parts.end_tasks()
            failure, parts = self._failure, tuple(self._parts.live)
            if failure is not None:
                self._send_parts()  # first: a stage that joins the parts knows then that they all fail by one cause
            for part in parts:
                if not part.complete:
                    part.close(failure)
            self._send_parts()

    # downstream calls these

    def request(self, n: int) -> None:
        if not self._accepts(n):
            return
        self._demand = add_demand(self._demand, n)
        if self._started:
            self._send_parts()
        elif not self._sending:
            self._start_up()

    def cancel(self) -> None:
        if get_ident() != self._thread:
            refuse_thread("cancel()", self._thread)
        if self._ended:
            return
        self._ended = True
        self._unsent.clear()
        self._parts.close_untaken()
        self._parts.outcomes.decide(release=True)
        self._stop_if_idle(self._parts.scope)
        self._parts.see_if_through()
        self._bound.ask()  # the items that were given back have left

    def hold(self) -> Hold:
        return NO_HOLD  # a part is not an item

    def gather(self, *, loose: bool) -> ClaimsInOrder | None:  # noqa: ARG002 - the name in the protocol
        return None

    def counts(self) -> Counts:
        return Counts(self._requested, self._emitted, self._bound.kept)

    @property
    def window(self) -> int:
        return UNBOUNDED

    @property
    def failure(self) -> BaseException | None:
        return super().failure if self._failure is None else self._failure.error

    # called by `explain` and the search for a deadlock, see `_core.sight`

    @property
    def standing(self) -> PartsStanding:
        return PartsStanding(self)

    def waits_to(self, way: Way) -> Waits:
        """Return the events that must happen first."""
        return self.standing.waits_to(way)

    # the operator writes these

    def _start(self) -> None:
        """Begin, with the first request for parts; the source is asked after it."""

    def _stop(self) -> None:
        """Stop the streams or timers beside the source: no more items come."""

    def _forgotten(self, part: Part[T]) -> None:
        """Note that a part gets no more items because it was cancelled."""

    # the operator calls these

    def _add(self, part: Part[T], shown: P) -> None:
        """Add a new part, to be emitted as `shown` by `_send_parts`."""
        self._parts.live[part] = None
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
                call_in(self._parts.scope, self._downstream.on_next, shown)
        except BaseException as error:
            self._ended = True
            self._parts.see_if_through()
            if not self._over:
                self._fail(error)  # all parts end, and the source also gets the error (2.13)
            raise
        finally:
            self._sending = False
        if self._over and not self._unsent and not self._ended:
            self._ended = True
            if self._failure is None:
                self._downstream.on_complete()
            else:
                self._downstream.on_error(self._failure.again())

    def _fail(self, error: BaseException) -> None:
        ended, self._ended = self._ended, True
        parts, self._parts.live = self._parts.live, {}
        self._unsent.clear()
        upstream = self._quit()
        for part in parts:
            self._parts.give_back(part.shut(error))
        upstream.cancel()
        self._parts.end_tasks()
        for part in parts:
            part.tell(error)
        if not ended:
            self._downstream.on_error(error)

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

    def _stop_if_idle(self, last: Scheduler | None = None) -> None:
        """Cancel the source if no part is left that could get an item; `last` is the scope of who has left."""
        if self._ended and not self._over and all(part.complete for part in self._parts.live):
            self._quit().cancel()
            self._parts.end_tasks(last)

    # inside

    def _start_up(self) -> None:
        self._started = True
        self._start()
        if not self._over:
            self._upstream.request(self._bound.limit)

    def _quit(self, *, release: bool = True) -> Subscription:
        """Take no more items; return the subscription to the source, which was not cancelled."""
        self._over = True
        upstream, self._upstream = self._upstream, ENDED  # 2.3, 2.4
        self._bound.close()
        self._parts.outcomes.decide(release=release)
        self._stop()
        return upstream


class PartsStanding:
    """How a stage with parts stands: what it keeps for them, and what must happen before it can move."""

    __slots__ = ("_parts", "_stage", "part_name")

    stands = (
        "has {live} live {part}s and keeps {kept} items for {part}s that are not read, the most it may keep "
        "(prefetch={most})"
    )

    def __init__(self, stage: Splitting[Any, Any]) -> None:
        self._stage = stage
        self._parts = stage._parts
        self.part_name = stage.part_name

    @property
    def numbers(self) -> tuple[int, int, int]:
        """The number of live parts, of items kept, and the limit for these."""
        return len(self._parts.live), self._parts.bound.kept, self._parts.bound.limit

    @property
    def blocked(self) -> bool:
        """Tell whether it may keep no more items, and therefore requests none."""
        return self._parts.bound.full

    def disconnect(self, error: BaseException) -> None:
        """End all of it with an error."""
        self._stage._fail(error)

    @property
    def moves(self) -> bool:
        """Whether it is doing something now, or will do so although nobody calls it."""
        stage = self._stage
        waits = self._parts.outcomes.waits
        return stage.moves or stage._sending or waits or bool(stage._unsent and stage._demand)

    def waits_for_items(self) -> Waits:
        """Return the events that must happen before an item or the end comes."""
        stage = self._stage
        return None if stage._over or self.moves else [(ASK, stage), *((SEND, each) for each in stage._callers())]

    def waits_to(self, way: Way) -> Waits:
        """Return the events that must happen first."""
        stage, downstream = self._stage, self._stage.downstream
        if way == ASK:
            return self._waits_to_ask()
        if way == CANCEL:
            return None if stage.ended else [(CANCEL, downstream)]
        if stage._over:
            return None if self.moves or not stage._unsent else [(ASK, downstream)]
        waits = self.waits_for_items()
        if waits is not None and (stage._unsent or not stage._demand):
            waits.append((ASK, downstream))
        return waits

    def _waits_to_ask(self) -> Waits:
        stage, downstream = self._stage, self._stage.downstream
        if stage._over or self.moves:
            return None
        waits: list[tuple[Way, object]] = [(SEND, each) for each in stage._callers()]
        if not stage._started or stage._unsent:
            waits.append((ASK, downstream))
        if not self.blocked:  # what it may ask for is asked for
            return waits
        unsent = {id(part) for part, _ in stage._unsent}
        full = [part for part in self._parts.live if part.counts().buffered and id(part) not in unsent]
        if any(part.emitting for part in full):
            return None
        waits.extend((ASK, part.subscriber) for part in full if part.taken)
        untaken = {id(part) for part in full if not part.taken}
        if untaken:
            waits.append((CANCEL, downstream))  # closes them
        full.clear()  # who holds a part counts as a keeper
        keepers = keepers_of(untaken, stage)
        return None if keepers is None else [*waits, *((SEND, each) for each in keepers)]
