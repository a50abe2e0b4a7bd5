"""A message of a queue with more than its bytes: it was handed over, has a deadline, or waits for its next attempt."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Final

from rstreams._codec.forwarding import once_acquired
from rstreams.errors import RemoteProtocolError
from rstreams.message import with_delivery_count
from rstreams.node.failure import TOLD, Failure
from rstreams.node.lifetime import annotated

_NOBODY: Final[frozenset[Hashable]] = frozenset()


class Stored:
    """A message, with its place in the queue: its sequence number.

    Attributes:
        sequence: Its number in the order of the queue.
        encoded: The message.
        failures: How many attempts to deliver it have failed.
        failure: How the last attempt failed, and when each one did; None if there was none.
        undeliverable_to: The consumers that must not get it again.
        size: The bytes that the queue counts for it.
        came_at: When it came, by the clock of the machine, as far as that is known; infinity
            if no consumer has given it back.
    """

    __slots__ = ("came_at", "encoded", "failure", "failures", "sequence", "size", "undeliverable_to")

    def __init__(self, sequence: int, encoded: bytes) -> None:
        self.sequence = sequence
        self.encoded = encoded
        self.size = len(encoded)
        self.came_at = math.inf
        self.failures = 0
        self.failure: Failure | None = None
        self.undeliverable_to: frozenset[Hashable] = _NOBODY

    def __lt__(self, other: Stored) -> bool:
        return self.sequence < other.sequence

    def as_sent(self) -> bytes:
        """Return the message as it is sent, with the failed attempts in its header."""
        if not self.failures:
            return self.encoded
        try:
            return with_delivery_count(self.encoded, self.failures)
        except RemoteProtocolError:
            return self.encoded  # not an AMQP message: only its consumers look into it

    def annotate(self, annotations: Mapping[str, Any]) -> int:
        """Keep the annotations of an outcome; return how many bytes it has grown by."""
        noted = {name: value for name, value in annotations.items() if name not in TOLD}
        if noted:
            self.encoded = annotated(self.encoded, noted)
            before, self.size = self.size, len(self.encoded)
            return self.size - before
        return 0

    def come_back(self) -> None:
        """Note that a consumer has had it: no later one is the first to acquire it."""
        self.encoded = once_acquired(self.encoded)


class Lasting(Stored):
    """A message that can be too old; therefore it knows where it is.

    Attributes:
        deadline: The time at which it is too old.
        ready: Whether it waits for a consumer.
        delayed: Whether it waits for its next attempt. If neither, it is at a consumer or has left the queue.
        gone: Whether it has left the queue.
    """

    __slots__ = ("deadline", "delayed", "gone", "ready")

    def __init__(self, encoded: bytes, deadline: float) -> None:
        super().__init__(0, encoded)
        self.deadline = deadline
        self.ready = True
        self.delayed = False
        self.gone = False

    def lives(self, now: float) -> bool:
        """Return whether it is in the queue and not too old."""
        return not self.gone and self.deadline > now


def is_gone(message: object) -> bool:
    """Return whether a message has left the queue; only one that can be too old is still found after that."""
    return isinstance(message, Lasting) and message.gone


def as_handed_over(messages: Sequence[bytes | Lasting], numbers: range) -> list[bytes]:
    """Return fresh messages as they are sent; those that can be too old have these numbers, and wait no more."""
    encoded: list[bytes] = []
    for number, message in zip(numbers, messages, strict=True):
        if isinstance(message, Lasting):
            message.sequence, message.ready = number, False
            encoded.append(message.as_sent())
        else:
            encoded.append(message)
    return encoded


def size_of(messages: Sequence[bytes | Stored]) -> int:
    """Return the bytes that a queue counts for messages."""
    try:
        return sum(map(len, messages))  # type: ignore[arg-type]  # most are bytes, and this is called for all of them
    except TypeError:
        return sum(each.size if isinstance(each, Stored) else len(each) for each in messages)
