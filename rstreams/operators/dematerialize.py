"""dematerialize: items that describe signals, turned back into signals."""

from __future__ import annotations

from typing import TypeVar

from rstreams._stages.stage import Lifted, Stage
from rstreams.abc import Publisher
from rstreams.notifications import Completed, Failed, Next, Notification

R = TypeVar("R")


def dematerialize(source: Publisher[Notification[R]]) -> Publisher[R]:
    """Turn the items of `source`, which describe signals, into those signals: the inverse of `materialize`.

        --1--2--X   the last item is Failed(error)
         dematerialize
        --1--2--X

    Args:
        source: The publisher of the items: `Next(item)`, `Failed(error)` or `Completed()`.

    Demand: Passed up unchanged.
    Errors: The error in a `Failed`. An item of any other kind ends the stream with a `TypeError`, and counts as failed.
    Cancels: The source, with the item that describes the end.
    Spec: Reactive Streams 1.4, 1.5.

    Example:
        >>> await Stream.of(1, 2).materialize().dematerialize().to_list()
        [1, 2]
    """
    return Lifted(source, _Dematerialize[R])


class _Dematerialize(Stage[Notification[R], R]):
    __slots__ = ()

    operator = "dematerialize"
    only_reacts = True

    def on_next(self, item: Notification[R]) -> None:
        if self._ended:
            return
        if isinstance(item, Next):
            self._downstream.on_next(item.item)
        elif isinstance(item, Failed):
            self._fail(item.kept.again())
        elif isinstance(item, Completed):
            self._complete()
        else:
            msg = f"dematerialize(): items must be Next, Failed or Completed, not {item!r:.80}"
            self._fail_item(TypeError(msg))
