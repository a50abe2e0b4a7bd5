"""materialize: the signals of a stream as items."""

from __future__ import annotations

from typing import TypeVar

from rstreams._core.claims_in_order import ClaimsInOrder
from rstreams._core.demand import add_demand, take_demand
from rstreams._core.sight import Counts
from rstreams._core.subscription import ENDED
from rstreams._stages.stage import Lifted, Stage
from rstreams.abc import Publisher, Subscriber
from rstreams.notifications import Completed, Failed, Next, Notification

T = TypeVar("T")


def materialize(source: Publisher[T]) -> Publisher[Notification[T]]:
    """Emit every signal of `source` as an item: `Next(item)`, and at the end `Completed()` or `Failed(error)`.

        --1--2--X
         materialize
        --1--2--X|   the last item is Failed(error), then the stream completes

    Args:
        source: The publisher of the signals.

    Demand: Passed up unchanged. The last item, which describes the end, waits for demand like any other.
    None: an error of the source becomes an item. Only a request that breaks rule 3.9 is still an error.
    Cancels: Nothing by itself.
    Spec: Reactive Streams 1.1, 1.5.

    Example:
        >>> await Stream.of(1).materialize().to_list()
        [Next(item=1), Completed()]
    """
    return Lifted(source, _Materialize[T])


class _Materialize(Stage[T, Notification[T]]):
    __slots__ = ("_demand", "_end", "_sent")

    operator = "materialize"
    only_reacts = True

    def __init__(self, downstream: Subscriber[Notification[T]]) -> None:
        super().__init__(downstream)
        self._demand = 0
        self._sent = 0
        self._end: Failed | Completed | None = None

    @property
    def failure(self) -> BaseException | None:
        """None: that of the source is handled here."""
        return None

    def on_next(self, item: T) -> None:
        if self._ended:
            return
        self._demand = take_demand(self._demand, 1)
        self._sent += 1
        self._downstream.on_next(Next(item))

    def on_error(self, error: BaseException) -> None:
        self._finish(Failed(error))

    def on_complete(self) -> None:
        self._finish(Completed())

    def request(self, n: int) -> None:
        if self._accepts(n):
            self._demand = add_demand(self._demand, n)
            self._upstream.request(n)
            self._emit_end()

    def gather(self, *, loose: bool) -> ClaimsInOrder | None:
        return ClaimsInOrder(self.hold, loose=loose)  # the last item is none of the source

    def counts(self) -> Counts:
        return Counts(self._requested, self._sent)

    def _finish(self, end: Failed | Completed) -> None:
        if self._upstream is not ENDED:
            self._upstream = ENDED  # 2.3, 2.4
            self._end = end
            self._emit_end()

    def _emit_end(self) -> None:
        if self._end is None or not self._demand or self._ended:
            return
        end, self._end = self._end, None  # only once: the subscriber may request again while it gets it
        self._sent += 1
        self._downstream.on_next(end)
        super().on_complete()
