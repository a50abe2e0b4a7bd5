"""Each item replaced by the result of a function: the work of `map`, and groups and windows shown as streams."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from rstreams._stages.fusion import Step, Work
from rstreams._stages.steps import StepStage, with_step
from rstreams.abc import Publisher

T = TypeVar("T")
R = TypeVar("R")

MAP: Final = Work("map", "item = {function}(item)")


def shown_as(parts: Publisher[T], show: Callable[[T], R]) -> Publisher[R]:
    """Emit `show(part)` for each group or window; `show` keeps no part and subscribes to none."""
    return with_step(parts, Step(MAP, show), _Shown)


class _Shown(StepStage[T, R]):
    __slots__ = ()
