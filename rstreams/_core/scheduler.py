"""The scheduler of the current scope, for stages that need time or tasks.

A scope (`Stream.open`, `rstreams.connect`, `rstreams.Node`) sets the variable. A stage reads it once, when it is
subscribed, and keeps the scheduler for the life of the subscription.
"""

from __future__ import annotations

from contextvars import ContextVar

from rstreams.abc import Scheduler
from rstreams.errors import ConfigError

current_scheduler: ContextVar[Scheduler] = ContextVar("rstreams_scheduler")


def bound_scheduler(stage: str) -> Scheduler:
    """Return the scheduler of the scope that is subscribing `stage`.

    Errors: `ConfigError` naming the stage if no scope is open, for the caller to pass to `on_error`.
    """
    scheduler = current_scheduler.get(None)
    if scheduler is None:
        msg = (
            f"{stage} needs a scheduler and found none: subscribe inside `async with rstreams.Scope()`, "
            "`stream.open()`, a terminal such as `await stream.to_list()`, `rstreams.connect(...)` or `rstreams.Node()`"
        )
        raise ConfigError(msg)
    return scheduler
