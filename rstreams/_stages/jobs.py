"""Items in the hands of tasks, several at a time: shared by map_async and map_blocking."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Generic, TypeVar

from rstreams._core.demand import add_demand, take_demand
from rstreams._core.holds import SharedHold, share_hold
from rstreams._core.subscription import ENDED
from rstreams._stages.stage import KeepingStage
from rstreams.abc import Cancellable, Scheduler, Subscriber

T = TypeVar("T")
R = TypeVar("R")


@dataclass(eq=False, slots=True)
class _Job(Generic[R]):
    """An item kept: the claim on it, and in the end what it was made into."""

    kept: SharedHold
    results: list[R] = field(default_factory=list)
    task: Cancellable | None = None


class Jobs(KeepingStage[T, R]):
    """A stage that starts a task for each item and emits what it makes of it."""

    __slots__ = ("_busy", "_concurrency", "_emits", "_function", "_jobs", "_ordered", "_start", "_unasked")

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
        self._start = scheduler.start
        self._ordered = ordered
        self._unasked = 0  # requested here, not yet there
        self._busy = 0  # requested there, not yet emitted here
        self._jobs: dict[_Job[R], None] = {}  # in the order of the items
        self._emits = False

    only_reacts = True  # while no task is at work

    def on_next(self, item: T) -> None:
        if self._ended:
            return
        job = _Job[R](share_hold(self._upstream.hold()))
        self._jobs[job] = None
        job.task = self._start(partial(self._run, job, item))

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

    async def _run(self, job: _Job[R], item: T) -> None:
        try:
            result = await _awaitable(self._function(item))
        except Exception as error:
            if not self._ended:
                del self._jobs[job]
                job.kept.fail(error)
                self._fail(error)
            return
        except BaseException:  # the scope ends, and with it the subscription: what is held must not stay held
            self.cancel()
            raise
        if not self._ended:
            job.results.append(result)
            self._emit_results(job)

    def _emit_results(self, job: _Job[R]) -> None:
        self._emits = True
        due: _Job[R] | None = next(iter(self._jobs)) if self._ordered else job
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

    def _kept_items(self) -> int:
        return len(self._jobs)

    def _moves(self) -> bool:
        return bool(self._jobs)

    def _let_go(self) -> None:
        jobs, self._jobs = self._jobs, {}
        for job in jobs:
            job.kept.release()
            if job.task is not None:
                job.task.cancel()


def _awaitable(made: Awaitable[R]) -> Awaitable[R]:
    if not isinstance(made, Awaitable):
        msg = f"map_async(function): function must return an awaitable, not {made!r:.80}; define it with `async def`"
        raise TypeError(msg)
    return made
