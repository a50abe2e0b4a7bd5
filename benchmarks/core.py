"""Items a second through stages in one process, against reactivex and a plain loop that calls the same functions.

    python -m benchmarks.core [--json FILE]

All three call the very same lambdas for the same numbers, and must come to the same last value.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

import reactivex
from reactivex import operators as rx

from benchmarks._report import Row, bigger_is_better, interleaved, report
from rstreams import Stream
from rstreams._demand import UNBOUNDED
from rstreams.abc import Subscription

ITEMS = 1_000_000
RUNS = 5


def _triple(x: int) -> int:
    return x * 3


def _odd(x: int) -> bool:
    return x & 1 == 1


def _add(total: int, x: int) -> int:
    return (total + x) & 0xFFFF


class Last:
    """Asks for all there is and keeps the last item."""

    item: Any = None

    def on_subscribe(self, subscription: Subscription) -> None:
        """Ask for everything."""
        subscription.request(UNBOUNDED)

    def on_next(self, item: object) -> None:
        """Keep the item in place of the one before."""
        self.item = item

    def on_error(self, error: BaseException) -> None:
        """Let the benchmark fail."""
        raise error

    def on_complete(self) -> None:
        """Do nothing: the call that requested returns."""


def _map_filter_scan_ours() -> int:
    last = Last()
    Stream.from_iterable(range(ITEMS)).map(_triple).filter(_odd).scan(_add, 0).subscribe(last)
    return int(last.item)


def _map_filter_scan_reactivex() -> int:
    last = Last()
    reactivex.from_iterable(range(ITEMS)).pipe(rx.map(_triple), rx.filter(_odd), rx.scan(_add, 0)).subscribe(
        last.on_next, last.on_error
    )
    return int(last.item)


def _map_filter_scan_loop() -> int:
    total = last = 0
    for x in range(ITEMS):
        y = _triple(x)
        if _odd(y):
            last = total = _add(total, y)
    return last


CASES: dict[str, dict[str, Callable[[], int]]] = {
    "map_filter_scan": {
        "ours": _map_filter_scan_ours,
        "reactivex": _map_filter_scan_reactivex,
        "loop": _map_filter_scan_loop,
    },
}


def _rate(run: Callable[[], int], expected: int) -> Callable[[], float]:
    def measure() -> float:
        began = perf_counter()
        last = run()
        seconds = perf_counter() - began
        assert last == expected, f"{run.__name__} came to {last}, not {expected}"
        return ITEMS / seconds

    return measure


def measure() -> list[Row]:
    """Measure every case; a row for each peer."""
    rows = []
    for case, candidates in CASES.items():
        expected = candidates["loop"]()
        figures = interleaved(RUNS, {name: _rate(run, expected) for name, run in candidates.items()})
        rows += [
            bigger_is_better(case, ours=figures["ours"], peer=rate, peer_name=peer, n=ITEMS)
            for peer, rate in figures.items()
            if peer != "ours"
        ]
    return rows


if __name__ == "__main__":
    report("Stages inside one process, items a second (median of interleaved runs)", measure)
