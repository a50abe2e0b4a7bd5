"""The tasks and threads in which handlers of an owner are at work: none of them can wait for the end of all."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import trio

from rstreams.runtime.scope import in_asyncio


class AtWork:
    """The tasks and threads in which handlers of one owner are at work; `Thread.join` knows its own thread likewise.

    Args:
        also: Those of a larger owner, which has this one's handlers, too.

    Attributes:
        workers: The tasks and threads.

    Context: Any thread.
    """

    __slots__ = ("_also", "workers")

    def __init__(self, also: AtWork | None = None) -> None:
        self._also = also
        self.workers: set[object] = set()

    @contextmanager
    def here(self) -> Iterator[None]:
        """Be at work in this task, or in this thread if there is no task, during the block."""
        worker = _this_worker()
        owners = [self] if self._also is None else [self, self._also]
        for owner in owners:
            owner.workers.add(worker)
        try:
            yield
        finally:
            for owner in owners:
                owner.workers.discard(worker)

    def refuse(self, call: str, whose: str) -> None:
        """Raise `RuntimeError` if this is one of the tasks or threads.

        Args:
            call: The call that would wait, as the user wrote it.
            whose: The owner of the handlers.
        """
        if self.workers and _this_worker() in self.workers:
            _refuse(call, whose)


def _refuse(call: str, whose: str) -> NoReturn:
    msg = (
        f"{call} would wait for itself: a handler of {whose} calls it, and it waits until that handler has returned; "
        "let the handler set an event, and make this call in another task or thread, which waits for the event"
    )
    raise RuntimeError(msg)


def _this_worker() -> object:
    if trio.lowlevel.in_trio_task():
        return trio.lowlevel.current_task()
    if in_asyncio():
        asyncio: Any = sys.modules["asyncio"]
        return asyncio.current_task()
    return threading.get_ident()
