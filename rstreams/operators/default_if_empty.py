"""default_if_empty: an item in the place of an empty stream."""

from __future__ import annotations

from typing import TypeVar

from rstreams.abc import Publisher
from rstreams.operators.switch_if_empty import switch_if_empty
from rstreams.sources.of import of

T = TypeVar("T")
R = TypeVar("R")


def default_if_empty(source: Publisher[T], default: R) -> Publisher[T | R]:
    """Emit the items of `source`; if it completes without any, emit `default`.

        --------|
         default_if_empty(0)
        --------0|

    Args:
        source: The publisher of the items.
        default: The item to emit if there is none.

    Demand: Passed up unchanged; `default` waits for demand.
    Errors: Errors of the source pass through.
    Cancels: Nothing by itself.
    Spec: Reactive Streams 1.1.

    Example:
        >>> await Stream.range(10).filter(lambda x: x > 10).default_if_empty(0).to_list()
        [0]
    """
    return switch_if_empty(source, of(default))
