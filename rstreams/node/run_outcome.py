"""What a producer is told of messages that go to the store."""

from __future__ import annotations

from typing import Protocol

from rstreams.errors import Condition, DeliveryFailed, StoreError
from rstreams.node.producer import Producer
from rstreams.node.seen_messages import Seen
from rstreams.store import Done, StoreFull


class Refuses(Protocol):
    """What runs come to.

    Attributes:
        name: Its name.
        refused: How many messages were refused.
        seen: Counts those that came again.
    """

    name: str
    refused: int
    seen: Seen


class RunOutcome:
    """The outcome of one run of a producer, whose messages may go to several partitions.

    Args:
        producer: The producer.
        messages: How many messages the run has.
        log: The log.
        repeated: How many of them came before.
        refusal: Why all are refused; None: they are accepted if all parts are safe.
    """

    __slots__ = ("_error", "_log", "_messages", "_parts", "_producer", "_refusal", "_repeated")

    def __init__(
        self,
        producer: Producer,
        messages: int,
        log: Refuses,
        *,
        repeated: int = 0,
        refusal: DeliveryFailed | None = None,
    ) -> None:
        self._log = log
        self._producer = producer
        self._messages = messages
        self._repeated = repeated
        self._parts = 0
        self._error: StoreError | None = None
        self._refusal = refusal

    def part(self) -> Done:
        """Return the function that hears of one part; the last one tells the producer."""
        self._parts += 1
        return self._done

    def _done(self, error: StoreError | None) -> None:
        self._error = self._error or error
        self._parts -= 1
        if self._parts:
            return
        refusal = self._refusal or (None if self._error is None else not_stored(self._error, self._log.name))
        if refusal is None:
            self._log.seen.duplicates += self._repeated
            self._producer.accept(self._messages)
        else:
            self._log.refused += self._messages
            self._producer.refuse(self._messages, refusal)


def not_stored(error: StoreError, address: str) -> DeliveryFailed:
    """Return the outcome of messages to an address that are not in the store."""
    full = isinstance(error, StoreFull)
    condition = Condition.RESOURCE_LIMIT_EXCEEDED if full else Condition.INTERNAL_ERROR
    text = f"the store of {address!r:.80} " + ("is full" if full else "failed")
    return DeliveryFailed("rejected", condition.value, text)
