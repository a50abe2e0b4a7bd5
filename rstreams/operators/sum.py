"""sum: the sum of all items."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

from rstreams.abc import Publisher
from rstreams.operators.reduce import reduce

S_co = TypeVar("S_co", covariant=True)
R = TypeVar("R")


class Summable(Protocol[S_co]):
    """A type whose values can be added to 0 and to each other."""

    def __add__(self, other: Any, /) -> Any:  # noqa: ANN401 - as in `sum`
        """Return the sum."""
        ...

    def __radd__(self, other: int, /) -> S_co:
        """Return the sum with 0."""
        ...


def sum(source: Publisher[Summable[R]]) -> Publisher[R | int]:  # noqa: A001 - the field's name
    """Add the items of `source`, and emit the sum at the end; without items it is 0.

        --1--2--3--|
            sum
        -----------6|

    Args:
        source: The publisher of the numbers.

    Demand: The first request asks the source for all items (`UNBOUNDED`).
    Holds: Every item is held until the result has been handled, and shares its outcome. Behind a link, only as many
        items are held as its window has room for; see `reduce`.
    Errors: An exception that the addition raises ends the stream unchanged; the item counts as failed. After an error
        no sum is emitted.
    Cancels: The source, when the addition raises.
    Spec: Reactive Streams 1.1, 2.13.

    Example:
        >>> await Stream.of(1, 2, 3).sum().to_list()
        [6]
    """
    return reduce(source, _add, 0)


def _add(total: Any, item: Any) -> Any:  # noqa: ANN401 - as in `sum`
    return total + item
