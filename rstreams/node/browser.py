"""A queue's browsers: each gets copies of the messages in their order, and the messages stay."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from rstreams.abc import Subscriber
from rstreams.node.subscription import OwnDemand

_MANY = 64


class Shows(Protocol):
    """The queue behind a browser.

    Attributes:
        name: The address.
    """

    name: str

    def _after(self, position: int, most: int) -> Sequence[tuple[int, bytes]]:
        """Return the first messages behind a position, each with its own position."""
        ...

    def _leave_browser(self, browser: Browser) -> None: ...


class Browser(OwnDemand):
    """One browser's subscription. It keeps a position in the queue and nothing else.

    It gets each message that is ready, or waits for its next attempt, when its position gets there. It does not get a
    message that is at a consumer then and comes back later.

    Attributes:
        position: The sequence number of the last message that it got.
    """

    __slots__ = ("_queue", "position")

    operator = "queue"

    def __init__(self, queue: Shows, subscriber: Subscriber[bytes]) -> None:
        super().__init__(queue.name, subscriber)
        self.position = 0
        self._queue = queue

    def _emit_some(self) -> bool:
        found = self._queue._after(self.position, min(self.demand, _MANY))  # noqa: SLF001 - a part of the queue
        for position, encoded in found:
            if not self.wants:
                break
            self.position = position
            self._hand_over(encoded)
        return bool(found)

    def _leave(self) -> None:
        self._queue._leave_browser(self)  # noqa: SLF001
