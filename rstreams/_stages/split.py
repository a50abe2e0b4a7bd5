"""The publisher of an operator that splits a stream: its source runs where no subscriber's scope ends it."""

from __future__ import annotations

from typing import Any, TypeVar, cast

from rstreams._core.scheduler import call_in
from rstreams._stages.splitter import Splitting
from rstreams._stages.stage import Lifted
from rstreams.abc import Subscriber

T = TypeVar("T")
P = TypeVar("P")


class InParts(Lifted[T, P]):
    """The publisher of the parts: each subscriber gets a stage of its own on top of the source."""

    __slots__ = ()

    def _subscribe(self, stage: Subscriber[T]) -> None:
        splitting = cast("Splitting[T, Any]", stage)
        call_in(splitting.scheduler, self._source.subscribe, stage)
