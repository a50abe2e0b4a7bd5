"""An outlet for the dead letters of a queue; one that is not taken is sent again."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final, Protocol

from rstreams._core.claims import DONE, Claims, Ending, Settles
from rstreams.abc import Subscriber
from rstreams.errors import DeliveryFailed
from rstreams.node.lifetime import QueueClock, dead_letter
from rstreams.node.producer_outlet import ProducerOutlet
from rstreams.node.stored_message import Stored

RETRY_S: Final = 1.0
"""The time after which dead letters that were not taken are sent again, in seconds."""

logger = logging.getLogger("rstreams.node")


class TakesDeadLetters(Protocol):
    """An address that takes dead letters."""

    def producer(self) -> Subscriber[bytes]:
        """Return the subscriber for one producer."""
        ...


class Buries(Protocol):
    """The queue behind an outlet of dead letters."""

    name: str
    _clock: QueueClock
    _on_deadline: Callable[[float], None]


class DeadLetterOutlet(ProducerOutlet):
    """Passes dead letters on to another address; until they have arrived they keep their places in their own queue.

    A letter that is not taken, because the store of the address is full for instance, is sent again after `RETRY_S`.

    Args:
        address: The address that takes them.
        queue: Their own queue.

    Attributes:
        due: When letters are to be sent again, by the queue's clock; infinity for never.
    """

    def __init__(self, address: TakesDeadLetters, queue: Buries) -> None:
        super().__init__(address.producer)
        self._queue = queue
        self._refused: list[_Letter] = []
        self._told = False  # the log knows that letters are not taken
        self.due = math.inf

    def bury(
        self,
        message: Stored,
        encoded: bytes,
        reason: str,
        arrived: Callable[[], None],
        leaving: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        """Pass on one dead letter, now or later.

        Args:
            message: The message.
            encoded: Its bytes.
            reason: Why it is a dead letter.
            arrived: Called when it has arrived.
            leaving: Returns the block in which it is handed over; it leaves its queue in the same commit.
        """
        told = {} if message.failure is None else message.failure.annotations
        letter = dead_letter(encoded, reason, self._queue.name, message.failures, told)
        self._send_letter(_Letter(self, letter, arrived, leaving))

    def _send_letter(self, letter: _Letter) -> None:
        self.put(letter.encoded, Claims(letter, 0, (0,)))

    def _hand_over(self, subscriber: Subscriber[bytes], encoded: bytes, hold: Claims) -> None:
        letter = hold.source
        assert isinstance(letter, _Letter), "no other is put in"
        with letter.leaving():
            subscriber.on_next(encoded)

    def send_again(self, now: float) -> None:
        """Send the letters that were not taken, if it is time."""
        if now >= self.due:
            self.due = math.inf
            refused, self._refused = self._refused, []
            for letter in refused:
                self._send_letter(letter)

    def took(self) -> None:
        """Hear that a letter has arrived."""
        if self._told and not self._refused:
            self._told = False
            logger.warning("queue %r: its dead letters are taken again", self._queue.name)

    def refused(self, letter: _Letter, error: BaseException) -> None:
        """Hear that a letter was not taken."""
        self._refused.append(letter)
        if not self._told:
            self._told = True
            text = "queue %r: its dead letters are not taken (%s); they are sent again"
            logger.error(text, self._queue.name, error)
        if self.due == math.inf:
            self.due = self._queue._clock.now() + RETRY_S  # noqa: SLF001 - the outlet is a part of the queue
            self._queue._on_deadline(self.due)  # noqa: SLF001


class _Letter(Settles):
    """A dead letter on its way, which has arrived, or is not taken."""

    __slots__ = ("_arrived", "_outlet", "encoded", "leaving")

    def __init__(
        self,
        outlet: DeadLetterOutlet,
        encoded: bytes,
        arrived: Callable[[], None],
        leaving: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self.leaving = leaving
        self._outlet = outlet
        self._arrived = arrived
        self.encoded = encoded

    def settle(self, epoch: int, places: Sequence[Any], how: Ending) -> None:  # noqa: ARG002 - it is one letter
        if how is DONE:
            self._arrived()
            self._outlet.took()
        else:
            self._outlet.refused(self, how if isinstance(how, BaseException) else DeliveryFailed("released"))
