"""A message of a durable queue: where it is in the store, and what is noted there beside it."""

from __future__ import annotations

import heapq
import json
import math
import struct
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Final

from rstreams.node.failure import Failure
from rstreams.node.message_deadlines import MessageDeadlines
from rstreams.node.stored_message import Lasting

_SIZE: Final = struct.Struct("<I")


class Durable(Lasting):
    """A message that is in the store and in memory.

    Attributes:
        position: Its position in the queue's partition.
        size: The bytes of the message as it came.
        dying: Why it leaves for the dead letters; "" if it does not.
    """

    __slots__ = ("_came", "dying", "position", "size")

    def __init__(self, position: int, encoded: bytes, deadline: float = math.inf) -> None:
        super().__init__(encoded, deadline)
        self._came = encoded
        self.position = position
        self.size = len(encoded)
        self.dying = ""

    def note(self) -> bytes:
        """Return what is kept beside it in the store: its failed attempts, and itself if it was annotated."""
        failure = self.failure or Failure()
        told = {
            "failures": self.failures,
            "dying": self.dying,
            "condition": failure.condition,
            "description": failure.description,
            "origin": failure.origin,
            "times": [each.isoformat() for each in failure.times],
        }
        text = json.dumps(told).encode()
        return _SIZE.pack(len(text)) + text + (b"" if self.encoded is self._came else self.encoded)

    def recall(self, note: bytes) -> None:
        """Become as `note` says."""
        end = _SIZE.size + _SIZE.unpack_from(note)[0]
        told = json.loads(note[_SIZE.size : end])
        self.encoded = note[end:] or self.encoded
        self.failures, self.dying = told["failures"], told["dying"]
        if told["times"]:
            failure = self.failure = Failure()
            failure.condition, failure.description = told["condition"], told["description"]
            failure.origin = told["origin"]
            failure.times = [datetime.fromisoformat(each) for each in told["times"]]


class Departures(MessageDeadlines):
    """The messages of a durable queue that are in memory; each one that leaves the queue leaves the store.

    Args:
        leave: Called with the positions of messages that have left the queue, and their bytes.

    Attributes:
        present: The messages in memory, by position.
        size: Their bytes, as they came.
    """

    __slots__ = ("_leave", "present", "size")

    def __init__(self, leave: Callable[[list[int], int], None]) -> None:
        super().__init__()
        self._leave = leave
        self.present: dict[int, Durable] = {}
        self.size = 0

    def __bool__(self) -> bool:
        """Return True: every message of the queue is asked how long it may wait."""
        return True

    def put(self, message: Durable) -> None:
        """Remember a message that has come into memory."""
        self.present[message.position] = message
        self.size += message.size
        self._left += 1
        if message.deadline != math.inf:
            self._added += 1
            heapq.heappush(self._heap, (message.deadline, self._added, message))

    def let_go(self, message: Durable) -> None:
        """Note that a message is on its way to the dead letters; it stays in the store until it has arrived there."""
        super().forget_all((message,))

    def forget_all(self, messages: Iterable[object]) -> None:
        """Delete messages that have left the queue."""
        messages = list(messages)
        super().forget_all(messages)
        self._depart(message for message in messages if isinstance(message, Durable))

    def depart(self, message: Durable) -> None:
        """Delete a message from the store."""
        self._depart((message,))

    def _depart(self, messages: Iterable[Durable]) -> None:
        pop = self.present.pop
        gone = [message for message in messages if pop(message.position, None) is not None]
        if gone:
            size = sum([message.size for message in gone])
            self.size -= size
            self._leave([message.position for message in gone], size)
