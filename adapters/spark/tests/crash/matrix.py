"""One run of the crash matrix: a query copies numbered messages, and a fault is done to it at one step of a batch.

    RUN = mode x fault x step

Theory of operation. The query runs in a driver of its own, and reaches the broker through a `FaultyNetwork`. A step is
reached in one of two ways. Frames are seen by the network: a transfer, a disposition. All other steps are places of
`points`, where a process of the query stops itself. When the step is reached the fault is done; a stopped process that
lives goes on. If the query has ended it is started again from its checkpoint. It must come to its end, and then the
messages are looked for where the query wrote them. The history of all this is judged.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import trio

import rstreams
from adapters.spark.tests.crash.log_node import LogNode
from adapters.spark.tests.crash.processes import HERE, Child, Driver, go_on, kill
from rstreams.simulation.checker import check
from rstreams.simulation.history import History
from rstreams.testing import FaultyNetwork

MESSAGES: Final = 48
LIMIT: Final = 12
WAIT_S: Final = 240.0
REACH_WAIT_S: Final = 60.0

MODES: Final = ("wal", "sink", "queue")
LOG: Final = "log"
"""The mode that is run for itself: from a log to a log."""
FAULTS: Final = ("jvm", "runner", "worker", "broker", "cut", "stall")
FRAMES: Final = {
    # By the frame: its kind, its direction, its number from the time when the fault is armed, and the place.
    "receive.before": ("transfer", "to_client", 1, "before"),
    "receive.middle": ("transfer", "to_client", LIMIT // 2, "inside"),
    "receive.after": ("transfer", "to_client", LIMIT, "after"),
    "settle.before": ("disposition", "to_peer", 1, "before"),
    "settle.after": ("disposition", "to_peer", 1, "after"),
}
PLACES: Final = (
    "spool.before",
    "spool.after",
    "sync.before",
    "sync.after",
    "offset.before",
    "offset.after",
    "commit.before",
    "commit.after",
)
STEPS: Final = (*FRAMES, *PLACES)
RANDOM: Final = "random time"

LOG_FRAMES: Final = {
    # As above, and the network: "source" of the link that reads, "sink" of the one that sends.
    "read.before": ("source", "transfer", "to_client", 1, "before"),
    "read.middle": ("source", "transfer", "to_client", 1, "inside"),
    "read.after": ("source", "transfer", "to_client", 1, "after"),
    "send.before": ("sink", "transfer", "to_peer", 1, "before"),
    "send.after": ("sink", "transfer", "to_peer", 1, "after"),
    "accept.before": ("sink", "disposition", "to_client", 1, "before"),
    "accept.after": ("sink", "disposition", "to_client", 1, "after"),
}
LOG_STEPS: Final = (*LOG_FRAMES, *PLACES[4:])
"""In log mode nothing is spooled or synced."""


def steps_of(mode: str) -> tuple[str, ...]:
    """Return the steps of a mode."""
    return LOG_STEPS if mode == LOG else STEPS


@dataclass(frozen=True)
class Cell:
    """A mode, a fault and a step."""

    mode: str
    fault: str
    step: str

    @property
    def possible(self) -> bool:
        """Whether there is such a step: only the write-ahead log is synced."""
        return not (self.mode == "queue" and self.step.startswith("sync"))


@dataclass
class Outcome:
    """What a run came to.

    Attributes:
        cell: What was done.
        reached: Whether the step was reached, and the fault done.
        starts: How many times the query was started.
        errors: The first line of each failure of the query.
        problems: What is wrong.
        seconds: How long it took.
    """

    cell: Cell
    reached: bool = False
    starts: int = 0
    errors: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    seconds: float = 0.0


class Copies:
    """The history of a run: messages that are accepted from a publisher, and come to the place that the query writes.

    Args:
        cell: What is done; a message comes once, but without a log of what was written it may come again after a fault.
    """

    def __init__(self, cell: Cell) -> None:
        self.history = History(time.monotonic)
        self._is_exact = cell.mode != "queue"
        promise = "effectively_once" if self._is_exact else "at_least_once"
        order = "producer" if cell.mode == LOG else "none"
        self.history.note("address", address="copy", promise=promise, order=order, copies=True)
        self.history.note("subscribed", by="query", address="copy")
        for event in ("sent", "accepted"):
            for number in range(MESSAGES):
                self.history.note(event, by="publisher", address="copy", item=f"m-{number}")

    def came(self, copied: Iterable[dict[str, object]], most: int) -> None:
        """Note what came, and the most messages that were granted or unsettled at one time, as the broker saw it."""
        if self._is_exact:
            self.history.note("healed")
        for copy in copied:
            self.history.note("got", by="query", address="copy", **copy)
            self.history.note("done", by="query", address="copy", item=copy["item"])
        self.history.note("healed")
        self.history.note("level", of="what is granted or unsettled", value=most, most=LIMIT)
        self.history.note("end")


class Matrix:
    """The processes that all runs share.

    Context: One trio task.
    """

    def __init__(self, folder: Path, histories: Path, runs: int, seed: int) -> None:
        """Start nothing yet.

        Args:
            folder: For all files; it is empty.
            histories: For the history of each run.
            runs: How many runs there will be, at most.
            seed: Of random times.
        """
        self._folder = folder
        self._histories = histories
        self._random = random.Random(seed)  # noqa: S311 - no secret
        self._runs = runs
        self._number = -1
        self._broker = Child(HERE / "broker.py")
        self._sink = Child(HERE.parent / "node_process.py", *(f"out-{n}" for n in range(runs)))
        self.driver = Driver(folder / "driver.log")
        self._port = "0"
        self._sink_port = "0"

    async def start(self) -> None:
        """Start both brokers."""
        await self._start_broker()
        self._sink_port = await self._sink.start()

    async def stop(self) -> None:
        """End all processes."""
        for child in (self.driver, self._broker, self._sink):
            await child.kill()

    async def run(self, cell: Cell) -> Outcome:
        """Do one run."""
        self._number += 1
        outcome = Outcome(cell)
        began = trio.current_time()
        folder = self._folder / f"run-{self._number}"
        folder.mkdir()
        copies = Copies(cell)
        node = LogNode(folder) if cell.mode == LOG else None
        if node is not None:
            await node.start(MESSAGES)
        ports = (self._port, self._sink_port) if node is None else (node.port, node.port)
        run = _Run(self, self._number, folder, outcome, node)
        run.history = copies.history
        try:
            with trio.fail_after(WAIT_S):
                async with (
                    FaultyNetwork(int(ports[0])) as run.network,
                    FaultyNetwork(int(ports[1])) as run.sink_network,
                ):
                    await run.go()
        except (trio.TooSlowError, RuntimeError, OSError) as error:
            outcome.problems.append(f"{type(error).__name__}: {error}")
            await self.driver.kill()
        if node is None:
            copies.came(await self._copied(cell, folder), await self._most())
        else:
            copies.came(await node.copied(), 0)
            await node.kill()
        copies.history.write(self._histories / f"{self._number}.jsonl")
        outcome.problems += [f"{finding.kind}: {finding.text}" for finding in check(copies.history.events)]
        outcome.seconds = round(trio.current_time() - began, 1)
        return outcome

    def accepted(self) -> int:
        """Return how many messages of the present run were accepted."""
        with suppress(FileNotFoundError):
            return len(set((self._folder / f"in-{self._number}.accepted").read_text().split()))
        return 0

    def random(self) -> float:
        """Return a random number from 0 to 1."""
        return self._random.random()

    async def restart_broker(self) -> None:
        """Kill the broker, and start it again at its port."""
        await self._broker.kill()
        await self._start_broker()

    async def _start_broker(self) -> None:
        self._port = await self._broker.start(self._port, str(self._folder), str(self._runs), str(MESSAGES))

    async def _most(self) -> int:
        with trio.move_on_after(10):
            async with rstreams.connect(f"amqp://127.0.0.1:{self._port}") as connection:
                return int(await connection.stream(f"in-{self._number}/most").first_or_none() or 0)
        return -1

    async def _copied(self, cell: Cell, folder: Path) -> list[dict[str, object]]:
        if cell.mode != "sink":
            return [{"item": row["message_id"]} for row in rows_in_table(folder / "table")]
        async with rstreams.connect(f"amqp://127.0.0.1:{self._sink_port}") as connection:
            statistics: Any = await connection.stream("$statistics").first_or_none()
            count = int(statistics["queues"][f"out-{self._number}"]["ready"])
            if not count:
                return []
            messages = await connection.messages(f"out-{self._number}").take(count).to_list()
        return [{"item": str(message.id)} for message in messages]


class _Run:
    def __init__(self, matrix: Matrix, number: int, folder: Path, outcome: Outcome, node: LogNode | None) -> None:
        self._matrix = matrix
        self._node = node
        self._driver = matrix.driver
        self._cell = outcome.cell
        self._number = number
        self._folder = folder
        self._outcome = outcome
        self.history: History
        self.network: FaultyNetwork
        self.sink_network: FaultyNetwork

    async def go(self) -> None:
        await self._start()
        await self._until((self._folder / "checkpoint" / "commits" / "0").exists)
        pid = await self._reach()
        self._outcome.reached = pid is not None
        if pid is not None:
            self.history.note("fault", name=self._cell.fault)
            await self._fault(pid)
            if pid:
                go_on(pid)
        await self._finish()

    async def _start(self) -> None:
        self._outcome.starts += 1
        await self._driver.ask(
            do="start",
            mode=self._cell.mode,
            folder=str(self._folder),
            source=self.network.url,
            address=f"in-{self._number}" if self._node is None else "in",
            sink=self.sink_network.url,
            out=f"out-{self._number}" if self._node is None else "out",
            limit=LIMIT,
        )

    async def _reach(self) -> int | None:
        """Wait for the step; return the process that has stopped there, 0 if none has; None if it is not reached."""
        step = self._cell.step
        if step == RANDOM:
            await trio.sleep(self._matrix.random() * 1.5)  # the case is a random moment, not an event
            return 0
        with trio.move_on_after(REACH_WAIT_S):
            if self._is_frame:
                network, kind, direction, nth, place = LOG_FRAMES[step] if self._node else ("source", *FRAMES[step])
                tapped = self.network if network == "source" else self.sink_network
                trigger = tapped.when(kind, direction=direction, nth=nth, at=place)  # type: ignore[arg-type]
                if self._cell.fault == "cut":
                    trigger.reset()
                else:
                    trigger.stall()  # what comes behind the place does not pass before the process has died
                try:
                    await trigger.done()
                finally:
                    trigger.cancel()  # if it is not reached in time, it must not stall the rest
                return 0
            (self._folder / "arming").write_text(step)
            (self._folder / "arming").rename(self._folder / "armed")
            reached = self._folder / "reached"
            await self._until(reached.exists)
            return int(reached.read_text())
        (self._folder / "armed").unlink(missing_ok=True)
        return None

    async def _fault(self, pid: int) -> None:
        """Do the fault; `pid` is the process that has stopped at the step, 0 if none has."""
        fault, driver = self._cell.fault, self._driver
        match fault:
            case "jvm":
                await driver.kill()
            case "runner":
                kill(driver.runner())
            case "worker":
                for worker in [pid] if pid and pid != driver.runner() else driver.workers():
                    kill(worker)
            case "broker":
                await (self._matrix if self._node is None else self._node).restart_broker()
            case "stall":
                await self._stall(pid)
        if fault in ("cut", "stall") or self._is_frame:
            self._cut()  # what was held back is lost with the process that was killed

    def _networks(self) -> Sequence[FaultyNetwork]:
        return (self.network, self.sink_network) if self._cell.mode in ("sink", LOG) else (self.network,)

    @property
    def _is_frame(self) -> bool:
        return self._cell.step in (FRAMES if self._node is None else LOG_FRAMES)

    async def _stall(self, pid: int) -> None:
        for network in self._networks():
            network.stall()
        if pid:
            go_on(pid)
        await trio.sleep(0.3 + self._matrix.random())  # the fault is a silence that lasts; no event ends it

    def _cut(self) -> None:
        for network in self._networks():
            for connection in list(network.live):
                connection.reset()
            network.heal()

    async def _finish(self) -> None:
        """Start the query again as often as it fails, until all is copied; the driver is asked, it tells nothing."""
        while True:
            state: dict[str, Any] = {"active": False, "error": ""}
            if self._driver.process is not None:
                if self._node is not None or self._matrix.accepted() == MESSAGES:
                    state = await self._driver.ask(do="finish")
                    if not state["error"]:
                        return
                else:
                    state = await self._driver.ask(do="state")
            if state["error"]:
                self._outcome.errors.append(str(state["error"]).partition("\n")[0][:300])
            if not state["active"]:
                (self._folder / "armed").unlink(missing_ok=True)
                await self._start()
            await trio.sleep(0.05)

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():  # noqa: ASYNC110 - what another process does
            await trio.sleep(0.01)


def rows_in_table(table: Path) -> list[dict[str, Any]]:
    """Return the rows in a table of Spark's file sink: in the files that its log names."""
    files: set[str] = set()
    for log in (table / "_spark_metadata").glob("*"):
        if log.name.startswith("."):
            continue
        for line in log.read_text().splitlines()[1:]:
            files.add(json.loads(line)["path"].removeprefix("file://"))
    return [json.loads(line) for file in files for line in Path(file).read_text().splitlines()]
