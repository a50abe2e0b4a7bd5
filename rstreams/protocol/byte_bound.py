"""The bytes that a receiving link has on hand, and the number of deliveries that still fit."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Final

from rstreams._checks.numbers import require_count
from rstreams._core.demand import UNBOUNDED

MEMORY: Final = 16
"""A large delivery is expected to come again for about this number of deliveries."""


def require_window_bytes(window_bytes: int | None) -> int:
    """Return the limit in bytes, 0 for None: any number.

    Errors: `ConfigError` unless it is None or a whole number of 1 to 2^63-1 bytes.
    """
    if window_bytes is None:
        return 0
    return require_count("", "window_bytes", window_bytes, 1, UNBOUNDED, unit=" bytes, or None")


class ByteBound:
    """The bytes on hand, and the bytes that the next delivery is expected to have.

    The first delivery is expected to fill the limit; therefore one is granted. From then on a delivery is expected to
    be as large as the largest of the latest ones. The expectation rises to a larger delivery at once, because too much
    credit cannot be taken back in time. It falls by a sixteenth of the difference with each smaller delivery. A mean
    would let a few large deliveries among many small ones pass the limit together. The maximum of all would never
    become smaller.

    Attributes:
        window_bytes: The most bytes buffered, unsettled and expected together.
        on_hand: The bytes of the items buffered and unsettled.
        expected: The bytes that the next delivery is expected to have, at least 1.
    """

    __slots__ = ("_seen", "_sizes", "expected", "on_hand", "window_bytes")

    def __init__(self, window_bytes: int) -> None:
        """Start with nothing on hand."""
        self.window_bytes = window_bytes
        self.on_hand = 0
        self.expected = window_bytes
        self._seen = False
        self._sizes: dict[Hashable, int] = {}

    def observe(self, messages: Sequence[bytes]) -> None:
        """Expect the next deliveries to be like `messages`, one for each received delivery."""
        largest = max(map(len, messages), default=0)
        if not self._seen:
            self._seen = True
            self.expected = largest
        elif messages and largest < self.expected:
            fall = (self.expected - largest) * min(len(messages), MEMORY)
            self.expected -= -(-fall // MEMORY)  # rounded up; otherwise it would never reach `largest`
        else:
            self.expected = max(self.expected, largest)
        self.expected = max(self.expected, 1)

    def receive(self, items: Iterable[tuple[Hashable, bytes]]) -> None:
        """Count items as on hand until `settle` is called with their keys; items without a key until `let_go`."""
        for key, item in items:
            size = len(item)
            self.on_hand += size
            if key is not None:
                self._sizes[key] = size

    def settle(self, keys: Iterable[Hashable]) -> None:
        """Count items as settled, or given back."""
        for key in keys:
            self.on_hand -= self._sizes.pop(key)

    def let_go(self, size: int) -> None:
        """Count the bytes of an item without a key as no longer on hand."""
        self.on_hand -= size

    def room(self) -> int:
        """Return how many more bytes may be on hand; any number if none are on hand."""
        return self.window_bytes - self.on_hand if self.on_hand else UNBOUNDED

    def deliveries(self) -> int:
        """Return how many more deliveries are expected to fit; at least one if none are on hand."""
        fit = max(0, self.window_bytes - self.on_hand) // self.expected
        return fit if self.on_hand else max(1, fit)

    @property
    def half(self) -> int:
        """Half of the deliveries that are expected to fit when nothing is on hand."""
        return self.window_bytes // self.expected // 2
