"""The store of a node calls back in the node's trio run."""

from __future__ import annotations

from contextvars import ContextVar
from pathlib import Path

import pytest
import trio
import trio.testing

from rstreams.errors import StoreError
from rstreams.node.node_store import NodeStore

_place: ContextVar[str] = ContextVar("_place", default="nowhere")


async def test_it_calls_back_in_the_context_of_its_task(tmp_path: Path) -> None:
    store = NodeStore(tmp_path / "store")
    partition = store.require("durable=True").partition("items")
    places: list[str] = []
    through = trio.Event()

    def done(error: StoreError | None) -> None:
        assert error is None
        places.append(_place.get())
        through.set()

    async with trio.open_nursery() as nursery:
        token = _place.set("the node")
        nursery.start_soon(store.run)
        _place.reset(token)
        partition.append([b"1"], done)
        await through.wait()
        nursery.cancel_scope.cancel()
    await store.close()
    assert places == ["the node"]


async def test_what_a_call_raises_ends_its_task(tmp_path: Path) -> None:
    store = NodeStore(tmp_path / "store")
    partition = store.require("durable=True").partition("items")

    def fail(error: StoreError | None) -> None:
        assert error is None
        msg = "by an address"
        raise ValueError(msg)

    partition.append([b"1"], fail)
    with pytest.raises(ValueError, match="by an address"):
        await store.run()
    await store.close()


async def test_nothing_is_called_back_between_the_end_of_its_task_and_its_close(tmp_path: Path) -> None:
    store = NodeStore(tmp_path / "store")
    partition = store.require("durable=True").partition("items")
    called: list[int] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(store.run)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    partition.append([b"1"], lambda _error: called.append(1))
    store.require("durable=True").flush()
    await trio.testing.wait_all_tasks_blocked()
    assert not called
    await store.close()
    assert called == [1]
