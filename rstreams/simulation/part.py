"""The parts of a simulation: programs and nodes, each on a host of its own, which may be killed and begin again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import trio

from rstreams.simulation.disk import MemoryDisk
from rstreams.simulation.pipe import Pipe
from rstreams.simulation.sockets import Host


@dataclass(eq=False)
class WorldPart:
    """A program on a host of its own.

    Attributes:
        name: Its name.
        host: Its host.
        program: What it runs, each time that it begins.
        is_service: Whether the simulation may end while it runs.
        has_disk: Whether its node has a store.
        clock_s: How far its calendar is from the true one, in seconds.
        life: Its present life; None while it does not run.
        folder: The files of its present life.
        disk: The disk of its present life; None if it has no store.
        lives: How often it has begun.
        ended: Set when its program has returned.
        lost: The ways to it on which others still send, because they have not noticed that its power has failed.
    """

    name: str
    host: Host
    program: Callable[[], Awaitable[object]]
    is_service: bool
    has_disk: bool
    clock_s: float = 0.0
    life: PartLife | None = None
    folder: Path = Path()
    disk: MemoryDisk | None = None
    lives: int = 0
    ended: trio.Event = field(default_factory=trio.Event)
    lost: list[Pipe] = field(default_factory=list)


class PartLife:
    """A part from its beginning to its end, or until it is killed.

    After a kill its tasks still run their `finally` blocks, because Python cannot end a task otherwise. But they reach
    nothing any more: their sockets are gone, their disk is a copy that nobody reads, and what they note is dropped.
    """

    def __init__(self, part: WorldPart) -> None:
        self.part = part
        self.scope = trio.CancelScope()
        self.is_over = False
        self.nursery: trio.Nursery | None = None


current: Final[ContextVar[PartLife | None]] = ContextVar("rstreams.simulation.life", default=None)
"""The life that the current task is of."""
