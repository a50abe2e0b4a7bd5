"""map: each item replaced by the result of a function."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from rstreams._checks.functions import require_plain
from rstreams._stages.fusion import Step
from rstreams._stages.map_step import MAP
from rstreams._stages.steps import with_step
from rstreams.abc import Publisher

T = TypeVar("T")
R = TypeVar("R")


def map(source: Publisher[T], function: Callable[[T], R]) -> Publisher[R]:  # noqa: A001 - the field's name
    """Emit `function(item)` for each item of `source`.

        --1--2--3-->
          map(x * 10)
        --10-20-30->

    Args:
        source: The publisher of the items.
        function: Called once for each item, in the task that delivers it; it must not block.

    Demand: Passed up unchanged: one item in, one item out.
    Errors: An exception that `function` raises ends the stream unchanged; the item counts as failed.
    Cancels: The source, when `function` raises.
    Spec: Reactive Streams 2.1, 2.13.

    Example:
        >>> await Stream.of(1, 2, 3).map(lambda x: x * 10).to_list()
        [10, 20, 30]
    """
    require_plain("map", "function", function, "use map_async")
    return with_step(source, Step(MAP, function))
