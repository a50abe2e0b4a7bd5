"""The one task of a node that wakes its addresses when something is due, such as a message that is too old."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NoReturn

import trio

from rstreams.errors import ConfigError
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
        """Look after the addresses until cancelled.

        Errors: `ConfigError` for an address whose `next_deadline` is not a number, or has not moved on after `expire`.
        """
        while True:
            due = min((_deadline_of(address) for address in self._addresses.values()), default=math.inf)
            with trio.CancelScope(deadline=due) as self._sleep:
                await trio.sleep_forever()
            now = trio.current_time()
            for address in [each for each in self._addresses.values() if _deadline_of(each) <= now]:
                address.expire()
                if _deadline_of(address) <= now:
                    _refuse_deadline(address, "a time later than the one at which expire() was called")


def _deadline_of(address: Address) -> float:
    deadline = address.next_deadline
    if not isinstance(deadline, int | float) or math.isnan(deadline):
        _refuse_deadline(address, "a number of seconds, or math.inf for never")
    return deadline


def _refuse_deadline(address: Address, allowed: str) -> NoReturn:
    shown = f"{type(address).__qualname__}({address.name!r:.80}).next_deadline"
    msg = f"{shown} is {address.next_deadline!r:.80}: it must be {allowed}"
    raise ConfigError(msg)
