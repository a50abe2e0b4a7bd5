"""Sensors and a log: readings stay, a group shares them in the order of each sensor, and anyone replays them.

python -m examples.services.sensor_log
"""

from __future__ import annotations

import asyncio
import tempfile
from collections import defaultdict

import rstreams.aio as rstreams
from rstreams.aio import Message
from rstreams.message import decode_message

SENSORS = ("cellar", "kitchen", "roof")
READINGS = 30


async def measure(connection: rstreams.Connection) -> None:
    """Send the readings of all sensors; the log is on disk when they are accepted."""
    messages = [Message({"at": at, "celsius": 15 + at % 9}, subject=SENSORS[at % 3]) for at in range(READINGS)]
    await connection.publish("readings", rstreams.Stream.from_iterable(messages))


async def share(url: str, group: str) -> dict[str, list[int]]:
    """Let two members of a group read the log; return what came for each sensor, in its order."""
    seen: dict[str, list[int]] = defaultdict(list)
    every = asyncio.Event()

    def handle(message: Message) -> None:
        seen[message.subject or ""].append(message.body["at"])
        if sum(map(len, seen.values())) == READINGS:
            every.set()

    async def member() -> None:
        async with rstreams.connect(url) as connection:
            await connection.consume("readings", handle, group=group, decode=decode_message)

    async with asyncio.TaskGroup() as tasks:
        members = [tasks.create_task(member()) for _ in range(2)]
        await every.wait()
        for each in members:
            each.cancel()
    return seen


async def main() -> None:
    """Send, share the log in a group, and replay a part of it."""
    with tempfile.TemporaryDirectory() as folder:
        async with rstreams.Node(store=f"{folder}/store") as node:
            node.log("readings", partitions=2, key=lambda message: message.subject, retention_s=7 * 24 * 3600)
            url = (await node.listen("127.0.0.1:0")).url
            async with rstreams.connect(url) as connection:
                await measure(connection)
                seen = await share(url, "averages")
                for sensor in SENSORS:
                    print(f"{sensor}: {len(seen[sensor])} readings, in order: {seen[sensor] == sorted(seen[sensor])}")
                again = await connection.messages("readings-0", start="first").take(3).to_list()
                print("replayed:", [(message.subject, message.body["at"]) for message in again])


if __name__ == "__main__":
    rstreams.run(main)
