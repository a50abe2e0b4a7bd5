"""The chart of the year's daily maxima: as text for a terminal, and as a PNG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Final

from rich.text import Text

LOWEST: Final = 30
HIGHEST: Final = 80
"""The temperatures at the lower and upper end of the chart, in degrees Fahrenheit."""

_COLOURS: Final = ("#4a78b8", "#4a9bc4", "#55b5ab", "#8cc47c", "#d3c95c", "#efae4a", "#ea8242", "#d9534a")
_EIGHTHS: Final = " ▁▂▃▄▅▆▇█"
_AXIS: Final = 5  # columns for the axis at the left


def colour_of(temperature: float) -> str:
    """Return the colour for a temperature, from cold to hot."""
    index = int((temperature - LOWEST) / (HIGHEST - LOWEST) * len(_COLOURS))
    return _COLOURS[min(max(index, 0), len(_COLOURS) - 1)]


def as_text(maxima: Mapping[str, float], days: Sequence[str], width: int, lines: int) -> Text:
    """Return a chart of columns, each as high as the highest maximum of the few days it stands for.

    Args:
        maxima: The maximum of each day that is known so far.
        days: All days that have a place, from left to right.
        width: Columns of text, with the axis.
        lines: Lines of text, without the one that names the months.
    """
    columns = min(width - _AXIS, len(days))
    heights = []
    for column in range(columns):
        shown = days[column * len(days) // columns : (column + 1) * len(days) // columns]
        highest = max((maxima[day] for day in shown if day in maxima), default=float(LOWEST))
        heights.append(round((highest - LOWEST) / (HIGHEST - LOWEST) * lines * 8))
    chart = Text(no_wrap=True)
    for line in range(lines):
        below = (lines - line - 1) * 8
        chart.append(f"{_label(line, lines):>{_AXIS - 1}} ", "dim")
        cells = (_EIGHTHS[min(max(height - below, 0), 8)] for height in heights)
        chart.append("".join(cells), colour_of(HIGHEST - (line + 0.5) / lines * (HIGHEST - LOWEST)))
        chart.append("\n")
    chart.append(" " * _AXIS + _months(days, columns), "dim")
    return chart


def _label(line: int, lines: int) -> str:
    """Return the temperature at the upper edge of a line, if one of the axis' tens falls there."""
    for degrees in range(HIGHEST, LOWEST, -10):
        if round((HIGHEST - degrees) / (HIGHEST - LOWEST) * lines) == line:
            return f"{degrees}°F"
    return ""


def _months(days: Sequence[str], columns: int) -> str:
    names = [" "] * columns
    for index, day in enumerate(days):
        at = index * columns // len(days)
        if day.endswith("-01") and at + 3 <= columns:
            names[at : at + 3] = f"{date.fromisoformat(day):%b}"
    return "".join(names)


def write_png(path: Path, maxima: Mapping[str, float], readings: int) -> None:
    """Draw the maxima into a PNG file, whose folder is made if need be.

    Args:
        path: The file.
        maxima: The maximum of each day.
        readings: How many readings they come from, for the title.
    """
    from matplotlib.colors import LinearSegmentedColormap  # noqa: PLC0415 - takes a second, at the end only
    from matplotlib.figure import Figure  # noqa: PLC0415

    days = sorted(maxima)
    heights = [maxima[day] - LOWEST for day in days]
    colours = LinearSegmentedColormap.from_list("temperature", _COLOURS)
    months = [index for index, day in enumerate(days) if day.endswith("-01")]
    figure = Figure(figsize=(10, 4.6), dpi=150, layout="constrained")
    axes = figure.add_subplot()
    axes.bar(
        range(len(days)), heights, 1.02, LOWEST, color=[colours(height / (HIGHEST - LOWEST)) for height in heights]
    )
    axes.set_title(
        f"Daily maximum temperature in Seattle, 2010\n{readings:,} readings, over AMQP 1.0 links through a Spark job",
        loc="left",
        fontsize=11,
    )
    axes.set_ylim(LOWEST, HIGHEST)
    axes.margins(x=0)
    axes.set_xticks(months, [f"{date.fromisoformat(days[index]):%b}" for index in months], ha="left")
    axes.yaxis.set_major_formatter("{x:g} °F")
    axes.grid(axis="y", color="white", linewidth=0.8, alpha=0.6)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(length=0)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, format="png")
