"""A picture of the network benchmark's rows: throughput by size, latency by rate."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks._report import Row

_OURS: Final = {"single": "rstreams", "packed": "rstreams, packed"}


def plot(rows: Sequence[Row], file: Path) -> None:
    """Draw the rows to `file`, as far as they are there.

    Args:
        rows: What `benchmarks.network` measured.
        file: A PNG; what it says by its suffix.
    """
    figure = Figure(figsize=(13, 5.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    _throughput(left, rows)
    _latency(right, rows)
    figure.suptitle("Two processes over loopback; at least once where the peer knows acknowledgements")
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=130)


def _throughput(axes: Axes, rows: Sequence[Row]) -> None:
    lines: dict[str, dict[str, float]] = {name: {} for name in _OURS.values()}
    sizes: list[str] = []
    for row in rows:
        match row.case.split("/"):
            case size, "at_least_once", "single" | "packed" as pack:
                lines[_OURS[pack]][size] = row.ours
                lines.setdefault(row.peer_name, {})[size] = row.peer
                sizes += [size] if size not in sizes else []
    for name, points in lines.items():
        places = [sizes.index(size) for size in points]
        ours = name in _OURS.values()
        axes.plot(
            places, list(points.values()), "o-", label=name, linewidth=2.5 if ours else 1, zorder=3 if ours else 2
        )
    axes.set_xticks(range(len(sizes)), sizes)
    axes.set(yscale="log", ylabel="items a second", xlabel="item size", title="Throughput")
    _finish(axes)


def _latency(axes: Axes, rows: Sequence[Row]) -> None:
    lines: dict[str, dict[str, float]] = {"rstreams": {}}
    places: list[str] = []
    for row in rows:
        part, _, rate = row.case.partition("/")
        if not part.startswith("latency_"):
            continue
        place = f"{part.removeprefix('latency_')}\n{int(rate) // 1000}k/s"
        lines["rstreams"][place] = row.ours
        lines.setdefault(row.peer_name, {})[place] = row.peer
        places += [place] if place not in places else []
    for name, points in lines.items():
        ours = name == "rstreams"
        at = [places.index(place) for place in points]
        axes.plot(at, list(points.values()), "o", markersize=9 if ours else 6, label=name, zorder=3 if ours else 2)
    axes.set_xticks(range(len(places)), places)
    axes.set(yscale="log", ylabel="microseconds", title="One-way latency, 1 KB")
    _finish(axes)


def _finish(axes: Axes) -> None:
    axes.grid(visible=True, which="major", axis="y", alpha=0.3)
    if axes.lines:
        axes.legend(fontsize="small")
