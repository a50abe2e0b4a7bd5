"""A stage that drops some of its items, and asks for another one for each of them: shared by the filters."""

from __future__ import annotations

from typing import TypeVar

from rstreams._core.demand import UNBOUNDED
from rstreams._stages.stage import Stage
from rstreams.abc import Subscriber

T = TypeVar("T")


class Dropping(Stage[T, T]):
    """A stage that passes items on or drops them; an item that is not held is done when `on_next` returns."""

    __slots__ = ("_unbounded",)

    def __init__(self, downstream: Subscriber[T]) -> None:
        super().__init__(downstream)
        self._unbounded = False

    def request(self, n: int) -> None:
        if not self._accepts(n):
            return
        if n >= UNBOUNDED:
            self._unbounded = True  # no replacements are needed any more
        self._upstream.request(n)

    def _drop(self) -> None:
        """Ask for an item to replace the one in `on_next`."""
        self._withheld += 1
        if not self._unbounded:
            self._upstream.request(1)
