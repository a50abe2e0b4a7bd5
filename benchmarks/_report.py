"""The form every benchmark reports in: one table for people, the same rows as JSON for machines."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import TypeVar

__all__ = [
    "Row",
    "Trial",
    "aligned",
    "bigger_is_better",
    "by_itself",
    "figure",
    "in_turns",
    "interleaved",
    "options",
    "publish",
    "report",
    "smaller_is_better",
]

T = TypeVar("T")


@dataclass(frozen=True)
class Row:
    """One case measured against one peer.

    Attributes:
        case: What was measured, such as "map_filter_scan" or "1KB/at_least_once/single".
        ours: Our figure, in `unit`.
        peer: The peer's figure, in `unit`; for a case with a bound, the bound.
        peer_name: Who the peer is, such as "reactivex" or "container".
        unit: The unit of both figures.
        ratio: How many times better ours is; 1 is as good, and bigger is better whatever the unit.
        n: Items ours handled in one run.
        ours_cpu_us: Processor time an item of all our processes, in microseconds, where it was measured.
        peer_cpu_us: That of the peer's, its server among them.
        ours_consumer_us: What of ours is the consumer's.
        peer_consumer_us: What of the peer's is.
        ours_peak_mib: The most memory one of our processes had, in MiB, where it was measured.
        peer_peak_mib: That of the peer's.
    """

    case: str
    ours: float
    peer: float
    peer_name: str
    unit: str
    ratio: float
    n: int
    ours_cpu_us: float | None = None
    peer_cpu_us: float | None = None
    ours_consumer_us: float | None = None
    peer_consumer_us: float | None = None
    ours_peak_mib: float | None = None
    peer_peak_mib: float | None = None


@dataclass(frozen=True)
class Trial:
    """What can be run by itself, without peers: `benchmarks.turns` runs it with this tree and with another.

    Attributes:
        cases: The cases of its rows.
        run: Runs it once, and returns its rows. What they say of a peer is not looked at.
    """

    cases: tuple[str, ...]
    run: Callable[[], list[Row]]


def by_itself(case: str, ours: float, *, n: int, unit: str, cpu_us: float | None = None) -> Row:
    """Return the row of a case that has no peer."""
    row = bigger_is_better(case, ours=ours, peer=ours, peer_name="itself", n=n, unit=unit)
    return replace(row, ours_cpu_us=cpu_us)


def bigger_is_better(case: str, *, ours: float, peer: float, peer_name: str, n: int, unit: str = "items/s") -> Row:
    """Return the row of a figure of which more is better, such as items per second."""
    return Row(case, ours, peer, peer_name, unit, ours / peer, n)


def smaller_is_better(
    case: str, *, ours: float, peer: float, peer_name: str, n: int, unit: str, least: float = 1.0
) -> Row:
    """Return the row of a figure of which less is better, such as memory; less than `least` counts as that."""
    return Row(case, ours, peer, peer_name, unit, max(peer, least) / max(ours, least), n)


def in_turns(runs: int, candidates: Mapping[str, Callable[[], T]]) -> dict[str, list[T]]:
    """Run every candidate `runs` times, taking turns, and return the figures of each.

    Turns, because a busy machine is busy for seconds on end: what one candidate suffers, its peers suffer too.
    """
    figures: dict[str, list[T]] = {name: [] for name in candidates}
    for _ in range(runs):
        for name, measure in candidates.items():
            figures[name].append(measure())
    return figures


def interleaved(runs: int, candidates: Mapping[str, Callable[[], float]]) -> dict[str, float]:
    """Run every candidate `runs` times, taking turns, and return the median figure of each."""
    return {name: median(measured) for name, measured in in_turns(runs, candidates).items()}


def report(title: str, measure: Callable[[], Sequence[Row]], arguments: Sequence[str] | None = None) -> None:
    """Be the `main` of a benchmark: read `--json FILE`, measure, print the table, write the file.

    Args:
        title: The line above the table.
        measure: Does the work.
        arguments: The command line's arguments; by default the program's own.
    """
    file: Path | None = options(title).parse_args(arguments).json
    publish(title, measure(), file)


def options(title: str) -> argparse.ArgumentParser:
    """Return a parser of what every benchmark's command line takes."""
    parser = argparse.ArgumentParser(description=title)
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the rows to FILE as JSON")
    return parser


def publish(title: str, rows: Sequence[Row], file: Path | None = None) -> None:
    """Print the table, and write the rows to `file`."""
    print(table(title, rows), flush=True)
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        cells = [{key: value for key, value in asdict(row).items() if value is not None} for row in rows]
        file.write_text(json.dumps(cells, indent=2) + "\n", encoding="utf-8")


def table(title: str, rows: Sequence[Row]) -> str:
    """Return the rows as text, in columns as wide as they need."""
    head = ["case", "n", "ours", "peer", "peer_name", "unit", "ratio"]
    cells = [
        [row.case, f"{row.n:,}", figure(row.ours), figure(row.peer), row.peer_name, row.unit, f"{row.ratio:.2f}x"]
        for row in rows
    ]
    if any(row.ours_cpu_us is not None for row in rows):
        head += ["cpu_us ours", "peer", "consumer's ours", "peer", "peak_mib ours", "peer"]
        for line, row in zip(cells, rows, strict=True):
            cpu = row.ours_cpu_us, row.peer_cpu_us, row.ours_consumer_us, row.peer_consumer_us
            line.extend(map(figure, (*cpu, row.ours_peak_mib, row.peer_peak_mib)))
    return f"{title}\n\n{aligned(head, cells, text_columns={0, 4, 5})}"


def aligned(head: Sequence[str], cells: Sequence[Sequence[str]], text_columns: Collection[int]) -> str:
    """Return lines of cells in columns as wide as they need; text stands on the left, numbers on the right."""
    widths = [max(len(line[column]) for line in [head, *cells]) for column in range(len(head))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column in text_columns else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in [head, ["-" * width for width in widths], *cells]
    )


def figure(value: float | None) -> str:
    """Return a figure as text: with a comma, and with two places if it is small."""
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 100 else f"{value:,.2f}"
