"""Throughput between two processes over loopback, beside python-qpid-proton's Container and pyzmq.

python -m benchmarks.network [--json FILE]
"""

from __future__ import annotations

from functools import partial

from benchmarks import _network_container, _network_pyzmq, _network_rstreams
from benchmarks._processes import Consume, Produce, Settlement, run_pair
from benchmarks._report import Row, bigger_is_better, interleaved, report

RUNS = 3
ITEM_BYTES = 1024

# Each runs for about a second; pyzmq knows no acknowledgement, and runs as it is beside both.
_CANDIDATES: dict[str, tuple[Produce, Consume, int]] = {
    "rstreams": (_network_rstreams.produce, _network_rstreams.consume, 200_000),
    "container": (_network_container.produce, _network_container.consume, 10_000),
    "container_window_256": (_network_container.produce, _network_container.consume_with_window, 15_000),
    "pyzmq": (_network_pyzmq.produce, _network_pyzmq.consume, 500_000),
}


def measure() -> list[Row]:
    """Return a row for each settlement and peer."""
    settlements: tuple[Settlement, ...] = ("at_most_once", "at_least_once")
    return [row for settlement in settlements for row in _measure(settlement)]


def _measure(settlement: Settlement) -> list[Row]:
    figures = interleaved(
        RUNS,
        {
            name: partial(run_pair, produce, consume, items, ITEM_BYTES, settlement)
            for name, (produce, consume, items) in _CANDIDATES.items()
        },
    )
    items = _CANDIDATES["rstreams"][2]
    return [
        bigger_is_better(
            f"1KB/{settlement}/single", ours=figures["rstreams"], peer=figures[peer], peer_name=peer, n=items
        )
        for peer in _CANDIDATES
        if peer != "rstreams"
    ]


if __name__ == "__main__":
    report("Two processes over loopback, 1 KB items, median of 3 runs", measure)
