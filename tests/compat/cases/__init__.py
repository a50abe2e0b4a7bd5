"""The cases of `make compat`, by name."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from tests.compat.cases import calls, checkpoints, logs, queues, stores, streams
from tests.compat.pair import Pair
from tests.compat.processes import Version
from tests.compat.results import Job

CASES: Final[dict[str, Callable[[Pair], Awaitable[None]]]] = {
    case.__name__: case
    for case in (
        queues.queues,
        queues.packs,
        queues.outcomes,
        queues.credit,
        logs.logs,
        logs.groups,
        logs.latest,
        streams.multicasts,
        streams.kept,
        streams.served,
        streams.reconnect,
        streams.once,
        calls.requests,
        calls.management,
        calls.errors,
        calls.security,
    )
}
"""What a client and a node do with each other; each runs both ways round."""

Several: TypeAlias = Callable[[Version, Version], list[tuple[str, Job]]]

STORE: Final[dict[str, Several]] = {"store": stores.stores}
"""Stores that both versions have in turn."""

SPARK: Final[dict[str, Several]] = {"spark": checkpoints.checkpoints}
"""Checkpoints of Spark."""
