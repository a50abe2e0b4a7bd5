"""log: every signal, written to a logger."""

from __future__ import annotations

import logging
from typing import TypeVar

from rstreams._checks.refusals import refuse_value
from rstreams._core.demand import UNBOUNDED
from rstreams._stages.stage import Lifted, Stage
from rstreams.abc import Publisher, Subscriber, Subscription

T = TypeVar("T")


def log(source: Publisher[T], name: str = "stream", *, level: int = 20) -> Publisher[T]:
    """Write every signal that passes, down and up, to the logger `rstreams.log`, one line for each.

        --1--2--|
         log("orders")
        --1--2--|   orders: on_subscribe, request(2), on_next(1), on_next(2), on_complete

    Args:
        source: The publisher of the items.
        name: The beginning of each line.
        level: The level of the lines, as in the module `logging`: 20 is `logging.INFO`. Errors are logged with their
            traceback. An item appears with its `repr`, therefore do not log secret items.

    Demand: Passed up unchanged, and logged.
    Errors: `ConfigError` at the call if `level` is not a number; errors of the source pass through, logged.
    Cancels: Nothing by itself.
    Spec: Reactive Streams 2.1-2.13 hold; nothing is added.

    Example:
        >>> await Stream.of(1, 2).log("orders").to_list()
        [1, 2]
    """
    if not isinstance(level, int) or isinstance(level, bool):
        refuse_value("log", "level", level, "a number, such as logging.INFO")
    return Lifted(source, lambda downstream: _Log(downstream, name, level))


_logger = logging.getLogger("rstreams.log")


class _Log(Stage[T, T]):
    __slots__ = ("_level", "_name")

    operator = "log"
    only_reacts = True

    def __init__(self, downstream: Subscriber[T], name: str, level: int) -> None:
        super().__init__(downstream)
        self._name = name
        self._level = level

    def on_subscribe(self, subscription: Subscription) -> None:
        self._log("on_subscribe")
        super().on_subscribe(subscription)

    def on_next(self, item: T) -> None:
        if not self._ended:
            _logger.log(self._level, "%s: on_next(%r)", self._name, item)
            self._downstream.on_next(item)

    def on_error(self, error: BaseException) -> None:
        if not self._ended:
            _logger.log(self._level, "%s: on_error(%r)", self._name, error, exc_info=error)
        super().on_error(error)

    def on_complete(self) -> None:
        if not self._ended:
            self._log("on_complete")
        super().on_complete()

    def request(self, n: int) -> None:
        if not self._ended:
            self._log(f"request({'unbounded' if isinstance(n, int) and n >= UNBOUNDED else n})")
        super().request(n)

    def cancel(self) -> None:
        if not self._ended:
            self._log("cancel")
        super().cancel()

    def _log(self, signal: str) -> None:
        _logger.log(self._level, "%s: %s", self._name, signal)
