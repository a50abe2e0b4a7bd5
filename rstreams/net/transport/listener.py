"""The listening side: connections accepted, authenticated, and pumped until they end.

Bounds hold for a client that has not authenticated:

    sockets and tasks    max_handshakes
    time                 handshake_timeout_s, for TLS, SASL and open together
    bytes                max_handshake_bytes, then the one frame `open`

Each client has a task of its own. Therefore no client waits for a slow one. Where there are too many, the oldest client
makes room (`handshakes`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final
from weakref import ref

import trio

from rstreams import _machine
from rstreams._events.event import LogEvent
from rstreams._events.table import (
    CLIENT_CUT_OFF,
    CLIENT_FAILED,
    CLIENT_LOST,
    CLIENT_REFUSED,
    CLIENT_SILENT,
    LOGIN_REFUSED,
)
from rstreams.errors import (
    AuthenticationFailed,
    Condition,
    RemoteProtocolError,
    RStreamsError,
)
from rstreams.net._proton import LinkDriver, Unfinished, UnfinishedTotal
from rstreams.net.options.limits import ConnectionLimits
from rstreams.net.transport.accounts import Account, Accounts, Client
from rstreams.net.transport.address import VIRTUAL_HOST, PeerAddress
from rstreams.net.transport.handshakes import Handshake, Handshakes, MeteredStream
from rstreams.net.transport.listening_place import HANG_UP_TIMEOUT_S, ListeningOptions, ListeningPlace, hang_up, who_is
from rstreams.net.transport.pump import Pump
from rstreams.net.transport.run_share import share_of_run
from rstreams.net.transport.security import Admission, authenticate
from rstreams.net.transport.tls_streams import TlsStream, accept_tls
from rstreams.protocol.frames import Attach
from rstreams.protocol.refusal import refuse
from rstreams.protocol.unsettled import Budget, Share
from rstreams.runtime.scope import open_nursery

_numbers: Final = itertools.count(1)

Attaching = Callable[[Client, LinkDriver, Attach], None]


@dataclass(frozen=True, slots=True)
class ConnectionOptions:
    """The options of all connections of a listener.

    Attributes:
        container_id: The node's name for its peers.
        admission: The clients that are let in.
        limits: The limits of each connection.
        unfinished: The messages of all connections that have not come whole.
        budget: The memory that the unsettled deliveries of all connections may take.
        accounts: What each user has, and the limits of users.
    """

    container_id: str
    admission: Admission
    limits: ConnectionLimits
    unfinished: UnfinishedTotal
    budget: Budget
    accounts: Accounts = field(default_factory=Accounts)


class Listener(ListeningPlace):
    """A place where a node listens for AMQP."""

    speaks = "AMQP"

    def __init__(
        self,
        place: PeerAddress,
        sockets: Sequence[trio.SocketListener],
        options: ListeningOptions,
        admission: Admission,
    ) -> None:
        """Wrap listening sockets."""
        super().__init__(place, sockets, options, admission)
        self._accepting = trio.CancelScope()
        self._handshakes = Handshakes(options.max_handshakes, options.handshake_timeout_s)
        self._connections: dict[Pump, Client] = {}  # authenticated
        self._opened: set[Pump] = set()  # and open

    @property
    def url(self) -> str:
        """The url for clients."""
        return PeerAddress(self.host, self.port, tls=self._options.tls is not None).url

    @property
    def connections(self) -> int:
        """How many connections are open, or about to be."""
        return len(self._connections)

    @property
    def open_connections(self) -> list[tuple[Pump, Client]]:
        """The connections that are open, each with its client."""
        return [(pump, client) for pump, client in self._connections.items() if pump in self._opened]

    @property
    def handshakes(self) -> int:
        """How many clients have not opened their connection yet."""
        return len(self._handshakes)

    async def run(self, options: ConnectionOptions, on_attach: Attaching) -> None:
        """Accept and pump connections until closed; the failure of one is logged, and the others go on."""

        async def serve(stream: trio.SocketStream) -> None:
            await self._serve(_Arriving(self._options, options, on_attach, stream))

        async with open_nursery() as connections:
            with self._accepting:
                await trio.serve_listeners(serve, list(self._sockets), handler_nursery=connections)

    async def close_clients(self, choose: Callable[[Client], bool], condition: str, description: str) -> None:
        """Close the connections of the clients for which `choose` returns True, telling the peers why."""
        async with trio.open_nursery() as nursery:
            for pump, client in list(self._connections.items()):
                if choose(client):
                    nursery.start_soon(pump.close, condition, description)

    def stop(self) -> None:
        """Stop listening; the connections stay."""
        self._accepting.cancel()

    async def close(self, condition: str, description: str) -> None:
        """Stop listening and close every connection in order, telling the peers why."""
        self.stop()
        async with trio.open_nursery() as nursery:
            for pump in list(self._connections):
                nursery.start_soon(pump.close, condition, description)

    async def _serve(self, arrival: _Arriving) -> None:
        try:
            await self._serve_client(arrival)
        except Exception as error:  # a defect that one peer has found must not end the others' connections
            CLIENT_FAILED.tell(arrival.origin, raised=error, peer=arrival.peer)
        finally:
            with trio.CancelScope(shield=True):
                await share_of_run().next_slice()
                await trio.aclose_forcefully(arrival.tcp)

    async def _serve_client(self, arrival: _Arriving) -> None:
        """Let a client in, and pump its connection until it ends."""
        try:
            async with open_nursery() as nursery:
                with self._handshakes.enter(arrival.origin) as handshake:
                    await self._admit(arrival, handshake, nursery)
                if handshake.scope.cancelled_caught:
                    await self._refuse(arrival, self._handshakes.why(handshake))
                    nursery.cancel_scope.cancel()  # its time is over
        finally:
            if arrival.pump is not None:
                self._opened.discard(arrival.pump)
                self._connections.pop(arrival.pump, None)
                if arrival.counted is not None:
                    arrival.counted.connections -= 1
        error = None if arrival.pump is None else arrival.pump.error
        if error is not None:
            event = CLIENT_CUT_OFF if isinstance(error, RemoteProtocolError) else CLIENT_LOST
            event.tell(arrival.origin, why=error, peer=arrival.peer)

    async def _admit(self, arrival: _Arriving, handshake: Handshake, nursery: trio.Nursery) -> None:
        """Authenticate a client, and open its connection if there is room for one more."""
        try:
            pump, client = await arrival.enter(handshake)
        except (RStreamsError, trio.BrokenResourceError) as error:
            said = error.description if isinstance(error, RemoteProtocolError) else str(error)
            if arrival.metered.came:
                event = LOGIN_REFUSED if isinstance(error, AuthenticationFailed) else CLIENT_REFUSED
                await self._refuse(arrival, said or "it hung up before it had said who it is", event=event)
            else:  # as the probes of a supervisor do
                CLIENT_SILENT.tell(arrival.origin, peer=arrival.peer)
            return
        why, condition = client.account.why_no_connection(), Condition.RESOURCE_LIMIT_EXCEEDED
        self._connections[pump] = client
        if why is None:
            client.account.connections += 1
            arrival.counted = client.account
        nursery.start_soon(pump.run)
        if why is None and len(self._opened) < self._options.max_connections:
            await pump.opened.wait()
        if why is None and len(self._opened) >= self._options.max_connections:
            why = f"this listener has its max_connections={self._options.max_connections}"
        if why is None and (why := _why_not_there(pump)) is not None:
            condition = Condition.UNAUTHORIZED_ACCESS
        if why is None:
            self._opened.add(pump)
        else:
            await self._refuse(arrival, why, condition)

    @staticmethod
    async def _refuse(
        arrival: _Arriving,
        why: str,
        condition: Condition = Condition.RESOURCE_LIMIT_EXCEEDED,
        event: LogEvent = CLIENT_REFUSED,
    ) -> None:
        """Log once why a client is refused, tell the client as far as possible, and wait for it only a moment."""
        if arrival.refused:
            return
        arrival.refused = True
        event.tell(arrival.origin, peer=arrival.peer, why=why)
        with trio.move_on_after(HANG_UP_TIMEOUT_S):
            if arrival.pump is None:
                await hang_up(arrival.tcp)
            else:  # the engine sends this when the client has opened the connection
                await arrival.pump.close(condition.value, why)


class _Arriving:
    """A client that has connected, and its pump when it has one."""

    def __init__(
        self, listening: ListeningOptions, options: ConnectionOptions, on_attach: Attaching, tcp: trio.SocketStream
    ) -> None:
        self.tcp = tcp
        self.pump: Pump | None = None
        self.refused = False
        self.counted: Account | None = None
        self.peer, self.origin, self._is_local = who_is(tcp)
        self.metered = MeteredStream(tcp, listening.max_handshake_bytes)
        self._listening = listening
        self._options = options
        self.on_attach = on_attach

    async def enter(self, handshake: Handshake) -> tuple[Pump, Client]:
        """Do TLS and SASL; return the pump of the connection, which has not run yet, and the client."""
        options, certificate = self._options, None
        metered = self.metered
        stream: trio.abc.Stream = self.tcp
        if self._listening.tls is not None:
            handshake.phase = "TLS"
            stream, certificate = await accept_tls(metered, self._listening.tls)
        handshake.phase = "SASL"
        said_on = metered if stream is self.tcp else stream
        user, first = await authenticate(said_on, options.admission, certificate, self.origin)
        metered.trust()
        if isinstance(stream, TlsStream):
            stream.transport = self.tcp
        handshake.phase = "open"
        if not options.admission.lets_in(user):
            msg = f"user {user!r:.80} was refused: the users have changed meanwhile"
            raise AuthenticationFailed(msg)
        account = options.accounts.of(user)
        client = Client(user, self.peer, self._is_local, account, next(_numbers), _machine.today())
        self.pump = pump = Pump(
            stream,
            peer=self.peer if user is None else f"{user}@{self.peer}",
            container_id=options.container_id,
            limits=options.limits,
            unfinished=Unfinished(options.limits.max_unfinished_bytes, options.unfinished),
            share=Share(options.budget),
            on_attach=partial(_attach, ref(self), client),  # weak: the pump must not keep what keeps it
        )
        pump.engine.accept()
        pump.engine.feed(first)
        return pump, client


def _attach(arrival: ref[_Arriving], client: Client, driver: LinkDriver, frame: Attach) -> None:
    """Have a link attached; it may come together with an `open` for which the connection is about to be closed."""
    came = arrival()
    assert came is not None, "its task waits for the end of the connection"
    assert came.pump is not None, "the link came over it"
    why = _why_not_there(came.pump)
    if why is None:
        came.on_attach(client, driver, frame)
    else:
        driver.bind(refuse(driver, frame, Condition.UNAUTHORIZED_ACCESS.value, why))


def _why_not_there(pump: Pump) -> str | None:
    """Return why a client does not get the host that it has asked for: it must not take this node for another one."""
    asked = pump.engine.host_asked_for
    if not asked.startswith(VIRTUAL_HOST):
        return None
    name = asked.removeprefix(VIRTUAL_HOST)
    return f"this node has no virtual hosts, and {name!r:.80} is one: use a url without it; another tenant needs a node"
