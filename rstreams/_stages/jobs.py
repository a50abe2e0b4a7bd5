"""Items processed by tasks, several at a time: shared by map_async and map_blocking.

Theory of operation. A worker is a task that takes one item after the other. There are never more workers than items in
progress at one time. To wake a task costs a fifth of starting one, and a worker that is through with an item takes the
next one without either. Workers stay until the stream has ended.

Items that wait get up to two workers, idle ones or new ones. Each of these calls two others, as long as items wait. A
worker whose function does not wait has handled the items before the others have their turn, and few of them are woken.

The stage asks for items when half of its limit is free, and when a worker leaves no item that waits. The limit is the
concurrency. Over a link it grows with the speed of the workers (`intake`). The items that come ahead of a worker wait
there, unbegun. As long as some wait, items are settled together: with the next request, when no item waits, or after
5 ms.

A call of the function that changes context variables ends its worker, and another one takes its place; see `contexts`.

A function that never waits would keep other tasks out. A worker therefore pauses after 1,024 items or 5 ms. It looks at
the clock after 1, 2, 4, 8 items, and then after each 16.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextvars import Context, copy_context
from functools import partial
from types import CoroutineType
from typing import Final, Generic, TypeVar

from rstreams._checks.publishers import require_subscription
from rstreams._checks.refusals import refuse_result
from rstreams._core.claims import DONE, NO_HOLD, Claims, EachHold, Ending
from rstreams._core.contexts import has_changed
from rstreams._core.demand import SLICE, TURN_S, add_demand, take_demand
from rstreams._core.run import Run
from rstreams._core.sight import Asked
from rstreams._core.subscription import ENDED
from rstreams._stages.intake import AHEAD_S, Intake
from rstreams._stages.stage import KeepingStage
from rstreams.abc import Cancellable, Event, Hold, Scheduler, Subscriber, Subscription
from rstreams.culprits import Culprit

T = TypeVar("T")
R = TypeVar("R")


_MOST_CALLED: Final = 2
"""The most workers that are on their way to items at a time."""

_LOOK_EACH: Final = 16
"""The most items between two looks at the clock."""


class _Job(Generic[R]):
    """An item in progress: the claim on it, when its worker looked at the clock last, and its result when it is ready.

    A worker whose items take longer than a turn looks at the clock before each of them.
    """

    __slots__ = ("claims", "is_done", "looked_at_s", "result")

    result: R

    def __init__(self, claims: Claims, looked_at_s: float) -> None:
        self.claims = claims
        self.looked_at_s = looked_at_s
        self.is_done = False


class Jobs(KeepingStage[T, R], EachHold):
    """A stage that gives each item to a task and emits the results.

    Args:
        downstream: Gets the results.
        function: Makes a result.
        concurrency: The most items in progress, or waiting for the results before their own.
        scheduler: Runs the workers.
        ordered: Whether the results come in the order of the items.
        window: The most items kept here and asked for, over a link; None: `concurrency`.
    """

    __slots__ = (
        "_called",
        "_concurrency",
        "_emits",
        "_function",
        "_idle",
        "_intake",
        "_jobs",
        "_late",
        "_ordered",
        "_scheduler",
        "_settles_soon",
        "_takes",
        "_unasked",
        "_workers",
    )

    def __init__(
        self,
        downstream: Subscriber[R],
        function: Callable[[T], Awaitable[R]],
        concurrency: int,
        scheduler: Scheduler,
        *,
        ordered: bool,
        window: int | None = None,
    ) -> None:
        super().__init__(downstream)
        self._function = function
        self._concurrency = concurrency
        self._scheduler = scheduler
        self._ordered = ordered
        self._unasked = 0  # requested here, not yet from the source
        self._intake = Intake[T](concurrency, concurrency if window is None else window)
        self._jobs: dict[_Job[R], None] = {}  # the items taken by workers, in the order of the items
        self._late: list[Hold] = []  # claims on items that are done, of which that is not said yet
        self._settles_soon = False  # a timer is set to say so
        self._emits = False
        self._takes = False  # a worker is about to take what comes now
        self._workers: list[Cancellable] = []
        self._idle: list[Event] = []  # one for each worker that waits for an item
        self._called = 0  # workers on their way to an item

    only_reacts = True

    def blame(self, asked: Asked) -> Culprit | None:
        """Return that calls of its function are under way, if there are some."""
        calls = [job for job in self._jobs if not job.is_done]
        if not calls:
            return None
        told = f"slow handler: {self.label} of {asked.consumer} waits for {len(calls)} of {self._concurrency} calls"
        return asked.blame("slow_handler", told, for_s=self._scheduler.now() - calls[0].looked_at_s)

    @property
    def waits_for(self) -> str:
        """How long its function has had an item, if that is long."""
        oldest = next((job for job in self._jobs if not job.is_done), None)
        passed_s = 0.0 if oldest is None else self._scheduler.now() - oldest.looked_at_s
        return f"its function has had an item for {passed_s:.0f} s" if passed_s >= 1 else ""

    def on_subscribe(self, subscription: Subscription) -> None:
        require_subscription(subscription)
        if self._upstream is ENDED and not self._ended:
            self._intake.come_from(subscription)
        super().on_subscribe(subscription)

    def on_next(self, item: T) -> None:
        if self._ended:
            return
        self._intake.put(item)
        if not self._takes:
            self._call_workers()

    def on_run(self, run: Run[T]) -> None:
        """Keep many items; see `rstreams._core.run`."""
        if self._ended:
            return
        try:
            self._intake.put_run(run)
        finally:
            if not (self._ended or self._takes):  # a function on the way here may have cancelled
                self._call_workers()
            self._complete_if_through()

    def on_complete(self) -> None:
        self._upstream = ENDED  # 2.3, 2.4
        self._complete_if_through()

    def request(self, n: int) -> None:
        if self._accepts(n):
            self._unasked = add_demand(self._unasked, n)
            self._ask()

    def _ask(self) -> None:
        n = self._intake.more(self._unasked)
        if n > 0:
            self._unasked = take_demand(self._unasked, n)
            self._settle_late()
            self._upstream.request(n)

    def _call_workers(self) -> None:
        """See that workers are on their way to items that may be begun with."""
        most = min(len(self._intake.items), self._concurrency - len(self._jobs), _MOST_CALLED)
        while self._called < most:
            if self._idle:
                self._idle.pop().set()
            elif len(self._workers) < self._concurrency:
                self._workers.append(self._scheduler.start(partial(self._work, len(self._workers))))
            else:
                break
            self._called += 1

    async def _work(self, place: int) -> None:
        """Be the worker at `place` of the list."""
        context = copy_context()
        try:
            while not self._ended:
                self._called -= 1
                self._intake.count_workers(1)
                await self._work_off(context)
                self._intake.count_workers(-1)
                if has_changed(context):
                    self._hand_over(place)
                    return
                if not self._ended:
                    bell = self._scheduler.event()
                    self._idle.append(bell)
                    await bell.wait()
        except GeneratorExit:  # the garbage collector throws this away, perhaps in another thread
            raise
        except BaseException:  # the scope ends, and the subscription with it: the holds must end
            self.cancel()
            raise

    def _hand_over(self, place: int) -> None:
        """Have another task be the worker at `place`, because the function has changed the context of this one."""
        if not self._ended:
            self._called += 1
            self._workers[place] = self._scheduler.start(partial(self._work, place))

    async def _work_off(self, context: Context) -> None:
        """Take items until none may be begun with, or the context is not `context` any more."""
        scheduler, intake, function = self._scheduler, self._intake, self._function
        waiting, jobs, concurrency = intake.items, self._jobs, self._concurrency
        looked_at_s = scheduler.now()
        taken, look_at, until = 0, 1, looked_at_s + TURN_S
        while True:
            if not waiting:
                self._ask_from_worker()
            if not waiting or len(jobs) >= concurrency or self._ended or has_changed(context):
                return
            if taken < look_at:
                taken += 1
                claims = Claims(self, 0, (intake.take_hold(),)) if intake.needs_claims else NO_HOLD
                job: _Job[R] = _Job(claims, looked_at_s)
                jobs[job] = None
                item = waiting.popleft()
                if not waiting:
                    self._settle_late()
                    self._ask_from_worker()
                if waiting and not self._called:
                    self._call_workers()
                try:  # in this coroutine, because another one for each item would cost as much as its task
                    made = function(item)
                    result = await (made if type(made) is CoroutineType else _awaitable(made))
                except Exception as error:
                    self._failed(job, error)
                else:
                    self._emit_results(job, result)
            elif taken < SLICE and (looked_at_s := scheduler.now()) <= until:
                look_at += min(taken, _LOOK_EACH)
            else:
                pause = scheduler.event()
                scheduler.call_later(0, pause.set)
                await pause.wait()
                looked_at_s = scheduler.now()
                taken, look_at, until = 0, 1, looked_at_s + TURN_S

    def _ask_from_worker(self) -> None:
        """Ask for items, if there may be more; the worker takes those that come at once."""
        if self._unasked and not self._ended:
            self._takes = True
            try:
                self._ask()
            finally:
                self._takes = False

    def _failed(self, job: _Job[R], error: Exception) -> None:
        """End the stream because the function has failed."""
        if not self._ended:
            del self._jobs[job]
            job.claims.fail(error)
            self._fail(error)

    def _emit_results(self, job: _Job[R], result: R) -> None:
        """Emit the result of `job`, and the results behind it that waited for it."""
        if self._ended:
            return
        job.result, job.is_done = result, True
        jobs, ordered, intake = self._jobs, self._ordered, self._intake
        due = job
        if ordered:
            due = next(iter(jobs))
            if due is not job:
                return
        self._takes = self._emits = True
        try:
            while due.is_done:
                del jobs[due]
                self._emit(due.result, due.claims)
                intake.end(1)
                if intake.busy * 2 <= intake.limit and not self._ended:
                    self._ask()
                if not (ordered and jobs):  # behind a cancel there are none
                    break
                due = next(iter(jobs))
        finally:
            self._takes = self._emits = False
        if self._upstream is ENDED:
            self._complete_if_through()

    def _complete_if_through(self) -> None:
        intake = self._intake
        if self._upstream is ENDED and not (self._jobs or intake.items or intake.receives or self._emits):
            super().on_complete()
            self._dismiss_workers()

    def _dismiss_workers(self) -> None:
        workers, self._workers = self._workers, []
        for worker in workers:
            worker.cancel()

    def _kept_items(self) -> int:
        return len(self._jobs) + len(self._intake.items)

    @property
    def moves(self) -> bool:
        """Whether a task has items."""
        return bool(self._jobs or self._intake.items)

    def settle(self, epoch: int, places: Sequence[Hold], how: Ending) -> None:
        """End the holds of an item; see `Settles`."""
        if how is not DONE:
            super().settle(epoch, places, how)
            return
        for hold in places:
            self._end_soon(hold)

    def _end_soon(self, hold: Hold) -> None:
        """Say that an item is done: at once, or with those that follow within a few milliseconds."""
        if not self._intake.items or not self._intake.asks_ahead or self._ended:
            hold.done()
            return
        self._late.append(hold)
        if not self._settles_soon:
            self._settles_soon = True
            self._scheduler.call_later(AHEAD_S, self._settle_in_time)

    def _settle_in_time(self) -> None:
        self._settles_soon = False
        self._settle_late()

    def _settle_late(self) -> None:
        """Say that items are done of which that was not said at once."""
        if self._late:
            late, self._late = self._late, []
            for hold in late:
                hold.done()

    def _let_go(self) -> None:
        self._settle_late()
        for job in self._jobs:
            job.claims.release()
        self._jobs.clear()
        self._intake.release()
        self._dismiss_workers()


def _awaitable(made: Awaitable[R]) -> Awaitable[R]:
    if not isinstance(made, Awaitable):
        refuse_result("map_async", "function", made, "an awaitable", "; define it with `async def`")
    return made
