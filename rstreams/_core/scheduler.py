"""The scheduler of the current scope, for stages that need time or tasks.

A scope (`Stream.open`, `rstreams.connect`, `rstreams.Node`) sets the variable. A stage reads it once, when it is
subscribed, and keeps the scheduler for the life of the subscription. A stage that subscribes to further streams later
does so by `call_in`: its calls may come from any task, but its inner streams belong where the stage itself belongs.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import TypeVar

from rstreams.abc import Scheduler
from rstreams.errors import ConfigError

R = TypeVar("R")
T = TypeVar("T")

current_scheduler: ContextVar[Scheduler] = ContextVar("rstreams_scheduler")


def bound_scheduler(stage: str) -> Scheduler:
    """Return the scheduler of the scope that is subscribing `stage`.

    Errors: `ConfigError` naming the stage if no scope is open, for the caller to pass to `on_error`.
    """
    scheduler = current_scheduler.get(None)
    if scheduler is None:
        msg = (
            f"{stage} needs a scheduler and found none: be inside `async with rstreams.Scope()`, `stream.open()`, "
            "a terminal such as `await stream.to_list()`, `rstreams.connect(...)` or `rstreams.Node()`"
        )
        raise ConfigError(msg)
    return scheduler


def call_in(scheduler: Scheduler | None, function: Callable[[T], R], argument: T) -> R:
    """Call `function`; what it subscribes to finds `scheduler`. None: it finds the scheduler of the caller."""
    if scheduler is None or current_scheduler.get(None) is scheduler:
        return function(argument)
    token = current_scheduler.set(scheduler)
    try:
        return function(argument)
    finally:
        current_scheduler.reset(token)
