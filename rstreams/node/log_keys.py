"""Keys of messages: which partition a message goes to, and which later message replaces it in a compacted log."""

from __future__ import annotations

import itertools
import math
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any, Final, TypeAlias
from uuid import UUID

from rstreams._codec.decode import Malformed
from rstreams._codec.encode import encode_value
from rstreams._events.table import LOG_KEY_RAISED, LOG_KEY_WRONG, LOG_NOT_COMPACTED
from rstreams.errors import ConfigError, StoreError
from rstreams.message import Message, decode_body, decode_message
from rstreams.net.links.effectively_once import read_annotations
from rstreams.node.log_partition import LogPartition
from rstreams.store import Chunk

DEFAULT_KEY: Final = "x-opt-partition-key"
"""The annotation with the key of a message; Azure Event Hubs has the same one."""

Key: TypeAlias = str | Callable[[Message], Any]
"""Where the key of a message is: the name of a message annotation, or a function of the message."""


class Keys:
    """Finds the key of a message.

    Args:
        key: Where it is.
        partitions: How many partitions there are.

    Errors: `ConfigError` for a key that is not a name or a function.
    """

    def __init__(self, key: Key, partitions: int) -> None:
        if not (isinstance(key, str) and key) and not callable(key):
            msg = f"key={key!r:.80}: it must be the name of a message annotation, or a function of a Message"
            raise ConfigError(msg)
        self._key = key
        self._partitions = partitions
        self._next = itertools.count()

    def of(self, encoded: bytes) -> bytes | None:
        """Return the key of an encoded message, encoded; None if it has none."""
        key = self._key
        if isinstance(key, str):
            value = read_annotations(encoded).get(key)
        else:
            try:
                value = key(decode_message(encoded))
            except Exception as error:  # the user's own function, or a message that is none
                LOG_KEY_RAISED.tell(raised=error)
                return None
        if value is None:
            return None
        if not isinstance(value, str | bytes | int | float | bool | UUID | datetime):
            LOG_KEY_WRONG.tell(type=type(value).__name__)
            return None
        # Equal keys of kindred types are the same key: a symbol and a string, an int and a long.
        if isinstance(value, str):
            value = str(value)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            value = int(value) if isinstance(value, int) else float(value)
        return encode_value(value)

    def partition_of(self, encoded: bytes, number: int | None) -> int:
        """Return the partition of a message; one without a key goes to the next one in turn.

        Args:
            encoded: The message.
            number: Its number among those of its producer; None if it has none. A message that comes again goes to the
                same partition.
        """
        if self._partitions == 1:
            return 0
        key = self.of(encoded)
        if key is not None:
            return zlib.crc32(key) % self._partitions
        return (next(self._next) if number is None else number) % self._partitions


class Compaction:
    """Deletes the messages of a partition that have a later one with the same key.

    A message without a body is a tombstone: it deletes the earlier ones, and goes itself after `tombstones_s`. Messages
    without a key stay.

    Args:
        partition: The partition.
        keys: Finds the keys.
        tombstones_s: How long tombstones stay, in seconds.
        now: Returns seconds that only go on.
        on_begun: Called with `due` when all messages that were there at the beginning have been read.
    """

    def __init__(
        self,
        partition: LogPartition,
        keys: Keys,
        tombstones_s: float,
        now: Callable[[], float],
        on_begun: Callable[[float], None] = lambda _: None,
    ) -> None:
        self._partition = partition
        self._keys = keys
        self._tombstones_s = tombstones_s
        self._now = now
        self._on_begun = on_begun
        self._begun = False
        self._latest: dict[bytes, int] = {}  # the offset of the last message of each key
        self._tombstones: deque[tuple[float, bytes, int]] = deque()

    def begin(self) -> None:
        """Read what is in the partition."""
        self._read(self._partition.kept.first)

    def _read(self, position: int) -> None:
        def on_read(answer: Chunk | StoreError) -> None:
            if isinstance(answer, StoreError):
                LOG_NOT_COMPACTED.tell(self._partition.name, address=self._partition.name, why=answer)
                return
            for run in answer.runs:
                self.come(run.positions, run.messages)
            if answer.following > position:
                self._read(answer.following)
            else:
                self._begun = True
                self._partition.free_room()
                self._on_begun(self.due)

        self._partition.kept.read(position, on_read, retries_s=math.inf)

    def come(self, positions: Iterable[int], messages: Sequence[bytes]) -> None:
        """Note messages that are safe; delete those that they replace."""
        replaced: list[int] = []
        for position, encoded in zip(positions, messages, strict=True):
            key = self._keys.of(encoded)
            if key is None:
                continue
            before = self._latest.get(key)
            if before is not None and before >= position:
                if before > position:
                    replaced.append(position)
                continue
            if before is not None:
                replaced.append(before)
            self._latest[key] = position
            if _is_tombstone(encoded):
                self._tombstones.append((self._now() + self._tombstones_s, key, position))
        if replaced:
            self._partition.remove(replaced)

    @property
    def due(self) -> float:
        """When the next tombstone goes; infinity if there is none.

        None goes before `begin` has read all messages: one that is read later may be older than the tombstone.
        """
        return self._tombstones[0][0] if self._tombstones and self._begun else math.inf

    def expire(self) -> None:
        """Delete tombstones that have stayed long enough."""
        now, gone = self._now(), []
        while self.due <= now:
            _, key, position = self._tombstones.popleft()
            if self._latest.get(key) == position:
                del self._latest[key]
                gone.append(position)
        if gone:
            self._partition.remove(gone)


def _is_tombstone(encoded: bytes) -> bool:
    try:
        return decode_body(encoded) in (b"", None)
    except Malformed:
        return False
