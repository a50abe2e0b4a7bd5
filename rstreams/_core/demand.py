"""Demand: how many items a subscriber has asked for and not yet received.

Demand is counted in items, adds up, and saturates at 2^63-1, which means unbounded (Reactive Streams 3.8, 3.17). It is
the only number of the stream side. `protocol/credit.py` says what a link grants for it.
"""

from __future__ import annotations

from typing import Final

from rstreams.errors import DemandError

UNBOUNDED: Final = 2**63 - 1
"""The demand of a subscriber that takes items as fast as they come; once reached it never shrinks."""

SLICE: Final = 1024
"""The most items a pump, a terminal or a source works off before it lets other tasks run."""

TURN_S: Final = 0.005
"""And the longest it goes on, in seconds, where it can see a clock."""


def demand_error(n: object) -> DemandError | None:
    """Return what is wrong with `n` as an argument of `request`, or None (Reactive Streams 3.9)."""
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
    """Return what is left of `demand` after `n` items; unbounded demand stays unbounded."""
    return demand if demand == UNBOUNDED else demand - n
