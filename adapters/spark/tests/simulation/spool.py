"""Spark's source in a simulation: its intake, its runner, its spool and its write-ahead log.

A played Spark asks a query for batches, processes them with a sink that replaces what it has of a batch, and commits
them. The query is killed between any two steps, stopped, and begun again with its checkpoint. What is left out are the
threads of `_receiver`, which hand calls to the intake, the patience of `_losses`, `prefetch` and `availableNow`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager
from types import SimpleNamespace
from typing import Any, Final
from unittest.mock import patch

import pyarrow as pa
import trio
from pyspark.sql.streaming.datasource import ReadMaxRows
from rstreams_spark import _reader, _wal
from rstreams_spark._intake import BatchLost, RowIntake
from rstreams_spark._options import SourceOptions
from rstreams_spark._reader import QueueReader, _Runner
from rstreams_spark._record_batches import RecordBatches
from rstreams_spark._schema import spooled_columns
from rstreams_spark._waiting_rows import MAX_ROWS
from rstreams_spark.errors import SourceFailed

import rstreams
from rstreams import Message, Reconnect
from rstreams.errors import RStreamsError
from rstreams.node.queue import Queue
from rstreams.runtime.scope import open_nursery
from rstreams.simulation.weather import OF_PAIRS, Kind
from rstreams.simulation.workloads._programs import (
    IDLE_S,
    BrokenPromiseError,
    ProducerProgram,
    at_rest,
    connected,
    note_left,
)
from rstreams.simulation.world import World

_QUIET_S: Final = 6.5
"""When nothing fails any more."""


class _Receiver:
    """Plays `_receiver.Receiver` without its thread: the rows of a batch have come before they are asked for."""

    def __init__(self, intake: RowIntake) -> None:
        self.intake = intake
        self.rows: list[pa.RecordBatch] = []
        self.awaited = 0

    @property
    def losses(self) -> int:
        """How often the connection was lost."""
        return self.intake.losses

    def collect(self, _committed: int, _most: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows that have come."""
        rows, self.rows = self.rows, []
        return iter(rows)

    def settle(self, taken: int) -> None:
        """Settle the first `taken` messages."""
        self.intake.settle(taken)

    def settle_when_committed(self, _end: dict[str, object], taken: int) -> None:
        """Settle the first `taken` messages when the query has committed them."""
        self.awaited = taken

    def close(self) -> None:
        """Give back what is not settled."""
        self.intake.give_back()


class _Query:
    """A query of Spark, which outlives its runners: its checkpoint, its sink, and its folders."""

    def __init__(self, world: World, url: str) -> None:
        random = world.random
        self.world = world
        self.url = url
        self.queue: Queue | None = None
        self.folder = tempfile.TemporaryDirectory(prefix="rstreams-")
        self.logged = random.random() < 0.6
        most = random.choice((1, 3, 20))
        given = {
            "url": "amqp://node:5672",
            "address": "jobs",
            "maxMessagesPerTrigger": str(most),
            "numPartitions": str(random.choice((1, 3))),
            "maxTriggerDelay": random.choice(("50ms", "300ms")),
            "walDir" if self.logged else "spoolDir": f"{self.folder.name}/batches",
        }
        self.options = SourceOptions.parse(given)
        self.most_rows = random.choice((1, 2, MAX_ROWS))  # of a record batch: a batch may come in several parts
        self.has_commit_log = random.random() < 0.5
        self.stops = random.choice((0.0, 0.1))
        self.done: list[str] = []
        self._random = world.numbers("query")
        self._committed: dict[str, Any] | None = None
        self._planned: dict[str, Any] | None = None
        self._sink: dict[int, list[str]] = {}

    def clock(self) -> AbstractContextManager[object]:
        """Have the write-ahead log read the clock of the world."""
        return patch.object(_wal, "time", SimpleNamespace(time=self.world.today, monotonic=trio.current_time))

    def declare(self, node: rstreams.Node) -> None:
        self.queue = node.queue("jobs")

    async def run(self) -> None:
        """Run the query, and begin it again when it has failed or was stopped, for ever."""
        while True:
            with self.clock():
                life = _Life(self, _Runner(self.options))
            try:
                await life.run()
            except (SourceFailed, RStreamsError):
                life.stop()
                await trio.sleep(0.5)
            except BaseException:
                life.vanish()
                raise

    async def step(self) -> None:
        """Let a kill come between two steps."""
        await trio.sleep(self._random.choice((0.0, 0.0, 0.01, 0.1)))

    async def go_on(self, life: _Life) -> None:
        """Make one batch after the other, as Spark does."""
        reader = life.reader
        if self._committed is None:
            self._committed = reader.initialOffset()
        while True:
            if self._planned is not None:
                await self._make_batch(life, self._committed, self._planned)
            await self.step()
            if self._random.random() < self.stops and self.world.now() < _QUIET_S:
                return
            end = await life.latest_offset(self._committed)
            self.look(life.receiver.intake)
            await self.step()
            if end == self._committed:
                await trio.sleep(0.1)
            else:
                self._planned = end

    async def _make_batch(self, life: _Life, start: dict[str, Any], end: dict[str, Any]) -> None:
        await self.step()
        with patch.object(_reader, "say"):
            parts = life.reader.partitions(start, end)
        await self.step()
        rows = [row for part in parts for row in _bodies(life.reader.read(part))]
        if self._random.random() < 0.2:  # a task has failed, and is run again
            await self.step()
            again = [row for part in parts for row in _bodies(life.reader.read(part))]
            if again != rows:
                msg = f"a batch was {rows} for the first time, and {again} for the second time"
                raise BrokenPromiseError(msg)
        count = end["messages"] - start["messages"]
        if len(rows) != count and (rows or self.logged):
            msg = f"the batch of {count} messages from {start} to {end} has {len(rows)} rows"
            raise BrokenPromiseError(msg)
        self._sink[start["messages"]] = rows
        await self.step()
        self._committed, self._planned = end, None
        for item in rows:
            self.done.append(item)
            self.world.note("got", by="runner", address="jobs", item=item)
            self.world.note("done", by="runner", address="jobs", item=item)
        await self.step()
        if self.has_commit_log and life.receiver.awaited:
            life.receiver.settle(life.receiver.awaited)

    def look(self, intake: RowIntake) -> None:
        """Check how many messages are granted, received and held, as the intake and the node tell."""
        told, most = intake.counts(), self.options.credit
        here = None if self.queue is None else self.queue.statistics()
        if told.credit + told.unsettled > most:
            msg = f"{told}: {most} messages is the most that is granted, received and held"
            raise BrokenPromiseError(msg)
        if here is not None and here.consumers == 1 and here.unsettled + here.demand > most:
            msg = f"{here}: {most} messages is the most that is granted to the source, and unsettled"
            raise BrokenPromiseError(msg)

    def judge(self, accepted: set[int | str]) -> None:
        """Check the sink: each message once with a log, and at least once without one."""
        in_sink = [item for rows in self._sink.values() for item in rows]
        if sorted(in_sink) != sorted(self.done):
            msg = f"the sink has {sorted(in_sink)}; the committed batches had {sorted(self.done)}"
            raise BrokenPromiseError(msg)
        missing = accepted.difference(in_sink)
        if missing:
            msg = f"{', '.join(map(str, sorted(missing, key=str)))}: accepted, and in no batch"
            raise BrokenPromiseError(msg)
        if self.logged and len(in_sink) != len(set(in_sink)):
            msg = f"a message is in two batches, although there is a walDir: {in_sink}"
            raise BrokenPromiseError(msg)


class _Life:
    """One process of the source: from the start of a query to its end."""

    def __init__(self, query: _Query, runner: _Runner) -> None:
        options = query.options
        self._query = query
        self._runner = runner
        self.reader = QueueReader(options)
        self.reader._runner = runner
        intake = RowIntake(
            options.credit,
            RecordBatches(options.address, spooled_columns(options.columns)),
            largest=options.max_message_bytes,
            reject_unparsable=False,
            most_rows=query.most_rows,
        )
        self.receiver = _Receiver(intake)
        self._is_connected = False
        self._nursery: trio.Nursery

    async def run(self) -> None:
        """Run until the query is stopped, or killed."""
        async with open_nursery() as self._nursery:
            await self._query.go_on(self)
            self.stop()
            await trio.sleep(0.1)
            self._nursery.cancel_scope.cancel()

    def stop(self) -> None:
        """End in order, as when the query is stopped or has failed."""
        self.reader.stop()
        self._query.world.note("unsubscribed", by="runner", address="jobs")
        self.vanish()

    def vanish(self) -> None:
        """Let go of the lock, as the system does when a process ends; the files stay."""
        if self._runner._spool._lock is not None:
            self._runner._spool._lock.close()

    async def latest_offset(self, start: dict[str, Any]) -> dict[str, Any]:
        """Have a batch come, and ask the reader where it ends."""
        intake, runner = self.receiver.intake, self._runner
        position = self.reader._position(start)
        with self._query.clock():
            runner._keep_ids()
            runner._spool.drop(position)
        await self._query.step()
        if runner._spool.end is None:
            if not self._is_connected:
                await self._connect(position)
            self.receiver.rows = await self._collect(position - runner._base)
            self._query.look(intake)
        most = self._query.options.max_messages_per_trigger
        with self._query.clock():
            return self.reader.latestOffset(start, ReadMaxRows(most))

    async def _connect(self, position: int) -> None:
        runner, intake = self._runner, self.receiver.intake
        if runner._wal is not None:
            intake.know(runner._wal.message_ids())
        runner._receiver, runner._base = self.receiver, position  # type: ignore[assignment]
        self._is_connected = True
        self._nursery.start_soon(self._receive)
        await intake.subscribed()

    async def _receive(self) -> None:
        intake = self.receiver.intake
        was_open = False

        def tell(status: Any) -> None:  # noqa: ANN401 - a `ConnectionStatus`
            nonlocal was_open
            if status.state == "lost" and was_open:
                was_open = False
                intake.on_away()
            elif status.state == "connected":
                was_open = True
                intake.on_back()

        policy = Reconnect(at_start=True, max_delay_s=1.0, on_status=tell, on_detached=lambda _: intake.on_away())
        try:
            async with connected(self._query.url, "runner", reconnect=policy, max_message_bytes=None) as connection:
                intake.expect_packs(1)
                connection.stream("jobs", window=self._query.options.credit, decode=bytes).subscribe(intake)
                await trio.sleep_forever()
        except RStreamsError as error:
            intake.on_error(error)

    async def _collect(self, committed: int) -> list[pa.RecordBatch]:
        """Return the rows of the next batch, as `Receiver.collect` yields them."""
        intake, options = self.receiver.intake, self._query.options
        while True:
            rows: list[pa.RecordBatch] = []
            left, goes_on, ends = options.max_messages_per_trigger, False, False
            try:
                while not ends:
                    more, ends = await intake.collect(committed, left, options.max_trigger_delay_s, goes_on=goes_on)
                    rows += more
                    left -= sum(batch.num_rows for batch in more)
                    self._query.look(intake)
                    goes_on = True
            except BatchLost:
                continue
            return rows


def _bodies(batches: Iterator[pa.RecordBatch]) -> Iterator[str]:
    for batch in batches:
        for body in batch.column("body").to_pylist():
            yield body.decode()


def workload(world: World) -> None:
    """Set up a node, a producer, and a query."""
    random = world.random
    query = _Query(world, "amqp://node:5672")
    world.node("node", query.declare, idle_timeout_s=IDLE_S)
    promise = "effectively_once" if query.logged else "at_least_once"
    world.note("address", address="jobs", promise=promise, durable=False, part="node", order="none")
    items = [f"item/{number}" for number in range(world.how_many(3, 30))]
    told: set[int | str] = set()
    accepted: set[int | str] = set()

    def heard(outcome: str, item: int | str) -> None:
        told.add(item)
        if outcome == "accepted":
            accepted.add(item)

    producer = ProducerProgram(
        world, query.url, "producer", "jobs", items, world.numbers("producer"), random.choice((0.0, 0.02, 0.3)),
        lambda item: Message(item.encode(), id=item), options={"settlement": "effectively_once"}, heard=heard,
    )  # fmt: skip
    world.start(producer.run, name="producer")
    world.start(query.run, name="runner", service=True)
    kinds: tuple[Kind, ...] = ("power", *OF_PAIRS)
    world.weather(parts=["runner"], kinds=["kill"], most=8)
    world.weather(parts=["runner"], pairs=[("runner", "node"), ("producer", "node")], kinds=kinds, most=16)

    async def referee() -> None:
        try:
            await at_rest(world, lambda: told.issuperset(items) and accepted.issubset(query.done), _QUIET_S)
            await trio.sleep(5.0)
            query.judge(accepted)
            if query.queue is not None:
                note_left(world, query.queue)
        finally:
            query.folder.cleanup()

    world.start(referee, name="referee")
