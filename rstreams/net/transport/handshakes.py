"""The clients of a listener that have not opened their connection yet: how many there may be, and for how long.

Each client costs a socket and a task. Therefore their number is bounded. Where there are too many, the oldest one makes
room. An honest client needs only a few milliseconds. Connections that are opened and left silent push out each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import trio

from rstreams.errors import Condition, RemoteProtocolError


class Handshake:
    """One client on its way in.

    Attributes:
        scope: Cancels the listener's work for it.
        phase: How far it has come: "TLS", "SASL" or "open".
        displaced: Whether it had to make room for a newer one.
    """

    def __init__(self, timeout_s: float) -> None:
        self.scope = trio.CancelScope(deadline=trio.current_time() + timeout_s)
        self.phase = "SASL"
        self.displaced = False


class Handshakes:
    """The handshakes that are under way, the oldest first.

    Args:
        most: How many there may be.
        timeout_s: How long each may take, in seconds.
    """

    def __init__(self, most: int, timeout_s: float) -> None:
        self._most = most
        self._timeout_s = timeout_s
        self._under_way: dict[Handshake, None] = {}

    def __len__(self) -> int:
        return len(self._under_way)

    @contextmanager
    def enter(self) -> Iterator[Handshake]:
        """Run a handshake in the block; it is left when its time is over, or when a newer one needs its place."""
        while len(self._under_way) >= self._most:
            oldest = next(iter(self._under_way))
            del self._under_way[oldest]
            oldest.displaced = True
            oldest.scope.cancel()
        handshake = Handshake(self._timeout_s)
        self._under_way[handshake] = None
        try:
            with handshake.scope:
                yield handshake
        finally:
            self._under_way.pop(handshake, None)

    def why(self, handshake: Handshake) -> str:
        """Say why a handshake was left before it was over."""
        if handshake.displaced:
            return f"it made room for a newer one: max_handshakes={self._most} are under way"
        where = f"{handshake.phase} was not over within handshake_timeout_s={self._timeout_s:g}"
        return f"it took too long to say who it is ({where})"


class MeteredStream(trio.abc.Stream):
    """A stream that gives out only a limited number of bytes of a client that has not authenticated."""

    def __init__(self, stream: trio.abc.Stream, most: int) -> None:
        self._stream = stream
        self._most: int | None = most
        self._came = 0

    def trust(self) -> None:
        """Give out any number of bytes from now on."""
        self._most = None

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send; see `trio.abc.SendStream`."""
        await self._stream.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        """Wait for room; see `trio.abc.SendStream`."""
        await self._stream.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        """Receive; see `trio.abc.ReceiveStream`.

        Errors: `RemoteProtocolError` when more bytes have come than are allowed.
        """
        data = await self._stream.receive_some(max_bytes)
        if self._most is not None:
            self._came += len(data)
            if self._came > self._most:
                text = f"it sent more than max_handshake_bytes={self._most} without saying who it is"
                raise RemoteProtocolError(Condition.RESOURCE_LIMIT_EXCEEDED.value, text)
        return data

    async def aclose(self) -> None:
        """Close."""
        await self._stream.aclose()
