"""The bytes of a connection: over any stream, and the short way over a plain socket.

A stream of trio lets other tasks run in every call, and each read allocates memory. The pump lets other tasks run
itself, once a slice. Therefore, over a plain socket, it reads when there is something to read, into room that all
connections of a run share. Bytes that the network takes at once are sent without waiting.
"""

from __future__ import annotations

import os
import socket
import ssl
from collections import deque
from collections.abc import Callable, Sequence, Sized
from contextlib import suppress
from itertools import islice
from typing import Final, Protocol, TypeAlias, runtime_checkable

import trio

from rstreams.net.transport.pace import Pace
from rstreams.net.transport.run_share import ROOM_BYTES, share_of_run
from rstreams.net.transport.tls_streams import TlsStream

RECEIVE_BYTES: Final = 256 * 1024
"""The most bytes taken at once from a stream, which allocates memory for them each time."""

PACED_BYTES: Final = 64 * 1024
"""The fewest bytes sent at once that tell something of the network's pace."""

_MOST_PIECES: Final = 512
"""The most pieces in one call of the kernel, which takes 1,024 on Linux."""


BEHIND_BYTES: Final = 128 * 1024
"""The most bytes taken at once behind those that are written into rooms. The beginning of the next large message is
among them; with more of it here, less would come into its room."""

OnPace: TypeAlias = Callable[[int], None]
Rooms: TypeAlias = Callable[[], Sequence[memoryview]]
Received: TypeAlias = tuple[int, bytes | bytearray | memoryview]


def _any_pace(_most: int) -> None: ...


def _no_rooms() -> Sequence[memoryview]:
    return ()


class Wire(Protocol):
    """Carries the bytes of one connection.

    Errors: `trio.BrokenResourceError` and `trio.ClosedResourceError`, from every call but `aclose`.
    """

    @property
    def unsent(self) -> Sized:
        """What is kept because the network did not take it at once; empty if nothing is."""
        ...

    async def receive(self, rooms: Rooms = _no_rooms) -> Received:
        """Wait for bytes.

        Args:
            rooms: Asked when bytes have come; returns where the first ones of them are to be written. A wire may ignore
                this.

        Returns:
            How many bytes are in the rooms, and the bytes behind them, which are valid until the caller waits for
            anything. No bytes at all are the end.
        """
        ...

    def send_now(self, *pieces: bytes | memoryview) -> None:
        """Send the bytes that go without waiting, and keep the rest. Only read-only pieces are kept without a copy."""
        ...

    async def flush(self) -> None:
        """Send the bytes that are kept. Afterwards none are kept, also if it fails. Only one task may call it."""
        ...

    async def aclose(self) -> None:
        """Close in order; see `trio.abc.AsyncResource`."""
        ...


@runtime_checkable
class HasWire(Protocol):
    """A socket that is no file and has a wire of its own, from `trio.socket.set_custom_socket_factory`."""

    def wire(self) -> Wire:
        """Return the wire."""
        ...


def wire_over(stream: trio.abc.Stream, on_pace: OnPace = _any_pace) -> Wire:
    """Return the fastest wire over `stream`.

    Args:
        stream: The network.
        on_pace: Called with the most bytes that should be sent at once, when the network turns out quicker or slower.
    """
    if isinstance(stream, TlsStream):
        return TlsWire(stream, on_pace)
    if isinstance(stream, trio.SocketStream):
        if isinstance(stream.socket, HasWire):
            return stream.socket.wire()
        if hasattr(os, "readv"):  # where sockets are files
            return SocketWire(stream, on_pace)
    return StreamWire(stream)


class StreamWire:
    """Any stream, such as one in memory."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        """Carry bytes over `stream`."""
        self._stream = stream
        self.unsent = bytearray()

    async def receive(self, rooms: Rooms = _no_rooms) -> Received:  # noqa: ARG002 - for plain sockets
        """See `Wire`."""
        return 0, await self._stream.receive_some(RECEIVE_BYTES)

    def send_now(self, *pieces: bytes | memoryview) -> None:
        """See `Wire`: a stream waits whenever it sends."""
        for piece in pieces:
            self.unsent += piece

    async def flush(self) -> None:
        """See `Wire`."""
        while self.unsent:
            kept = bytes(self.unsent)
            self.unsent.clear()
            await self._stream.send_all(kept)

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

    def __init__(self, stream: trio.SocketStream, on_pace: OnPace = _any_pace) -> None:
        """Carry bytes over the socket of `stream`; see `wire_over`."""
        self._stream = stream
        self._socket = stream.socket
        self._pace = Pace()
        self._on_pace = on_pace
        self._now = trio.lowlevel.current_clock().current_time
        self._follow_pace()
        self.unsent: deque[memoryview] = deque()
        self._room = _shared_room()
        self._view = memoryview(self._room)
        self._share = share_of_run()

    async def receive(self, rooms: Rooms = _no_rooms) -> Received:
        """See `Wire`."""
        while True:
            if self._socket.fileno() < 0:
                raise trio.ClosedResourceError
            await trio.lowlevel.wait_readable(self._socket)
            first = rooms()
            room_bytes = self._share.room_bytes
            into = (*first, self._view[: min(room_bytes, BEHIND_BYTES)]) if first else (self._view[:room_bytes],)
            try:
                came = os.readv(self._socket.fileno(), into)
                in_rooms = min(came, sum(map(len, first)))
                return in_rooms, self._view[: came - in_rooms]
            except BlockingIOError:
                continue  # another task has read it, or the kernel has thrown it away
            except OSError as error:
                raise trio.BrokenResourceError from error

    def send_now(self, *pieces: bytes | memoryview) -> None:
        """See `Wire`."""
        sent = 0 if self.unsent else self._write(pieces)
        if sent == sum(map(len, pieces)):
            return
        for piece in pieces:
            if sent < len(piece):
                rest = memoryview(piece)[sent:]
                self.unsent.append(rest if rest.readonly else memoryview(bytes(rest)))
            sent = max(0, sent - len(piece))

    async def flush(self) -> None:
        """See `Wire`."""
        unsent = self.unsent
        try:
            while unsent:
                began = self._now()
                await trio.lowlevel.wait_writable(self._socket)
                if self._pace.note_wait(self._now() - began):
                    self._follow_pace()
                sent = self._write(tuple(islice(unsent, _MOST_PIECES)))
                while unsent and len(unsent[0]) <= sent:
                    sent -= len(unsent.popleft())
                if sent:
                    unsent[0] = unsent[0][sent:]
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            unsent.clear()
            raise

    def _write(self, pieces: Sequence[bytes | memoryview]) -> int:
        try:
            if len(pieces) == 1:
                sent = os.write(self._socket.fileno(), pieces[0])
            else:
                sent = os.writev(self._socket.fileno(), pieces[:_MOST_PIECES])
        except BlockingIOError:
            return 0
        except OSError as error:
            raise trio.BrokenResourceError from error
        if sent >= PACED_BYTES and self._pace.note_taken(sent, self._now()):
            self._follow_pace()
        return sent

    def _follow_pace(self) -> None:
        """Let as many bytes wait in the kernel as the network's pace allows, and tell whoever sends.

        trio lets few bytes wait there, so that its users can decide late. Here credit bounds the bytes under way, and
        with few bytes the pump would often wait for the kernel.
        """
        most = self._pace.bytes
        if hasattr(socket, "TCP_NOTSENT_LOWAT"):
            with suppress(OSError):  # not TCP; or, on some systems, the peer has gone, which the next call shows
                self._stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, most)
        self._on_pace(most)

    async def aclose(self) -> None:
        """See `Wire`."""
        await self._stream.aclose()


class TlsWire:
    """TLS, over the fastest wire for the stream below it."""

    def __init__(self, stream: TlsStream, on_pace: OnPace = _any_pace) -> None:
        """Go on with the TLS of `stream`, whose handshake is over; see `wire_over`."""
        self._stream = stream
        self._layer = stream.layer
        self._below = wire_over(stream.transport, on_pace)
        self.unsent: Sized = self._below.unsent
        self._view = memoryview(_shared_room())  # encrypted bytes are copied before plain ones take their place

    async def receive(self, rooms: Rooms = _no_rooms) -> Received:  # noqa: ARG002 - for plain sockets
        """See `Wire`."""
        while not (count := self._stream.decrypt(self._view)) and not self._layer.ended:
            _, encrypted = await self._below.receive()
            self._layer.put(encrypted)
        answer = self._layer.outgoing()  # such as to a peer that wants new keys
        if answer:
            self._below.send_now(answer)
        return 0, self._view[:count]

    def send_now(self, *pieces: bytes | memoryview) -> None:
        """See `Wire`."""
        try:
            self._below.send_now(*map(self._layer.encrypt, pieces))
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
