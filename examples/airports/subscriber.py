"""The subscriber: takes results from the queue "maxima" as they come, and keeps the last one of each station and day.

    python -m examples.airports.subscriber --url amqp://127.0.0.1:5672

It prints each result as a line of JSON: {"station": "EWR", "day": "2013-01-31", "maximum": 57.92, "observations": 24,
"without_temperature": 0}. It ends when the node ends the connection, or by SIGTERM.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict

import trio

import rstreams
from examples.airports.observations import MAXIMA
from examples.airports.results import Result, StationDay
from rstreams import Message


def as_result(message: Message) -> tuple[StationDay, Result]:
    """Return the station and the day that are the id of a message, and what Spark knows of that day so far."""
    return StationDay.parse(str(message.id)), Result.from_json(json.loads(message.body))


async def subscribe(url: str) -> None:
    """Take results until the connection ends."""
    last: dict[StationDay, Result] = {}
    async with rstreams.connect(url) as connection:
        results = connection.messages(MAXIMA).map(as_result)
        # Each result is accepted when the loop asks for the next; the link never has more than 32 on the way.
        async with results.open(window=32) as items:
            async for station_day, result in items:
                last[station_day] = result  # Spark sends a day again whenever it knows more of it
                print(json.dumps({**station_day._asdict(), **asdict(result)}), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Print the daily maxima that Spark sends.")
    parser.add_argument("--url", required=True, help="the AMQP 1.0 peer, such as amqp://127.0.0.1:5672")
    trio.run(subscribe, parser.parse_args().url)
