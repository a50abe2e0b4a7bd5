"""All items folded into one result: shared by reduce and the aggregates.

Theory of operation. The first request asks the source for all it has; each item changes what the stage knows, and the
result is emitted when the source completes and there is demand. An operator that knows its result before, as `any` does
with the first item that passes, says so: the source is then cancelled.

Nothing is kept but the result, so an item is done as soon as it is folded in. With `ack="on_emit"` every item is held
until the result has been handled: that needs room for all of them, which a link with its window has not.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TypeVar

from rstreams._demand import UNBOUNDED
from rstreams._holds import NO_HOLD, SharedHold
from rstreams._subscription import ENDED
from rstreams.abc import Hold, Subscriber, Subscription
from rstreams.errors import ConfigError
from rstreams.operators._stage import Ack, KeepingStage

T = TypeVar("T")
R = TypeVar("R")


def require_ack(operator: str, ack: Ack) -> None:
    """Raise `ConfigError` unless `ack` is one of the two."""
    if ack not in {"on_receipt", "on_emit"}:
        msg = f"{operator}(ack={ack!r}): ack must be 'on_receipt' or 'on_emit'"
        raise ConfigError(msg)


class Folding(KeepingStage[T, R], ABC):
    """A stage that emits one result; the operator says what an item does to it."""

    __slots__ = ("_asked", "_holds", "_keeps", "_known", "_operator")

    def __init__(self, downstream: Subscriber[R], operator: str, ack: Ack = "on_receipt") -> None:
        super().__init__(downstream)
        self._operator = operator
        self._keeps = ack == "on_emit"
        self._asked = False
        self._known = False  # there is nothing more to come that could change the result
        self._holds: list[Hold] = []

    only_reacts = True

    # the operator writes these

    @abstractmethod
    def _fold(self, item: T) -> bool:
        """Fold an item in, and tell whether the result is known now; what it raises fails the item."""

    @abstractmethod
    def _result(self) -> R:
        """Return the result; what it raises fails the stream."""

    # and this is the rest

    def on_subscribe(self, subscription: Subscription) -> None:
        if not self._keeps or self._has_window(subscription, UNBOUNDED, f"{self._operator}(ack='on_emit')"):
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
        if self._keeps:
            hold = self._upstream.hold()
            if hold is not NO_HOLD:
                self._holds.append(hold)
        if known:
            upstream, self._upstream = self._upstream, ENDED
            self._known = True
            upstream.cancel()
            self._emit_result()

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
            self._fail(error)  # which needs no demand
            return
        if self._asked:
            holds, self._holds = self._holds, []
            self._emit(result, SharedHold(holds) if holds else NO_HOLD)
            super().on_complete()

    def _kept_items(self) -> int:
        return len(self._holds)

    def _let_go(self) -> None:
        holds, self._holds = self._holds, []
        for hold in holds:
            hold.release()
