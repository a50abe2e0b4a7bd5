"""map_async: each item replaced by what an async function makes of it, several at a time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Generic, TypeVar

from rstreams._demand import add_demand, take_demand
from rstreams._holds import SharedHold, share_hold
from rstreams._scheduler import bound_scheduler
from rstreams._subscription import ENDED
from rstreams.abc import Cancellable, Publisher, Scheduler, Subscriber
from rstreams.operators._stage import KeepingStage, Lifted, require_at_least

T = TypeVar("T")
R = TypeVar("R")


def map_async(
    source: Publisher[T], function: Callable[[T], Awaitable[R]], *, concurrency: int = 1, ordered: bool = True
) -> Publisher[R]:
    """Emit `await function(item)` for each item of `source`.

        --1--2--3------->
           map_async(f)
        ----f1-f2----f3->

    Args:
        source: Where the items come from.
        function: Called once an item, in a task of its own.
        concurrency: The most items kept at a time, in progress or waiting for their turn; at least 1.
        ordered: Emit the results in the order of the items; else as they come.

    Demand: Passed up piece by piece: never more items are drawn than results were requested, and never more than
        `concurrency` that are not yet emitted. So no result waits for demand, and no item is drawn in vain.
    Holds: An item is held until its result has been handled by all who hold that, and shares its outcome. Items kept
        when the stream fails or is cancelled are given back (released).
    Errors: `ConfigError` at the call if `concurrency` is less than 1, and as `on_error` if there is no scheduler. What
        `function` raises ends the stream at once with that very exception; its item counts as failed.
    Cancels: The source, when `function` raises; and all tasks then, as on a cancel or an error. A cancelled `function`
        may have done a part of its work.
    Context: The tasks run in the scope that subscribes (`rstreams.abc.Scheduler`); results are emitted from them. If
        the subscriber's `on_next` raises, the subscription is cancelled and the exception ends that scope.
    Spec: Reactive Streams 1.1, 1.3, 2.13, 3.3.

    Example:
        >>> async def fetch(number):
        ...     await trio.sleep(1 / number)
        ...     return f"page {number}"
        >>> await Stream.of(1, 2, 3).map_async(fetch, concurrency=3).to_list()
        ['page 1', 'page 2', 'page 3']
    """
    require_at_least("map_async", "concurrency", concurrency, 1)
    return Lifted(
        source,
        lambda downstream: _MapAsync(downstream, function, concurrency, bound_scheduler("map_async"), ordered=ordered),
    )


@dataclass(eq=False, slots=True)
class _Job(Generic[R]):
    """An item kept: the claim on it, and in the end what it was made into."""

    kept: SharedHold
    results: list[R] = field(default_factory=list)
    task: Cancellable | None = None


class _MapAsync(KeepingStage[T, R]):
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
            result = await self._function(item)
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

    def _let_go(self) -> None:
        jobs, self._jobs = self._jobs, {}
        for job in jobs:
            job.kept.release()
            if job.task is not None:
                job.task.cancel()
