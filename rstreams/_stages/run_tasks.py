"""The tasks and timers of a run that several subscribers share: they belong to the run, and to no subscriber's scope.

A scope ends when one subscriber leaves it. The run goes on for the others; so must everything that its source needs.
But subscribers whose scope has ended have left, also if they have not cancelled. Otherwise the run would never end.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

from rstreams._core.scheduler import current_scheduler
from rstreams._core.threads import get_ident, refuse_thread
from rstreams.abc import Cancellable, RunScheduler, Scheduler
from rstreams.errors import RStreamsError

_logger = logging.getLogger("rstreams")


class RunTasks:
    """Where the tasks and timers of one shared run live.

    Args:
        failed: Called with an error that has left a task or a timer, to end the run with it. Returns whether a
            subscriber has been told.
        leave: Called with a scope that ends; all subscribers of that scope leave.
        a_scope: Returns the scope of a subscriber, or of the one that has left last.

    Attributes:
        scheduler: Their scheduler; None while nobody has subscribed in a scope.
    """

    __slots__ = ("_a_scope", "_end_run", "_endings", "_leave", "_thread", "scheduler")

    def __init__(
        self,
        failed: Callable[[BaseException], bool],
        leave: Callable[[Scheduler], None],
        a_scope: Callable[[], Scheduler | None],
    ) -> None:
        self._end_run = failed
        self._leave = leave
        self._a_scope = a_scope
        self._endings: dict[Scheduler, Cancellable] = {}  # of the scopes of the subscribers
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
            self._endings[scope] = scope.at_end(partial(self._leave, scope))

    def forget(self, scope: Scheduler | None) -> None:
        """Note that no subscriber of `scope` is left."""
        if scope in self._endings:
            self._endings.pop(scope).cancel()

    def forget_all(self) -> None:
        """Note that no subscriber is left."""
        while self._endings:
            self._endings.popitem()[1].cancel()

    def end(self, last: Scheduler | None) -> None:
        """Cancel what is left; the scope of the subscriber that was there last waits for it."""
        if self.scheduler is not None:
            self.scheduler.end(last)

    def _failed(self, error: BaseException) -> None:
        """Tell the subscribers of an error; if there are none, or it is an interrupt, end a scope with it."""
        scope = self._a_scope()
        cancelled = not isinstance(error, (Exception, KeyboardInterrupt, SystemExit))
        try:
            heard = self._end_run(RStreamsError("the tasks of a shared run were cancelled") if cancelled else error)
        except Exception:  # a subscriber raised; nothing may leave a task of the run
            _logger.exception("a subscriber of a shared stream raised at its end")
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
    _logger.error("a task of a shared stream failed when it had no subscribers", exc_info=error)


async def _raise(error: BaseException) -> None:
    raise error
