"""What comes out: the result of one day at one station. And what must come out, computed by pandas from the file."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple


class StationDay(NamedTuple):
    """What a result is about, such as EWR and 2013-01-31. The day is the local one."""

    station: str
    day: str

    def __str__(self) -> str:
        """Return it as the id of a message: "EWR 2013-01-31"."""
        return f"{self.station} {self.day}"

    @classmethod
    def parse(cls, text: str) -> StationDay:
        """Return what `str` has made a text of."""
        station, _, day = text.partition(" ")
        return cls(station, day)


@dataclass(frozen=True, slots=True)
class Result:
    """What is known of one day at one station.

    Attributes:
        maximum: The highest temperature; None if none was recorded on that day.
        observations: How many different observations there are.
        without_temperature: How many of them have no temperature, and so no part in the maximum.
    """

    maximum: float | None
    observations: int
    without_temperature: int

    @property
    def with_temperature(self) -> int:
        """How many of them have a temperature."""
        return self.observations - self.without_temperature

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Result:
        """Return the result in a JSON object. Spark leaves a maximum out that is null."""
        return cls(values.get("maximum"), values["observations"], values["without_temperature"])


def expected_results(path: Path) -> dict[StationDay, Result]:
    """Return what must come out for every day at every station in the file.

    It shares nothing with the way through Spark: pandas reads the file itself, and takes the day from the columns with
    the local date, where Spark computes it from the hour in UTC.
    """
    import pandas as pd  # noqa: PLC0415 - takes half a second, and only the process that checks needs it

    columns = ["origin", "year", "month", "day", "temp"]
    observations = pd.read_csv(path, usecols=columns)
    days = observations.groupby(columns[:4])["temp"].agg(["max", "size", "count"])
    rows: Iterable[tuple[tuple[str, int, int, int], float, int, int]] = days.itertuples(name=None)
    return {
        StationDay(station, f"{year}-{month:02}-{day:02}"): Result(
            None if math.isnan(maximum) else float(maximum), int(size), int(size - with_temperature)
        )
        for (station, year, month, day), maximum, size, with_temperature in rows
    }
