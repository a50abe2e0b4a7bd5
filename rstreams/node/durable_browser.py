"""A browser of a durable queue: it reads copies from the store, in order, and keeps only its position."""

from __future__ import annotations

from typing import Protocol

from rstreams.abc import Subscriber
from rstreams.errors import StoreError
from rstreams.node.subscription import OwnDemand
from rstreams.store import Chunk, Partition


class ShowsStored(Protocol):
    """The durable queue behind a browser.

    Attributes:
        name: The address.
        safe_end: The position behind the last message that is safe.
    """

    name: str
    safe_end: int

    def _shown(self, position: int, encoded: bytes) -> bytes | None:
        """Return a message as it is shown; None if it is at a consumer, or gone."""
        ...

    def _leave_disk_browser(self, browser: DurableBrowser) -> None: ...


class DurableBrowser(OwnDemand):
    """One browser's subscription.

    It gets each message that is ready, or waits for its next attempt, when its position gets there.
    """

    __slots__ = ("_partition", "_position", "_queue", "_reading")

    operator = "durable queue"

    def __init__(self, queue: ShowsStored, partition: Partition, subscriber: Subscriber[bytes]) -> None:
        super().__init__(queue.name, subscriber)
        self._queue = queue
        self._partition = partition
        self._position = 0
        self._reading = False

    @property
    def comes_later(self) -> bool:
        """Whether messages are being read for it."""
        return self._reading

    def _emit_some(self) -> bool:
        """Read the messages behind the position; they come later."""
        if not self._reading and self._position < self._queue.safe_end:
            self._reading = True
            self._partition.read(self._position, self._on_read)
        return False

    def _on_read(self, answer: Chunk | StoreError) -> None:
        if isinstance(answer, StoreError):
            self._reading = False
            self.fail(answer)
            return
        queue = self._queue
        for position, encoded in answer:  # a request in `on_next` reads nothing: `_reading` is true until the end
            if not self.wants:
                break
            self._position = position + 1
            shown = queue._shown(position, encoded)  # noqa: SLF001 - a part of the queue
            if shown is not None:
                self._hand_over(shown)
        else:
            self._position = answer.following if answer.runs else queue.safe_end
        self._reading = False
        self.on_ready()

    def _leave(self) -> None:
        self._queue._leave_disk_browser(self)  # noqa: SLF001
