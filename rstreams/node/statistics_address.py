"""The address at which a node serves its own statistics."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any, Final

from rstreams.node.address import Address, LinkRequest, Supply
from rstreams.node.statistics import AddressStatistics, NodeStatistics
from rstreams.sources import generate

STATISTICS: Final = "$statistics"
"""The address at which a node serves its own statistics, one snapshot for each item requested."""


class StatisticsAddress(Address):
    """Serves a snapshot, as a map, for each item requested.

    Args:
        take: Returns the statistics as they are now.
    """

    kind = "served stream"

    def __init__(self, take: Callable[[], NodeStatistics]) -> None:
        self.name = STATISTICS
        self._snapshots = generate(None, lambda _: (take().as_dict(), None))

    def supply(self, link: LinkRequest) -> Supply:  # noqa: ARG002 - each link gets the same
        """Return the snapshots."""
        return Supply(self._snapshots, made_on_demand=True)

    def explain(self) -> str:
        """Return an empty line: the other addresses tell their states."""
        return ""


def counters(addresses: Mapping[str, Address]) -> dict[str, dict[str, Any]]:
    """Return the counters of all addresses, by the attribute of `NodeStatistics` and by name.

    Errors: `TypeError` for an address of another kind of counters.
    """
    counted: defaultdict[str, dict[str, Any]] = defaultdict(dict)
    for name, address in addresses.items():
        numbers = address.statistics()
        if numbers is not None:
            if not isinstance(numbers, AddressStatistics):
                kind = type(address).__name__
                msg = f"{kind}.statistics() must return AddressStatistics or None, not {numbers!r:.80}"
                raise TypeError(msg)
            counted[numbers.group][name] = numbers
    return counted
