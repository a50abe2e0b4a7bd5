"""A consumer that writes batches into a database with aiosqlite: an item is accepted when its batch is committed.

python -m examples.frameworks.into_sqlite amqp://127.0.0.1:5672 readings.db
"""

from __future__ import annotations

import asyncio
import sys
from typing import TypedDict

import aiosqlite

import rstreams.aio as rstreams


class Reading(TypedDict):
    """A measurement of a station."""

    station: str
    celsius: float


async def store_readings(url: str, path: str, *, most: int = 500, wait_s: float = 1.0) -> None:
    """Store what comes, `most` readings or those of `wait_s` seconds in one transaction, until the stream ends.

    A batch that could not be committed is not accepted: the queue delivers it again.
    """
    async with aiosqlite.connect(path) as database, rstreams.connect(url, reconnect=rstreams.Reconnect()) as connection:
        await database.execute("CREATE TABLE IF NOT EXISTS readings (station TEXT, celsius REAL)")

        async def store(batch: list[Reading]) -> None:
            await database.executemany("INSERT INTO readings VALUES (:station, :celsius)", batch)
            await database.commit()

        readings: rstreams.Stream[Reading] = connection.stream("readings", window=2 * most)
        await readings.buffer_count_or_time(most, wait_s).for_each(store)


if __name__ == "__main__":
    asyncio.run(store_readings(*sys.argv[1:3]))
