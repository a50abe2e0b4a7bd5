"""What a link needs of its driver, which carries it, and what a driver needs of an end that receives.

A driver has the numbers that a link has not: credit on the wire, deliveries that are queued, room in buffers. The
driver of the engine is in `rstreams.net`. Tests have another one, `rstreams.testing.local_driver`, which hands the
frames to a peer link in memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from rstreams.protocol.frames import Frame


class Driver(Protocol):
    """Carries one link: sends its frames, keeps its numbers, calls `link.work()` after `wake()`."""

    def send(self, frame: Frame) -> None:
        """Send a frame to the peer; it may wait in the driver."""
        ...

    def credit(self) -> int:
        """Return the credit on the wire, in deliveries: what the sender may still send."""
        ...

    def queued(self) -> int:
        """Return how many deliveries given to `send` have not left yet; a sender must not detach before it is 0."""
        ...

    def room_bytes(self) -> int:
        """Return how many bytes of transfers the driver takes before its buffer is full; 0 or less: none now."""
        ...

    def wake(self) -> None:
        """Have `link.work()` called soon; cheap, and allowed from inside any signal."""
        ...

    def slice_is_over(self) -> bool:
        """Tell whether others are to have their turn, although the link has more to do: it wakes itself then."""
        ...

    def call_after(self, delay_s: float, function: Callable[[], None]) -> None:
        """Call `function` in some later turn, after `delay_s` seconds; not at all if the link has ended."""
        ...


class Intake(Protocol):
    """What bounds the deliveries that come to a receiving end."""

    @property
    def streams(self) -> bool:
        """Whether deliveries are to be handed over in parts, as they come."""
        ...

    @property
    def window_bytes(self) -> int:
        """The most bytes that may be on hand of the deliveries that came; 0 for any number."""
        ...

    def room_bytes(self) -> int:
        """Return how many bytes of deliveries the end takes now."""
        ...
