"""The bytes of a connection: over any stream, and the short way over a plain socket.

A stream of trio lets other tasks run in every call, and each read allocates memory. The pump lets other tasks run
itself, once a slice. Therefore, over a plain socket, it reads when there is something to read, into room that all
connections of a run share. Bytes that the network takes at once are sent without waiting.
"""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from typing import Final, Protocol

import trio

RECEIVE_BYTES: Final = 256 * 1024
"""The most bytes taken at once from a stream, which allocates memory for them each time."""

ROOM_BYTES: Final = 768 * 1024
"""The most bytes taken at once from a plain socket, into the shared room. With more bytes, the work that is done once a
turn is done for more items; these bytes still fit the cache of a processor."""

UNSENT_BYTES: Final = 512 * 1024
"""The most bytes that wait in the kernel because the peer has no room for them."""


class Wire(Protocol):
    """Carries the bytes of one connection.

    Errors: `trio.BrokenResourceError` and `trio.ClosedResourceError`, from every call but `aclose`.
    """

    async def receive(self) -> bytes | bytearray | memoryview:
        """Return the bytes that have come, empty at the end; they are valid until the caller waits for anything."""
        ...

    def send_now(self, data: memoryview, /) -> int:
        """Send the bytes that can be sent without waiting; return how many."""
        ...

    async def send(self, data: bytes) -> None:
        """Send all of it."""
        ...

    async def aclose(self) -> None:
        """Close in order; see `trio.abc.AsyncResource`."""
        ...


def wire_over(stream: trio.abc.Stream) -> Wire:
    """Return the shortest way over `stream`."""
    if isinstance(stream, trio.SocketStream) and hasattr(os, "readv"):  # where sockets are files
        return SocketWire(stream)
    return StreamWire(stream)


class StreamWire:
    """Any stream: TLS, and those in memory."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        """Carry bytes over `stream`."""
        self._stream = stream

    async def receive(self) -> bytes | bytearray:
        """See `Wire`."""
        return await self._stream.receive_some(RECEIVE_BYTES)

    def send_now(self, _data: memoryview) -> int:
        """Send nothing: a stream waits whenever it sends."""
        return 0

    async def send(self, data: bytes) -> None:
        """See `Wire`."""
        await self._stream.send_all(data)

    async def aclose(self) -> None:
        """See `Wire`."""
        await self._stream.aclose()


_room: Final[trio.lowlevel.RunVar[bytearray]] = trio.lowlevel.RunVar("rstreams.net.room")


def _shared_room() -> bytearray:
    try:
        return _room.get()
    except LookupError:
        room = bytearray(ROOM_BYTES)
        _room.set(room)
        # glibc gives the memory that each turn frees back to the kernel, and takes it again in the next turn. That
        # costs as much as the turn. After a large block has been freed once, glibc keeps twice its size (mallopt(3)).
        bytes(2 * ROOM_BYTES)
        return room


class SocketWire:
    """A plain socket."""

    def __init__(self, stream: trio.SocketStream) -> None:
        """Carry bytes over the socket of `stream`."""
        self._stream = stream
        self._socket = stream.socket
        if hasattr(socket, "TCP_NOTSENT_LOWAT"):
            # trio lets few bytes wait in the kernel, so that its users can decide late. Here credit bounds the bytes
            # under way, and with few bytes the pump would often wait for the kernel.
            with suppress(OSError):  # no TCP; or, on some systems, the peer has gone already, which shows soon enough
                stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT_BYTES)
        self._room = _shared_room()
        self._view = memoryview(self._room)

    async def receive(self) -> memoryview:
        """See `Wire`."""
        while True:
            if self._socket.fileno() < 0:
                raise trio.ClosedResourceError
            await trio.lowlevel.wait_readable(self._socket)
            try:
                return self._view[: os.readv(self._socket.fileno(), (self._room,))]
            except BlockingIOError:
                continue  # another task has read it, or the kernel has thrown it away
            except OSError as error:
                raise trio.BrokenResourceError from error

    def send_now(self, data: memoryview) -> int:
        """See `Wire`."""
        try:
            return os.write(self._socket.fileno(), data)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise trio.BrokenResourceError from error

    async def send(self, data: bytes) -> None:
        """See `Wire`."""
        await self._stream.send_all(data)

    async def aclose(self) -> None:
        """See `Wire`."""
        await self._stream.aclose()
