"""What `rstreams.aio` says in trio, what `rstreams` says in asyncio, and what both say outside of a loop."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio

import rstreams
import rstreams.aio
from rstreams.aio import Node, Scope, Stream, connect
from tests.aio.own_loops import connected, run

Main = Callable[[], Awaitable[object]]

OPENINGS: dict[str, Callable[[], Main]] = {
    "to_list": lambda: Stream.of(1).to_list,
    "first_or_none": lambda: Stream.of(1).first_or_none,
    "for_each": lambda: lambda: Stream.of(1).for_each(print),
    "open": lambda: lambda: enter(Stream.of(1).open()),
    "Scope": lambda: lambda: enter(Scope()),
    "connect": lambda: lambda: enter(connect("amqp://127.0.0.1:1")),
    "Node": lambda: lambda: enter(Node()),
}


async def enter(manager: Any) -> None:  # noqa: ANN401 - any of them
    async with manager:
        pass


@pytest.mark.parametrize("opening", OPENINGS.values(), ids=OPENINGS.keys())
def test_inside_trio_it_says_what_to_import(opening: Callable[[], Main]) -> None:
    with pytest.raises(
        RuntimeError, match=r"^rstreams\.aio runs in asyncio, and this is a task of trio: use `import rst"
    ):
        trio.run(opening())


def test_outside_of_both_it_says_how_to_begin() -> None:
    coroutine = Stream.of(1).to_list()
    with pytest.raises(RuntimeError, match=r"begin with `asyncio\.run\(main\(\)\)`"):
        coroutine.send(None)


def test_trios_names_inside_asyncio_also_beside_a_connection() -> None:
    async def main() -> None:
        async with connected() as (_, connection):
            with pytest.raises(RuntimeError, match=r"this is a task of asyncio: use rstreams\.aio"):
                await rstreams.Stream.of(1).to_list()
            with pytest.raises(RuntimeError, match=r"this is a task of asyncio: use rstreams\.aio"):
                await enter(rstreams.connect("amqp://127.0.0.1:1"))
            assert await Stream(rstreams.Stream.of(1)).to_list() == [1]
            with pytest.raises(TypeError, match="entered, not awaited"):
                await connect("amqp://127.0.0.1:1")  # type: ignore[misc]
            with pytest.raises(TypeError, match="unexpected"):
                connection.stream("a", windw=3)  # type: ignore[call-overload]

    run(main)


def test_the_names_of_the_root_are_there() -> None:
    assert set(rstreams.__all__) <= set(rstreams.aio.__all__)
    assert logging.getLogger("rstreams.aio")
