"""A result that keeps its items gets more of them than the queue has places: a full queue asks for some of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import trio

import rstreams
from rstreams import Node, Stream

RESULTS: dict[str, Callable[[Stream[Any], int], Awaitable[Any]]] = {
    "to_list": lambda stream, n: stream.take(n).to_list(),
    "collect": lambda stream, n: stream.take(n).collect().first_or_none(),
}


@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize("capacity", [1, 2, 10])
@pytest.mark.parametrize("result", RESULTS)
async def test_a_result_of_more_items_than_the_queue_has_places(
    durable: bool,  # noqa: FBT001 - a case
    capacity: int,
    result: str,
    tmp_path: Path,
) -> None:
    count = capacity * 3
    async with Node(store=tmp_path / "s") as node:
        node.queue("a", capacity=capacity, durable=durable)
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url) as connection, trio.open_nursery() as nursery:
            nursery.start_soon(connection.publish, "a", Stream.range(count))
            with trio.fail_after(20):
                assert list(await RESULTS[result](connection.stream("a"), count)) == list(range(count))
