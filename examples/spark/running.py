"""What each example needs to run: a session, messages to read, and the end of the query."""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable, Iterable, Mapping

import rstreams_spark
from pyspark.sql import DataFrame, SparkSession

from rstreams import Message, Stream, blocking

Start = Callable[[SparkSession, str, str], None]


def publish(url: str, address: str, values: Iterable[Mapping[str, object]]) -> int:
    """Send values as JSON, and return how many the peer has accepted."""
    messages = (Message(json.dumps(value).encode(), content_type="application/json") for value in values)
    with blocking.connect(url) as connection:
        return connection.publish(address, Stream.from_iterable(messages)).accepted


def read_json(spark: SparkSession, url: str, address: str, fields: str, **options: str) -> DataFrame:
    """Return a queue as a stream of the fields of its JSON messages."""
    reader = spark.readStream.format("rstreams").option("url", url).option("address", address)
    reader = reader.option("bodyFormat", "json").option("bodySchema", fields).options(**options)
    return reader.load().select("body.*")


def main(run: Start) -> None:
    """Run an example: `run` gets the session, the url of the peer, and a folder for checkpoints and results."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", default="amqp://127.0.0.1:5672", help="the AMQP 1.0 peer")
    url = parser.parse_args().url
    builder = SparkSession.builder.master("local[2]").config("spark.sql.session.timeZone", "UTC")
    spark = rstreams_spark.session(builder.config("spark.sql.shuffle.partitions", "2"))
    with tempfile.TemporaryDirectory() as folder:
        run(spark, url, folder)
    spark.stop()
