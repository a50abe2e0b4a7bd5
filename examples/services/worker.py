"""A worker for Kubernetes: all settings are variables, SIGTERM ends it in order, and a file tells that it is alive.

AMQP_URL=amqp://127.0.0.1:5672 QUEUE=orders ALIVE=/tmp/alive python -m examples.services.worker

At SIGTERM it takes no further message, finishes those in hand, and ends with exit code 0. A message that it had in hand
when it was killed comes again, here or at another worker. `worker.yaml` runs three of them.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from pathlib import Path

import rstreams.aio as rstreams

logger = logging.getLogger("worker")


async def handle(job: object) -> None:
    """Do a job. It is accepted when this function returns, and tried again if it raises an error."""
    await asyncio.sleep(0.05)  # put your own work here
    logger.info("done: %s", job)


async def say_alive(file: Path) -> None:
    """Touch a file while the event loop runs; the probe of `worker.yaml` looks how old it is."""
    while True:
        await asyncio.to_thread(file.touch)
        await asyncio.sleep(5)


def setting(name: str) -> str:
    """Return a variable of the environment; end the program with one line if it is not set."""
    return os.environ.get(name) or sys.exit(f"worker: the variable {name} is not set")


async def main() -> None:
    """Work until SIGTERM; a node that is not there yet is waited for, and a lost connection is made again."""
    url, queue, alive = setting("AMQP_URL"), setting("QUEUE"), Path(setting("ALIVE"))
    telling = asyncio.create_task(say_alive(alive))  # also while it waits for the node
    try:
        async with rstreams.connect(url, reconnect=rstreams.Reconnect(at_start=True)) as connection:
            logger.info("works on %s", queue)
            await connection.consume(queue, handle, concurrency=8, on_failure="modify")
    finally:
        telling.cancel()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    rstreams.run(main)
