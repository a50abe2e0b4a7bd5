"""Looks at all addresses once a second, while somebody asks for statistics: how fast they are, and what is missing.

The first client that asks, at `$statistics` or over HTTP, starts a task. It takes the totals of each address once a
second, keeps those of a minute, and ends when nobody has asked for `KEPT_S`. A program that calls `node.statistics()`
starts nothing: then the totals are taken with its calls, at most once a second. Thus an item costs nothing, and nothing
runs that nobody wants to see. The totals of 1,000 addresses take about 3 ms a second, and 2 MB.

A total that does not add up is a defect of the node: messages are lost, or counted wrongly. The log tells it as an
error, once for each address.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, NamedTuple

import trio

from rstreams._events.table import MESSAGES_MISSING
from rstreams.node.address import Address
from rstreams.node.statistics import AddressRates, AddressTotals

EACH_S: Final = 1.0
"""The time between two looks, in seconds."""

KEPT_S: Final = 120.0
"""How long after the last question it goes on, in seconds: longer than Prometheus waits from one scrape to the next."""

_GRID_S: Final = 5.0
_GRID: Final = 13
"""The looks of the last minute that are kept: one in five seconds."""


class _Look(NamedTuple):
    """The totals of all addresses at a time."""

    at: float
    totals: Mapping[str, AddressTotals]


class Watch:
    """The looks of one node.

    Args:
        addresses: The addresses, by name.
        now: Returns the time, in seconds that only go on.
        start_soon: Starts a task in the node's scope.

    Attributes:
        missing: How many messages are missing at each address that does not add up.
    """

    def __init__(
        self,
        addresses: Mapping[str, Address],
        now: Callable[[], float],
        start_soon: Callable[[Callable[[], Awaitable[object]]], None],
    ) -> None:
        self._addresses = addresses
        self._now = now
        self._start_soon = start_soon
        self._asked_at = 0.0
        self._runs = False
        self._looked_at = -EACH_S
        self._last: deque[_Look] = deque(maxlen=2)
        self._grid: deque[_Look] = deque(maxlen=_GRID)
        self.missing: dict[str, int] = {}

    def asked(self) -> None:
        """Hear that a client asks: look for some time. Called in the node's trio run, inside its block."""
        self._asked_at = self._now()
        if not self._runs:
            self._runs = True
            self._start_soon(self._run)

    def look(self) -> None:
        """Take the totals, if that is some time ago."""
        now = self._now()
        if now - self._looked_at < EACH_S * 0.9:
            return
        self._looked_at = now
        totals: dict[str, AddressTotals] = {}
        for name, address in self._addresses.items():
            tally = address.tally()
            if tally is not None:
                totals[name] = tally
                if tally.missing or self.missing:
                    self._note(name, address, tally.missing)
        for name in [name for name in self.missing if name not in totals]:
            del self.missing[name]
        last = _Look(now, totals)
        self._last.append(last)
        if not self._grid or now - self._grid[-1].at >= _GRID_S - EACH_S / 2:
            self._grid.append(last)

    def rates(self) -> dict[str, AddressRates]:
        """Return how fast messages came to each address, and left it; nothing before the second look."""
        if len(self._last) < self._last.maxlen:  # type: ignore[operator]  # it is 2
            return {}
        before, last = self._last
        oldest = self._grid[0]
        return {name: AddressRates(*_rates(before, last, name), *_rates(oldest, last, name)) for name in last.totals}

    async def _run(self) -> None:
        try:
            while self._now() - self._asked_at < KEPT_S:
                self.look()
                await trio.sleep(EACH_S)
        finally:
            self._runs = False

    def _note(self, name: str, address: Address, missing: int) -> None:
        if not missing:
            self.missing.pop(name, None)
            return
        if name not in self.missing:
            MESSAGES_MISSING.tell(name, kind=address.kind, address=name, count=missing)
        self.missing[name] = missing


def _rates(before: _Look, last: _Look, name: str) -> tuple[float, float, float]:
    """Return the messages a second from one look to another; 0 for an address that was not there."""
    passed = last.at - before.at
    if passed <= 0:
        return 0.0, 0.0, 0.0
    now = last.totals[name]
    then = before.totals.get(name, now)
    came, delivered, settled = (max(0, now[at] - then[at]) / passed for at in range(3))
    return came, delivered, settled
