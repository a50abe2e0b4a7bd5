"""Sockets in memory that trio takes for its own."""

from __future__ import annotations

import errno
import os
import socket
from collections import deque
from socket import AddressFamily, SocketKind
from typing import Any, Final, Protocol

import trio

from rstreams.net.transport.wire import RECEIVE_BYTES, Received, Rooms
from rstreams.simulation.agenda import Agenda
from rstreams.simulation.pipe import Path, Pipe

_NO_FILE: Final = 2**31 - 1
"""No system has so many open files."""


def _refused(number: int) -> OSError:
    return OSError(number, os.strerror(number))


class Host:
    """A machine of the network.

    Attributes:
        name: Its name.
        address: Its address.
        is_up: Whether it answers at all.
        listening: The sockets that accept connections, by their port.
    """

    def __init__(self, name: str, address: str) -> None:
        self.name = name
        self.address = address
        self.is_up = True
        self.listening: dict[int, Listening] = {}
        self.sockets: list[MemorySocket] = []


class JoinsSockets(Protocol):
    """The network, as a socket sees it."""

    agenda: Agenda

    def find(self, address: str) -> Host | None:
        """Return the host with an address, as seen from here."""
        ...

    def path(self, source: Host, target: Host) -> Path:
        """Return how bytes travel from one host to another one."""
        ...

    def free_port(self) -> int:
        """Return a port that nobody has used."""
        ...

    def join(self, client: MemorySocket, listening: Listening) -> MemorySocket:
        """Connect a socket with a listening one; return the server's socket."""
        ...


class Listening:
    """A port that accepts connections, and those that wait to be accepted."""

    def __init__(self, host: Host, port: int, backlog: int) -> None:
        self.host = host
        self.port = port
        self.backlog = backlog
        self.waiting: deque[MemorySocket] = deque()
        self.acceptors = trio.lowlevel.ParkingLot()
        self.is_closed = False


class MemorySocket(trio.socket.SocketType):
    """A TCP socket on a host of the simulated network.

    Errors: As those of the real one: `OSError` with the same numbers.
    """

    def __init__(self, network: JoinsSockets, host: Host) -> None:
        super().__init__()
        self.host = host
        self.name: tuple[str, int] = ("0.0.0.0", 0)  # noqa: S104 - not bound yet
        self.is_closed = False
        self.is_forgotten = False
        self._network = network
        self._listening: Listening | None = None
        self._peer: MemorySocket | None = None
        self._peer_name: tuple[str, int] | None = None
        self._incoming: Pipe | None = None
        self._outgoing: Pipe | None = None
        self._has_ended = False
        host.sockets.append(self)

    def __repr__(self) -> str:
        state = "closed" if self.is_closed else f"at {self.name[0]}:{self.name[1]}"
        peer = "" if self._peer_name is None else f", with {self._peer_name[0]}:{self._peer_name[1]}"
        return f"<MemorySocket of {self.host.name!r}, {state}{peer}>"

    # what trio's streams ask of a socket

    @property
    def family(self) -> AddressFamily:
        """IPv4."""
        return AddressFamily.AF_INET

    @property
    def type(self) -> SocketKind:
        """A stream."""
        return SocketKind.SOCK_STREAM

    @property
    def proto(self) -> int:
        """TCP."""
        return socket.IPPROTO_TCP

    @property
    def did_shutdown_SHUT_WR(self) -> bool:  # noqa: N802 - trio's name
        """Whether nothing more can be sent."""
        return self._has_ended

    def fileno(self) -> int:
        """Return a number that no file has; -1: it is closed."""
        return -1 if self.is_closed else _NO_FILE

    def getsockname(self) -> Any:  # noqa: ANN401 - as trio's
        """Return its address and port."""
        return self.name

    def getpeername(self) -> Any:  # noqa: ANN401 - as trio's
        """Return those of the other side."""
        if self._peer_name is None or self.is_closed:
            raise _refused(errno.ENOTCONN)
        return self._peer_name

    def getsockopt(self, level: int, optname: int, buflen: int | None = None) -> Any:  # noqa: ANN401, ARG002 - as trio's
        """Return whether it listens; 0 for every other option."""
        is_asked = (level, optname) == (socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
        return int(is_asked and self._listening is not None)

    def setsockopt(self, level: int, optname: int, value: Any, optlen: int | None = None) -> None:  # noqa: ANN401
        """Take any option."""

    # opening

    async def bind(self, address: Any) -> None:  # noqa: ANN401 - as trio's
        """Take an address and a port; port 0: a free one."""
        await trio.lowlevel.checkpoint()
        host, port = address[:2]
        if self._network.find(host) is not self.host:
            raise _refused(errno.EADDRNOTAVAIL)
        port = port or self._network.free_port()
        if port in self.host.listening:
            raise _refused(errno.EADDRINUSE)
        self.name = (self.host.address if host == "0.0.0.0" else host), port  # noqa: S104 - no real address

    def listen(self, backlog: int = 128) -> None:
        """Accept connections."""
        self._listening = self.host.listening[self.name[1]] = Listening(self.host, self.name[1], backlog)

    async def accept(self) -> Any:  # noqa: ANN401 - as trio's
        """Wait for a connection; return its socket and the address of its other side."""
        await trio.lowlevel.checkpoint()
        listening = self._listening
        assert listening is not None, "it listens"
        while not listening.is_closed:
            if listening.waiting:
                accepted = listening.waiting.popleft()
                return accepted, accepted._peer_name  # noqa: SLF001 - of the same class
            await listening.acceptors.park()
        raise _refused(errno.EBADF)

    async def connect(self, address: Any) -> None:  # noqa: ANN401 - as trio's
        """Connect with a listening socket; a host that does not answer is waited for.

        Errors: `ConnectionRefusedError` if nobody listens there.
        """
        await trio.lowlevel.checkpoint()
        network, target = self._network, self._network.find(address[0])
        if target is None:
            raise _refused(errno.EHOSTUNREACH)
        there, back = network.path(self.host, target), network.path(target, self.host)
        while True:
            await trio.sleep(there.latency_s + back.latency_s)
            if not there.blocked and not back.blocked and target.is_up:
                break
            await trio.sleep(1.0)  # TCP asks again
        listening = target.listening.get(address[1])
        if self.is_closed or listening is None or len(listening.waiting) >= listening.backlog:
            raise _refused(errno.ECONNREFUSED)
        self.name = (target.address if target is self.host else self.host.address), network.free_port()
        listening.waiting.append(network.join(self, listening))
        self._peer_name = address[0], address[1]
        listening.acceptors.unpark()

    def open(self, incoming: Pipe, outgoing: Pipe, peer: MemorySocket) -> None:
        """Be connected; a part of the network."""
        self._incoming, self._outgoing, self._peer = incoming, outgoing, peer
        self._peer_name = peer.name

    # bytes

    async def send(self, data: Any, flags: int = 0) -> int:  # noqa: ANN401, ARG002 - as trio's
        """Send some of the bytes; return how many."""
        await trio.lowlevel.checkpoint()
        while True:
            pipe = self._usable(self._outgoing)
            if self._has_ended:
                raise _refused(errno.EPIPE)
            if pipe.room:
                return pipe.put(memoryview(data))
            await pipe.writers.park()

    async def recv(self, buflen: int, flags: int = 0) -> bytes:  # noqa: ARG002 - as trio's
        """Wait for bytes; no bytes at all are the end."""
        await trio.lowlevel.checkpoint()
        while True:
            pipe = self._usable(self._incoming)
            if pipe.unread:
                return pipe.take(buflen)
            if pipe.ended:
                return b""
            await pipe.readers.park()

    async def recv_into(self, buffer: Any, nbytes: int = 0, flags: int = 0) -> int:  # noqa: ANN401 - as trio's
        """Wait for bytes, and write them into a buffer."""
        with memoryview(buffer) as view:
            data = await self.recv(nbytes or len(view), flags)
            view[: len(data)] = data
        return len(data)

    async def wait_writable(self) -> None:
        """Wait until some bytes could be sent."""
        await trio.lowlevel.checkpoint()
        while not self._usable(self._outgoing).room:
            await self._usable(self._outgoing).writers.park()

    def is_readable(self) -> bool:
        """Return whether `recv` would not wait."""
        pipe = self._incoming
        return pipe is not None and bool(pipe.unread or pipe.ended or pipe.broken)

    def shutdown(self, flag: int) -> None:
        """Send no further bytes."""
        if flag in (socket.SHUT_WR, socket.SHUT_RDWR) and not self._has_ended:
            self._has_ended = True
            self._usable(self._outgoing).put_end()

    def close(self) -> None:
        """Close it. The other side gets the end; or a reset, if it has sent bytes that nobody reads."""
        if self.is_closed:
            return
        unread = self._incoming is not None and bool(self._incoming.unread)
        outgoing, incoming, ended = self._outgoing, self._incoming, self._has_ended
        self.vanish()
        if outgoing is None or incoming is None or outgoing.broken:
            return
        incoming.closed_reader = lambda data: None if data is None else _break(outgoing, incoming)
        if unread and not outgoing.path.blocked:
            self._network.agenda.after(outgoing.path.latency_s, lambda: _break(outgoing, incoming))
        elif not ended:
            outgoing.put_end()

    def forget(self) -> None:
        """Give the connection up, without a word to the other side; whoever uses it here gets an error."""
        self.is_forgotten = True
        self.vanish()

    def vanish(self) -> None:
        """Be closed, without a word to the other side."""
        self.is_closed = True
        if self in self.host.sockets:
            self.host.sockets.remove(self)
        if self._listening is not None:
            self._listening.is_closed = True
            if self.host.listening.get(self._listening.port) is self._listening:
                del self.host.listening[self._listening.port]
            self._listening.acceptors.unpark_all()
            for waiting in tuple(self._listening.waiting):
                waiting.close()
        for pipe in (self._incoming, self._outgoing):
            if pipe is not None:
                pipe.wake()

    def wire(self) -> MemoryWire:
        """Return a wire that reads and sends without waiting, as that of a real socket does."""
        assert self._incoming is not None, "it is connected"
        assert self._outgoing is not None, "it is connected"
        return MemoryWire(self, self._incoming, self._outgoing)

    def _usable(self, pipe: Pipe | None) -> Pipe:
        if self.is_forgotten:
            raise _refused(errno.ETIMEDOUT)
        if self.is_closed:
            raise _refused(errno.EBADF)
        if pipe is None:
            raise _refused(errno.ENOTCONN)
        if pipe.broken:
            raise _refused(errno.ECONNRESET)
        return pipe


def _break(*pipes: Pipe) -> None:
    for pipe in pipes:
        pipe.break_off()


class MemoryWire:
    """The bytes of one connection, without the calls between trio's streams and its sockets; see `Wire`."""

    def __init__(self, socket: MemorySocket, incoming: Pipe, outgoing: Pipe) -> None:
        self._socket = socket
        self._incoming = incoming
        self._outgoing = outgoing
        self.unsent = bytearray()

    async def receive(self, rooms: Rooms = tuple) -> Received:
        """See `Wire`."""
        if self._incoming.unread:
            await trio.lowlevel.checkpoint()
        while not self._check(self._incoming).unread:
            if self._incoming.ended:
                return 0, b""
            await self._incoming.readers.park()
        in_rooms = 0
        for room in rooms():
            data = self._incoming.take(len(room))
            room[: len(data)] = data
            in_rooms += len(data)
            if len(data) < len(room):
                return in_rooms, b""
        return in_rooms, self._incoming.take(RECEIVE_BYTES)

    def send_now(self, *pieces: bytes | memoryview) -> None:
        """See `Wire`."""
        for piece in pieces:
            self.unsent += piece
        self._send()

    async def flush(self) -> None:
        """See `Wire`."""
        try:
            while self.unsent:
                await trio.lowlevel.checkpoint()
                while not self._check(self._outgoing).room:
                    await self._outgoing.writers.park()
                self._send()
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            self.unsent.clear()
            raise

    def _send(self) -> None:
        pipe = self._outgoing
        if self._socket.is_closed or pipe.broken:
            raise trio.BrokenResourceError
        if self.unsent and pipe.room:
            with memoryview(self.unsent) as view:
                sent = pipe.put(view)
            del self.unsent[:sent]

    async def aclose(self) -> None:
        """See `Wire`."""
        self._socket.close()
        await trio.lowlevel.checkpoint()

    def _check(self, pipe: Pipe) -> Pipe:
        if self._socket.is_closed and not self._socket.is_forgotten:
            raise trio.ClosedResourceError
        if pipe.broken or self._socket.is_forgotten:
            raise trio.BrokenResourceError
        return pipe
