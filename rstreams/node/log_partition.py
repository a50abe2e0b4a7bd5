"""A partition of a log, as the node uses it: appended to by producers, read by cursors, cut off by its limits.

Theory of operation. A message can be read when it is safe. A `LogCursor` has a position and takes the messages behind
it. Cursors at the end of the partition share the newest runs, which stay in memory up to `RECENT_BYTES`. The first
cursor that takes such a run notes in its messages their offsets, and where and when they were appended, for all of
them. A cursor
further behind reads from the disk, a chunk at a time; each chunk is larger than the one before, up to
`_LARGEST_CHUNK`. When half of a chunk has been taken, the store's thread reads the
next one; a cursor keeps no more than these two. If all cursors together keep more than `READ_AHEAD_BYTES`, none reads
ahead, and a cursor whose reader asks for nothing lets go of its chunks, and reads them again later.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Final

from rstreams.errors import Condition, ProtocolError, StoreError
from rstreams.net.links.offsets import Appended
from rstreams.node.incarnations import Incarnation
from rstreams.node.lag import AppendTimes
from rstreams.node.memory_partition import AnyPartition
from rstreams.store import AppendedRun, Chunk, Done, split

RECENT_BYTES: Final = 1024 * 1024
"""The bytes of the newest messages of a partition that stay in memory, about; at least the last run stays."""


READ_AHEAD_BYTES: Final = 16 * 1024 * 1024
"""The bytes of chunks above which cursors of a partition that wait for demand keep none."""

_FIRST_CHUNK: Final = 256 * 1024
_LARGEST_CHUNK: Final = 1024 * 1024
"""The bytes of the first chunk of a cursor and of its largest one, about. Each chunk costs two changes of threads."""

_LEAST_REMOVED: Final = 16
_MOST_REMOVED: Final = 1024
"""After how many messages that were deleted singly their room becomes free: an eighth of all, within these."""


@dataclass(frozen=True, slots=True)
class Retention:
    """How much of a partition is kept; None: any number.

    Attributes:
        seconds: How long messages are kept.
        size: The bytes that are kept at least; older ones may go.
        items: The messages that are kept at least; older ones may go.
    """

    seconds: float | None = None
    size: int | None = None
    items: int | None = None


class _RecentRun:
    """Messages that were appended together, and are still in memory.

    Attributes:
        first: The position of the first one.
        end: The position behind the last one.
        size: Their bytes.
    """

    __slots__ = ("_appended", "_messages", "end", "first", "size")

    def __init__(self, first: int, messages: Sequence[bytes], size: int, appended: Appended) -> None:
        self._messages = messages
        self._appended: Appended | None = appended  # until it is noted in the messages
        self.first = first
        self.end = first + len(messages)
        self.size = size

    def noted(self) -> Sequence[bytes]:
        """Return the messages with their offsets."""
        appended, self._appended = self._appended, None
        if appended is not None:
            self._messages = appended.noted(self._messages, range(self.first, self.end))
        return self._messages


class LogPartition:
    """One partition of a log.

    Args:
        name: The address of the partition, for messages.
        kept: Where its messages are.
        retention: How much of it is kept.
        sync_s: As for `rstreams.store.Partition.append`.
        has_gaps: Whether single messages are deleted, because a later one has the same key.
        number: Its number in the log.

    Attributes:
        safe_end: The position behind the last message that is safe.
        incarnation: Tells this partition from an earlier or a later one at its address.
        number: Its number in the log.
        read_ahead: The bytes of the chunks that its cursors keep.
        times: When its messages were appended.
    """

    def __init__(
        self,
        name: str,
        kept: AnyPartition,
        retention: Retention,
        sync_s: float,
        *,
        has_gaps: bool,
        number: int = 0,
    ) -> None:
        self.name = name
        self.number = number
        self.kept = kept
        kept.on_failed = self._on_failed
        self.sync_s = sync_s
        self.has_gaps = has_gaps
        self.safe_end = kept.next
        self.incarnation = Incarnation(kept, sync_s)
        self.read_ahead = 0
        self.times = AppendTimes(kept)
        self._retention = retention
        self._trimming = False
        self._removed: list[int] = []  # their room on the disk may not be free yet
        self._recent: deque[_RecentRun] = deque()
        self._recent_bytes = 0
        self._cursors: dict[LogCursor, None] = {}

    def append(self, run: Sequence[bytes], done: Done, records: Mapping[str, bytes]) -> int:
        """Append messages; cursors at the end get them when they are safe, before `done` is called."""
        first = self.kept.next

        def committed(error: StoreError | None) -> None:
            if error is None:
                self._come(first, run)
            done(error)

        if self.incarnation.unsaved:
            records = {**records, **self.incarnation.unsaved}
        return self.kept.append(run, committed, sync_s=self.sync_s, records=records)

    def _come(self, first: int, run: Sequence[bytes]) -> None:
        self.safe_end = first + len(run)
        self.times.note(self.safe_end)
        size = sum(map(len, run))
        self._recent.append(_RecentRun(first, run, size, Appended(self.number, self.kept.time_ms)))
        self._recent_bytes += size
        while self._recent_bytes > RECENT_BYTES and len(self._recent) > 1:
            self._recent_bytes -= self._recent.popleft().size
        for cursor in list(self._cursors):
            cursor.wake()
        retention = self._retention
        too_many = retention.items is not None and self.kept.count > retention.items
        if too_many or (retention.size is not None and self.kept.size > retention.size):
            self._trim(0.0)

    def recent(self, position: int) -> _RecentRun | None:
        """Return the run in memory that has a position or comes next."""
        if not self._recent or position < self._recent[0].first:
            return None
        found = None
        for run in reversed(self._recent):
            if run.end <= position:
                break
            found = run
        return found

    def noted(self, run: AppendedRun) -> list[bytes]:
        """Return the messages of a run that was read, each with where and when it was appended."""
        return Appended(self.number, run.time_ms).noted(run.messages, run.positions)

    def _on_failed(self, error: StoreError) -> None:
        """Have the cursors tell their readers that the store cannot go on."""
        for cursor in list(self._cursors):
            cursor.error = error
            cursor.wake()

    def expire(self, today_s: float) -> None:
        """Delete messages that are older than the log keeps them."""
        if self._retention.seconds is not None:
            self._trim(today_s - self._retention.seconds)

    def _trim(self, before_s: float) -> None:
        if not self._trimming:
            self._trimming = True
            size, items = self._retention.size, self._retention.items
            self.kept.trim(
                before_s=before_s, keep_bytes=size, keep_items=items, done=self._on_trimmed, sync_s=self.sync_s
            )

    def _on_trimmed(self, error: StoreError | None) -> None:  # noqa: ARG002 - the next message tries it again
        self._trimming = False
        self._forget_recent(self.kept.first)

    def remove(self, positions: Sequence[int]) -> None:
        """Delete single messages: later ones have their keys. Now and then their room on the disk becomes free."""
        self.kept.delete(positions, sync_s=self.sync_s)
        self._removed += positions
        if len(self._removed) >= min(_MOST_REMOVED, max(_LEAST_REMOVED, self.kept.count // 8)):
            self.kept.shrink(self._removed, sync_s=self.sync_s)
            self._removed = []
        self._recent.clear()  # they have deleted messages now
        self._recent_bytes = 0

    def free_room(self) -> None:
        """Make the room on the disk free of all messages that were deleted singly."""
        self._removed = []
        self.kept.shrink(range(self.kept.first, self.safe_end), sync_s=self.sync_s)

    def _forget_recent(self, below: int) -> None:
        while self._recent and self._recent[0].first < below:
            self._recent_bytes -= self._recent.popleft().size

    # cursors

    def join(self, cursor: LogCursor) -> None:
        """Wake a cursor from now on when messages come."""
        self._cursors[cursor] = None

    def leave(self, cursor: LogCursor) -> None:
        """Do not wake a cursor any more."""
        self._cursors.pop(cursor, None)

    def gone(self, offset: int) -> ProtocolError:
        """Return the error for an offset whose message is not there any more, or not yet."""
        there = f"{self.kept.first} to {self.safe_end - 1}" if self.kept.first < self.safe_end else "none"
        text = (
            f"log {self.name!r:.80} has no offset {offset}: the offsets that are there: {there}; next: {self.safe_end}"
        )
        return ProtocolError(Condition.NOT_FOUND.value, text)


class LogCursor:
    """A place in a partition from which messages are taken, one after the other.

    Args:
        partition: The partition.
        position: The offset of the first message; None: it is not known yet (see `seek`).
        wake: Called when `take` may have more.
        lose: Called when the next messages are not there any more; returns the error for it, or None to pass over them.

    Attributes:
        position: The offset of the next message.
        comes_later: Whether messages are being read from the disk.
        error: Why no more can be taken; None while they can.
        closed: Whether it takes no more.
    """

    __slots__ = (
        "_ahead",
        "_at",
        "_chunk_bytes",
        "_held",
        "_lose",
        "_messages",
        "_next",
        "_partition",
        "_positions",
        "_reading",
        "_wake",
        "closed",
        "comes_later",
        "error",
        "position",
    )

    def __init__(
        self,
        partition: LogPartition,
        position: int | None,
        wake: Callable[[], None],
        lose: Callable[[], Exception | None],
    ) -> None:
        self._partition = partition
        self._wake = wake
        self._lose = lose
        self._positions: Sequence[int] = ()
        self._messages: Sequence[bytes] = ()
        self._at = 0
        self._ahead: Chunk | StoreError | None = None  # the next chunk, which was read ahead
        self._held = 0  # the bytes of both chunks
        self._reading = False
        self._chunk_bytes = _FIRST_CHUNK
        self.closed = False
        self.position = position if position is not None else -1
        self._next = self.position  # where the next chunk begins
        self.comes_later = position is None
        self.error: Exception | None = None
        partition.join(self)

    def seek(self, time_s: float) -> None:
        """Go to the first message of a time."""
        self._partition.kept.seek(time_s, self._on_found)

    def _on_found(self, answer: int | StoreError) -> None:
        self.comes_later = False
        if self.closed:
            return
        if isinstance(answer, StoreError):
            self.error = answer
        else:
            self.position = self._next = answer
        self._wake()

    def wake(self) -> None:
        """Note that the partition has more messages."""
        if not self.comes_later:
            self._wake()

    def go_back(self, position: int) -> None:
        """Take the messages from `position` on again; an answer of the disk that is on its way is then not used."""
        self.position = self._next = position
        self.error = None
        self._chunk_bytes = _FIRST_CHUNK
        self._drop_chunks()

    def rest(self) -> None:
        """Note that nothing is taken for now: without room the chunks are dropped, and read again later."""
        if self._held and self._partition.read_ahead > READ_AHEAD_BYTES:
            self._next = self.position
            self._drop_chunks()

    def _drop_chunks(self) -> None:
        self._positions, self._messages, self._at = (), (), 0
        self._ahead = None
        self._hold(0)

    def _hold(self, size: int) -> None:
        """Note how many bytes the chunks have."""
        self._partition.read_ahead += size - self._held
        self._held = size

    def take(self, most: int) -> tuple[Sequence[int], list[bytes]]:
        """Take up to `most` messages; none if there are no more now, or `error` is set.

        Returns: Their offsets, and the messages; the annotations have the offset, and where and when it was appended.
        """
        while not self.comes_later and self.error is None:
            at, end = self._at, min(self._at + most, len(self._messages))
            if at < end:
                self._at = end
                self.position = self._positions[end - 1] + 1
                if 2 * end >= len(self._messages):
                    self._read_ahead()
                return self._positions[at:end], list(self._messages[at:end])
            self.position = self._next
            if self.position >= self._partition.safe_end:
                self._drop_chunks()
                break
            self._get_more()
        return (), []

    def _get_more(self) -> None:
        """Get the next run from memory, or the chunk that was read ahead, or one from the disk, which comes later."""
        found, ahead = self._partition.recent(self.position), self._ahead
        if found is not None:
            self._drop_chunks()
            first, messages = found.first, found.noted()
            begin = max(0, self.position - first)
            self._next = found.end
            self._positions, self._messages = range(first + begin, self._next), messages[begin:] if begin else messages
        elif ahead is not None:
            self._use(ahead)
        else:
            self._drop_chunks()
            self.comes_later = True
            if not self._reading:
                self._read()

    def _read_ahead(self) -> None:
        """Have the next chunk read while messages of this one are handed over."""
        partition = self._partition
        if (
            self._next < partition.safe_end
            and self._held <= READ_AHEAD_BYTES - partition.read_ahead
            and not self._reading
            and self._ahead is None
            and partition.recent(self._next) is None
        ):
            self._read()

    def _read(self) -> None:
        self._reading = True
        partition, most = self._partition, self._chunk_bytes
        if partition.read_ahead > READ_AHEAD_BYTES // 2:
            most = _FIRST_CHUNK
        self._chunk_bytes = min(2 * most, _LARGEST_CHUNK)
        answer = partial(self._on_read, self._next)
        partition.kept.read(self._next, answer, most_bytes=most, cut=partial(_cut, partition.number))

    def _on_read(self, asked: int, answer: Chunk | StoreError) -> None:
        self._reading = False
        if self.closed:
            return
        if self.comes_later:
            self.comes_later = False
            if asked == self._next:  # it has not gone back meanwhile
                self._use(answer)
            self._wake()
        elif asked == self._next:
            self._ahead = answer
            self._hold(self._held + _bytes_of(answer))

    def _use(self, answer: Chunk | StoreError) -> None:
        """Have the messages of an answer taken next."""
        self._drop_chunks()
        partition = self._partition
        if isinstance(answer, StoreError):
            self.error = answer
            return
        if not partition.has_gaps and self.position < partition.kept.first:
            self.error = self._lose()
            if self.error is not None:
                return  # the position stays
        if answer.runs:
            noted = [run.messages if answer.is_cut else partition.noted(run) for run in answer.runs]
            if len(answer.runs) == 1:
                self._positions, self._messages = answer.runs[0].positions, noted[0]
            else:
                self._messages = list(chain.from_iterable(noted))
                first, end = answer.runs[0].positions[0], answer.runs[-1].positions[-1] + 1
                if end - first == len(self._messages):  # none is missing
                    self._positions = range(first, end)
                else:
                    self._positions = list(chain.from_iterable(run.positions for run in answer.runs))
            self._next = answer.following
            self._hold(_bytes_of(answer))
        else:  # all that was there has been deleted
            self.position = answer.following if answer.following > self.position else partition.safe_end
            self._next = self.position

    def close(self) -> None:
        """Take no more."""
        self.closed = True
        self._partition.leave(self)
        self.go_back(self.position)


def _cut(partition: int, body: bytes, count: int, first: int, time_ms: int) -> list[bytes]:
    """Return the messages of a run on disk, each with its offset, and with where and when they were appended."""
    appended = Appended(partition, time_ms)
    messages = appended.cut(body, count, first)
    return appended.noted(split(body, count), range(first, first + count)) if messages is None else messages


def _bytes_of(answer: Chunk | StoreError) -> int:
    return 0 if isinstance(answer, StoreError) else answer.size
