"""A work queue: a job has three attempts, then it is a dead letter that says why; it is mended, and sent again.

python -m examples.services.work_queue
"""

from __future__ import annotations

import asyncio

import rstreams.aio as rstreams

JOBS = ("resize cat.png", "resize dog.jpg", "resize notes.txt", "resize bird.png")

done: list[str] = []
all_done = asyncio.Event()


async def resize(job: str) -> None:
    """Do a job; a job that raises an error is tried again."""
    await asyncio.sleep(0)  # where a real one would wait for the disk
    if job.endswith(".txt"):
        msg = f"{job.split()[1]} is no picture"
        raise ValueError(msg)
    done.append(job)
    if len(done) == len(JOBS):
        all_done.set()


async def work(url: str) -> None:
    """Take jobs: at most four at a time, and each is accepted when it has been done."""
    async with rstreams.connect(url, reconnect=rstreams.Reconnect()) as connection:
        await connection.consume("jobs", resize, concurrency=4, on_failure="modify")


async def mend(connection: rstreams.Connection) -> None:
    """Look at the first dead letter, and send a job that can be done in its place."""
    async with connection.messages("dead", settlement="manual").take(1).open() as letters:
        async for letter in letters:
            failure = letter.item.annotations["x-opt-rstreams-error-description"]
            print(f"dead: {letter.item.body}: {failure}")
            await connection.publish("jobs", rstreams.Stream.of("resize notes.png"))
            letter.accept()  # only now: the new job is safe


async def main() -> None:
    """Run the queue, two workers and a publisher."""
    async with rstreams.Node() as node:  # in production: `rstreams node --config node.toml`, or RabbitMQ
        node.queue("dead", capacity=1000)
        node.queue("jobs", capacity=100, dead_letters="dead", max_deliveries=3, redelivery_delay_s=0.01)
        url = (await node.listen("127.0.0.1:0")).url
        async with rstreams.connect(url) as connection, asyncio.TaskGroup() as tasks:
            workers = [tasks.create_task(work(url)) for _ in range(2)]
            print(await connection.publish("jobs", rstreams.Stream.of(*JOBS)))
            await mend(connection)
            await all_done.wait()
            for worker in workers:
                worker.cancel()
    print(f"done: {', '.join(sorted(done))}")


if __name__ == "__main__":
    rstreams.run(main)
