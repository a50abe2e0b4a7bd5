"""The store of a node calls back in the node's trio run."""

from __future__ import annotations

from contextvars import ContextVar
from pathlib import Path

import pytest
import trio
import trio.testing

from rstreams.errors import StoreError
from rstreams.node.storage import Storage

_place: ContextVar[str] = ContextVar("_place", default="nowhere")


async def test_it_calls_back_in_the_context_of_its_task(tmp_path: Path) -> None:
    storage = Storage(tmp_path / "store")
    partition = storage.require("durable=True").partition("items")
    places: list[str] = []
    through = trio.Event()

    def done(error: StoreError | None) -> None:
        assert error is None
        places.append(_place.get())
        through.set()

    async with trio.open_nursery() as nursery:
        token = _place.set("the node")
        nursery.start_soon(storage.run)
        _place.reset(token)
        partition.append([b"1"], done)
        await through.wait()
        nursery.cancel_scope.cancel()
    await storage.close()
    assert places == ["the node"]


async def test_what_a_call_raises_ends_its_task(tmp_path: Path) -> None:
    storage = Storage(tmp_path / "store")
    partition = storage.require("durable=True").partition("items")

    def fail(error: StoreError | None) -> None:
        assert error is None
        msg = "by an address"
        raise ValueError(msg)

    partition.append([b"1"], fail)
    with pytest.raises(ValueError, match="by an address"):
        await storage.run()
    await storage.close()


async def test_nothing_is_called_back_between_the_end_of_its_task_and_its_close(tmp_path: Path) -> None:
    storage = Storage(tmp_path / "store")
    partition = storage.require("durable=True").partition("items")
    called: list[int] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(storage.run)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    partition.append([b"1"], lambda _error: called.append(1))
    storage.require("durable=True").flush()
    await trio.testing.wait_all_tasks_blocked()
    assert not called
    await storage.close()
    assert called == [1]
