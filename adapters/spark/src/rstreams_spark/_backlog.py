"""How many messages a queue has, from peers that tell it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import trio

from rstreams import Connection
from rstreams.errors import RStreamsError

_ANSWER_WAIT_S: Final = 5.0
_STATISTICS: Final = "$statistics"


async def count_queued(connection: Connection, address: str) -> int | None:
    """Return how many messages at `address` wait for a consumer; None if the peer does not tell.

    A node tells it at its address `$statistics`. Other peers are not asked: some would make a queue of that name.
    """
    if connection.peer_properties.get("product") != "rstreams":
        return None
    try:
        with trio.move_on_after(_ANSWER_WAIT_S):
            return _ready(await connection.stream(_STATISTICS).first_or_none(), address)
    except RStreamsError:
        pass
    return None


def _ready(statistics: Any, address: str) -> int | None:  # noqa: ANN401 - what a peer has sent
    try:
        queues: Mapping[str, Mapping[str, Any]] = statistics["queues"]
        return int(queues[address]["ready"])
    except (KeyError, TypeError, ValueError):
        return None
