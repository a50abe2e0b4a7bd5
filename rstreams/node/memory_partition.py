"""A partition that is kept in memory, for a log of a node without a store."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias

from rstreams import _machine
from rstreams.errors import StoreError
from rstreams.store import AppendedRun, Chain, Chunk, Cut, Done, Partition


class MemoryPartition:
    """Messages with positions in memory; the same calls as `rstreams.store.Partition`, which answer at once.

    Attributes:
        next: The position that the next message gets.
        first: The position of the oldest message; `next` if there is none.
        count: How many messages it has.
        size: Their bytes.
        records: The small records, by key.
        time_ms: When its newest run was appended, in milliseconds since 1970.
        chain: As for `Partition`; nothing fails here.
    """

    on_failed: Callable[[StoreError], None] | None = None  # nothing fails here

    def __init__(self, today: Callable[[], float] = _machine.today) -> None:
        """Have no messages; `today` returns the seconds since 1970."""
        self.next = 0
        self.count = 0
        self.size = 0
        self.records: dict[str, bytes] = {}
        self.chain = Chain()
        self.time_ms = 0
        self._today = today
        self._runs: list[AppendedRun] = []  # those with messages; deleted ones are not in them
        self._firsts: list[int] = []  # the first position of each run
        self._sizes: list[int] = []  # the bytes of each run

    @property
    def first(self) -> int:
        """The position of the oldest message; `next` if there is none."""
        return self._runs[0].positions[0] if self._runs else self.next

    def append(
        self,
        messages: Sequence[bytes],
        done: Done | None = None,
        *,
        sync_s: float = 0.0,  # noqa: ARG002 - there is no disk
        records: Mapping[str, bytes] = MappingProxyType({}),
    ) -> int:
        """Append messages; return the position of the first one."""
        first = self.next
        self.next += len(messages)
        self.count += len(messages)
        size = sum(map(len, messages))
        self.size += size
        self.records.update(records)
        self.time_ms = max(self.time_ms, int(self._today() * 1000))  # the clock may be set back
        self._runs.append(AppendedRun(range(first, self.next), messages, self.time_ms))
        self._firsts.append(first)
        self._sizes.append(size)
        if done is not None:
            done(None)
        return first

    def delete(
        self,
        positions: Iterable[int],
        done: Done | None = None,
        *,
        sync_s: float = 0.0,  # noqa: ARG002 - there is no disk
        after_appends: bool = False,  # noqa: ARG002 - nothing fails here
    ) -> None:
        """Delete single messages; positions that are not there are passed over."""
        by_run: dict[int, set[int]] = {}
        for position in positions:
            first = bisect_right(self._firsts, position) - 1
            if first >= 0:
                by_run.setdefault(first, set()).add(position)
        for at in sorted(by_run, reverse=True):
            self._replace(at, by_run[at])
        if done is not None:
            done(None)

    def shrink(self, positions: Iterable[int], *, sync_s: float = 0.0) -> None:
        """Do nothing: messages that are gone need no room here."""

    def _replace(self, at: int, gone: set[int]) -> None:
        """Keep the messages of a run that are not gone."""
        run = self._runs[at]
        live = [each for each in zip(run.positions, run.messages, strict=True) if each[0] not in gone]
        self.count -= len(run.messages) - len(live)
        size = sum(len(message) for _, message in live)
        self.size -= self._sizes[at] - size
        self._sizes[at] = size
        if live:
            self._runs[at] = AppendedRun([each[0] for each in live], [each[1] for each in live], run.time_ms)
        else:
            self._remove(at)

    def trim(
        self,
        below: int = 0,
        *,
        before_s: float = 0.0,
        keep_bytes: int | None = None,
        keep_items: int | None = None,
        done: Done | None = None,
        sync_s: float = 0.0,  # noqa: ARG002
    ) -> None:
        """Delete the oldest messages; see `rstreams.store.Partition.trim`."""
        while self._runs:
            run = self._runs[0]
            count, size = len(run.messages), self._sizes[0]
            too_old = run.time_ms < 1000 * before_s or run.positions[-1] < below
            too_many = keep_items is not None and self.count - count >= keep_items
            too_large = keep_bytes is not None and self.size - size >= keep_bytes
            if not (too_old or too_many or too_large):
                break
            self.count -= count
            self.size -= size
            self._remove(0)
        if done is not None:
            done(None)

    def clear(self, done: Done | None = None) -> None:
        """Delete all messages and records; see `Partition.clear`."""
        self.records.clear()
        self.trim(self.next, done=done)

    def put(self, key: str, value: bytes | None, done: Done | None = None, *, sync_s: float = 0.0) -> None:  # noqa: ARG002
        """Set a small record, or remove it with None."""
        if value is None:
            self.records.pop(key, None)
        else:
            self.records[key] = value
        if done is not None:
            done(None)

    def read(
        self,
        position: int,
        answer: Callable[[Chunk | StoreError], None],
        *,
        most_bytes: int = 256 * 1024,
        cut: Cut | None = None,  # noqa: ARG002 - they are messages already
        retries_s: float = 0.0,  # noqa: ARG002 - there is no disk
    ) -> None:
        """Read messages from a position on."""
        runs: list[AppendedRun] = []
        size, following = 0, position
        for at in range(max(0, bisect_right(self._firsts, position) - 1), len(self._runs)):
            run = self._runs[at]
            following = max(following, run.positions[-1] + 1)
            begin = bisect_left(run.positions, position)
            if begin < len(run.positions):
                run = AppendedRun(run.positions[begin:], run.messages[begin:], run.time_ms) if begin else run
                runs.append(run)
                size += self._sizes[at]
            if size >= most_bytes:
                break
        answer(Chunk(runs, following, size))

    def seek(self, time_s: float, answer: Callable[[int | StoreError], None]) -> None:
        """Find the position of the first run that was appended at a time or later; `next` if there is none."""
        at = bisect_left(self._runs, 1000 * time_s, key=lambda run: run.time_ms)
        answer(self._firsts[at] if at < len(self._runs) else self.next)

    def _remove(self, at: int) -> None:
        del self._runs[at], self._firsts[at], self._sizes[at]


AnyPartition: TypeAlias = Partition | MemoryPartition
"""Where the messages of a log are."""
