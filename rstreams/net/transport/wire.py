"""The bytes of a connection: over any stream, and the short way over a plain socket.

A stream of trio lets other tasks run in every call, and each read allocates memory. The pump lets other tasks run
itself, once a slice. Therefore, over a plain socket, it reads when there is something to read, into room that all
connections of a run share. Bytes that the network takes at once are sent without waiting.
"""

from __future__ import annotations

import os
import socket
import ssl
from contextlib import suppress
from typing import Final, Protocol

import trio

from rstreams.net.transport.tls_streams import TlsStream

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

    @property
    def unsent(self) -> bool:
        """Whether bytes are kept that the network did not take at once."""
        ...

    def send_now(self, data: bytes | memoryview, /) -> None:
        """Send the bytes that go without waiting, and keep the rest."""
        ...

    async def flush(self) -> None:
        """Send the bytes that are kept. Afterwards none are kept, also if it fails. Only one task may call it."""
        ...

    async def aclose(self) -> None:
        """Close in order; see `trio.abc.AsyncResource`."""
        ...


def wire_over(stream: trio.abc.Stream) -> Wire:
    """Return the fastest wire over `stream`."""
    if isinstance(stream, TlsStream):
        return TlsWire(stream)
    if isinstance(stream, trio.SocketStream) and hasattr(os, "readv"):  # where sockets are files
        return SocketWire(stream)
    return StreamWire(stream)


class StreamWire:
    """Any stream, such as one in memory."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        """Carry bytes over `stream`."""
        self._stream = stream
        self._unsent = bytearray()

    async def receive(self) -> bytes | bytearray:
        """See `Wire`."""
        return await self._stream.receive_some(RECEIVE_BYTES)

    @property
    def unsent(self) -> bool:
        """See `Wire`."""
        return bool(self._unsent)

    def send_now(self, data: bytes | memoryview) -> None:
        """See `Wire`: a stream waits whenever it sends."""
        self._unsent += data

    async def flush(self) -> None:
        """See `Wire`."""
        while self._unsent:
            unsent, self._unsent = self._unsent, bytearray()
            await self._stream.send_all(unsent)

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
            with suppress(OSError):  # not TCP; or, on some systems, the peer has gone, which the next call shows
                stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT_BYTES)
        self._unsent = bytearray()
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

    @property
    def unsent(self) -> bool:
        """See `Wire`."""
        return bool(self._unsent)

    def send_now(self, data: bytes | memoryview) -> None:
        """See `Wire`."""
        sent = 0 if self._unsent else self._write(data)
        if sent < len(data):
            self._unsent += data[sent:]

    async def flush(self) -> None:
        """See `Wire`."""
        try:
            while self._unsent:
                await trio.lowlevel.wait_writable(self._socket)
                del self._unsent[: self._write(self._unsent)]
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            self._unsent.clear()
            raise

    def _write(self, data: bytes | bytearray | memoryview) -> int:
        try:
            return os.write(self._socket.fileno(), data)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise trio.BrokenResourceError from error

    async def aclose(self) -> None:
        """See `Wire`."""
        await self._stream.aclose()


class TlsWire:
    """TLS, over the fastest wire for the stream below it."""

    def __init__(self, stream: TlsStream) -> None:
        """Go on with the TLS of `stream`, whose handshake is over."""
        self._stream = stream
        self._layer = stream.layer
        self._below = wire_over(stream.transport)
        self._view = memoryview(_shared_room())  # encrypted bytes are copied before plain ones take their place

    async def receive(self) -> memoryview:
        """See `Wire`."""
        while not (count := self._stream.decrypt(self._view)) and not self._layer.ended:
            self._layer.put(await self._below.receive())
        answer = self._layer.outgoing()  # such as to a peer that wants new keys
        if answer:
            self._below.send_now(answer)
        return self._view[:count]

    @property
    def unsent(self) -> bool:
        """See `Wire`."""
        return self._below.unsent

    def send_now(self, data: bytes | memoryview) -> None:
        """See `Wire`."""
        try:
            self._below.send_now(self._layer.encrypt(data))
        except ssl.SSLError as error:
            raise trio.BrokenResourceError from error

    async def flush(self) -> None:
        """See `Wire`."""
        await self._below.flush()

    async def aclose(self) -> None:
        """See `Wire`: the peer is told that nothing more comes, if it is still there."""
        try:
            with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                self._below.send_now(self._layer.end())
                await self._below.flush()
        finally:
            await self._below.aclose()
