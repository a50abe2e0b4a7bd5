"""A scheduler of reactivex over the time of a scope: it uses the scope's timers, and runs due actions at once."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from reactivex import abc
from reactivex.disposable import CompositeDisposable, Disposable, SingleAssignmentDisposable
from reactivex.internal.constants import UTC_ZERO
from reactivex.scheduler import CurrentThreadScheduler
from reactivex.scheduler.periodicscheduler import PeriodicScheduler

from rstreams.abc import Scheduler


class RxScheduler(PeriodicScheduler):
    """A scheduler of reactivex that keeps the time of a scope."""

    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__()
        self._scheduler = scheduler

    @property
    def now(self) -> datetime:
        return UTC_ZERO + timedelta(seconds=self._scheduler.now())

    def schedule(self, action: Any, state: Any = None) -> abc.DisposableBase:  # noqa: ANN401 - reactivex's own
        return CurrentThreadScheduler.singleton().schedule(action, state)

    def schedule_relative(self, duetime: Any, action: Any, state: Any = None) -> abc.DisposableBase:  # noqa: ANN401
        delay_s = self.to_seconds(duetime)
        if delay_s <= 0:
            return self.schedule(action, state)
        done = SingleAssignmentDisposable()

        def act() -> None:
            done.disposable = self.invoke_action(action, state=state)

        timer = self._scheduler.call_later(delay_s, act)
        return CompositeDisposable(done, Disposable(timer.cancel))

    def schedule_absolute(self, duetime: Any, action: Any, state: Any = None) -> abc.DisposableBase:  # noqa: ANN401
        return self.schedule_relative(self.to_datetime(duetime) - self.now, action, state)


def rx_scheduler(scheduler: Scheduler | None) -> RxScheduler | None:
    """Return the scheduler for reactivex over that of a scope; without one reactivex chooses its own."""
    return None if scheduler is None else RxScheduler(scheduler)
