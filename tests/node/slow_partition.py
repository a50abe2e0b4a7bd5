"""A partition of a log whose reads are answered when the test says so, as those of a disk are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from rstreams.errors import StoreError
from rstreams.message import encode_item
from rstreams.node.log_partition import LogPartition, Retention
from rstreams.node.memory_partition import MemoryPartition
from rstreams.store import Chunk, Cut
from rstreams.store.entries import join


class SlowPartition(MemoryPartition):
    """Answers a read or a search when `answer` is called; a read gets one run.

    Attributes:
        waiting: The questions that are not answered.
        asked: The most bytes that each read asked for.
        puts: How often a record was set.
    """

    def __init__(self) -> None:
        super().__init__()
        self.waiting: list[Callable[[], None]] = []
        self.asked: list[int] = []
        self.puts = 0

    def read(
        self,
        position: int,
        answer: Callable[[Chunk | StoreError], None],
        *,
        most_bytes: int = 0,
        cut: Cut | None = None,
        retries_s: float = 0.0,  # noqa: ARG002
    ) -> None:
        def answer_cut(chunk: Chunk | StoreError) -> None:
            answer(chunk if cut is None or isinstance(chunk, StoreError) else _cut(chunk, cut))

        self.asked.append(most_bytes)
        self.waiting.append(lambda: MemoryPartition.read(self, position, answer_cut, most_bytes=1))

    def seek(self, time_s: float, answer: Callable[[int | StoreError], None]) -> None:
        self.waiting.append(lambda: MemoryPartition.seek(self, time_s, answer))

    def answer(self) -> bool:
        """Answer the first question; return whether there was one."""
        if self.waiting:
            self.waiting.pop(0)()
            return True
        return False

    def answer_all(self) -> None:
        """Answer all questions, also those that come meanwhile."""
        while self.answer():
            pass


def _cut(chunk: Chunk, cut: Cut) -> Chunk:
    """Return what a store answers: its messages are made by `cut`."""
    runs = [
        replace(
            run,
            messages=[
                cut(join([message]), 1, at, run.time_ms)[0]
                for at, message in zip(run.positions, run.messages, strict=True)
            ],
        )
        for run in chunk.runs
    ]
    return replace(chunk, runs=runs, is_cut=True)


def slow_log(*, retention: Retention | None = None, has_gaps: bool = False) -> tuple[LogPartition, SlowPartition]:
    """Return a partition of a log, and where its messages are."""
    kept = SlowPartition()
    return LogPartition("log", kept, retention or Retention(), 0.0, has_gaps=has_gaps), kept


def append(partition: LogPartition, numbers: Sequence[int], *, in_memory: bool = False) -> None:
    """Append messages in one run; without `in_memory` they are read from the disk."""
    partition.append([encode_item(number) for number in numbers], lambda _: None, {})
    if not in_memory:
        partition.remove(())
