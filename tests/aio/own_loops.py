"""A loop of asyncio in a thread of its own, a node and a connection in it, and what they must not leave behind."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import rstreams.aio
from rstreams.aio import Node, connect
from rstreams.aio import _guest as guests
from tests.garbage import only_new_objects
from tests.loops import in_thread

FILES = Path("/proc/self/fd")


@asynccontextmanager
async def connected(**options: Any) -> AsyncIterator[tuple[Node, rstreams.aio.Connection]]:  # noqa: ANN401 - those of `Node`
    async with Node(**options) as node:
        listener = await node.listen("127.0.0.1:0")
        async with connect(listener.url) as connection:
            yield node, connection


def run(main: Callable[[], Any], **options: Any) -> None:  # noqa: ANN401 - those of `asyncio.Runner`
    def go() -> None:
        with asyncio.Runner(**options) as runner:
            runner.run(main())

    in_thread(go)


@contextmanager
def nothing_left() -> Iterator[None]:
    """Fail for a thread, file or guest run that was not there before."""
    threads, files = set(threading.enumerate()), len(list(FILES.iterdir()))
    with only_new_objects():
        yield
        gc.collect()
    assert set(threading.enumerate()) <= threads  # threads of other tests may end
    assert len(list(FILES.iterdir())) <= files
    assert not guests._guests
