"""The messages of a queue that can be too old, in the order of their deadlines."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Iterator

from rstreams.node.stored_message import Lasting, Stored


class MessageDeadlines:
    """The messages with a deadline; those that have left the queue are forgotten from time to time."""

    __slots__ = ("_added", "_heap", "_left")

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Lasting]] = []  # with some that have left the queue
        self._added = 0
        self._left = 0  # messages that have not left it

    def __len__(self) -> int:
        """Return how many are remembered."""
        return len(self._heap)

    def __bool__(self) -> bool:
        """Return whether a message with a deadline has not left the queue."""
        return self._left > 0

    @property
    def next(self) -> float:
        """The earliest deadline; infinity if there is none."""
        return self._heap[0][0] if self._heap else math.inf

    def add(self, encoded: bytes, deadline: float) -> Lasting:
        """Return the message that is too old at `deadline`."""
        message = Lasting(encoded, deadline)
        self.put(message)
        return message

    def put(self, message: Lasting) -> None:
        """Remember a message, which may have no deadline."""
        self._left += 1
        if message.deadline != math.inf:
            self._added += 1
            heapq.heappush(self._heap, (message.deadline, self._added, message))

    def take_due(self, now: float) -> Iterator[Lasting]:
        """Take out the messages whose deadline is over."""
        while self._heap and self._heap[0][0] <= now:
            yield heapq.heappop(self._heap)[2]

    def forget(self, message: Stored) -> None:
        """Note that a message has left the queue."""
        self.forget_all((message,))

    def forget_all(self, messages: Iterable[object]) -> None:
        """Note that messages have left the queue; those without a deadline are passed over."""
        for message in messages:
            if isinstance(message, Lasting):
                message.gone = True
                message.encoded = b""
                self._left -= 1
        if len(self._heap) > 64 + 2 * self._left:
            self._heap = [entry for entry in self._heap if not entry[2].gone]
            heapq.heapify(self._heap)
