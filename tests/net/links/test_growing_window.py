"""Without a window of the user's, a link has a larger one while its messages are small."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest
import trio.testing

from rstreams import Stream
from rstreams._core.windows import GROWN_WINDOW, WINDOW
from rstreams.protocol.credit import GROWN_BYTES
from tests.net.over_tcp import connected, until


def numbered(sizes: Any, drawn: list[int]) -> Stream[bytes]:  # noqa: ANN401 - any iterable
    """Return a stream of items with these sizes; each is noted when it is drawn."""

    def make(size: int) -> bytes:
        drawn.append(size)
        return bytes(size)

    return Stream.from_iterable(sizes).map(make)


async def at_rest(items: list[Any]) -> int:
    """Wait until no more items come; return how many have come."""
    before = -1
    while len(items) > before:
        before = len(items)
        await trio.testing.wait_all_tasks_blocked(0.01)
    return before


def repeated(size: int) -> Any:  # noqa: ANN401
    return (size for _ in count())


@pytest.mark.parametrize(
    ("size", "options", "most"),
    [
        (100, {}, GROWN_WINDOW),
        (3_000, {}, 2 * WINDOW),
        (GROWN_BYTES // WINDOW, {}, WINDOW),
        (100, {"window": WINDOW}, WINDOW),
        (100, {"window_bytes": 10_000_000}, WINDOW),
        (100, {"dedup_window": 300}, WINDOW),
        (100, {"pack_items": 64}, GROWN_WINDOW),
    ],
)
async def test_as_many_items_are_in_hand_as_the_window_of_their_size_has(
    size: int, options: dict[str, Any], most: int
) -> None:
    got: list[Any] = []
    async with connected(pack_items=64) as (node, connection), trio.open_nursery() as nursery:
        node.serve("x", numbered(repeated(size), []))
        nursery.start_soon(connection.stream("x", settlement="manual", **options).for_each, got.append)
        await until(lambda: len(got) > most - 64)
        assert most - 64 < await at_rest(got) <= most
        nursery.cancel_scope.cancel()


@pytest.mark.slow
async def test_the_window_is_as_at_first_when_larger_messages_come() -> None:
    got: list[Any] = []
    async with connected() as (node, connection), trio.open_nursery() as nursery:
        node.serve("x", numbered([*[100] * 5_000, *[50_000] * 5_000], []))
        nursery.start_soon(connection.stream("x", settlement="manual").for_each, got.append)
        accepted = 5_000 + 2 * GROWN_WINDOW
        for at in range(accepted):
            await until(lambda at=at: len(got) > at)  # type: ignore[misc]
            got[at].accept()
        assert await at_rest(got) - accepted <= WINDOW
        nursery.cancel_scope.cancel()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("size", "stream", "window", "most"),
    [
        (100, {}, {}, GROWN_WINDOW),
        (100, {}, {"window": WINDOW}, WINDOW),
        (100, {"window": 32}, {}, 32),
        (100, {"settlement": "at_most_once"}, {}, WINDOW),
        (GROWN_BYTES // WINDOW, {}, {}, WINDOW),
    ],
)
async def test_a_loop_asks_for_as_many_items_ahead_as_the_link_has_room_for(
    size: int, stream: dict[str, Any], window: dict[str, Any], most: int
) -> None:
    drawn: list[int] = []
    async with connected() as (node, connection):
        node.serve("x", numbered(repeated(size), drawn))
        async with connection.stream("x", **stream).open(**window) as items:
            taken = 0
            async for _ in items:
                taken += 1
                if taken == 5 * GROWN_WINDOW:
                    break
            ahead = await at_rest(drawn) - taken
        assert most // 2 < ahead <= most
