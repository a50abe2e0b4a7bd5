"""The chart of the year's daily maxima at each station: as text for a terminal, and as a PNG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Final

from rich.text import Text

from examples.airports.observations import STATIONS
from examples.airports.results import StationDay

LOWEST: Final = 10
HIGHEST: Final = 100
"""The temperatures at the lower and upper end of the chart, in degrees Fahrenheit."""

_COLOURS: Final = ("#4a78b8", "#4a9bc4", "#55b5ab", "#8cc47c", "#d3c95c", "#efae4a", "#ea8242", "#d9534a")
_EIGHTHS: Final = " ▁▂▃▄▅▆▇█"
_AXIS: Final = 10  # columns for the axis at the left


def colour_of(temperature: float) -> str:
    """Return the colour for a temperature, from cold to hot."""
    index = int((temperature - LOWEST) / (HIGHEST - LOWEST) * len(_COLOURS))
    return _COLOURS[min(max(index, 0), len(_COLOURS) - 1)]


def as_text(maxima: Mapping[StationDay, float | None], days: Sequence[str], width: int, lines: int) -> Text:
    """Return a chart of columns for each station, each as high as the highest maximum of the few days it stands for.

    Args:
        maxima: The maximum of each day at each station that is known so far.
        days: All days that have a place, from left to right.
        width: Columns of text, with the axis.
        lines: Lines of text for a station. One more below names the months.
    """
    columns = min(width - _AXIS, len(days))
    chart = Text(no_wrap=True)
    for station in STATIONS:
        highest = [
            max(
                (
                    maximum
                    for day in days[column * len(days) // columns : (column + 1) * len(days) // columns]
                    if (maximum := maxima.get(StationDay(station, day))) is not None
                ),
                default=float(LOWEST),
            )
            for column in range(columns)
        ]
        for line in range(lines):
            chart.append(f"{station if line == 0 else '':4}", "bold")
            chart.append(f"{_label(line, lines):>{_AXIS - 5}} ", "dim")
            for maximum in highest:
                height = round((maximum - LOWEST) / (HIGHEST - LOWEST) * lines * 8) - (lines - line - 1) * 8
                chart.append(_EIGHTHS[min(max(height, 0), 8)], colour_of(maximum))
            chart.append("\n")
    chart.append(" " * _AXIS + _months(days, columns), "dim")
    return chart


def _label(line: int, lines: int) -> str:
    """Return the temperature at the upper edge of a station's first line, or at the lower edge of its last."""
    return f"{HIGHEST}°F" if line == 0 else f"{LOWEST}°F" if line == lines - 1 else ""


def _months(days: Sequence[str], columns: int) -> str:
    names = [" "] * columns
    for index, day in enumerate(days):
        at = index * columns // len(days)
        if day.endswith("-01") and at + 3 <= columns:
            names[at : at + 3] = f"{date.fromisoformat(day):%b}"
    return "".join(names)


def write_png(path: Path, maxima: Mapping[StationDay, float | None], observations: int) -> None:
    """Draw the maxima into a PNG file, whose folder is made if need be.

    Args:
        path: The file.
        maxima: The maximum of each day at each station.
        observations: How many observations they come from, for the title.
    """
    from matplotlib.colors import LinearSegmentedColormap  # noqa: PLC0415 - takes a second, at the end only
    from matplotlib.figure import Figure  # noqa: PLC0415

    days = sorted({day for _station, day in maxima})
    colours = LinearSegmentedColormap.from_list("temperature", _COLOURS)
    months = [index for index, day in enumerate(days) if day.endswith("-01")]
    figure = Figure(figsize=(10, 6.6), dpi=150, layout="constrained")
    figure.suptitle(
        "Highest temperature of each day at New York's airports, 2013\n"
        f"{observations:,} observations, over AMQP 1.0 links through a Spark job",
        x=0.01,
        ha="left",
        fontsize=11,
    )
    for axes, (station, name) in zip(figure.subplots(len(STATIONS), sharex=True), STATIONS.items(), strict=True):
        known = [(index, maxima.get(StationDay(station, day))) for index, day in enumerate(days)]
        heights = {index: maximum - LOWEST for index, maximum in known if maximum is not None}
        shades = [colours(height / (HIGHEST - LOWEST)) for height in heights.values()]
        axes.bar(heights.keys(), heights.values(), 1.02, LOWEST, color=shades)
        axes.set_title(f"{name} ({station})", loc="left", fontsize=9)
        axes.set_ylim(LOWEST, HIGHEST + 5)
        axes.margins(x=0)
        axes.set_xticks(months, [f"{date.fromisoformat(days[index]):%b}" for index in months], ha="left")
        axes.yaxis.set_major_formatter("{x:g} °F")
        axes.grid(axis="y", color="white", linewidth=0.8, alpha=0.6)
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.tick_params(length=0)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, format="png")
