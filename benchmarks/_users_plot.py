"""A picture of the rows of `benchmarks.users`: each way beside the shortest, and beside other libraries."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks._report import Row

_SHAPES: Final = {"bytes": ("tab:blue", "o"), "str": ("tab:cyan", "v"), "dict": ("tab:orange", "s"), "full": ("k", "D")}
_PANELS: Final = {"served": "From a served stream", "queue": "From a queue, and to one"}
_SHORTEST: Final = "shortest"


def plot(rows: Sequence[Row], file: Path) -> None:
    """Draw the rows to `file`, as far as they are there.

    Args:
        rows: What `benchmarks.users` measured.
        file: A picture; its suffix says of which kind.
    """
    figure = Figure(figsize=(13, 4.8), layout="constrained")
    left, middle, right = figure.subplots(1, 3, sharex=True)
    for axes, (source, title) in zip((left, middle), _PANELS.items(), strict=True):
        places = {
            (way, shape): row.ratio
            for row in rows
            if row.peer_name == _SHORTEST
            for shape, where, way in _parts(row)
            if where == source
        }
        _draw(axes, places)
        axes.set(title=title, xlabel="items a second, beside the shortest way")
    others = {
        (f"{row.peer_name}, {way}\n{where}", shape): row.ratio
        for row in rows
        if row.peer_name != _SHORTEST
        for shape, where, way in _parts(row)
    }
    _draw(right, others)
    right.set(title="Beside other libraries", xlabel="items a second, beside theirs")
    handles = {
        line.get_label(): line for axes in (left, middle, right) for line in axes.lines if line.get_label() in _SHAPES
    }
    if handles:
        figure.legend(handles=list(handles.values()), loc="outside upper right", ncols=len(handles), fontsize="small")
    figure.suptitle("1 KB, two processes over loopback; to the right is faster", x=0.02, ha="left")
    file.parent.mkdir(parents=True, exist_ok=True)
    with mpl.rc_context({"svg.hashsalt": "rstreams", "svg.fonttype": "none"}):
        figure.savefig(file, dpi=130, metadata={"Date": None} if file.suffix == ".svg" else None)


def _parts(row: Row) -> list[tuple[str, str, str]]:
    """Return shape, source and way of a case that has them, in a list; else none."""
    match row.case.split("/"):
        case shape, source, way if shape in _SHAPES:
            return [(shape, source, way)]
    return []


def _draw(axes: Axes, places: dict[tuple[str, str], float]) -> None:
    """Draw a line for each way, the slowest on top, with a point for each shape."""
    slowest: dict[str, float] = {}
    for (way, _), ratio in places.items():
        slowest[way] = min(ratio, slowest.get(way, ratio))
    order = sorted(slowest, key=slowest.__getitem__, reverse=True)
    for shape, (colour, marker) in _SHAPES.items():
        at = [(ratio, order.index(way)) for (way, each), ratio in places.items() if each == shape]
        if at:
            axes.plot(*zip(*at, strict=True), marker, color=colour, label=shape, markersize=6, alpha=0.85)
    axes.set_yticks(range(len(order)), order, fontsize="small")
    axes.set_xscale("log")
    axes.axvline(1, color="grey", linewidth=1)
    axes.grid(visible=True, which="major", alpha=0.3)
