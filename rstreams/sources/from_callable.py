"""from_callable: the one result of a function."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, overload

from rstreams._checks.functions import is_to_be_awaited, require_function
from rstreams._core.scheduler import bound_scheduler, current_scheduler
from rstreams._core.subscription import ENDED
from rstreams._stages.stage import Lifted, Stage
from rstreams.abc import Cancellable, Publisher, Scheduler, Subscriber
from rstreams.sources.of import of

T = TypeVar("T")


@overload
def from_callable(function: Callable[[], Awaitable[T]]) -> Publisher[T]: ...
@overload
def from_callable(function: Callable[[], T]) -> Publisher[T]: ...
def from_callable(function: Callable[[], Any]) -> Publisher[Any]:
    """Call `function` for each subscriber when it requests, emit the result, and complete.

        from_callable(now)
        --7|

    Args:
        function: Takes no arguments, and must not block. If it is async, or returns another awaitable, the awaitable is
            awaited in a task of its own.

    Demand: The first request calls it.
    Errors: An error of `function` ends the stream with that very exception; an awaitable without a scheduler is a
        `ConfigError`. `TypeError` at the call if `function` cannot be called.
    Cancels: The call of an async function.
    Context: `function` is called inside the call of `request`.
    Spec: Reactive Streams 1.1, 1.5.

    Example:
        >>> await Stream.from_callable(lambda: 7).to_list()
        [7]
        >>> async def answer():
        ...     await asyncio.sleep(60)
        ...     return 42
        >>> await Stream.from_callable(answer).to_list()
        [42]
    """
    require_function("from_callable", "function", function)
    return Lifted(of(None), lambda downstream: _Called(downstream, function, current_scheduler.get(None)))


class _Called(Stage[None, T]):
    """Calls the function when the one item comes, and awaits the result if it is awaitable."""

    __slots__ = ("_awaited", "_function", "_scheduler", "_task")

    operator = "from_callable"

    def __init__(
        self, downstream: Subscriber[T], function: Callable[[], Awaitable[T] | T], scheduler: Scheduler | None
    ) -> None:
        super().__init__(downstream)
        self._function = function
        self._scheduler = scheduler
        self._awaited: Awaitable[T] | None = None
        self._task: Cancellable = ENDED

    def on_next(self, item: None) -> None:
        del item
        if self._ended:
            return
        try:
            made: Any = self._function()
            if is_to_be_awaited(made):
                self._awaited = made
                if self._ended:  # the function has cancelled
                    self._let_go()
                    return
                scheduler = self._scheduler or bound_scheduler("from_callable")
                self._withheld = 1
                self._task = scheduler.start(self._wait)
                return
        except Exception as error:
            self._fail_item(error)
            return
        if not self._ended:
            self._downstream.on_next(made)

    def on_complete(self) -> None:
        if not self._withheld:
            super().on_complete()

    async def _wait(self) -> None:
        awaited, self._awaited = self._awaited, None
        if awaited is None:
            return  # cancelled before it began
        try:
            result = await awaited
        except Exception as error:
            self._fail(error)
            return
        except GeneratorExit:  # the garbage collector throws this away, perhaps in another thread
            raise
        except BaseException:  # the scope ends, and with it the subscription
            self.cancel()
            raise
        self._withheld = 0
        if not self._ended:
            try:
                self._downstream.on_next(result)
            except BaseException:
                self.cancel()  # 2.13: a subscriber that raises counts as having cancelled
                raise
        super().on_complete()

    def _let_go(self) -> None:
        awaited, self._awaited = self._awaited, None
        if inspect.iscoroutine(awaited):
            awaited.close()  # it never began: Python would warn of it
        self._task.cancel()
