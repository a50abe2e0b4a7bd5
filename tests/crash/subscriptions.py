"""The crash harness of named subscriptions: a node is killed (-9) at random while a durable multicast is in use.

    python -m tests.crash.subscriptions --kills 100 --seed 1

Each life of the node has a publisher at least once, a publisher effectively once, and two named subscribers, which come
and go. A subscriber settles a batch, and then publishes a mark to a durable queue: when the mark is accepted, the
outcomes before it are certain to be safe. At the end the backlogs are emptied, and the history of all this is judged.
"""

from __future__ import annotations

import argparse
import logging
import random
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final

import trio

import rstreams
from rstreams import Connection, Node, Stream
from rstreams.errors import RStreamsError
from tests.crash.notes import NODE, Notes

SUBSCRIBERS: Final = ("billing", "audit")
READY_S: Final = 30.0
EMPTY_S: Final = 60.0


async def node(store: str) -> None:
    """Be the node; print the url."""
    logging.basicConfig(level=logging.ERROR)
    async with Node(store=store) as node:
        node.multicast("prices", durable=True, backlog=None)
        node.queue("marks", durable=True, capacity=None)
        listener = await node.listen("127.0.0.1:0")
        print(listener.url, flush=True)  # noqa: T201 - the harness reads it
        await trio.sleep_forever()


class Harness:
    """The clients and their history.

    Args:
        store: The store of the node.
        notes: The history.
        seed: Decides when the node is killed, and what its clients do.
    """

    def __init__(self, store: Path, notes: Notes, seed: int) -> None:
        self.store = store
        self.notes = notes
        notes.note("address", address="prices", part=NODE, copies=True, promise="effectively_once")
        for name in SUBSCRIBERS:
            who = {"by": name, "address": "prices", "subscription": name}
            notes.note("subscribed", promise="at_least_once", **who, **{"from": "first"})
        self.chance = random.Random(seed)  # noqa: S311 - a test
        self.next = 0
        self.batch = range(0)  # of the publisher effectively once, not known to be accepted
        self.begun: set[str] = set()  # the subscribers that are attached in this life
        self.all_begun = trio.Event()
        self.problems: list[str] = []

    async def life(self, *, kill: bool) -> None:
        """Run the node once: until it is killed, or until the backlogs are empty."""
        command = [sys.executable, "-m", "tests.crash.subscriptions", "--node", str(self.store)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: ASYNC220 - nothing else runs
        assert process.stdout is not None
        self.begun.clear()
        self.all_begun = trio.Event()
        try:
            with trio.fail_after(READY_S):
                url = (await trio.to_thread.run_sync(process.stdout.readline, abandon_on_cancel=True)).strip()
            if not url:
                self.problems.append(f"the node did not start again: exit code {process.wait()}")
                return
            self.notes.note("started", part=NODE)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self.clients, url, kill)
                if kill:
                    await trio.sleep(self.chance.uniform(0.02, 0.7))
                    process.kill()
                    nursery.cancel_scope.cancel()
        finally:
            process.kill()
            if kill:
                self.notes.note("killed", part=NODE)
            process.wait()
            process.stdout.close()

    # The publishers begin when all subscribers are attached. Otherwise a subscription that was begun in the last moment
    # of a life, and is not in the store, would miss messages that are not for it.

    async def clients(self, url: str, publish: bool) -> None:  # noqa: FBT001 - a task
        async with trio.open_nursery() as nursery:
            for name in SUBSCRIBERS:
                nursery.start_soon(self.client, url, self.subscribe, name)
            await self.all_begun.wait()
            if publish:
                nursery.start_soon(self.client, url, self.publish, "plain")
                nursery.start_soon(self.client, url, self.publish_once, "once")
            else:
                await self.client(url, self.finish, "once")
                nursery.cancel_scope.cancel()

    async def client(self, url: str, work: Callable[[Connection, str], Awaitable[None]], name: str) -> None:
        """Do the work of one client on a connection of its own, until the node is gone."""
        try:
            async with rstreams.connect(url, container_id=name) as connection:
                await work(connection, name)
        except* RStreamsError:
            pass  # the node was killed

    async def publish(self, connection: Connection, name: str) -> None:
        while True:
            begin = self.next
            self.next = end = begin + self.chance.randint(1, 60)
            with self.sending(name, range(begin, end)):
                await connection.publish("prices", Stream.range(begin, end).map(lambda number: [name, number]))

    async def publish_once(self, connection: Connection, name: str) -> None:
        while True:
            await self.send_once(connection, name)
            begin = self.batch.stop
            self.batch = range(begin, begin + self.chance.randint(1, 200))

    async def send_once(self, connection: Connection, name: str) -> None:
        if self.batch:
            items = Stream.from_iterable(self.batch).map(lambda number: [name, number])
            with self.sending(name, self.batch):
                await connection.publish(
                    "prices", items, settlement="effectively_once", producer_id="p", first_sequence=self.batch.start
                )

    def sending(self, name: str, numbers: range) -> AbstractContextManager[None]:
        return self.notes.sending(name, ({"address": "prices", "item": f"{name} {number}"} for number in numbers))

    async def subscribe(self, connection: Connection, name: str) -> None:
        who: dict[str, Any] = {"by": name, "address": "prices", "subscription": name}
        while True:
            told: list[str] = []
            most = self.chance.randint(1, 40)
            stream = connection.stream("prices", subscription=name, settlement="manual").take(most)
            async with stream.open() as deliveries:
                if name not in self.begun:  # the node answers requests of a connection in their order
                    await connection.stream("$statistics").first_or_none()
                    self.begun.add(name)
                    if len(self.begun) == len(SUBSCRIBERS):
                        self.all_begun.set()
                with trio.move_on_after(0.1):
                    async for delivery in deliveries:
                        sender, number = delivery.item
                        item = f"{sender} {number}"
                        self.notes.note("got", item=item, **who)
                        delivery.accept()
                        self.notes.note("done", item=item, **who)
                        told.append(item)
            await connection.publish("marks", Stream.of(len(told)))
            for item in told:
                self.notes.note("confirmed", item=item, **who)

    async def finish(self, connection: Connection, name: str) -> None:
        """Send the messages that are not known to be accepted, and wait until the backlogs are empty."""
        await self.send_once(connection, name)
        with trio.move_on_after(EMPTY_S):
            while True:
                numbers = await connection.stream("$statistics").first_or_none()
                assert numbers is not None, "each request is answered"
                named = numbers["multicasts"]["prices"]["named"]
                if len(named) == len(SUBSCRIBERS) and not any(each["waiting"] + each["unsettled"] for each in named):
                    self.notes.note("left", address="prices", ready=0, unsettled=0)
                    self.notes.note("end")
                    return
        self.problems.append("the backlogs did not become empty")

    async def run(self, kills: int) -> bool:
        """Kill the node so often; return whether everything was right."""
        for _ in range(kills):
            await self.life(kill=True)
        await self.life(kill=False)
        self.problems += [f"{finding.kind}: {finding.text}" for finding in self.notes.judge()]
        print(*self.problems, dict(self.notes.counts["prices"]), sep="\n")  # noqa: T201
        return not self.problems and self.notes.counts["prices"]["confirmed"] > 0


def main() -> int:
    """Run the harness; return 1 if something was wrong."""
    parser = argparse.ArgumentParser(description="kill a node at random, and count what its named subscriptions keep")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--node", metavar="STORE", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.node:
        trio.run(node, arguments.node)
        return 0
    with tempfile.TemporaryDirectory(prefix="rstreams-crash-") as folder:
        harness = Harness(Path(folder) / "store", Notes(Path(folder) / "history.jsonl"), arguments.seed)
        return 0 if trio.run(harness.run, arguments.kills) else 1


if __name__ == "__main__":
    sys.exit(main())
