"""Items processed by tasks, several at a time: shared by map_async and map_blocking.

Theory of operation. A worker is a task that takes one item after the other. A new item goes to an idle worker, or to a
new one. There are never more workers than items in progress at one time. Waking a task costs a fifth of starting one. A
worker that has finished an item takes the next one without either cost. Workers stay until the stream has ended.

A function that never waits would keep out other tasks. Therefore a worker pauses after 1,024 items or 5 ms.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from rstreams._checks.refusals import refuse_result
from rstreams._core.demand import add_demand, take_demand
from rstreams._core.holds import SharedHold, share_hold
from rstreams._core.subscription import ENDED
from rstreams._stages.stage import KeepingStage
from rstreams.abc import Cancellable, Event, Scheduler, Subscriber

T = TypeVar("T")
R = TypeVar("R")


SLICE_ITEMS: Final = 1024
SLICE_S: Final = 0.005
"""The longest time that a worker goes on without a pause, in items and in seconds."""


@dataclass(eq=False, slots=True)
class _Job(Generic[T, R]):
    """An item that is kept: the claim on it, and its result when it is ready."""

    item: T
    kept: SharedHold
    results: list[R] = field(default_factory=list)


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
        if not self._emits:  # if it does, the worker that emits takes it next
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
        """Make sure that a worker is on its way for each item that waits."""
        while self._called < len(self._waiting):
            self._called += 1
            if self._idle:
                self._idle.pop().set()
            else:
                self._workers.append(self._scheduler.start(self._work))

    async def _work(self) -> None:
        scheduler, taken, until = self._scheduler, 0, self._scheduler.now() + SLICE_S
        self._called -= 1
        while not self._ended:
            if not self._waiting:
                await self._called_again()
            elif taken >= SLICE_ITEMS or scheduler.now() > until:
                pause = scheduler.event()
                scheduler.call_later(0, pause.set)
                await pause.wait()
            else:
                taken += 1
                await self._run(self._waiting.popleft())
                continue
            taken, until = 0, scheduler.now() + SLICE_S

    async def _called_again(self) -> None:
        bell = self._scheduler.event()
        self._idle.append(bell)
        await bell.wait()
        self._called -= 1

    async def _run(self, job: _Job[T, R]) -> None:
        if self._called < len(self._waiting):
            self._call_workers()
        try:
            result = await _awaitable(self._function(job.item))
        except Exception as error:
            if not self._ended:
                del self._jobs[job]
                job.kept.fail(error)
                self._fail(error)
            return
        except BaseException:  # the scope ends, and the subscription with it: the holds must end
            self.cancel()
            raise
        if not self._ended:
            job.results.append(result)
            self._emit_results(job)

    def _emit_results(self, job: _Job[T, R]) -> None:
        self._emits = True
        due: _Job[T, R] | None = next(iter(self._jobs)) if self._ordered else job
        try:
            while due is not None and due.results:
                del self._jobs[due]
                self._emit(due.results.pop(), due.kept)
                self._busy -= 1
                if not self._ended:
                    self._ask()
                due = next(iter(self._jobs), None) if self._ordered else None
        finally:
            self._emits = False
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
        jobs, self._jobs = self._jobs, {}
        for job in jobs:
            job.kept.release()
        self._dismiss_workers()


def _awaitable(made: Awaitable[R]) -> Awaitable[R]:
    if not isinstance(made, Awaitable):
        refuse_result("map_async", "function", made, "an awaitable", "; define it with `async def`")
    return made
