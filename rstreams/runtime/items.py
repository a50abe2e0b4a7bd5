"""The items of an open stream for `async for`, given out from a batch.

With Python 3.11 `_items.c` does it, without a coroutine for each item: the loop then takes 55 ns for an item and not
130 ns. From Python 3.12 on, `await` needs an exception of each awaitable in C, and a coroutine is faster.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, Generic, Self, TypeVar

from rstreams._codec.c_modules import load
from rstreams.sinks.buffer_sink import BufferSink

T = TypeVar("T")

_INTERFACE: Final = 1  # of `_items.c`


class ItemsInPython(ABC, Generic[T]):
    """The base of open items: it gives out the items of a batch, and asks for the next batch behind them."""

    __slots__ = ("_batch", "_sink")

    _batch: Iterator[T]
    _sink: BufferSink[T]  # is told when an item is given out, if it wants that

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        for item in self._batch:
            if self._sink.untold:
                self._sink.tell()
            return item
        return await self._first_of_next_batch()

    @abstractmethod
    async def _first_of_next_batch(self) -> T:
        """Return the first item of the next batch, and keep the others in `_batch`."""


if TYPE_CHECKING or sys.version_info >= (3, 12):
    Items = ItemsInPython
else:

    class Items(load("_items", _INTERFACE, "rstreams.runtime").Items, Generic[T]):
        """The base of open items, in C."""

        __slots__ = ()
