"""A browser of a durable queue: it reads copies from the store, in order, and keeps only its position."""

from __future__ import annotations

from typing import Any, Protocol

from rstreams.abc import Subscriber
from rstreams.errors import StoreError
from rstreams.node.subscription import OwnDemand
from rstreams.store import Chunk, Partition


class ShowsStored(Protocol):
    """The storage behind a browser.

    Attributes:
        browsers: The browsers that have not left.
        safe_end: The position behind the last message that is safe.
    """

    browsers: dict[Any, None]
    safe_end: int

    def shown(self, position: int, encoded: bytes) -> bytes | None:
        """Return a message as it is shown; None if it is at a consumer, or gone."""
        ...


class DurableBrowser(OwnDemand):
    """One browser's subscription.

    It gets each message that is ready, or waits for its next attempt, when its position gets there.
    """

    __slots__ = ("_partition", "_position", "_reading", "_storage")

    operator = "durable queue"

    def __init__(self, storage: ShowsStored, address: str, partition: Partition, subscriber: Subscriber[bytes]) -> None:
        super().__init__(address, subscriber)
        self._storage = storage
        self._partition = partition
        self._position = 0
        self._reading = False

    @property
    def comes_later(self) -> bool:
        """Whether messages are being read for it."""
        return self._reading

    def _emit_some(self) -> bool:
        """Read the messages behind the position; they come later."""
        if not self._reading and self._position < self._storage.safe_end:
            self._reading = True
            self._partition.read(self._position, self._on_read)
        return False

    def _on_read(self, answer: Chunk | StoreError) -> None:
        if isinstance(answer, StoreError):
            self._reading = False
            self.fail(answer)
            return
        storage = self._storage
        for position, encoded in answer:  # a request in `on_next` reads nothing: `_reading` is true until the end
            if not self.wants:
                break
            self._position = position + 1
            shown = storage.shown(position, encoded)
            if shown is not None:
                self._hand_over(shown)
        else:
            self._position = answer.following if answer.runs else storage.safe_end
        self._reading = False
        self.on_ready()

    def _leave(self) -> None:
        del self._storage.browsers[self]
