"""All items folded into one result: shared by reduce and the aggregates.

Theory of operation. The first request asks the source for all items. Each item changes the state of the stage. The
result is emitted when the source has completed and there is demand. Some operators know their result before: `any`
knows it with the first item that passes. They say so, and the source is cancelled.

The stage keeps only the result and the claims on the items (see `_core.claims_in_order`). An item is done when the
result has been handled.

    ack="within_window"   the claims are loose: a link whose window is full of them accepts the oldest
    ack="on_result"       the claims are firm: a link whose window has no room for all items is refused
    ack="on_receipt"      there are no claims: an item is done as soon as it is folded in
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TypeVar

from rstreams._core.claims import NO_HOLD, claims_on
from rstreams._core.claims_in_order import ClaimsInOrder, gather
from rstreams._core.demand import UNBOUNDED
from rstreams._core.subscription import ENDED
from rstreams._stages.stage import GatherAck, KeepingStage, cannot_hold_all
from rstreams.abc import Hold, Subscriber, Subscription

T = TypeVar("T")
R = TypeVar("R")


class Folding(KeepingStage[T, R], ABC):
    """A stage that emits one result; the operator folds the items into it."""

    __slots__ = ("_ack", "_asked", "_gathering", "_known", "_operator")

    def __init__(self, downstream: Subscriber[R], operator: str, ack: GatherAck = "within_window") -> None:
        super().__init__(downstream)
        self._operator = operator
        self._ack = ack
        self._asked = False
        self._known = False  # no further item can change the result
        self._gathering: ClaimsInOrder | None = None  # the claims on the items, if they need any

    only_reacts = True
    keeps_unfinished = True

    # the operator writes these

    @abstractmethod
    def _fold(self, item: T) -> bool:
        """Fold an item into the result, and tell whether the result is known now; an exception fails the item."""

    @abstractmethod
    def _result(self) -> R:
        """Return the result; an exception fails the stream."""

    # the rest of the stage

    def on_subscribe(self, subscription: Subscription) -> None:
        insists = self._ack == "on_result"
        error = cannot_hold_all(subscription, f"{self._operator}(ack='on_result')") if insists else None
        if not self._accepts_source(subscription, error):
            return
        if self._ack != "on_receipt" and self._upstream is ENDED and not self._ended:
            self._gathering = gather(subscription, loose=not insists)
        super().on_subscribe(subscription)

    def on_next(self, item: T) -> None:
        if self._ended or self._known:
            return
        try:
            known = self._fold(item)
        except Exception as error:
            self._fail_item(error)
            return
        if self._ended:  # the user's function may have cancelled
            return
        if self._gathering is not None:
            self._gathering.keep()
        if known:
            upstream, self._upstream = self._upstream, ENDED
            self._known = True
            upstream.cancel()
            self._emit_result()

    def on_error(self, error: BaseException) -> None:
        if not self._known:  # a result that is known waits for demand, whatever a cancelled source still sends
            super().on_error(error)

    def on_complete(self) -> None:
        if not self._known:
            self._upstream = ENDED  # 2.3, 2.4
            self._known = True
            self._emit_result()

    def request(self, n: int) -> None:
        if not self._accepts(n) or self._asked:
            return
        self._asked = True
        if self._known:
            self._emit_result()
        else:
            self._upstream.request(UNBOUNDED)

    def hold(self) -> Hold:
        return NO_HOLD if self._emitting is None else self._emitting.hold()

    @property
    def label(self) -> str:
        """The operator's name."""
        return self._operator

    @property
    def window(self) -> int:
        return UNBOUNDED

    def _emit_result(self) -> None:
        if self._ended:
            return
        try:
            result = self._result()
        except Exception as error:
            self._fail(error)  # an error needs no demand
            return
        if self._asked:
            gathering, self._gathering = self._gathering, None
            self._emit(result, NO_HOLD if gathering is None else claims_on(gathering))
            super().on_complete()

    def _kept_items(self) -> int:
        return 0 if self._gathering is None else len(self._gathering)

    def _let_go(self) -> None:
        gathering, self._gathering = self._gathering, None
        if gathering is not None:
            gathering.release()
