"""The tasks and timers of a run that several subscribers share: they belong to the run, and to no subscriber's scope.

A scope ends when one subscriber leaves it. The run goes on for the others; so must everything that its source needs.
But subscribers whose scope has ended have left, also if they have not cancelled. Otherwise the run would never end.
"""

from __future__ import annotations

from functools import partial
from typing import Protocol
from weakref import ref

from rstreams._core.scheduler import current_scheduler
from rstreams._core.threads import get_ident, refuse_thread
from rstreams._events.table import STREAM_SUBSCRIBER_RAISED, STREAM_TASK_FAILED
from rstreams.abc import Cancellable, RunScheduler, Scheduler
from rstreams.errors import RStreamsError


class HasTasks(Protocol):
    """A run with tasks."""

    def task_failed(self, error: BaseException) -> bool:
        """End with an error that has left a task or a timer; return whether a subscriber has been told."""
        ...

    def leave_with(self, scope: Scheduler) -> None:
        """Take out all subscribers of a scope that ends."""
        ...


class RunTasks:
    """Where the tasks and timers of one shared run live.

    Attributes:
        scheduler: Their scheduler; None while nobody has subscribed in a scope.
    """

    __slots__ = ("_endings", "_last_scope", "_run", "_thread", "scheduler")

    def __init__(self, run: HasTasks) -> None:
        self._run = run
        self._endings: dict[Scheduler, Cancellable] = {}  # of the scopes of the subscribers
        self._last_scope: ref[Scheduler] | None = None  # of the subscriber that has left last
        self._thread = 0  # of the scheduler
        self.scheduler: RunScheduler | None = None

    def open(self) -> None:
        """Have a scheduler, if this is a scope: the one from before, unless its event loop has ended."""
        current = current_scheduler.get(None)
        if current is not None and (self.scheduler is None or self.scheduler.over):
            self.scheduler = current.for_run(self._failed)
            self._thread = get_ident()

    @property
    def lost(self) -> bool:
        """Whether the event loop of the tasks has ended."""
        return self.scheduler is not None and self.scheduler.over

    def refuse_other_threads(self, call: str) -> None:
        """Refuse a `call` in another thread than that of the event loop, as long as this has not ended."""
        if self.scheduler is not None and not self.scheduler.over and get_ident() != self._thread:
            refuse_thread(call, self._thread, "the shared run")

    def watch(self, scope: Scheduler | None) -> None:
        """Have the subscribers of `scope` leave when it ends."""
        if scope is not None and scope not in self._endings:
            self._endings[scope] = scope.at_end(partial(self._scope_ended, scope))

    def forget(self, scope: Scheduler | None) -> None:
        """Note that the last subscriber of `scope` has left."""
        self._last_scope = None if scope is None else ref(scope)
        if scope in self._endings:
            self._endings.pop(scope).cancel()

    def forget_all(self) -> None:
        """Note that no subscriber is left."""
        for scope in reversed(tuple(self._endings)):
            self.forget(scope)

    def a_scope(self) -> Scheduler | None:
        """Return the scope of a subscriber, or of the one that has left last."""
        last = None if self._last_scope is None else self._last_scope()
        return next(iter(self._endings), last)

    def end(self, last: Scheduler | None = None) -> None:
        """Cancel what is left; the scope of the subscriber that was there last waits for it."""
        if self.scheduler is not None:
            self.scheduler.end(self.a_scope() if last is None else last)

    def _scope_ended(self, scope: Scheduler) -> None:
        self._endings.pop(scope, None)
        self._run.leave_with(scope)

    def _failed(self, error: BaseException) -> None:
        """Tell the subscribers of an error; if there are none, or it is an interrupt, end a scope with it."""
        scope = self.a_scope()
        cancelled = not isinstance(error, (Exception, KeyboardInterrupt, SystemExit))
        try:
            heard = self._run.task_failed(
                RStreamsError("the tasks of a shared run were cancelled") if cancelled else error
            )
        except Exception as raised:  # a subscriber raised; nothing may leave a task of the run
            STREAM_SUBSCRIBER_RAISED.tell(raised=raised)
            return
        if not cancelled and not (heard and isinstance(error, Exception)):
            _end_scope(scope, error)


def _end_scope(scheduler: Scheduler | None, error: BaseException) -> None:
    try:
        if scheduler is not None:
            scheduler.start(partial(_raise, error))
            return
    except RuntimeError:
        pass  # the scope has ended
    STREAM_TASK_FAILED.tell(raised=error)


async def _raise(error: BaseException) -> None:
    raise error
