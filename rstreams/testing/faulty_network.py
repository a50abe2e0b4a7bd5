"""A network that fails when the test says so: a TCP proxy between a client and its peer, in the test's own process.

    async with FaultyNetwork(listener.url) as network:
        async with rstreams.connect(network.url) as connection:
            network.when(performative="transfer", nth=3).reset()
            ...

Theory of operation. Each connection to `network.url` is one to the peer, with a `FaultyFlow` in either direction.
`Conditions` tell how bytes travel in it, and `FaultTrigger`s the places of further faults. Faults are plain calls and
take effect at once: a socket that is to be reset is closed in the same call.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from types import TracebackType
from typing import Final, Self

import trio

from rstreams._checks.choices import require_choice
from rstreams._checks.numbers import is_whole, require_seconds
from rstreams._checks.refusals import refuse_value
from rstreams.runtime.scope import open_nursery, require_trio
from rstreams.testing._either_loop import beside_asyncio, in_guest, wait_for
from rstreams.testing._faulty_flow import FaultyFlow
from rstreams.testing.faults import (
    HOST,
    WAYS,
    Conditions,
    Cut,
    Direction,
    Faults,
    FaultTrigger,
    OneWay,
    Place,
    parse_peer,
)
from rstreams.testing.seen_frames import Performative, SeenFrame

__all__ = ["FaultTrigger", "FaultyConnection", "FaultyNetwork"]

_BACKLOG: Final = 128
_SHARED: Final = socket.SO_REUSEADDR if sys.platform == "linux" else socket.SO_REUSEPORT
_RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)


class FaultyConnection(Faults):
    """One connection through a `FaultyNetwork`, with the same faults, but only for this connection.

    Attributes:
        number: 1 for the network's first connection.
    """

    def __init__(self, network: FaultyNetwork, number: int, client: trio.SocketStream, peer: trio.SocketStream) -> None:
        """Join a client to a peer."""
        self.number = number
        self._network = network
        self._client = client
        self._peer = peer
        seed = f"{network.seed}, connection {number}"
        self._flows: dict[OneWay, FaultyFlow] = {
            "to_peer": FaultyFlow("to_peer", self, client, peer, f"{seed} to the peer"),
            "to_client": FaultyFlow("to_client", self, peer, client, f"{seed} to the client"),
        }

    def __repr__(self) -> str:
        """Return its number."""
        return f"<connection {self.number} of {self._network!r}>"

    async def run(self, standing: dict[OneWay, Conditions]) -> None:
        """Pass on bytes under these conditions, until both directions have ended; then both ends are closed."""
        try:
            for way, flow in self._flows.items():
                flow.change({name: getattr(standing[way], name) for name in Conditions.__slots__})
            for trigger in self._network.triggers:
                self.watch(trigger)
            async with open_nursery() as nursery:
                for flow in self._flows.values():
                    nursery.start_soon(flow.run)
        finally:
            for stream in (self._client, self._peer):
                stream.socket.close()

    def watch(self, trigger: FaultTrigger) -> None:
        """Take in a new trigger."""
        for way, flow in self._flows.items():
            if trigger.concerns(self.number, way):
                flow.watch(trigger)

    def ring(self) -> None:
        """Look again at the bytes that are held back: a trigger is gone."""
        for flow in self._flows.values():
            flow.ring()

    def _set(self, fault: str, direction: Direction, changes: dict[str, object]) -> Self:
        require_choice("", "direction", direction, Direction)
        self._network.count(fault)
        self.change(direction, changes)
        return self

    def change(self, direction: Direction, changes: dict[str, object]) -> None:
        """Change the conditions in a direction."""
        for way, flow in self._flows.items():
            if direction in (way, "both"):
                flow.change(changes)

    def _cut(self, fault: str, client: Cut | None, peer: Cut | None) -> Self:
        self._network.count(fault)
        self._end(client, peer)
        return self

    def _end(self, client: Cut | None, peer: Cut | None) -> None:
        if client is not None:
            self._flows["to_peer"].abandon()
            self._flows["to_client"].lose_sink()
            _close(self._client, client)
        if peer is not None:
            self._flows["to_client"].abandon()
            self._flows["to_peer"].lose_sink()
            _close(self._peer, peer)

    # its flows call these

    def triggers(self, way: OneWay) -> Iterable[FaultTrigger]:
        """Return the triggers with a place in this direction."""
        return [trigger for trigger in self._network.triggers if trigger.concerns(self.number, way)]

    def fire(self, trigger: FaultTrigger) -> None:
        """Do a trigger's faults here."""
        trigger.fire(self)

    def passed(self, way: OneWay, *, passed: int = 0, swallowed: int = 0, corrupted: int = 0) -> None:
        """Count bytes."""
        self._network.count_bytes(way, passed, swallowed, corrupted)

    def broken(self, way: OneWay) -> None:
        """Note that the end to which one direction leads broke the connection: the other direction passes that on."""
        self._flows["to_client" if way == "to_peer" else "to_peer"].break_source()

    def reset_seen(self) -> None:
        """Note that a reset has come through the network."""
        self._end("reset", "reset")


class FaultyNetwork(Faults):
    """A TCP proxy on 127.0.0.1 that fails when and where a test says so; an async context manager.

    Its own methods hold for all its connections. Those for how bytes travel also hold for connections that begin later,
    and may be called before the network has begun.

    Attributes:
        seed: The seed of its random numbers.
        connections: How many connections it has taken.
        live: The connections that have not ended.
        bytes_to_peer: Bytes passed on to the peer.
        bytes_to_client: Bytes passed on to the client.
        bytes_swallowed: Bytes that went into a black hole, or to an end that was closed.
        bytes_corrupted: Bytes changed.
        faults: How many times each fault was done, by its name; a fault that ends connections counts once for each.

    Errors: An error of a trigger's predicate leaves the block.
    Cancels: Every connection is closed, and the network stops listening.
    Context: Entered and left in one task, of trio or of asyncio. Memory is bounded: at most 256 KiB are under way in
        each direction of a connection, and a receiver that does not read stops the sender. Delays go by the clock of
        the loop.
    """

    def __init__(self, peer: int | str, *, seed: int = 0) -> None:
        """Prepare a network that leads to a peer.

        Args:
            peer: The peer, on this machine: a port of 127.0.0.1, `host:port`, or an `amqp://` or `amqps://` url, whose
                credentials `url` will also have.
            seed: The seed of jitter and noise.

        Errors: `ConfigError` for another place, and for a seed that is not a whole number.
        """
        self._scheme, self._credentials, self._host, self._peer_port = parse_peer(peer)
        if not is_whole(seed):
            refuse_value("FaultyNetwork", "seed", seed, "a whole number")
        self.seed = seed
        self.connections = 0
        self.live: list[FaultyConnection] = []
        self.bytes_to_peer = 0
        self.bytes_to_client = 0
        self.bytes_swallowed = 0
        self.bytes_corrupted = 0
        self.faults: Counter[str] = Counter()
        self.triggers: list[FaultTrigger] = []
        self._standing: dict[OneWay, Conditions] = {way: Conditions() for way in WAYS}
        self._port: int | None = None
        self._nursery: trio.Nursery | None = None
        self._door: trio.SocketListener | None = None
        self._closed_for_s: float | None = None
        self._reopening = trio.CancelScope()
        self._opened = trio.Event()
        self._opened.set()  # it is open as soon as it begins
        self._running: AbstractAsyncContextManager[None, bool | None] = self._run()

    def __repr__(self) -> str:
        """Return its own place, and that of the peer."""
        begin = "not begun" if self._port is None else f"{HOST}:{self._port}"
        return f"<faulty network {begin} -> {self._host}:{self._peer_port}>"

    async def __aenter__(self) -> Self:
        """Begin to listen."""
        if beside_asyncio():
            self._running = in_guest(self._running)
        else:
            require_trio()
        await self._running.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        """Close every connection, and stop listening."""
        return await self._running.__aexit__(kind, error, traceback)

    @property
    def port(self) -> int:
        """The port it listens at, of 127.0.0.1; the same while it is closed for a time."""
        if self._port is None:
            msg = "the network has no port before it begins: async with FaultyNetwork(...) as network"
            raise RuntimeError(msg)
        return self._port

    @property
    def url(self) -> str:
        """The url for clients: the peer's url, with this network's port."""
        return f"{self._scheme}://{self._credentials}{self._host}:{self.port}"

    @property
    def closed(self) -> bool:
        """Whether it refuses new connections."""
        return not self._opened.is_set()

    # new connections

    def close(self, for_s: float | None = None) -> Self:
        """Refuse new connections, for `for_s` seconds or until `reopen`; those that live go on.

        Errors: `ConfigError` for a value that is not such a time.
        """
        if for_s is not None:
            require_seconds("close", "for_s", for_s)
        self.count("close")
        self._opened = trio.Event()
        self._reopening.cancel()
        self._closed_for_s = for_s
        if self._door is not None:
            self._door.socket.close()
            self._door = None
        if self._nursery is not None:
            self._set_timer(self._nursery)
        return self

    def reopen(self) -> Self:
        """Take new connections again, at the same port."""
        self._reopening.cancel()
        self._opened.set()
        if self._nursery is not None and self._door is None:
            self._door = self._open_door()
            self._nursery.start_soon(self._accept, self._door)
        return self

    async def reopened(self) -> None:
        """Wait until it takes connections."""
        while self.closed:
            await wait_for(self._opened)

    def heal(self) -> Self:
        """Be a network without faults: conditions end, waiting triggers are forgotten, and it is open."""
        for trigger in list(self.triggers):
            trigger.cancel()
        super().heal()
        return self.reopen()

    # triggers

    def after(
        self,
        *,
        bytes: int,  # noqa: A002 - the plain name
        direction: Direction = "both",
        connection: int | None = None,
        times: int | None = 1,
    ) -> FaultTrigger:
        """Return a trigger behind the next `bytes` bytes: exactly these get through before its faults are done.

        Args:
            bytes: Counted from now on; in a connection that begins later, from its start. With 0 the faults are done at
                once, or when a connection begins.
            direction: The direction of the bytes; "both": each direction, counted by itself.
            connection: The number of the connection, 1 for the first; None for any.
            times: How many times its faults are done, at most once in a direction of a connection; None for always.

        Errors: `ConfigError` for a value that is not such a number.
        """
        return self._watch(
            FaultTrigger(
                close=self.close,
                forget=self._forget,
                direction=direction,
                connection=connection,
                times=times,
                after_bytes=bytes,
            )
        )

    def when(
        self,
        performative: Performative | None = None,
        *,
        predicate: Callable[[SeenFrame], bool] | None = None,
        nth: int = 1,
        at: Place = "before",
        direction: Direction = "both",
        connection: int | None = None,
        times: int | None = 1,
    ) -> FaultTrigger:
        """Return a trigger at a frame: its faults are done when the frame is about to pass, or has passed.

        In an encrypted connection no frame is recognized; there and in other protocols each run of bytes is `data`.

        Args:
            performative: The kind of the frame, such as "attach" or "sasl_header"; None for any.
            predicate: Whether it is such a frame; shown at most the first 4096 bytes of it.
            nth: The number of the frame among these, counted from now on in each direction of each connection.
            at: "before" its first byte, "inside", when half of it is through, or "after" its last.
            direction: The direction of the frame.
            connection: The number of the connection, 1 for the first; None for any.
            times: How many times its faults are done, at most once in a direction of a connection; None for always.

        Errors: `ConfigError` for a bad option.
        """
        return self._watch(
            FaultTrigger(
                close=self.close,
                forget=self._forget,
                direction=direction,
                connection=connection,
                times=times,
                performative=performative,
                predicate=predicate,
                nth=nth,
                at=at,
            )
        )

    def _watch(self, trigger: FaultTrigger) -> FaultTrigger:
        self.triggers.append(trigger)
        for connection in self.live:
            connection.watch(trigger)
        return trigger

    def _forget(self, trigger: FaultTrigger) -> None:
        if trigger in self.triggers:
            self.triggers.remove(trigger)
        for connection in self.live:
            connection.ring()

    # its connections call these

    def count(self, fault: str) -> None:
        """Count a fault."""
        if fault != "heal":
            self.faults[fault] += 1

    def count_bytes(self, way: OneWay, passed: int, swallowed: int, corrupted: int) -> None:
        """Count bytes."""
        if way == "to_peer":
            self.bytes_to_peer += passed
        else:
            self.bytes_to_client += passed
        self.bytes_swallowed += swallowed
        self.bytes_corrupted += corrupted

    def _set(self, fault: str, direction: Direction, changes: dict[str, object]) -> Self:
        require_choice("", "direction", direction, Direction)
        self.count(fault)
        for way, conditions in self._standing.items():
            if direction in (way, "both"):
                for name, value in changes.items():
                    setattr(conditions, name, value)
        for connection in self.live:
            connection.change(direction, changes)
        return self

    def _cut(self, fault: str, client: Cut | None, peer: Cut | None) -> Self:
        for connection in list(self.live):
            connection._cut(fault, client, peer)  # noqa: SLF001 - its own kind
        return self

    # its tasks

    @asynccontextmanager
    async def _run(self) -> AsyncIterator[None]:
        # A bound socket that does not listen keeps the port while the network is closed.
        with socket.socket() as keeper:
            keeper.setsockopt(socket.SOL_SOCKET, _SHARED, 1)
            keeper.bind((HOST, 0))
            self._port = int(keeper.getsockname()[1])
            async with open_nursery() as nursery:
                self._nursery = nursery
                try:
                    if self.closed:
                        self._set_timer(nursery)
                    else:
                        self.reopen()
                    yield
                finally:
                    self._nursery = None
                    nursery.cancel_scope.cancel()
                    if self._door is not None:
                        self._door.socket.close()
                        self._door = None

    def _open_door(self) -> trio.SocketListener:
        door = socket.socket()
        try:
            door.setsockopt(socket.SOL_SOCKET, _SHARED, 1)
            door.bind((HOST, self.port))
            door.listen(_BACKLOG)
        except OSError:
            door.close()
            raise
        return trio.SocketListener(trio.socket.from_stdlib_socket(door))

    def _set_timer(self, nursery: trio.Nursery) -> None:
        if self._closed_for_s is not None:
            self._reopening = trio.CancelScope(deadline=trio.current_time() + self._closed_for_s)
            nursery.start_soon(self._reopen_later, self._reopening, self._opened)

    async def _reopen_later(self, timer: trio.CancelScope, opened: trio.Event) -> None:
        with timer:
            await trio.sleep_forever()
        if opened is self._opened and not opened.is_set():  # it has not been closed or reopened since
            self.reopen()

    async def _accept(self, door: trio.SocketListener) -> None:
        while True:
            try:
                client = await door.accept()
            except trio.ClosedResourceError:
                return
            self.connections += 1
            nursery = self._nursery
            if nursery is None:
                client.socket.close()
                return
            nursery.start_soon(self._join, client, self.connections)

    async def _join(self, client: trio.SocketStream, number: int) -> None:
        try:
            try:
                peer = await trio.open_tcp_stream(self._host, self._peer_port)
            except OSError:
                _close(client, "reset")  # the peer does not listen
                return
            connection = FaultyConnection(self, number, client, peer)
            self.live.append(connection)
            try:
                await connection.run({way: replace(conditions) for way, conditions in self._standing.items()})
            finally:
                self.live.remove(connection)
        finally:
            client.socket.close()


def _close(stream: trio.SocketStream, how: Cut) -> None:
    with contextlib.suppress(OSError):  # it may have ended already
        if how == "reset":
            stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        else:
            stream.socket.shutdown(socket.SHUT_WR)  # first, because otherwise unread bytes would make it a reset
    stream.socket.close()
