"""on_error_return: an item in the place of an error."""

from __future__ import annotations

from typing import TypeVar

from rstreams._core.claims_in_order import ClaimsInOrder
from rstreams._core.sight import Counts
from rstreams._core.subscription import ENDED
from rstreams._stages.stage import Lifted, Stage
from rstreams.abc import Publisher, Subscriber

T = TypeVar("T")
R = TypeVar("R")


def on_error_return(source: Publisher[T], value: R) -> Publisher[T | R]:
    """Emit the items of `source`; if it fails, emit `value` and complete.

        --1--2--X
        on_error_return(0)
        --1--2--0|

    Args:
        source: The publisher of the items.
        value: Emitted in the place of any `Exception`.

    Demand: Passed up unchanged. `value` waits until there is demand that `source` has left unmet.
    Errors: An error that is not an `Exception` passes through; there are no others.
    Cancels: Nothing by itself.
    Spec: Reactive Streams 1.1, 1.4.

    Example:
        >>> await Stream.fail(LookupError("no such thing")).on_error_return(0).to_list()
        [0]
    """
    return Lifted(source, lambda downstream: _OnErrorReturn[T | R](downstream, value))


class _OnErrorReturn(Stage[T, T]):
    __slots__ = ("_due", "_received", "_returned", "_value")

    operator = "on_error_return"
    only_reacts = True

    def __init__(self, downstream: Subscriber[T], value: T) -> None:
        super().__init__(downstream)
        self._value = value
        self._received = 0
        self._due = False  # the source has failed, and the value waits for demand
        self._returned = False

    @property
    def failure(self) -> BaseException | None:
        """None: that of the source is handled here."""
        return None

    def on_next(self, item: T) -> None:
        if not self._ended:
            self._received += 1
            self._downstream.on_next(item)

    def on_error(self, error: BaseException) -> None:
        if self._ended or self._due or not isinstance(error, Exception):
            super().on_error(error)
            return
        self._upstream = ENDED
        self._due = True
        self._give()

    def request(self, n: int) -> None:
        if self._accepts(n):
            self._upstream.request(n)
            self._give()

    def gather(self, *, loose: bool) -> ClaimsInOrder | None:
        return ClaimsInOrder(self.hold, loose=loose)  # the last item is none of the source

    def counts(self) -> Counts:
        return Counts(self._requested, self._received)

    def _give(self) -> None:
        if self._due and self._requested > self._received and not self._ended:
            self._due = False
            self._received += 1
            self._downstream.on_next(self._value)
            self.on_complete()
