"""The sink behind terminals that call a function with each item."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from rstreams._checks.functions import refuse_unrun
from rstreams._core.run import Run
from rstreams.sinks.sink import Sink

T = TypeVar("T")


class ForEachSink(Sink[T]):
    """Calls a function with each item; an error of it fails the item and ends the subscription."""

    __slots__ = ("_function",)

    takes_all = True

    def __init__(self, on_change: Callable[[], None], function: Callable[[T], object]) -> None:
        super().__init__(on_change)
        self._function = function

    def on_next(self, item: T) -> None:
        """Receive an item and call the function with it."""
        if self.ended:
            return
        try:
            result = self._function(item)
            if result is not None:
                refuse_unrun("for_each", "function", result)
        except Exception as error:
            self._fail_item(error)
        else:
            self.outstanding -= 1
            if self.outstanding == self._top_up_at:
                self._on_change()

    def on_run(self, run: Run[T]) -> None:
        """Receive many items, and call the function with each."""
        function = self._function
        received = 0
        try:
            for item in run.items():
                try:
                    result = function(item)
                    if result is not None:
                        refuse_unrun("for_each", "function", result)
                except Exception as error:
                    self._fail_item(error)
                    break
                received += 1
                if self.ended:
                    break
        finally:
            self._received_run(received)
