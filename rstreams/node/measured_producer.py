"""The node's end of a producer link at an address whose messages stay in the memory of the node."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from rstreams.errors import Condition, DeliveryFailed
from rstreams.node.producer import Producer, Receives
from rstreams.node.stored_bytes import StoredBytes


class InMemory(Receives, Protocol):
    """The address behind a `MeasuredProducer`."""

    @property
    def memory(self) -> tuple[StoredBytes, int]:
        """The bytes in the memory of the node, and how many of them are of this address."""
        ...

    def _decline(self, producer: Producer) -> None: ...


class MeasuredProducer(Producer):
    """A producer whose message is rejected if the node has no memory for it.

    That is the last resort: an address promises only what there is room for, if messages are as large as those before.
    """

    __slots__ = ("_keeps", "_total")

    def __init__(self, address: InMemory, window: int) -> None:
        super().__init__(address, window)
        self._keeps = address
        self._total = address.memory[0]

    def on_next(self, item: bytes) -> None:
        """Pass a message to the address, or reject it."""
        if self._total.is_tight and self.stores and not self._total.has_room(self._keeps.memory[1], len(item)):
            text = f"the node has no memory for a message of {len(item)} bytes more: see total_stored_bytes"
            self._subscription.hold().fail(DeliveryFailed("rejected", Condition.RESOURCE_LIMIT_EXCEEDED.value, text))
            self._keeps._decline(self)  # noqa: SLF001 - the producer is a part of its address
        else:
            super().on_next(item)

    def on_run(self, items: Iterator[bytes]) -> None:
        """Pass many messages to the address; see `TakesRuns`."""
        if self._total.is_tight:
            for item in items:
                self.on_next(item)
        else:
            super().on_run(items)
