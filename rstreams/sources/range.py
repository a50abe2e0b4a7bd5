"""range: whole numbers in even steps."""

from __future__ import annotations

import builtins
from functools import partial

from rstreams._checks.refusals import refuse_object, refuse_value
from rstreams._stages.emission import IteratorPublisher
from rstreams.abc import Publisher


def range(start: int, stop: int | None = None, step: int = 1) -> Publisher[int]:  # noqa: A001 - the field's name
    """Emit the numbers that Python's own `range` would give, then complete.

        range(1, 4)
        --1--2--3|

    Args:
        start: The first number; if it is the only argument, the numbers run from 0 up to it.
        stop: The first number not emitted.
        step: The number that is added each time; a negative one counts down.

    Demand: As many numbers as were requested; completes right behind the last one, without demand.
    Errors: `ConfigError` at the call if `step` is 0.
    Cancels: Nothing follows a cancel, also in the middle of a request.
    Context: Emits inside the call of `request`, in its task.
    Spec: Reactive Streams 1.1, 1.5, 3.3.

    Example:
        >>> await Stream.range(10, 0, -3).to_list()
        [10, 7, 4, 1]
    """
    for option, value in (("start", start), ("stop", 0 if stop is None else stop), ("step", step)):
        if not hasattr(value, "__index__"):
            refuse_object("range", option, value, "a whole number")
    if step == 0:
        refuse_value("range", "step", step, "a positive or negative whole number")
    numbers = builtins.range(start) if stop is None else builtins.range(start, stop, step)
    return IteratorPublisher(partial(iter, numbers))
