"""The publisher of one station: sends its observations to the queue "observations", as fast as its credit allows.

    python -m examples.airports.publisher --url amqp://127.0.0.1:5672 --station EWR

It prints how far it is as lines of JSON: {"station": "EWR", "sent": 10}. In the last one it also says how many of them
the peer has accepted: {"station": "EWR", "sent": 8703, "accepted": 8703}.
"""

from __future__ import annotations

import argparse
import json
from itertools import count

import trio

import rstreams
from examples.airports.observations import OBSERVATIONS, STATIONS, Observation, read_file, weather_file
from rstreams import Message, Stream

REPORT_EVERY = 10


def as_message(observation: Observation) -> Message:
    """Return the message for an observation. Its id is made from station and hour: a second run sends the same ids."""
    time = observation.time.isoformat()
    return Message(
        body=json.dumps({"time": time, "temperature": observation.temperature}).encode(),
        id=f"{observation.station} {time}",
        subject=observation.station,
        content_type="application/json",
        properties={"unit": "fahrenheit"},
    )


async def publish(url: str, station: str) -> None:
    """Send all observations of a station and wait until each is accepted."""
    numbers = count(1)

    def report(_message: Message) -> None:
        if (sent := next(numbers)) % REPORT_EVERY == 0:
            print(json.dumps({"station": station, "sent": sent}), flush=True)

    async with rstreams.connect(url) as connection:
        # No row of the file is read before the node has given credit for it.
        observations = Stream.from_iterable(read_file(weather_file(), station))
        result = await connection.publish(OBSERVATIONS, observations.map(as_message).do_on_next(report))
    print(json.dumps({"station": station, "sent": next(numbers) - 1, "accepted": result.accepted}), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Publish a year of weather observations at an airport.")
    parser.add_argument("--url", required=True, help="the AMQP 1.0 peer, such as amqp://127.0.0.1:5672")
    parser.add_argument("--station", required=True, choices=STATIONS, help="the code of the airport")
    options = parser.parse_args()
    trio.run(publish, options.url, options.station)
