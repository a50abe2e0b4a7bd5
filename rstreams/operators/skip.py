"""skip: all items except the first `count`."""

from __future__ import annotations

from abc import ABC
from typing import Final, TypeVar

from rstreams._checks.numbers import require_count
from rstreams._core.demand import add_demand
from rstreams._stages.fusion import Step, Work
from rstreams._stages.steps import DroppingStep, with_step
from rstreams.abc import Publisher

T = TypeVar("T")


def skip(source: Publisher[T], count: int) -> Publisher[T]:
    """Drop the first `count` items of `source` and emit the rest.

        --1--2--3--4--5-->
             skip(3)
        -----------4--5-->

    Args:
        source: The publisher of the items.
        count: The number of items to drop.

    Demand: Passed up unchanged, plus `count` with the first request: the items to drop are requested at once. A dropped
        item is done.
    Errors: `ConfigError` at the call if `count` is negative; errors of the source pass through.
    Cancels: Nothing by itself.
    Spec: Reactive Streams 1.1, 3.8, 3.17.

    Example:
        >>> await Stream.range(5).skip(3).to_list()
        [3, 4]
    """
    require_count("skip", "count", count, 0)
    return with_step(source, Step(_WORK, state=count), _Skip)


_WORK: Final = Work("skip", drops="{state}", when_dropping="{state} -= 1")


class _Skip(DroppingStep[T], ABC):
    __slots__ = ()

    operator = _WORK.operator

    _state: int  # items still to be dropped

    def request(self, n: int) -> None:
        if not self._accepts(n):
            return
        asked_before = self._requested > n
        self._upstream.request(n if asked_before else add_demand(n, self._state))

    def _drop(self) -> None:
        self._withheld += 1  # the first request has asked for its replacement already
