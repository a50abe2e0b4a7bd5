"""A browser of a queue in memory: it gets copies of the messages in their order, and the messages stay."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from rstreams.abc import Subscriber
from rstreams.node.subscription import OwnDemand

_MANY = 64


class Shows(Protocol):
    """The storage behind a browser.

    Attributes:
        browsers: The browsers that have not left.
    """

    browsers: dict[Any, None]

    def after(self, position: int, most: int) -> Sequence[tuple[int, bytes]]:
        """Return the first messages behind a position, each with its own position."""
        ...


class Browser(OwnDemand):
    """One browser's subscription. It keeps a position in the queue and nothing else.

    It gets each message that is ready, or waits for its next attempt, when its position gets there. It does not get a
    message that is at a consumer then and comes back later.

    Attributes:
        position: The sequence number of the last message that it got.
    """

    __slots__ = ("_storage", "position")

    operator = "queue"

    def __init__(self, storage: Shows, address: str, subscriber: Subscriber[bytes]) -> None:
        super().__init__(address, subscriber)
        self.position = 0
        self._storage = storage

    def _emit_some(self) -> bool:
        found = self._storage.after(self.position, min(self.demand, _MANY))
        for position, encoded in found:
            if not self.wants:
                break
            self.position = position
            self._hand_over(encoded)
        return bool(found)

    def _leave(self) -> None:
        del self._storage.browsers[self]
