"""What a worker keeps from call to call: connections, readers and nodes, each in a task of its own, by name."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar

import trio

T = TypeVar("T")


class _Kept:
    """A context that is open until `leave`."""

    def __init__(self) -> None:
        self.value: Any = None
        self.leave = trio.Event()
        self.left = trio.Event()
        self.error: Exception | None = None


class KeptThings:
    """The part of a worker that opens and leaves contexts."""

    nursery: trio.Nursery

    def __init__(self) -> None:
        self._kept: dict[str, _Kept] = {}

    async def leave(self, name: str) -> None:
        """Leave a context that was opened, in order."""
        kept = self._kept.pop(name)
        kept.leave.set()
        await kept.left.wait()
        if kept.error is not None:
            raise kept.error

    async def _keep(self, name: str, context: AbstractAsyncContextManager[T]) -> T:
        """Enter a context in a task of its own, which leaves it later."""
        await self.nursery.start(self._hold, name, context)
        value: T = self._kept[name].value
        return value

    async def _hold(
        self, name: str, context: AbstractAsyncContextManager[Any], *, task_status: trio.TaskStatus[None]
    ) -> None:
        kept = _Kept()
        entered = False
        try:
            async with context as kept.value:
                entered = True
                self._kept[name] = kept
                task_status.started()
                await kept.leave.wait()
        except Exception as error:
            if not entered:
                raise
            kept.error = error
        finally:
            kept.left.set()

    def _get(self, name: str) -> Any:
        return self._kept[name].value
