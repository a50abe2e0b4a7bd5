"""Demand: the number of items that a subscriber has asked for and not yet received.

Demand is counted in items, adds up, and saturates at 2^63-1, which means unbounded (Reactive Streams 3.8, 3.17). It is
the only number of the stream side. `protocol/credit.py` says how much credit a link grants for it.
"""

from __future__ import annotations

from typing import Final

from rstreams.errors import DemandError

UNBOUNDED: Final = 2**63 - 1
"""Unbounded demand: the subscriber takes items as fast as they come. Demand that has reached it never shrinks."""

SLICE: Final = 1024
"""The most items that a pump, a terminal or a source handles before it lets other tasks run."""

TURN_S: Final = 0.005
"""The longest time that it goes on, in seconds, if it has a clock."""


def demand_error(n: object) -> DemandError | None:
    """Return the error for `n` as an argument of `request`, or None if it is valid (Reactive Streams 3.9)."""
    if type(n) is int and n > 0:
        return None
    if isinstance(n, int) and not isinstance(n, bool) and n > 0:
        return None
    return DemandError(n)


def add_demand(demand: int, n: int) -> int:
    """Return `demand + n`, saturated at `UNBOUNDED`."""
    total = demand + n
    return total if total < UNBOUNDED else UNBOUNDED


def take_demand(demand: int, n: int) -> int:
    """Return the rest of `demand` after `n` items; unbounded demand stays unbounded."""
    return demand if demand == UNBOUNDED else demand - n
