"""The one task of a node that lets go of messages that are too old, in all its queues."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from rstreams.node.queue import Queue


class Expiry:
    """Wakes when the next message is too old; costs nothing while none can be.

    Attributes:
        queues: The queues it looks after.
    """

    def __init__(self) -> None:
        self.queues: list[Queue] = []
        self._sleep = trio.CancelScope()

    def note(self, deadline: float) -> None:
        """Wake at `deadline`, if that is earlier than what is due next."""
        self._sleep.deadline = min(self._sleep.deadline, deadline)

    async def run(self) -> None:
        """Look after the queues until cancelled."""
        while True:
            due = min((queue.next_deadline for queue in self.queues), default=math.inf)
            with trio.CancelScope(deadline=due) as self._sleep:
                await trio.sleep_forever()
            for queue in self.queues:
                queue.expire()
