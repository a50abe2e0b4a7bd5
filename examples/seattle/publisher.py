"""The publisher: sends every reading to the queue "readings", as fast as the credit it is given allows.

    python -m examples.seattle.publisher --url amqp://127.0.0.1:5672

It prints how far it is as lines of JSON: {"sent": 100}, and at the end {"sent": 8759, "accepted": 8759}.
"""

from __future__ import annotations

import argparse
import json
from itertools import count

import trio

import rstreams
from examples.seattle.readings import READINGS, Reading, seattle
from rstreams import Message, Stream

REPORT_EVERY = 100


def as_message(reading: Reading) -> Message:
    """Return the message for a reading; its id is the reading's time, so a second run would send the same ids."""
    time = reading.time.isoformat()
    return Message(
        body=json.dumps({"time": time, "temperature": reading.temperature}).encode(),
        id=time,
        subject="temperature",
        content_type="application/json",
        properties={"place": "Seattle", "unit": "fahrenheit"},
    )


async def publish(url: str) -> None:
    """Send all readings and wait until each is accepted."""
    numbers = count(1)

    def report(_message: Message) -> None:
        if (sent := next(numbers)) % REPORT_EVERY == 0:
            print(json.dumps({"sent": sent}), flush=True)

    async with rstreams.connect(url) as connection:
        # Nothing is taken from the file's rows that the node has not given credit for.
        messages = Stream.from_iterable(seattle()).map(as_message).do_on_next(report)
        result = await connection.publish(READINGS, messages)
    print(json.dumps({"sent": next(numbers) - 1, "accepted": result.accepted}), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Publish Seattle's temperatures of 2010.")
    parser.add_argument("--url", required=True, help="the AMQP 1.0 peer, such as amqp://127.0.0.1:5672")
    trio.run(publish, parser.parse_args().url)
