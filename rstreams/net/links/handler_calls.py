"""The handler calls of `Connection.consume`: each delivery goes to the handler, and its end is the outcome."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from rstreams._checks.functions import refuse_unrun
from rstreams._stages.stage import Lifted
from rstreams.net.links.failures import DeadLetters, FailureName
from rstreams.net.links.manual_settlement import ByHandAlone
from rstreams.protocol.delivery import Delivery
from rstreams.stream import Stream

logger = logging.getLogger("rstreams.net")


class Handling:
    """One call of `consume`: its handler, and the deliveries that the handler has not begun with.

    Context: The task that awaits `of`, and those that `map_async` starts.
    """

    def __init__(
        self,
        handler: Callable[[Any], Awaitable[object]] | Callable[[Any], object],
        address: str,
        on_failure: FailureName | DeadLetters,
    ) -> None:
        """Handle deliveries from `address`, and go on after failures unless `on_failure` is "fail"."""
        self._handler = handler
        self._address = address
        self._on_failure = on_failure
        self._told = logging.WARNING  # the level of the first failure; those that follow are logged at DEBUG
        self._not_begun: dict[int, Delivery[Any]] = {}  # a task that is cancelled before its first step never runs

    async def of(self, deliveries: Stream[Delivery[Any]], concurrency: int) -> None:
        """Handle `deliveries`, `concurrency` at a time, until they end; release those not begun with."""
        noted = deliveries.do_on_next(lambda delivery: self._not_begun.setdefault(id(delivery), delivery))
        by_hand = Stream(Lifted(noted, ByHandAlone[Any]))
        try:
            await by_hand.map_async(self._handle, concurrency=concurrency, ordered=False).for_each(_nothing)
        finally:
            for delivery in self._not_begun.values():
                delivery.release()

    async def _handle(self, delivery: Delivery[Any]) -> None:
        self._not_begun.pop(id(delivery), None)
        try:
            result = self._handler(delivery.item)
            if inspect.isawaitable(result):
                result = await result
            if result is not None:
                refuse_unrun("consume", "handler", result)
        except Exception as error:
            delivery.fail(error)
            if self._on_failure == "fail":
                raise
            self._log(error)
        except BaseException:  # a cancellation: not a failure of the handler, but the work has begun
            delivery.modify()
            raise
        else:
            delivery.accept()

    def _log(self, error: Exception) -> None:
        text = "the handler of %r failed; on_failure=%r"
        logger.log(self._told, text, self._address, self._on_failure, exc_info=error)
        self._told = logging.DEBUG


def _nothing(_result: None) -> None:
    """The outcome has been told already."""
