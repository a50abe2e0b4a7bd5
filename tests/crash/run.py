"""The crash harness: a node is killed (-9) at random while producers and consumers of its durable queues run.

    python -m tests.crash.run --kills 300 --seed 1 --json build/crash/crash.json

Each life of the node has these clients, until it is killed:

    plain   a producer at least once, and a consumer
    once    a producer effectively once, which sends its batch again after each crash, and a consumer
    work    a producer at least once, and a consumer that fails some messages; those become dead letters
    logs    see `tests.crash.logs`

In some lives the disk is full after a while. Then outcomes may have to wait, and no mark makes them certain.

A consumer settles a batch, and then publishes a mark to another durable queue of the node. When the mark is accepted,
the outcomes of the batch are certain to be safe, because they came to the node before the mark.

After each kill the files are copied and damaged at random. Recovery must then find the same state, or say that the copy
is damaged. At the end the queues are emptied, and the history of all this is judged: `history.jsonl`, beside the JSON.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final

import trio

import rstreams
from rstreams import Connection, Stream
from rstreams.errors import RStreamsError, StoreError
from rstreams.message import Message
from rstreams.store.directory import read_mark
from rstreams.store.recovery import recover
from tests.crash.logs import LogClients
from tests.crash.node import ATTEMPTS
from tests.crash.notes import NODE, Notes
from tests.processor import processor_s

FILES: Final = ("store.db", "store.db-wal", "mark")
READY_S: Final = 30.0
_FULL_LIFE: Final = 2
"""After so many kills there is a life with a full disk, unless none is wanted."""

EMPTY_S: Final = 60.0
COLUMNS: Final = ("sent", "accepted", "got", "done", "failed", "confirmed", "committed")
QUEUES: Final = ("plain", "once", "work")


class Harness:
    """The clients and their history.

    Args:
        folder: Where the store is.
        notes: The history.
        seed: Decides when the node is killed, and what its clients do.
        full_disk: The part of the lives in which the disk is full after a while; 0: none, else at least one.
    """

    def __init__(self, folder: Path, notes: Notes, seed: int, full_disk: float = 0.15) -> None:
        self.folder = folder
        self.full_disk = full_disk
        self.store = folder / "store"
        self.chance = random.Random(seed)  # noqa: S311 - a test
        self.notes = notes
        for name in (*QUEUES, "dead"):
            letters = {"dead_letters": "dead", "attempts": ATTEMPTS} if name == "work" else {}
            notes.note("address", address=name, part=NODE, promise="effectively_once", **letters)
            notes.note("subscribed", by=f"consumer of {name}", address=name, promise="at_least_once")
        self.logs = LogClients(self.chance, notes, lambda: self.certain, self.look_whether_begun)
        self.names = (*QUEUES, *self.logs.names)
        self.begun = trio.Event()
        self.accepted = trio.Event()  # in this life of the node
        self.next = dict.fromkeys(QUEUES, 0)
        self.batch = range(0)  # of the effectively once producer, not known to be accepted
        self.kills = self.early = self.full = self.damaged = self.refused = 0
        self.certain = True  # whether a mark makes the outcomes before it certain
        self.problems: list[str] = []

    # the node

    async def life(self, *, kill: bool) -> None:
        """Run the node once: until it is killed, or until its queues are empty."""
        self.accepted = trio.Event()
        command = [sys.executable, "-m", "tests.crash.node", str(self.store)]
        full = self.kills == _FULL_LIFE or self.chance.random() < self.full_disk
        self.certain = not (kill and self.kills and self.full_disk and full)
        if not self.certain:
            command.append(str(self.chance.randint(1, 60)))
            self.full += 1
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: ASYNC220 - nothing else runs yet
        assert process.stdout is not None
        try:
            if kill and self.kills and self.chance.random() < 0.1:  # while it starts
                await trio.sleep(self.chance.uniform(0.0, 0.6))
                self.early += 1
                return
            with trio.fail_after(READY_S):
                url = (await trio.to_thread.run_sync(process.stdout.readline, abandon_on_cancel=True)).strip()
            if not url:
                self.problems.append(f"the node did not start again: exit code {process.wait()}")
                return
            self.notes.note("started", part=NODE)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self.clients, url, kill)
                if kill:
                    with trio.fail_after(READY_S):
                        await self.begun.wait()
                        if self.certain and self.chance.random() < 0.8:  # otherwise while its clients connect
                            await self.accepted.wait()
                    await trio.sleep(self.chance.uniform(0.02, 0.8))
                    process.kill()
                    nursery.cancel_scope.cancel()
        finally:
            process.kill()
            if kill:
                self.notes.note("killed", part=NODE)
            process.wait()
            process.stdout.close()
            self.kills += kill

    def look_whether_begun(self) -> None:
        """Have the first kill wait until each producer has had messages accepted, and a later one until one has."""
        self.accepted.set()
        if all(self.notes.counts[name]["accepted"] for name in self.names):
            self.begun.set()

    async def clients(self, url: str, produce: bool) -> None:  # noqa: FBT001 - a task
        async with trio.open_nursery() as nursery:
            if produce:
                for name in ("plain", "work"):
                    nursery.start_soon(self.client, url, self.produce, name)
                nursery.start_soon(self.client, url, self.produce_once, "once")
                for work, name in self.logs.producers():
                    nursery.start_soon(self.client, url, work, name)
            for work, name in self.logs.consumers():
                nursery.start_soon(self.client, url, work, name)
            for name in (*QUEUES, "dead"):
                nursery.start_soon(self.client, url, self.consume, name)
            if not produce:
                await self.client(url, self.finish, "once")
                nursery.cancel_scope.cancel()

    async def client(self, url: str, work: Callable[[Connection, str], Awaitable[None]], name: str) -> None:
        """Do the work of one client on a connection of its own, until the node is gone."""
        try:
            async with rstreams.connect(url) as connection:
                await work(connection, name)
        except* RStreamsError as group:
            gone = [error for error in _leaves(group) if "amqp:not-found" in str(error)]
            self.problems += [
                f"{name}: {error}" for error in gone
            ]  # otherwise the node was killed, or its disk is full

    # the clients

    async def produce(self, connection: Connection, name: str) -> None:
        while True:
            begin = self.next[name]
            self.next[name] = end = begin + self.chance.randint(1, 60)
            with self.sending(name, range(begin, end)):
                await connection.publish(name, Stream.from_iterable(map(_message, range(begin, end))))
            self.look_whether_begun()

    def sending(self, name: str, numbers: range) -> AbstractContextManager[None]:
        return self.notes.sending(f"producer of {name}", ({"address": name, "item": number} for number in numbers))

    async def produce_once(self, connection: Connection, name: str) -> None:
        while True:
            await self.send_once(connection, name)
            begin = self.batch.stop
            self.batch = range(begin, begin + self.chance.randint(1, 200))

    async def send_once(self, connection: Connection, name: str) -> None:
        if self.batch:
            items = Stream.from_iterable(map(_message, self.batch))
            with self.sending(name, self.batch):
                await connection.publish(
                    name, items, settlement="effectively_once", producer_id="p", first_sequence=self.batch.start
                )
            self.look_whether_begun()

    async def consume(self, connection: Connection, name: str) -> None:
        who: dict[str, Any] = {"by": f"consumer of {name}", "address": name}
        while True:
            told: list[int] = []
            most = self.chance.randint(1, 40)
            async with connection.messages(name, settlement="manual").take(most).open() as deliveries:
                with trio.move_on_after(0.2):
                    async for delivery in deliveries:
                        number = delivery.item.body["number"]
                        attempts = {} if name == "dead" else {"attempt": delivery.item.delivery_count + 1}
                        self.notes.note("got", item=number, **attempts, **who)
                        if name == "work" and number % 7 == 0:
                            delivery.modify()
                            self.notes.note("failed", item=number, **who)
                        else:
                            delivery.accept()
                            self.notes.note("done", item=number, **who)
                        told.append(number)
            await connection.publish("marks", Stream.of(len(told)))
            if self.certain:
                for number in told:
                    self.notes.note("confirmed", item=number, **who)

    async def finish(self, connection: Connection, name: str) -> None:
        """Send what is not known to be accepted, and wait until the queues are empty."""
        await self.send_once(connection, name)
        with trio.move_on_after(EMPTY_S):
            while True:
                numbers = await connection.stream("$statistics").first_or_none()
                assert numbers is not None, "each request is answered"
                queues = [numbers["queues"][each] for each in ("plain", "once", "work", "dead")]
                left = any(each["ready"] + each["unsettled"] + each["leaving"] + each["unsafe"] for each in queues)
                if not left and self.logs.is_through(numbers):
                    await self.logs.finish(connection, numbers)
                    for each in (*QUEUES, "dead"):
                        self.notes.note("left", address=each, ready=0, unsettled=0)
                    self.notes.note("end")
                    return
        self.problems.append("the queues did not become empty, or the logs were not read")

    # damage

    def damage(self) -> None:
        """Damage a copy of the files: recovery finds the same state, or says that it is damaged."""
        if not (self.store / "store.db").exists():
            return
        copy = self.folder / "damaged"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(self.store, copy)
        whole, mark = recover(copy), read_mark(copy)
        promised = mark[1] if mark else 0
        file = copy / self.chance.choice([name for name in FILES if (copy / name).exists()])
        data = bytearray(file.read_bytes())
        if not data:
            return
        at, what = self.chance.randrange(len(data)), self.chance.choice(("cut off", "flipped", "written over"))
        if what == "cut off":
            del data[at:]
        elif what == "flipped":
            data[at] ^= 1 << self.chance.randrange(8)
        else:
            data[at : at + 512] = self.chance.randbytes(512)
        file.write_bytes(data)
        self.damaged += 1
        try:
            found = recover(copy)
        except StoreError:
            self.refused += 1
            return
        if promised <= found.commits < whole.commits:
            return  # the last commit was not promised yet: the node was killed before it wrote the mark
        if (found.commits, found.ledgers, found.records) != (whole.commits, whole.ledgers, whole.records):
            self.problems.append(f"{file.name} was {what} at {at}, and recovery found another state without an error")

    async def run(self, kills: int, *, seconds: float = math.inf, verbose: bool) -> dict[str, Any]:
        begin = time.monotonic()
        while self.kills < kills and time.monotonic() < begin + seconds and not self.problems:
            await self.life(kill=True)
            self.damage()
            if verbose and self.kills % 20 == 0:
                print(f"{self.kills} kills, {self.notes.counts['plain']['accepted']} accepted", flush=True)  # noqa: T201
        if not self.problems:
            await self.life(kill=False)
        processor = processor_s()
        if not self.problems:
            self.problems += [f"{finding.kind}: {finding.text}" for finding in self.notes.judge()]
        return {
            "kills": self.kills,
            "while starting": self.early,
            "with a full disk": self.full,
            "damaged copies": self.damaged,
            "of them refused": self.refused,
            "seconds": round(time.monotonic() - begin, 1),
            "seconds of processor": round(processor, 1),
            "faults a second of processor": round((self.kills + self.full + self.damaged) / processor, 2),
            "queues": {name: {event: self.notes.counts[name][event] for event in COLUMNS} for name in self.names},
            "problems": self.problems,
        }


def _leaves(error: BaseException) -> list[BaseException]:
    """Return the errors of a group, of any depth."""
    if isinstance(error, BaseExceptionGroup):
        return [leaf for each in error.exceptions for leaf in _leaves(each)]
    return [error]


def _message(number: int) -> Message:
    return Message({"number": number, "body": bytes(number * 37 % 1500)})


def main() -> int:
    """Run the harness; print a table; return 1 if something was wrong."""
    parser = argparse.ArgumentParser(description="kill a node at random, and count what its durable queues keep")
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--seconds", type=float, default=math.inf, help="kill no more after so long")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--full-disk",
        type=float,
        default=0.15,
        help="part of the lives with a full disk; 0: none, else at least one (%(default)s)",
    )
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rstreams-crash-") as folder:
        history = (
            Path(folder) / "history.jsonl" if arguments.json is None else arguments.json.with_name("history.jsonl")
        )
        harness = Harness(Path(folder), Notes(history), arguments.seed, arguments.full_disk)
        result = trio.run(lambda: harness.run(arguments.kills, seconds=arguments.seconds, verbose=sys.stderr.isatty()))
    print(f"{'queue':8}" + "".join(f"{head:>11}" for head in COLUMNS))  # noqa: T201
    for name, numbers in result["queues"].items():
        print(f"{name:8}" + "".join(f"{numbers[head]:>11}" for head in COLUMNS))  # noqa: T201
    print("\n".join(result["problems"]), end="\n" * bool(result["problems"]))  # noqa: T201
    told = ", ".join(f"{key} {result[key]}" for key in result if key not in ("queues", "problems"))
    print(f"crash: {told}, {len(result['problems'])} failed")  # noqa: T201
    if arguments.json is not None:
        arguments.json.write_text(json.dumps({"seed": arguments.seed, **result}, indent=2) + "\n")
    return 1 if result["problems"] else 0


if __name__ == "__main__":
    sys.exit(main())
