"""The subscriber: takes results from the queue "maxima" as they come, and keeps the last one of each day.

    python -m examples.seattle.subscriber --url amqp://127.0.0.1:5672

It prints each result as a line of JSON: {"day": "2010-01-31", "maximum": 51.8, "readings": 24}. It ends when the node
ends the connection, or by SIGTERM.
"""

from __future__ import annotations

import argparse
import json

import trio

import rstreams
from examples.seattle.readings import MAXIMA
from rstreams import Message


def as_result(message: Message) -> tuple[str, dict[str, float]]:
    """Return the day a message is about, which is its id, and what Spark knows of that day so far."""
    return str(message.id), json.loads(message.body)


async def subscribe(url: str) -> None:
    """Take results until the connection ends."""
    last: dict[str, dict[str, float]] = {}
    async with rstreams.connect(url) as connection:
        results = connection.messages(MAXIMA).map(as_result)
        # Each result is accepted when the loop asks for the next; the link never has more than 32 on the way.
        async with results.open(window=32) as items:
            async for day, result in items:
                last[day] = result  # Spark sends a day again whenever it knows more of it
                print(json.dumps({"day": day, **result}), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Print the daily maxima that Spark sends.")
    parser.add_argument("--url", required=True, help="the AMQP 1.0 peer, such as amqp://127.0.0.1:5672")
    trio.run(subscribe, parser.parse_args().url)
