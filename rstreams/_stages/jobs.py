"""Items processed by tasks, several at a time: shared by map_async and map_blocking.

Theory of operation. A worker is a task that takes one item after the other. There are never more workers than items in
progress at one time. To wake a task costs a fifth of starting one, and a worker that is through with an item takes the
next one without either. Workers stay until the stream has ended.

Items that wait get up to two workers, idle ones or new ones. Each of these calls two others, as long as items wait. A
worker whose function does not wait has handled the items before the others have their turn, and few of them are woken.

The stage asks for items when half of the concurrency is free, and when a worker leaves no item that waits.

A function that never waits would keep other tasks out. A worker therefore pauses after 1,024 items or 5 ms. It looks at
the clock after 1, 2, 4, 8 items, and then after each 16.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from types import CoroutineType
from typing import Final, Generic, TypeVar

from rstreams._checks.refusals import refuse_result
from rstreams._core.demand import SLICE, TURN_S, add_demand, take_demand
from rstreams._core.holds import SharedHold, share_hold
from rstreams._core.subscription import ENDED
from rstreams._stages.stage import KeepingStage
from rstreams.abc import Cancellable, Event, Scheduler, Subscriber

T = TypeVar("T")
R = TypeVar("R")


_MOST_CALLED: Final = 2
"""The most workers that are on their way to items at a time."""

_LOOK_EACH: Final = 16
"""The most items between two looks at the clock."""


class _Job(Generic[T, R]):
    """An item that is kept: the claim on it, and its result when it is ready."""

    __slots__ = ("is_done", "item", "kept", "result")

    result: R

    def __init__(self, item: T, kept: SharedHold) -> None:
        self.item = item
        self.kept = kept
        self.is_done = False


class Jobs(KeepingStage[T, R]):
    """A stage that gives each item to a task and emits the results."""

    __slots__ = (
        "_busy",
        "_called",
        "_concurrency",
        "_emits",
        "_function",
        "_idle",
        "_jobs",
        "_ordered",
        "_scheduler",
        "_takes",
        "_unasked",
        "_waiting",
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
    ) -> None:
        super().__init__(downstream)
        self._function = function
        self._concurrency = concurrency
        self._scheduler = scheduler
        self._ordered = ordered
        self._unasked = 0  # requested here, not yet from the source
        self._busy = 0  # requested from the source, not yet emitted here
        self._jobs: dict[_Job[T, R], None] = {}  # in the order of the items
        self._emits = False
        self._takes = False  # a worker is about to take what comes now
        self._waiting: deque[_Job[T, R]] = deque()  # those of `_jobs` that no worker has taken yet
        self._workers: list[Cancellable] = []
        self._idle: list[Event] = []  # one for each worker that waits for an item
        self._called = 0  # workers on their way to an item

    only_reacts = True  # while no task works

    def on_next(self, item: T) -> None:
        if self._ended:
            return
        job: _Job[T, R] = _Job(item, share_hold(self._upstream.hold()))
        self._jobs[job] = None
        self._waiting.append(job)
        if not self._takes:
            self._call_workers()

    def on_complete(self) -> None:
        self._upstream = ENDED  # 2.3, 2.4
        self._complete_if_through()

    def request(self, n: int) -> None:
        if self._accepts(n):
            self._unasked = add_demand(self._unasked, n)
            self._ask()

    def _ask(self) -> None:
        n = min(self._unasked, self._concurrency - self._busy)
        if n > 0:
            self._unasked = take_demand(self._unasked, n)
            self._busy += n
            self._upstream.request(n)

    def _call_workers(self) -> None:
        """See that workers are on their way to items that wait."""
        while self._called < min(len(self._waiting), _MOST_CALLED):
            if self._idle:
                self._idle.pop().set()
            elif len(self._workers) < self._concurrency:
                self._workers.append(self._scheduler.start(self._work))
            else:
                break
            self._called += 1

    async def _work(self) -> None:
        scheduler, waiting, function = self._scheduler, self._waiting, self._function
        taken, look_at, until = 0, 1, scheduler.now() + TURN_S
        self._called -= 1
        while not self._ended:
            if waiting:
                if taken < look_at:
                    taken += 1
                    job = waiting.popleft()
                    if not waiting:
                        self._ask_from_worker()
                    if waiting and not self._called:
                        self._call_workers()
                    try:  # in this coroutine, because another one for each item would cost as much as its task
                        made = function(job.item)
                        result = await (made if type(made) is CoroutineType else _awaitable(made))
                    except BaseException as error:
                        self._failed(job, error)
                    else:
                        self._emit_results(job, result)
                    continue
                if taken < SLICE and scheduler.now() <= until:
                    look_at += min(taken, _LOOK_EACH)
                    continue
                pause = scheduler.event()
                scheduler.call_later(0, pause.set)
                await pause.wait()
            else:
                self._ask_from_worker()
                if waiting or self._ended:
                    continue
                await self._called_again()
            taken, look_at, until = 0, 1, scheduler.now() + TURN_S

    def _ask_from_worker(self) -> None:
        """Ask for items, if there may be more; the worker takes those that come at once."""
        if self._unasked and self._busy < self._concurrency:
            self._takes = True
            try:
                self._ask()
            finally:
                self._takes = False

    async def _called_again(self) -> None:
        bell = self._scheduler.event()
        self._idle.append(bell)
        await bell.wait()
        self._called -= 1

    def _failed(self, job: _Job[T, R], error: BaseException) -> None:
        """End the stream because the function has failed, or because the scope of its task ends."""
        if not isinstance(error, Exception):
            self.cancel()  # the subscription ends with the scope: the holds must end
            try:
                raise error
            finally:
                del error  # its traceback has this frame
        if not self._ended:
            del self._jobs[job]
            job.kept.fail(error)
            self._fail(error)

    def _emit_results(self, job: _Job[T, R], result: R) -> None:
        """Emit the result of `job`, and the results behind it that waited for it."""
        if self._ended:
            return
        job.result, job.is_done = result, True
        jobs, ordered = self._jobs, self._ordered
        due = job
        if ordered:
            due = next(iter(jobs))
            if due is not job:
                return
        self._takes = self._emits = True
        try:
            while due.is_done:
                del jobs[due]
                self._emit(due.result, due.kept)
                self._busy -= 1
                if self._busy * 2 <= self._concurrency and not self._ended:
                    self._ask()
                if not (ordered and jobs):  # behind a cancel there are none
                    break
                due = next(iter(jobs))
        finally:
            self._takes = self._emits = False
        if self._upstream is ENDED:
            self._complete_if_through()

    def _complete_if_through(self) -> None:
        if self._upstream is ENDED and not self._jobs and not self._emits:
            super().on_complete()
            self._dismiss_workers()

    def _dismiss_workers(self) -> None:
        workers, self._workers = self._workers, []
        for worker in workers:
            worker.cancel()

    def _kept_items(self) -> int:
        return len(self._jobs)

    def _moves(self) -> bool:
        return bool(self._jobs)

    def _let_go(self) -> None:
        jobs = list(self._jobs)
        self._jobs.clear()
        for job in jobs:
            job.kept.release()
        self._dismiss_workers()


def _awaitable(made: Awaitable[R]) -> Awaitable[R]:
    if not isinstance(made, Awaitable):
        refuse_result("map_async", "function", made, "an awaitable", "; define it with `async def`")
    return made
