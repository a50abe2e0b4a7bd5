"""What `rstreams.aio` says in trio, what `rstreams` says in asyncio, and where a stream runs."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, cast

import pytest
import trio

import rstreams
import rstreams.aio
from rstreams.aio import Node, Scope, Stream, connect
from tests.aio.own_loops import connected, run

Main = Callable[[], Awaitable[object]]

TERMINALS: dict[str, Callable[[], Main]] = {
    "to_list": lambda: Stream.of(1).to_list,
    "first_or_none": lambda: Stream.of(1).first_or_none,
    "for_each": lambda: lambda: Stream.of(1).for_each(str),
    "open": lambda: lambda: enter(Stream.of(1).open()),
}

OPENINGS: dict[str, Callable[[], Main]] = {
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


@pytest.mark.parametrize("terminal", TERMINALS.values(), ids=TERMINALS.keys())
def test_a_terminal_runs_in_the_loop_that_awaits_it(terminal: Callable[[], Main]) -> None:
    got = [trio.run(terminal())]

    async def main() -> None:
        got.append(await terminal()())

    run(main)
    assert got[0] == got[1]


@pytest.mark.parametrize("terminal", TERMINALS.values(), ids=TERMINALS.keys())
def test_outside_of_both_it_says_how_to_begin(terminal: Callable[[], Main]) -> None:
    coroutine = cast("Coroutine[Any, Any, object]", terminal()())
    with pytest.raises(RuntimeError, match=r"begin with `trio\.run\(main\)`; under asyncio use rstreams\.aio"):
        coroutine.send(None)


def test_without_rstreams_aio_a_terminal_under_asyncio_says_what_to_import() -> None:
    program = "import asyncio, rstreams; asyncio.run(rstreams.Stream.of(1).to_list())"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "this is a task of asyncio: use rstreams.aio" in ran.stderr


def test_trios_names_inside_asyncio_also_beside_a_connection() -> None:
    async def main() -> None:
        async with connected() as (_, connection):
            with pytest.raises(RuntimeError, match=r"this is a task of asyncio: use rstreams\.aio"):
                await enter(rstreams.connect("amqp://127.0.0.1:1"))
            with pytest.raises(TypeError, match="entered, not awaited"):
                await connect("amqp://127.0.0.1:1")  # type: ignore[misc]
            with pytest.raises(TypeError, match="unexpected"):
                connection.stream("a", windw=3)  # type: ignore[call-overload]

    run(main)


def test_the_names_of_the_root_are_there() -> None:
    assert set(rstreams.__all__) <= set(rstreams.aio.__all__)
    assert logging.getLogger("rstreams.aio")
