"""The input: the file of temperatures, and what must come out in the end, computed straight from the file."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path

READINGS = "readings"
"""The address of the queue between publisher and Spark."""

MAXIMA = "maxima"
"""The address of the queue between Spark and subscriber."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One row of the file: a time stamp, taken as UTC, and a temperature in degrees Fahrenheit."""

    time: datetime
    temperature: float


def read_file(path: Path) -> list[Reading]:
    """Return the rows of a file with the columns `date` ("2010/01/31 23:00") and `temp`."""
    with path.open(newline="") as file:
        return [
            Reading(datetime.strptime(row["date"], "%Y/%m/%d %H:%M").replace(tzinfo=UTC), float(row["temp"]))
            for row in csv.DictReader(file)
        ]


def seattle() -> list[Reading]:
    """Return the hourly temperatures of 2010, from the file that the package vega_datasets brings along.

    Errors: `ModuleNotFoundError` if the package is not installed.
    """
    spec = find_spec("vega_datasets")  # to import it would take a second, and bring in pandas
    if spec is None or spec.origin is None:
        msg = "the demo's readings come with the package vega_datasets: pip install 'rstreams[demo]'"
        raise ModuleNotFoundError(msg)
    return read_file(Path(spec.origin).parent / "_data" / "seattle-temps.csv")


def daily_maxima(readings: Iterable[Reading]) -> dict[str, float]:
    """Return the highest temperature of each day, by its date such as "2010-01-31"."""
    maxima: dict[str, float] = {}
    for reading in readings:
        day = reading.time.date().isoformat()
        maxima[day] = max(maxima.get(day, reading.temperature), reading.temperature)
    return maxima
