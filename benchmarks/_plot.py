"""A picture of the network benchmark's rows: throughput by size, latency by rate."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks._report import Row

_OURS: Final = {"single": "rstreams", "packed": "rstreams, packed"}
_LINES: Final = {"rstreams": ("black", "o-", 2.5), "rstreams, packed": ("black", "s--", 2.5)}
_PEER_COLOURS: Final = (
    "tab:blue",
    "tab:cyan",
    "tab:red",
    "tab:orange",
    "tab:green",
    "tab:purple",
    "tab:brown",
    "tab:pink",
)


def plot(rows: Sequence[Row], file: Path) -> None:
    """Draw the rows to `file`, as far as they are there.

    Args:
        rows: What `benchmarks.network` measured.
        file: A PNG; what it says by its suffix.
    """
    throughput, latency = _by_size(rows), _by_percentile(rows)
    names = list(dict.fromkeys([*throughput, *latency]))
    figure = Figure(figsize=(13, 5.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    _draw(left, throughput, names, apart=0)
    left.set(ylabel="items a second", xlabel="item size", title="Throughput")
    _draw(right, latency, names, apart=0.07)
    right.set(ylabel="microseconds", title="One-way latency, 1 KB")
    handles = {line.get_label(): line for axes in (left, right) for line in axes.lines}
    if handles:
        figure.legend(handles=list(handles.values()), loc="outside right center", fontsize="small")
    figure.suptitle("Two processes over loopback; at least once where the peer knows acknowledgements")
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=130)


def _by_size(rows: Sequence[Row]) -> dict[str, dict[str, float]]:
    """Return items a second: by who, and then by size."""
    lines: dict[str, dict[str, float]] = {}
    for row in rows:
        match row.case.split("/"):
            case size, "at_least_once", "single" | "packed" as pack:
                lines.setdefault(_OURS[pack], {})[size] = row.ours
                lines.setdefault(row.peer_name, {})[size] = row.peer
    return lines


def _by_percentile(rows: Sequence[Row]) -> dict[str, dict[str, float]]:
    """Return microseconds: by who, and then by percentile and rate."""
    lines: dict[str, dict[str, float]] = {}
    for row in rows:
        part, _, rate = row.case.partition("/")
        if part.startswith("latency_"):
            place = f"{part.removeprefix('latency_')}\n{int(rate) // 1000}k/s"
            lines.setdefault("rstreams", {})[place] = row.ours
            lines.setdefault(row.peer_name, {})[place] = row.peer
    return lines


def _draw(axes: Axes, lines: dict[str, dict[str, float]], names: Sequence[str], *, apart: float) -> None:
    """Draw who is where: as lines, or `apart` from each other as points."""
    places = list(dict.fromkeys(place for points in lines.values() for place in points))
    peers = [name for name in names if name not in _LINES]
    for name, points in lines.items():
        if name in _LINES:
            (colour, form, width), place = _LINES[name], 0
        else:
            place = peers.index(name) + 1
            colour, form, width = _PEER_COLOURS[(place - 1) % len(_PEER_COLOURS)], "o-", 1.2
        at = [places.index(point) + apart * (place - len(peers) / 2) for point in points]
        axes.plot(at, list(points.values()), "o" if apart else form, color=colour, linewidth=width, label=name)
    axes.set_xticks(range(len(places)), places)
    axes.set_yscale("log")
    axes.grid(visible=True, which="major", axis="y", alpha=0.3)
