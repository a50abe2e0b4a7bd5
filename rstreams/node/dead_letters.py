"""The messages that leave a queue without being accepted: rejected, failed too often or too old."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, Protocol

from rstreams._core.claims import DONE, Claims, Ending, Settles
from rstreams._events.table import (
    DEAD_LETTERS_IN_MEMORY,
    DEAD_LETTERS_REFUSED,
    DEAD_LETTERS_TAKEN_AGAIN,
    MESSAGE_BURIED,
    MESSAGE_DEAD_LETTERED,
)
from rstreams.abc import Subscriber
from rstreams.errors import DeliveryFailed
from rstreams.node.lifetime import QueueClock, dead_letter
from rstreams.node.producer_outlet import ProducerOutlet
from rstreams.node.storage import Storage
from rstreams.node.stored_message import Stored

RETRY_S: Final = 1.0
"""The time after which dead letters that were not taken are sent again, in seconds."""

REASONS: Final = ("rejected", "exhausted", "expired")
"""Why messages leave a queue without being accepted. The text of a reason begins with one of these words."""


def reason_of(text: str) -> str:
    """Return the word for the reason that a text tells."""
    return next((word for word in REASONS if text.startswith(word)), REASONS[-1])


def lost_at_a_restart(queue: str, letters: str) -> str:
    """Return the warning for a durable queue whose dead letters are in memory."""
    text = (
        f"queue {queue!r:.80} is durable, and its dead letters are not: those in {letters!r:.80} are lost at a restart"
    )
    return f"{text}; make that queue durable, too"


async def warn_of_loss(queue: str, letters: str) -> None:
    """Log that warning; a task of the node does it, so that a node which is only tried does not."""
    DEAD_LETTERS_IN_MEMORY.tell(queue, why=lost_at_a_restart(queue, letters), address=queue, dead_letters=letters)


class TakesDeadLetters(Protocol):
    """An address that takes dead letters."""

    def producer(self) -> Subscriber[bytes]:
        """Return the subscriber for one producer."""
        ...


class Unaccepted:
    """Sends the messages that a queue gives up to its dead letters, or drops them if it has none.

    Until a letter has arrived it keeps its place in its own queue. One that is not taken, because the store of the
    address is full for instance, is sent again after `RETRY_S`.

    Args:
        name: The queue.
        storage: Its messages.
        clock: Its time.
        address: The address that takes dead letters; None: there is none.

    Attributes:
        leaving: How many are on their way to the dead letters.
        arrived: How many have arrived there, by the reason.
        rejected: How many were rejected.
        exhausted: How many failed too often.
        expired: How many were too old.
        due: When letters are to be sent again; infinity for never.
    """

    def __init__(self, name: str, storage: Storage, clock: QueueClock, address: TakesDeadLetters | None) -> None:
        self._name = name
        self._storage = storage
        self._clock = clock
        self._outlet = None if address is None else _DeadLetterOutlet(address, storage)
        self._refused: list[_Letter] = []
        self._told = False  # the log knows that letters are not taken
        self.leaving = 0
        self.arrived: dict[str, int] = dict.fromkeys(REASONS, 0)
        self.rejected = 0
        self.exhausted = 0
        self.expired = 0
        self.due = math.inf

    def expire(self, message: Stored) -> None:
        """Let go of a message that is too old."""
        self.expired += 1
        self.bury(message, "expired")

    def bury(self, message: Stored, reason: str) -> None:
        """Let go of a message for good, for a reason: to the dead letters, if there are any."""
        outlet, number = self._outlet, self.rejected + self.exhausted + self.expired
        event = MESSAGE_BURIED if outlet is None else MESSAGE_DEAD_LETTERED
        event.tell(self._name, kind=self._storage.kind, address=self._name, count=number, why=reason)
        if outlet is None:
            self._storage.let_go((message,))
            return
        told = {} if message.failure is None else message.failure.annotations
        encoded = dead_letter(message.encoded, reason, self._name, message.failures, told)
        self.leaving += 1
        self._storage.begin_leaving(message, reason)
        outlet.send(_Letter(self, message, encoded, reason_of(reason)))

    def go_on(self, message: Stored, reason: str) -> bool:
        """Send a message that was on its way when the node ended, and count it as then; False: there is no address."""
        if self._outlet is None:
            return False
        why = reason_of(reason)
        self.rejected += why == "rejected"
        self.exhausted += why == "exhausted"
        self.expired += why == "expired"
        self.bury(message, reason)
        return True

    def send_again(self, now: float) -> None:
        """Send the letters that were not taken, if it is time."""
        if now >= self.due and self._outlet is not None:
            self.due = math.inf
            refused, self._refused = self._refused, []
            for letter in refused:
                self._outlet.send(letter)

    def settled(self, letter: _Letter, how: Ending) -> None:
        """Hear that a letter has arrived, or was not taken."""
        if how is DONE:
            self.leaving -= 1
            self.arrived[letter.reason] += 1
            self._storage.leave((letter.message,))
            self._storage.room.serve()
            if self._told and not self._refused:
                self._told = False
                DEAD_LETTERS_TAKEN_AGAIN.tell(self._name, address=self._name)
            return
        self._refused.append(letter)
        if not self._told:
            self._told = True
            why = how if isinstance(how, BaseException) else DeliveryFailed("released")
            DEAD_LETTERS_REFUSED.tell(self._name, address=self._name, why=why)
        if self.due == math.inf:
            self.due = self._clock.now() + RETRY_S
            self._clock.wake_at(self.due)


class _Letter(Settles):
    """A dead letter on its way, which has arrived, or is not taken."""

    __slots__ = ("_of", "encoded", "message", "reason")

    def __init__(self, of: Unaccepted, message: Stored, encoded: bytes, reason: str) -> None:
        self._of = of
        self.message = message
        self.encoded = encoded
        self.reason = reason

    def settle(self, epoch: int, places: Sequence[Any], how: Ending) -> None:  # noqa: ARG002 - it is one letter
        self._of.settled(self, how)


class _DeadLetterOutlet(ProducerOutlet):
    """Passes letters on; each leaves its own queue in the commit in which the other one stores it."""

    def __init__(self, address: TakesDeadLetters, storage: Storage) -> None:
        super().__init__(address.producer)
        self._storage = storage

    def send(self, letter: _Letter) -> None:
        """Send a letter, now or later."""
        self.put(letter.encoded, Claims(letter, 0, (0,)))

    def _hand_over(self, subscriber: Subscriber[bytes], encoded: bytes, hold: Claims) -> None:
        letter = hold.source
        assert isinstance(letter, _Letter), "no other is put in"
        with self._storage.moving(letter.message):
            subscriber.on_next(encoded)
