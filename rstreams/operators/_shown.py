"""The streams that a stream is made into, shown to users as `Stream`s: what group_by and the windows go through."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from rstreams.abc import Publisher
from rstreams.operators._stage import Lifted
from rstreams.operators.map import _Map

T = TypeVar("T")
R = TypeVar("R")


def shown_as(parts: Publisher[T], show: Callable[[T], R]) -> Publisher[R]:
    """Emit `show(part)` for each part: `map`, with a function of ours that keeps no part and subscribes to none."""
    return Lifted(parts, lambda downstream: _Shown(downstream, show))


class _Shown(_Map[T, R]):
    __slots__ = ()

    passes_unseen = True
