"""filter: only the items for which a predicate is true."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from rstreams._checks.functions import require_effect
from rstreams._stages.fusion import Step, Work
from rstreams._stages.steps import DroppingStep, with_step
from rstreams.abc import Publisher

T = TypeVar("T")


def filter(source: Publisher[T], predicate: Callable[[T], object]) -> Publisher[T]:  # noqa: A001 - the field's name
    """Emit each item of `source` for which `predicate(item)` is true.

        --1--2--3--4-->
          filter(even)
        -----2-----4-->

    Args:
        source: The publisher of the items.
        predicate: Called once for each item, in the task that delivers it; it must not block.

    Demand: Passed up unchanged, plus one for each dropped item: a subscriber that asked for n items gets n. A dropped
        item is done.
    Errors: An exception that `predicate` raises ends the stream unchanged; the item counts as failed.
    Cancels: The source, when `predicate` raises.
    Spec: Reactive Streams 1.1, 3.3 (the request for a replacement does not recurse), 3.17.

    Example:
        >>> await Stream.range(10).filter(lambda x: x % 3 == 0).to_list()
        [0, 3, 6, 9]
    """
    require_effect("filter", "predicate", predicate)
    return with_step(source, Step(_WORK, predicate), DroppingStep)


_WORK: Final = Work("filter", drops="not {function}(item)")
