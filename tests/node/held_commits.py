"""A node whose commits are held up, and its files as a kill would leave them behind an answer."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import trio

from rstreams import Node
from rstreams.store import Store
from tests.crash.shop import shop

HELD_S: Final = 0.05
"""How long a commit is held up: an answer that does not wait for it comes in this time."""


def store_of(node: Node) -> Store:
    store = node._store.store
    assert store is not None
    return store


@contextmanager
def held_up(store: Store) -> Iterator[threading.Event]:
    """Have commits wait for an event."""
    go_on, commit = threading.Event(), store._tables.commit

    def wait(*arguments: Any, **options: Any) -> Any:  # noqa: ANN401
        assert go_on.wait(30)
        return commit(*arguments, **options)

    store.flush()
    store._tables.commit = wait  # type: ignore[method-assign]
    try:
        yield go_on
    finally:
        go_on.set()


async def killed_behind_the_answer(folder: Path, node: Node, call: Callable[[], Awaitable[object]]) -> Node:
    """Make a call; when it is answered, take the files as a kill would leave them, and return a node with them."""
    answered = trio.Event()

    async def make() -> None:
        await call()
        shutil.copytree(folder, folder.with_name("killed"))
        answered.set()

    with held_up(store_of(node)) as go_on:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(make)
            with trio.move_on_after(HELD_S):
                await answered.wait()
            go_on.set()
    return shop(folder.with_name("killed"))
