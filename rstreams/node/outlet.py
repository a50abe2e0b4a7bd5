"""An outlet to an address of the node: a producer there, as long as messages wait for room."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from rstreams.abc import Hold, Subscriber
from rstreams.net.links.outlet import Outlet


class TakesDeadLetters(Protocol):
    """An address that takes dead letters."""

    def producer(self) -> Subscriber[bytes]:
        """Return the subscriber for one producer."""
        ...


class ProducerOutlet(Outlet[Hold]):
    """Passes messages on when the address has room for them.

    Args:
        make: Makes a producer's end at the address.
    """

    def __init__(self, make: Callable[[], Subscriber[bytes]]) -> None:
        super().__init__()
        self._make = make

    def _open(self) -> None:
        self.subscribe(self._make())

    def _idle(self) -> None:
        """Give back the promised room to other producers."""
        if self._subscriber is not None and not self._sending:
            self._gone()
            producer = self._close()
            if producer is not None:
                producer.on_complete()

    def _gone(self) -> None:
        """Hear that the producer is about to leave."""


class DeadLetterOutlet(ProducerOutlet):
    """Passes dead letters on to another address; until it has room they keep their places in their own queue.

    Args:
        address: The address that takes them.
        on_gone: Called for each one that has arrived there.
    """

    def __init__(self, address: TakesDeadLetters, on_gone: Callable[[], None]) -> None:
        super().__init__(address.producer)
        self._arrival = _Arrival(on_gone)

    def bury(self, encoded: bytes) -> None:
        """Pass on one dead letter, now or later."""
        self.put(encoded, self._arrival)


class _Arrival:
    """The hold of a dead letter, which is let go when it has arrived."""

    __slots__ = ("_on_gone",)

    def __init__(self, on_gone: Callable[[], None]) -> None:
        self._on_gone = on_gone

    def done(self) -> None:
        self._on_gone()

    def fail(self, error: BaseException) -> None:  # noqa: ARG002 - a hold's own name for it
        self._on_gone()

    def release(self) -> None:
        self._on_gone()
