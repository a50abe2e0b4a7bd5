"""cast: items checked against a type."""

from __future__ import annotations

from typing import Any, TypeVar

from rstreams._checks.refusals import refuse_object
from rstreams.abc import Publisher
from rstreams.operators.map import map as map_

T = TypeVar("T")
R = TypeVar("R")


def cast(source: Publisher[T], kind: type[R]) -> Publisher[R]:
    """Emit the items of `source`, and fail with the first one that is not an instance of `kind`.

        --1--2--a-->
          cast(int)
        --1--2--X

    Args:
        source: The publisher of the items.
        kind: The class that all items must be instances of, directly or by inheritance.

    Demand: Passed up unchanged.
    Errors: `TypeError` at the call if `kind` is not a class. `TypeError` as `on_error` for an item of another class; it
        names the item and the class, and the item counts as failed.
    Cancels: The source, with such an item.
    Spec: Reactive Streams 2.13.

    Example:
        >>> await Stream.of(1, 2).cast(int).to_list()
        [1, 2]
    """
    if not isinstance(kind, type):
        refuse_object("cast", "kind", kind, "a class")

    def checked(item: Any) -> R:  # noqa: ANN401 - its type is checked here
        if not isinstance(item, kind):
            msg = f"cast({kind.__name__}): {item!r} is of type {type(item).__name__}"
            raise TypeError(msg)
        return item

    return map_(source, checked)
