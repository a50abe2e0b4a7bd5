"""take_until: items until another stream emits one."""

from __future__ import annotations

from typing import TypeVar

from rstreams._checks.publishers import require_publisher
from rstreams._stages.side_stream import Beside
from rstreams._stages.stage import Joined
from rstreams.abc import Publisher

T = TypeVar("T")
R = TypeVar("R")


def take_until(source: Publisher[T], boundary: Publisher[R]) -> Publisher[T]:
    """Emit the items of `source` until `boundary` emits an item, then complete.

        --1--2--3--4--5-->
        -----------x------
            take_until
        --1--2--3--|

    A boundary that has its item ready, such as `Stream.of(0)`, ends the stream before the first item, as in Reactor. In
    reactivex the items of a source that has them ready come first.

    Args:
        source: The publisher of the items.
        boundary: Subscribed to before the source. Its first item ends the stream. If it completes without an item, it
            has no effect.

    Demand: Passed up unchanged; `boundary` is asked for all its items.
    Errors: `TypeError` at the call if `boundary` is not a publisher. Errors of both pass through.
    Cancels: The source, with the first item of `boundary`; and `boundary`, at every end.
    Spec: Reactive Streams 3.13.

    Example:
        >>> await Stream.interval(1.0).take_until(Stream.timer(3.5)).to_list()
        [0, 1, 2]
    """
    require_publisher("take_until", "boundary", boundary)
    return Joined(lambda downstream: _TakeUntil[T](downstream).start(source, boundary))


class _TakeUntil(Beside[T]):
    __slots__ = ()

    operator = "take_until"

    def on_next(self, item: T) -> None:
        if not self._ended:
            self._pass_on(item)

    def _first_item(self) -> None:
        self._boundary.stop()
        self._when_free(self._complete)
