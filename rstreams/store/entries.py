"""The values that go into a store and come out of it: runs of messages, and the bytes that stand for them on disk."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from rstreams.errors import StoreError

Done: TypeAlias = Callable[[StoreError | None], None]
"""Called once in the owner's thread: with None when a change is as safe as it asked for, or with the reason why not."""

Cut: TypeAlias = Callable[[bytes, int, int, int], list[bytes]]
"""Makes messages of the body of a run on disk, as `split` does.

It gets the body, the number of messages, the position of the first one, and when they were appended, in milliseconds
since 1970.
"""

MOST_ITEMS: Final = 1024
"""The most messages of one run on disk."""

MOST_BYTES: Final = 128 * 1024
"""The size at which a run on disk is full; a single message may be larger."""


@dataclass(frozen=True, slots=True)
class AppendedRun:
    """Messages that were read from a partition, which were appended together.

    Attributes:
        positions: The position of each message, in rising order: a `range` if no message between them is gone.
        messages: The messages.
        time_ms: When they were appended, in milliseconds since 1970.
    """

    positions: Sequence[int]
    messages: Sequence[bytes]
    time_ms: int


@dataclass(frozen=True, slots=True)
class Chunk:
    """The answer to `Partition.read`.

    Attributes:
        runs: The messages, in their order.
        following: The position at which reading goes on. If it is not above the position that was asked for,
            there are no more messages that are safe.
        size: The bytes of the runs on disk, or of the messages in memory.
        is_cut: Whether the messages were made by the reader's own function `cut`.
        notes: What was noted of single messages, by position.
    """

    runs: Sequence[AppendedRun]
    following: int
    size: int = 0
    is_cut: bool = False
    notes: Mapping[int, bytes] = field(default_factory=dict)

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        """Return each message with its position."""
        for run in self.runs:
            yield from zip(run.positions, run.messages, strict=True)


def join(messages: Sequence[bytes]) -> bytes:
    """Return the body of a run: the sizes of the messages, then the messages."""
    return struct.pack(f"<{len(messages)}I", *map(len, messages)) + b"".join(messages)


def split(body: bytes, count: int) -> list[bytes]:
    """Return the messages of the body of a run on disk.

    The body has their sizes, in 4 bytes each with the low byte first, and then the messages.
    """
    at = 4 * count
    messages: list[bytes] = []
    for size in struct.unpack_from(f"<{count}I", body):
        messages.append(body[at : at + size])
        at += size
    return messages


def checksum(numbers: Iterable[int], *texts: bytes) -> int:
    """Return the checksum of some numbers and bytes."""
    crc = zlib.crc32(struct.pack(f"<{len(known)}q", *known)) if (known := list(numbers)) else 0
    for text in texts:
        crc = zlib.crc32(text, crc)
    return crc


def cut(messages: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    """Return the messages in parts that are not larger than a run on disk."""
    begin = size = 0
    for at, message in enumerate(messages):
        if at > begin and (at - begin >= MOST_ITEMS or size + len(message) > MOST_BYTES):
            yield messages[begin:at]
            begin, size = at, 0
        size += len(message)
    if begin < len(messages):
        yield messages[begin:]


def as_ranges(positions: Iterable[int]) -> list[range]:
    """Return the same positions as ranges, in rising order."""
    if type(positions) is range and positions.step == 1:
        return [positions]
    found: list[range] = []
    begin = end = -1
    for position in sorted(positions):
        if position == end:
            end += 1
        elif position > end:
            if end > begin:
                found.append(range(begin, end))
            begin, end = position, position + 1
    if end > begin:
        found.append(range(begin, end))
    return found


def merged(parts: Iterable[range]) -> list[range]:
    """Return the ranges in rising order; ranges that touch become one."""
    found: list[range] = []
    for each in sorted((each for each in parts if each), key=lambda each: each.start):
        if found and each.start <= found[-1].stop:
            found[-1] = range(found[-1].start, max(found[-1].stop, each.stop))
        else:
            found.append(each)
    return found


def as_blob(mask: int, count: int) -> bytes:
    """Return the bits of the messages of a run that are deleted, as they are stored."""
    return mask.to_bytes(-(-count // 8), "little")
