"""A network in memory, for all sockets of trio in one run.

Every part of a simulation has a host of its own, with its name and an address of the machine itself, such as 127.0.0.2.
Thus what a program may do on its own machine only, such as to send a password in clear text, it may do here.

Connections follow TCP: bytes keep their order, a sender waits when the other side does not read, and bytes that cannot
arrive wait until they can. Whoever writes to a host that does not know the connection gets a reset.
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable, Iterator
from itertools import count
from random import Random
from socket import AddressFamily, SocketKind
from typing import Any, Final

import trio

from rstreams.simulation.agenda import Agenda
from rstreams.simulation.pipe import BUFFER_BYTES, Path, Pipe
from rstreams.simulation.sockets import Host, Listening, MemorySocket

_FIRST_PORT: Final = 49152


class MemoryConnection:
    """A connection between two hosts, for faults.

    Attributes:
        number: Its number, from 1.
        client: The host that has opened it.
        server: The host that has accepted it.
        ends: The socket of the client and that of the server.
        pipes: The bytes to the server, and those to the client.
    """

    def __init__(self, number: int, ends: tuple[MemorySocket, MemorySocket], pipes: tuple[Pipe, Pipe]) -> None:
        self.number = number
        self.client, self.server = ends[0].host, ends[1].host
        self.ends = ends
        self.pipes = pipes
        for pipe in pipes:
            pipe.on_break = self.reset

    @property
    def is_live(self) -> bool:
        """Whether both ends are open."""
        return not any(end.is_closed for end in self.ends) and not self.pipes[0].broken

    def reset(self) -> None:
        """Break it: both sides get an error."""
        for pipe in self.pipes:
            pipe.break_off()

    def forget(self, gone: int) -> None:
        """Let one side forget it, without a word to the other one.

        The other one gets an error when something that it has sent arrives.

        Args:
            gone: 0: the client; 1: the server.
        """
        self.ends[gone].forget()
        self.pipes[1 - gone].closed_reader = lambda _data: self.reset()

    def block(self, *directions: int) -> None:
        """Let nothing arrive in these directions; 0: to the server."""
        for direction in directions:
            self.pipes[direction].blocked = True

    def heal(self) -> None:
        """Let everything arrive again, quickly."""
        for pipe in self.pipes:
            pipe.blocked = False
            pipe.piece_bytes = pipe.bytes_per_s = None
            pipe.extra_s = 0.0
            pipe.unblock()


class MemoryNetwork(trio.abc.SocketFactory, trio.abc.HostnameResolver):
    """All hosts, and the connections between them.

    Args:
        seed: What is drawn depends on it.
        agenda: Has bytes arrive.
        here: Returns the host of the current task.
        seen: Called with (connection, direction, bytes) when bytes are sent.
        buffer_bytes: The most bytes that a direction of a connection holds.
    """

    def __init__(
        self,
        seed: str,
        agenda: Agenda,
        *,
        here: Callable[[], Host],
        seen: Callable[[MemoryConnection, int, bytes], None],
        buffer_bytes: int = BUFFER_BYTES,
    ) -> None:
        self.hosts: dict[str, Host] = {}
        self.connections: list[MemoryConnection] = []
        self.agenda = agenda
        self.here = here
        self._seed = seed
        self._seen = seen
        self._buffer_bytes = buffer_bytes
        self._paths: dict[tuple[str, str], Path] = {}
        self._ports = count(_FIRST_PORT)
        self._numbers = count(1)

    def add(self, name: str) -> Host:
        """Make a host."""
        number = len(self.hosts) + 2
        host = self.hosts[name] = Host(name, f"127.0.{number >> 8}.{number & 255}")
        return host

    def path(self, source: Host, target: Host) -> Path:
        """Return how bytes travel from one host to another one."""
        key = source.name, target.name
        if key not in self._paths:
            self._paths[key] = path = Path(0.00002, 0.00002) if source is target else Path()
            path.buffer_bytes = self._buffer_bytes
        return self._paths[key]

    def between(self, one: str, other: str) -> Iterator[MemoryConnection]:
        """Return the live connections between two hosts."""
        pair = {one, other}
        return (each for each in self.live if {each.client.name, each.server.name} == pair)

    @property
    def live(self) -> list[MemoryConnection]:
        """The connections that are open, the oldest first."""
        self.connections = [each for each in self.connections if each.is_live]
        return self.connections

    def free_port(self) -> int:
        """Return a port that nobody has used."""
        return next(self._ports)

    def set_blocked(self, source: Host, target: Host, *, blocked: bool) -> None:
        """Let nothing arrive from one host at another one, or let everything arrive."""
        path = self.path(source, target)
        path.blocked = blocked
        if not blocked:
            for connection in self.live:
                for pipe in connection.pipes:
                    if pipe.path is path:
                        pipe.unblock()

    def find(self, address: str) -> Host | None:
        """Return the host with an address, as seen from here."""
        if address in ("127.0.0.1", "0.0.0.0"):  # noqa: S104 - these are no real addresses
            return self.here()
        return next((host for host in self.hosts.values() if host.address == address), None)

    def _named(self, name: str) -> Host | None:
        return next((host for host in self.hosts.values() if host.name.lower() == name.lower()), None)

    def join(self, client: MemorySocket, listening: Listening) -> MemorySocket:
        """Connect a socket with a listening one; return the server's socket."""
        server = MemorySocket(self, listening.host)
        server.name = listening.host.address, listening.port
        number = next(self._numbers)
        random = Random(f"{self._seed}/{number}")  # noqa: S311 - it shall be the same each time
        pipes = (
            Pipe(
                self.path(client.host, server.host), self.agenda, random, lambda data: self._seen(connection, 0, data)
            ),
            Pipe(
                self.path(server.host, client.host), self.agenda, random, lambda data: self._seen(connection, 1, data)
            ),
        )
        connection = MemoryConnection(number, (client, server), pipes)
        self.connections.append(connection)
        client.open(pipes[1], pipes[0], server)
        server.open(pipes[0], pipes[1], client)
        return server

    # trio's side

    def socket(
        self,
        family: int = AddressFamily.AF_INET,
        type: int = SocketKind.SOCK_STREAM,  # noqa: A002 - trio's name
        proto: int = 0,  # noqa: ARG002 - as family
    ) -> MemorySocket:
        """Make a socket on the host of the current task; there is IPv4 alone, as on some machines."""
        if family != AddressFamily.AF_INET:
            raise OSError(errno.EAFNOSUPPORT, os.strerror(errno.EAFNOSUPPORT))
        if type != SocketKind.SOCK_STREAM:
            raise OSError(errno.EPROTONOSUPPORT, os.strerror(errno.EPROTONOSUPPORT))
        return MemorySocket(self, self.here())

    async def getaddrinfo(  # noqa: PLR0917 - as trio calls it
        self,
        host: bytes | None,
        port: bytes | str | int | None,
        family: int = 0,  # noqa: ARG002 - each host has one address
        type: int = 0,  # noqa: A002, ARG002 - likewise
        proto: int = 0,  # noqa: ARG002 - likewise
        flags: int = 0,  # noqa: ARG002 - likewise
    ) -> list[Any]:
        """Return the address of a host by its name; capital letters make no difference."""
        await trio.lowlevel.checkpoint()
        name = "localhost" if host is None else host.decode() if isinstance(host, bytes) else str(host)
        found = self.here() if name == "localhost" else self._named(name)
        if found is None:
            raise socket.gaierror(socket.EAI_NONAME, f"the simulation has no host {name!r}")
        place = (found.address, int(port or 0))
        return [(AddressFamily.AF_INET, SocketKind.SOCK_STREAM, socket.IPPROTO_TCP, "", place)]

    async def getnameinfo(self, sockaddr: tuple[Any, ...], flags: int) -> tuple[str, str]:  # noqa: ARG002 - trio's names
        """Return the name of a host by its address."""
        await trio.lowlevel.checkpoint()
        found = self.find(sockaddr[0])
        return (sockaddr[0] if found is None else found.name), str(sockaddr[1])
