"""The clients of a listener that have not opened their connection yet: how many there may be, and for how long.

Each client costs a socket and a task. Therefore their number is bounded. Where there are too many, the oldest client
of the address with the most clients makes room. An honest client needs only a few milliseconds, or some seconds if its
password waits to be checked. Connections of one address that stay silent, or guess passwords, push out each other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import trio

from rstreams.errors import Condition, RemoteProtocolError


class Handshake:
    """One client on its way in.

    Attributes:
        origin: Where the client comes from.
        scope: Cancels the listener's work for it.
        phase: How far it has come: "TLS", "SASL" or "open".
        displaced: Whether it had to make room for a newer one.
    """

    def __init__(self, origin: str, timeout_s: float) -> None:
        self.origin = origin
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
        self._of_origin: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._under_way)

    @contextmanager
    def enter(self, origin: str = "") -> Iterator[Handshake]:
        """Run a handshake in the block; it is left when its time is over, or when a newer one needs its place."""
        handshake = Handshake(origin, self._timeout_s)
        self._under_way[handshake] = None
        self._of_origin[origin] += 1
        while len(self._under_way) > self._most:
            most = max(self._of_origin.values())
            oldest = next(each for each in self._under_way if self._of_origin[each.origin] == most)
            self._forget(oldest)
            oldest.displaced = True
            oldest.scope.cancel()
        try:
            with handshake.scope:
                yield handshake
        finally:
            self._forget(handshake)

    def _forget(self, handshake: Handshake) -> None:
        if self._under_way.pop(handshake, handshake) is None:
            self._of_origin[handshake.origin] -= 1
            if not self._of_origin[handshake.origin]:
                del self._of_origin[handshake.origin]

    def why(self, handshake: Handshake) -> str:
        """Say why a handshake was left before it was over."""
        if handshake.displaced:
            return f"it made room for a newer one: max_handshakes={self._most} are under way"
        where = f"{handshake.phase} was not over within handshake_timeout_s={self._timeout_s:g}"
        return f"it took too long to say who it is ({where})"


class MeteredStream(trio.abc.Stream):
    """A stream that gives out only a limited number of bytes of a client that has not authenticated.

    Attributes:
        came: How many bytes have come while that limit held.
    """

    def __init__(self, stream: trio.abc.Stream, most: int) -> None:
        self._stream = stream
        self._most: int | None = most
        self.came = 0

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
            self.came += len(data)
            if self.came > self._most:
                text = f"it sent more than max_handshake_bytes={self._most} without saying who it is"
                raise RemoteProtocolError(Condition.RESOURCE_LIMIT_EXCEEDED.value, text)
        return data

    async def aclose(self) -> None:
        """Close."""
        await self._stream.aclose()
