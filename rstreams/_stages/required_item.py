"""An item that must exist: first, last, element_at and single fail without one."""

from __future__ import annotations

from typing import TypeVar

from rstreams._stages.stage import Lifted, Stage
from rstreams.abc import Publisher, Subscriber
from rstreams.errors import NoItem

T = TypeVar("T")


def required(source: Publisher[T], operator: str) -> Publisher[T]:
    """Fail with `NoItem`, which names `operator`, if `source` completes without an item."""
    return Lifted(source, lambda downstream: _RequiredItem(downstream, operator))


class _RequiredItem(Stage[T, T]):
    __slots__ = ("_asked_by", "_missing")

    operator = "required_item"
    only_reacts = True

    def __init__(self, downstream: Subscriber[T], asked_by: str) -> None:
        super().__init__(downstream)
        self._asked_by = asked_by
        self._missing = True

    def on_next(self, item: T) -> None:
        self._missing = False
        self._downstream.on_next(item)

    def on_complete(self) -> None:
        if self._missing:
            self._fail(NoItem(f"{self._asked_by}: the stream completed without such an item"))
        else:
            super().on_complete()
