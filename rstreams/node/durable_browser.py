"""A browser of a durable queue: it reads copies from the store, in order, and keeps only its position."""

from __future__ import annotations

from typing import Protocol

from rstreams._core.demand import add_demand, demand_error, take_demand
from rstreams._core.holds import NO_HOLD
from rstreams._core.sight import Scannable
from rstreams.abc import Hold, Subscriber
from rstreams.errors import StoreError
from rstreams.node.handover import hand_over
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


class DurableBrowser(Scannable):
    """One browser's subscription.

    It gets each message that is ready, or waits for its next attempt, when its position gets there.

    Demand: Its own; no other subscription waits for it.

    Attributes:
        comes_later: Whether messages are being read for it.
    """

    __slots__ = ("_demand", "_ended", "_partition", "_position", "_queue", "_subscriber", "_suspended", "comes_later")

    operator = "durable queue"

    def __init__(self, queue: ShowsStored, partition: Partition, subscriber: Subscriber[bytes]) -> None:
        self._queue = queue
        self._partition = partition
        self._subscriber = subscriber
        self._position = 0
        self._demand = 0
        self._ended = False
        self._suspended = False
        self.comes_later = False

    def request(self, n: int) -> None:
        """Ask for `n` more copies."""
        if self._ended:
            return
        error = demand_error(n)
        if error is None:
            self._demand = add_demand(self._demand, n)
            self.show()
        else:
            self.cancel()
            self._subscriber.on_error(error)

    def cancel(self) -> None:
        """Leave the queue."""
        if not self._ended:
            self._ended = True
            self._queue._leave_disk_browser(self)  # noqa: SLF001 - a part of the queue

    def hold(self) -> Hold:
        """Return a hold that does nothing: a copy needs no outcome."""
        return NO_HOLD

    def suspend(self) -> None:
        """Get no copies until `resume`."""
        self._suspended = True

    def resume(self) -> None:
        """Get copies again."""
        self._suspended = False
        self.show()

    @property
    def _wants(self) -> bool:
        return self._demand > 0 and not self._ended and not self._suspended

    def show(self) -> None:
        """Read the messages behind the position, as far as there is demand."""
        if self._wants and not self.comes_later and self._position < self._queue.safe_end:
            self.comes_later = True
            self._partition.read(self._position, self._hand_over)

    def _hand_over(self, answer: Chunk | StoreError) -> None:
        self.comes_later = False
        if isinstance(answer, StoreError):
            if not self._ended:
                self.cancel()
                self._subscriber.on_error(answer)
            return
        queue = self._queue
        for position, encoded in answer:
            if not self._wants:
                break
            self._position = position + 1
            shown = queue._shown(position, encoded)  # noqa: SLF001 - a part of the queue
            if shown is not None:
                self._demand = take_demand(self._demand, 1)
                hand_over(self._subscriber, shown, queue.name, self.cancel)
        else:
            self._position = answer.following if answer.runs else queue.safe_end
        self.show()
        if not self.comes_later:
            look_again = getattr(self._subscriber, "look_again", None)
            if look_again is not None:
                look_again()
