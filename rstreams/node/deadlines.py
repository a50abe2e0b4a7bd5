"""The one task of a node that wakes its addresses when something is due, such as a message that is too old."""

from __future__ import annotations

import math
from collections.abc import Mapping

import trio

from rstreams.node.address import Address


class Deadlines:
    """Wakes at the next deadline of all addresses; costs nothing while there is none.

    Args:
        addresses: The addresses by name, which may become more.
    """

    def __init__(self, addresses: Mapping[str, Address]) -> None:
        self._addresses = addresses
        self._sleep = trio.CancelScope()

    def wake_at(self, deadline: float) -> None:
        """Wake at `deadline`, if that is earlier than the next one."""
        self._sleep.deadline = min(self._sleep.deadline, deadline)

    async def run(self) -> None:
        """Look after the addresses until cancelled."""
        while True:
            due = min((address.next_deadline for address in self._addresses.values()), default=math.inf)
            with trio.CancelScope(deadline=due) as self._sleep:
                await trio.sleep_forever()
            for address in list(self._addresses.values()):
                address.expire()
