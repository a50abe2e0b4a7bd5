"""do_on_next: a call for each item."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from rstreams._checks.functions import require_effect
from rstreams._stages.fusion import Step, Work
from rstreams._stages.steps import with_step
from rstreams.abc import Publisher

T = TypeVar("T")


def do_on_next(source: Publisher[T], function: Callable[[T], object]) -> Publisher[T]:
    """Call `function(item)` for each item of `source`, then emit the item unchanged.

        --1--2--3-->
        do_on_next(print)
        --1--2--3-->

    Args:
        source: The publisher of the items.
        function: Called once for each item, before it is emitted, in the task that delivers it; it must not block. Its
            result is ignored.

    Demand: Passed up unchanged: one item in, one item out.
    Errors: An exception that `function` raises ends the stream unchanged; the item counts as failed.
    Cancels: The source, when `function` raises.
    Spec: Reactive Streams 2.1, 2.13.

    Example:
        >>> await Stream.of(1, 2).do_on_next(print).to_list()
        1
        2
        [1, 2]
    """
    require_effect("do_on_next", "function", function, "use map_async, and return the item from it")
    return with_step(source, Step(_WORK, function))


_WORK: Final = Work("do_on_next", "{function}(item)")
