"""A browser of a queue: it gets copies of the messages in their order, and the messages stay."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from rstreams.abc import Subscriber
from rstreams.node.subscription import OwnDemand

_MANY = 1024


class Shows(Protocol):
    """The storage behind a browser.

    Attributes:
        browsers: The browsers that have not left.
    """

    browsers: dict[Any, None]

    def look(self, browser: Browser, most: int) -> bool:
        """Give a browser the messages behind its position by `take`, now or later; return whether there may be more."""
        ...

    def has_more(self, browser: Browser) -> bool:
        """Tell whether there may be messages behind the position of a browser."""
        ...


class Browser(OwnDemand):
    """One browser's subscription. It keeps a position in the queue and nothing else.

    It gets each message that is ready, or waits for its next attempt, when its position gets there. It does not get a
    message that is at a consumer then and comes back later.

    Attributes:
        position: The place behind the last message that it got, as its storage counts.
        reads: Whether messages are being read from the disk for it.
    """

    __slots__ = ("_storage", "position", "reads")

    operator = "queue"

    def __init__(self, storage: Shows, address: str, subscriber: Subscriber[bytes]) -> None:
        super().__init__(address, subscriber)
        self.position = 0
        self.reads = False
        self._storage = storage

    @property
    def comes_later(self) -> bool:
        """Whether messages are being read for it."""
        return self.reads

    def take(self, found: Iterable[tuple[int, bytes | None]]) -> bool:
        """Hand over messages, each with the place behind it, and None if it is not shown; False if some are left."""
        for position, encoded in found:
            if not self.wants:
                return False
            self.position = position
            if encoded is not None:
                self._hand_over(encoded)
        return True

    def _emit_some(self) -> bool:
        return not self.reads and self._storage.look(self, min(self.demand, _MANY))

    def _has_more(self) -> bool:
        return self._storage.has_more(self)

    def _leave(self) -> None:
        del self._storage.browsers[self]
