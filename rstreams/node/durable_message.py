"""A message of a durable queue: where it is in the store, and what is noted there beside it."""

from __future__ import annotations

import json
import math
import struct
from datetime import datetime
from typing import Final

from rstreams.node.failure import Failure
from rstreams.node.stored_message import Lasting

_SIZE: Final = struct.Struct("<I")


class Durable(Lasting):
    """A message that is in the store and in memory.

    Attributes:
        position: Its position in the queue's partition.
        dying: Why it leaves for the dead letters; "" if it does not.
    """

    __slots__ = ("_came", "dying", "position")

    def __init__(self, position: int, encoded: bytes, deadline: float = math.inf) -> None:
        super().__init__(encoded, deadline)
        self._came = encoded  # as the store has it
        self.position = position
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

    def recall(self, note: bytes) -> int:
        """Become as `note` says; return how many bytes it has grown by."""
        end = _SIZE.size + _SIZE.unpack_from(note)[0]
        told = json.loads(note[_SIZE.size : end])
        self.encoded = note[end:] or self.encoded
        before, self.size = self.size, len(self.encoded)
        self.failures, self.dying = told["failures"], told["dying"]
        if told["times"]:
            failure = self.failure = Failure()
            failure.condition, failure.description = told["condition"], told["description"]
            failure.origin = told["origin"]
            failure.times = [datetime.fromisoformat(each) for each in told["times"]]
        return self.size - before
