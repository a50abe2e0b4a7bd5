"""The interface between a link and its driver, which carries it, and between a driver and a receiving end.

A driver has the numbers that a link does not have: credit on the wire, deliveries that are queued, room in buffers. The
driver of the engine is in `rstreams.net`. Tests have another one, `rstreams.testing.local_driver`, which hands the
frames to a peer link in memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from rstreams.protocol.frames import Frame


class Wake(Protocol):
    """Wakes a link: see `Driver.wake`."""

    def __call__(self, *, for_item: bool = False) -> None:
        """Make the link work soon; for an item, perhaps at once."""
        ...


class Driver(Protocol):
    """Carries one link: sends its frames, has its numbers, calls `link.work()` after `wake()`."""

    def send(self, frame: Frame) -> None:
        """Send a frame to the peer; it may wait in the driver."""
        ...

    def send_ahead(self, tag: int, message: bytes, *, settled: bool) -> bool:
        """Send one delivery at once, inside of a publisher's signal, if the connection is idle.

        Args:
            tag: Names the delivery, as in a `Transfer`.
            message: The encoded message.
            settled: Whether it is sent settled.

        Returns: Whether it was sent, and credit for another delivery is left. If not, nothing has happened.
        """
        ...

    def credit(self) -> int:
        """Return the credit on the wire: the deliveries that the sender may still send."""
        ...

    def queued(self) -> int:
        """Return how many deliveries given to `send` have not left yet; a sender must not detach before it is 0."""
        ...

    def room_bytes(self) -> int:
        """Return how many bytes of transfers the driver takes before its buffer is full; 0 or less: none now."""
        ...

    def is_shut(self, *, used_up: bool = False) -> bool:
        """Tell whether the peer takes no deliveries at present, however much credit there is (AMQP 1.0 section 2.5.6).

        The driver wakes the end when that changes.

        Args:
            used_up: Whether to look also for deliveries that wait because what the peer takes is used up. That takes
                longer, and the end is not woken when it begins.
        """
        ...

    def sent_at_s(self) -> float:
        """Return when the last transfer was sent, on a clock that only goes on, in seconds; no clock is read."""
        ...

    def now_s(self) -> float:
        """Return the time on the same clock."""
        ...

    def wake(self, *, for_item: bool = False) -> None:
        """Make the driver call `link.work()` soon; cheap, and allowed from inside any signal.

        With `for_item` a publisher is sending an item. Then `link.work()` may be called before this returns.
        """
        ...

    def slice_is_over(self) -> bool:
        """Tell whether other links should have their turn, although this link has more to do; it then wakes itself."""
        ...

    def call_after(self, delay_s: float, function: Callable[[], None]) -> None:
        """Call `function` in some later turn, after `delay_s` seconds; not if the link has ended."""
        ...


class IntakeLimits(Protocol):
    """The limits for the deliveries that come to a receiving end."""

    @property
    def streams(self) -> bool:
        """Whether deliveries are handed over in parts, as they come."""
        ...

    @property
    def window_bytes(self) -> int:
        """The most bytes that may be on hand of received deliveries; 0 for any number."""
        ...

    def room_bytes(self) -> int:
        """Return how many bytes of deliveries the end takes now."""
        ...
