"""Functions that take long: what has come for one is handed over in parts, and other tasks have their turns."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest
import trio

import rstreams
from rstreams import Stream
from rstreams.net.transport.run_share import SLICE_S


@pytest.mark.slow
@pytest.mark.parametrize("pack_items", [1, 64])
async def test_a_slow_function_leaves_turns_to_others_however_much_has_come(pack_items: int) -> None:
    handled, turns = 0, [0]

    def spend(_: int) -> None:
        nonlocal handled
        handled += 1
        until = time.perf_counter() + SLICE_S / 4
        while time.perf_counter() < until:
            pass

    async def count_turns() -> None:
        while True:
            turns.append(handled)
            await trio.lowlevel.checkpoint()

    async with rstreams.Node() as node:
        node.serve("numbers", Stream.range(200))
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url) as connection, trio.open_nursery() as nursery:
            nursery.start_soon(count_turns)
            await connection.stream("numbers", pack_items=pack_items).for_each(spend)
            nursery.cancel_scope.cancel()
    assert handled == 200
    assert max(after - before for before, after in pairwise(turns)) < 32, "1 + 2 + 4 take longer than a slice"
