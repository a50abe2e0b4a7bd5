"""enumerate: each item with its number."""

from __future__ import annotations

from typing import Any, TypeVar

from rstreams._checks.numbers import is_whole
from rstreams._checks.refusals import refuse_value
from rstreams.abc import Publisher
from rstreams.operators.scan import scan

T = TypeVar("T")


def enumerate(source: Publisher[T], start: int = 0) -> Publisher[tuple[int, T]]:  # noqa: A001 - the field's name
    """Emit a pair for each item of `source`: its number, then the item.

        --a--b--c-->
          enumerate
        --0a-1b-2c->

    Args:
        source: The publisher of the items.
        start: The number of the first item.

    Demand: Passed up unchanged: one item in, one pair out.
    Errors: `ConfigError` at the call if `start` is not a whole number; errors of the source pass through.
    Cancels: Nothing by itself.
    Spec: Reactive Streams 1.1.

    Example:
        >>> await Stream.of("a", "b").enumerate(start=1).to_list()
        [(1, 'a'), (2, 'b')]
    """
    if not is_whole(start):
        refuse_value("enumerate", "start", start, "a whole number")
    before: tuple[int, Any] = (start - 1, None)
    return scan(source, _next, before)


def _next(before: tuple[int, T], item: T) -> tuple[int, T]:
    return before[0] + 1, item
