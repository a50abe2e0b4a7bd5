"""With a write-ahead log a message is in one batch, whatever the peer does not hear, and however late it comes again.

A played peer sends messages to a runner, one after the other. At some step between receive, write, settle, commit and
delete it ceases to hear the runner; some steps later the runner loses the link, or is killed. The peer notices that
later still, and then sends again what was not accepted as far as it has heard.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import IO, Any, Final, Literal, NamedTuple, ParamSpec, TypeVar

import pyarrow as pa
import pytest
import trio
import trio.testing
from pyspark.sql.streaming.datasource import ReadMaxRows
from rstreams_spark import _receiver, _wal
from rstreams_spark._intake import BatchPart
from rstreams_spark._options import SourceOptions
from rstreams_spark._reader import QueueReader

from adapters.spark.tests.played_link import PlayedLink, linked, numbered

COUNT: Final = 9
CREDIT: Final = 3
PARTS: Final = 4
STEPS: Final = 80
"""About as many as a run has."""


P = ParamSpec("P")
V = TypeVar("V")
Offset = dict[str, Any]


Kind = Literal["cut", "kill"]


class Fault(NamedTuple):
    """What happens to the runner.

    Attributes:
        kind: Its link is lost, or it is killed.
        step: When.
        unheard: For how many steps before that the peer has heard nothing.
        noticed: How many steps after it the peer notices it.
    """

    kind: Kind
    step: int
    unheard: int
    noticed: int


class Killed(BaseException):
    """A kill -9."""


@dataclass
class Session:
    """What the peer knows of an attached link.

    Attributes:
        link: The link.
        sent: The messages, by their places in the outcomes of the link.
        ends_at: The step at which the peer notices that it is gone; None: it is not gone.
        credit: How many messages the peer may still send, if it hears nothing; None: it hears.
    """

    link: PlayedLink
    sent: dict[int, int] = field(default_factory=dict)
    ends_at: int | None = None
    credit: int | None = None


class Peer:
    """A queue, and the links of its consumers, one after the other."""

    def __init__(self) -> None:
        self.ready = list(range(COUNT))
        self.sessions: list[Session] = []
        self.is_over = False

    def attach(self, link: PlayedLink) -> None:
        self.sessions.append(Session(link))

    def send(self) -> None:
        """Send one message to the latest consumer, if it may have one."""
        session = self.sessions[-1]
        credit = session.link.outstanding if session.credit is None else session.credit
        if self.ready and credit:
            message = self.ready.pop(0)
            session.sent[len(session.link.outcomes)] = message
            session.credit = None if session.credit is None else credit - 1
            session.link.next(*numbered(message, message + 1))

    def hear(self, session: Session) -> None:
        """Take the outcomes in."""
        if session.credit is None:
            session.sent = {at: sent for at, sent in session.sent.items() if session.link.outcomes[at] != "done"}

    def cease_to_hear(self) -> None:
        session = self.sessions[-1]
        if session.credit is None:
            self.hear(session)
            session.credit = session.link.outstanding

    def notice(self, step: int) -> None:
        """Send again later what was sent to links that are gone, as far as it was not heard to be accepted."""
        for session in list(self.sessions):
            if session.ends_at is not None and session.ends_at <= step:
                self.ready[:0] = session.sent.values()
                self.sessions.remove(session)

    @property
    def is_done(self) -> bool:
        for session in self.sessions:
            self.hear(session)
        return not self.ready and not any(session.sent for session in self.sessions)


class PlayedReceiver:
    """The receiver of a runner: its intake, whose link is played."""

    def __init__(self, query: Query, known: Iterable[str]) -> None:
        self.query = query
        self.link, self.intake = linked(CREDIT)
        self.intake.know(known)
        self.losses = 0
        query.peer.sessions.append(Session(self.link))
        query.receiver = self

    def collect(self, committed: int, most: int) -> Iterator[pa.RecordBatch]:
        async def receive() -> BatchPart:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(send)
                return await self.intake.collect(committed, most, 0.0)

        async def send() -> None:
            await trio.sleep(0.01)
            self.query.peer.send()

        part = in_trio(receive)
        self.query.step()
        return iter(part.record_batches)

    def settle(self, taken: int) -> None:
        self.query.step()
        run_sync(lambda: self.intake.settle(taken))
        self.query.step()

    def lose(self) -> None:
        run_sync(self.intake.on_away)
        run_sync(self.intake.on_back)
        self.losses += 1
        self.query.peer.sessions.append(Session(self.link))

    def close(self) -> None:
        """A runner that is killed closes nothing."""


class Query:
    """A query of Spark: its checkpoint, its sink, and the faults that happen to it."""

    def __init__(self, folder: Path, faults: Iterable[Fault]) -> None:
        self.options = {"url": "amqp://h", "address": "a", "maxMessagesPerTrigger": str(CREDIT), "walDir": str(folder)}
        self.peer = Peer()
        self.receiver: PlayedReceiver | None = None
        self.sink: dict[int, list[bytes]] = {}
        self.steps = 0
        self.is_killed = False
        self.locks: list[IO[bytes]] = []
        self._faults = list(faults)
        self._committed: Offset | None = None
        self._planned: Offset | None = None

    def step(self) -> None:
        """Have the faults of this step happen."""
        if self.is_killed:
            raise Killed
        self.steps += 1
        self.peer.notice(self.steps)
        for fault in list(self._faults):
            if self.receiver is not None and self.steps >= fault.step - fault.unheard:
                self.peer.cease_to_hear()
            if self.steps >= fault.step and (self.receiver is not None or fault.kind == "kill"):
                self._faults.remove(fault)
                if self.receiver is not None:
                    self.peer.sessions[-1].ends_at = self.steps + fault.noticed
                if fault.kind == "kill":
                    self.is_killed = True
                    raise Killed
                self.receiver.lose()

    def run(self) -> None:
        """Begin a runner again and again, until the peer has nothing left."""
        while not (self.peer.is_done and self._planned is None):
            self.is_killed, self.receiver = False, None
            with suppress(Killed):
                self._go_on(QueueReader(SourceOptions.parse(self.options)))
            while self.locks:
                self.locks.pop().close()  # as the system does when a process ends

    @property
    def rows(self) -> list[bytes]:
        """All rows of the sink, in their order."""
        return [body for rows in self.sink.values() for body in rows]

    def _go_on(self, reader: QueueReader) -> None:
        if self._committed is None:
            self._committed = reader.initialOffset()
        while not (self.peer.is_done and self._planned is None):
            self.step()
            if self._planned is None:
                end = reader.latestOffset(self._committed, ReadMaxRows(CREDIT))
                self.step()
                if end == self._committed:
                    continue
                self._planned = end
            parts = reader.partitions(self._committed, self._planned)
            rows = [row for part in parts for batch in reader.read(part) for row in batch.column("body").to_pylist()]
            self.step()
            self.sink[self._committed["messages"]] = rows
            self._committed, self._planned = self._planned, None


def in_trio(function: Callable[[], Awaitable[V]]) -> V:
    return trio.run(function, clock=trio.testing.MockClock(autojump_threshold=0))


def run_sync(function: Callable[[], None]) -> None:
    async def call() -> None:
        function()

    in_trio(call)


@pytest.fixture
def play(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Query]:
    """Run a query with faults."""
    queries: list[Query] = []

    def receiver(_options: object, _on_orphaned: object, known: Iterable[str]) -> PlayedReceiver:
        return PlayedReceiver(queries[-1], known)

    def stepping(function: Callable[P, V]) -> Callable[P, V]:
        def after_a_step(*args: P.args, **options: P.kwargs) -> V:
            if queries:
                queries[-1].step()
            return function(*args, **options)

        return after_a_step

    def lock(file: IO[bytes], how: int) -> None:
        queries[-1].locks.append(file)
        flock(file, how)

    flock = fcntl.flock

    def run(*faults: Fault) -> Query:
        queries.append(Query(tmp_path / f"{len(queries)}", faults))
        queries[-1].run()
        return queries[-1]

    monkeypatch.setattr(_receiver, "Receiver", receiver)
    monkeypatch.setattr(_wal, "_MOST_FILES", 2, raising=False)
    monkeypatch.setattr(fcntl, "flock", lock)
    monkeypatch.setattr(os, "fsync", stepping(lambda _: None))
    monkeypatch.setattr(Path, "rename", stepping(Path.rename))
    monkeypatch.setattr(Path, "unlink", stepping(Path.unlink))
    return run


ALL: Final = [b"%d" % message for message in range(COUNT)]


def fault(random: Random, kind: Kind, step: int) -> Fault:
    return Fault(kind, step, random.choice((0, 3, 15)), random.choice((0, 5, 60)))


def others(random: Random) -> list[Fault]:
    kinds: tuple[Kind, ...] = ("cut", "kill")
    return [fault(random, random.choice(kinds), random.randint(1, STEPS)) for _ in range(random.randint(0, 2))]


def test_without_a_fault_there_is_a_batch_for_each_message(play: Callable[..., Query]) -> None:
    query = play()
    assert query.rows == ALL
    assert query.steps > STEPS


@pytest.mark.parametrize(
    "faults",
    [
        pytest.param([Fault("kill", 26, 15, 60)], id="outcomes of several committed batches are not heard"),
        pytest.param([Fault("cut", 15, 3, 60), Fault("kill", 60, 0, 0)], id="a lost link outlives the runner"),
        pytest.param([Fault("kill", 28, 15, 5), Fault("cut", 45, 15, 0)], id="a message comes for the third time"),
    ],
)
def test_each_message_is_in_one_batch(play: Callable[..., Query], faults: list[Fault]) -> None:
    assert sorted(play(*faults).rows) == ALL


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["cut", "kill"])
@pytest.mark.parametrize("part", range(PARTS))
def test_each_message_is_in_one_batch_after_a_fault_at_any_step_and_others(
    play: Callable[..., Query], kind: Kind, part: int
) -> None:
    random = Random(part)  # noqa: S311 - for faults
    for step in range(1 + part, STEPS, PARTS):
        for _ in range(3):
            faults = [fault(random, kind, step), *others(random)]
            assert sorted(play(*faults).rows) == ALL, faults
