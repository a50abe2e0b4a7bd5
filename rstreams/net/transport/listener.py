"""The listening side: connections accepted, authenticated, and pumped until they end.

Bounds hold for a client that has not authenticated:

    sockets and tasks    max_handshakes
    time                 handshake_timeout_s, for TLS, SASL and open together
    bytes                max_handshake_bytes, then the one frame `open`

Each client has a task of its own. Therefore no client waits for a slow one. Where there are too many, the oldest client
makes room (`handshakes`).
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

import trio

from rstreams._checks.choices import require_flag
from rstreams._checks.numbers import require_count
from rstreams._checks.refusals import refuse_value
from rstreams.errors import (
    AuthenticationFailed,
    Condition,
    ConfigError,
    RemoteProtocolError,
    RStreamsError,
    TransportError,
)
from rstreams.net._proton import LinkDriver, Unfinished, UnfinishedTotal
from rstreams.net.options.limits import MAX_COUNT, ConnectionLimits, require_time_limit, require_tls
from rstreams.net.transport.accounts import Account, Accounts, Client
from rstreams.net.transport.address import PeerAddress, is_loopback, parse_place
from rstreams.net.transport.handshakes import Handshake, Handshakes, MeteredStream
from rstreams.net.transport.password_line import origin_of
from rstreams.net.transport.pump import Pump
from rstreams.net.transport.run_share import share_of_run
from rstreams.net.transport.security import Admission, authenticate
from rstreams.net.transport.tls_streams import TlsStream, accept_tls
from rstreams.protocol.frames import Attach
from rstreams.protocol.unsettled import Budget, Share
from rstreams.runtime.scope import open_nursery
from rstreams.runtime.seldom import log_seldom

logger = logging.getLogger("rstreams.net")

DEFAULT_MAX_CONNECTIONS: Final = 1000
DEFAULT_MAX_HANDSHAKES: Final = 128
DEFAULT_HANDSHAKE_TIMEOUT_S: Final = 10.0
DEFAULT_MAX_HANDSHAKE_BYTES: Final = 64 * 1024

HANG_UP_TIMEOUT_S: Final = 1.0
"""How long a refused client may take to hang up, in seconds."""

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


@dataclass(frozen=True, slots=True)
class ListeningOptions:
    """The options of a listener as a whole.

    Attributes:
        tls: The context of a listener that speaks TLS, and nothing else.
        anonymous: Whether clients of other machines are let in without users and without client certificates.
        allow_plain_over_tcp: Whether passwords may come from other machines in clear text.
        max_connections: The most open connections.
        max_handshakes: The most clients that have not opened their connection yet.
        handshake_timeout_s: How long a client may take for TLS, SASL and open together, in seconds.
        max_handshake_bytes: The most bytes that a client may send for TLS and SASL together.

    Errors: `ConfigError` that names an option with a value that is not allowed.
    """

    tls: ssl.SSLContext | None = None
    anonymous: bool = False
    allow_plain_over_tcp: bool = False
    max_connections: int = DEFAULT_MAX_CONNECTIONS
    max_handshakes: int = DEFAULT_MAX_HANDSHAKES
    handshake_timeout_s: float = DEFAULT_HANDSHAKE_TIMEOUT_S
    max_handshake_bytes: int = DEFAULT_MAX_HANDSHAKE_BYTES

    def __post_init__(self) -> None:
        """Check each option by itself."""
        require_tls(self.tls, server=True)
        require_flag("", "anonymous", self.anonymous)
        require_flag("", "allow_plain_over_tcp", self.allow_plain_over_tcp)
        require_count("", "max_connections", self.max_connections, 1, MAX_COUNT, unit=" connections")
        require_count("", "max_handshakes", self.max_handshakes, 1, MAX_COUNT, unit=" handshakes")
        require_time_limit("handshake_timeout_s", self.handshake_timeout_s)
        require_count("", "max_handshake_bytes", self.max_handshake_bytes, 1, MAX_COUNT, unit=" bytes")

    def check(self, place: PeerAddress, bound_to: str, admission: Admission) -> None:
        """Check that the right clients are let in here.

        - Clients can authenticate here.
        - No password comes in clear text, unless that is allowed.
        - Other machines' clients show who they are, unless everyone may come in (`anonymous`).

        Errors: `ConfigError`.
        """
        plain, local = self.tls is None, is_loopback(bound_to)
        listen = f"listen={str(place)!r}"
        if plain and admission.users is not None and not self.allow_plain_over_tcp and not local:
            why = "passwords would come in clear text; give tls=, or allow it if the network itself can be trusted"
            msg = f"{listen} with allow_plain_over_tcp=False: {why}"
            raise ConfigError(msg)
        if admission.users is None and admission.certificate_users is not None:
            if plain:
                msg = f"{listen}: the node lets clients in by certificate alone, and no tls= is given"
                raise ConfigError(msg)
            if self.tls is not None and self.tls.verify_mode is ssl.CERT_NONE:
                why = "asks clients for none; see client_ca of rstreams.tls.server_context"
                msg = f"{listen}: the node lets clients in by certificate alone, and the context {why}"
                raise ConfigError(msg)
        signed = self.tls is not None and self.tls.verify_mode is ssl.CERT_REQUIRED
        if admission.is_open and not signed and not self.anonymous and not local:
            why = "other machines can reach it, and there are no users: everyone would be let in"
            help_ = "add users, require client certificates, or allow it by the option anonymous"
            msg = f"{listen} with anonymous=False: {why}; {help_}"
            raise ConfigError(msg)


class Listener:
    """A place where a node listens.

    Attributes:
        host: The address it listens at.
        port: The port; if port 0 was asked for, the one that the system has chosen.
    """

    def __init__(
        self,
        place: PeerAddress,
        listeners: Sequence[trio.SocketListener],
        options: ListeningOptions,
        admission: Admission,
    ) -> None:
        """Wrap listening sockets."""
        self._place = place
        self._bound_to = [str(each.socket.getsockname()[0]) for each in listeners]
        self._admission = admission
        self.host = place.host
        self.port = int(listeners[0].socket.getsockname()[1])
        self._listeners = listeners
        self._options = options
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
    def handshakes(self) -> int:
        """How many clients have not opened their connection yet."""
        return len(self._handshakes)

    async def run(self, options: ConnectionOptions, on_attach: Attaching) -> None:
        """Accept and pump connections until closed; the failure of one is logged, and the others go on."""

        async def serve(stream: trio.SocketStream) -> None:
            await self._serve(_Arriving(self._options, options, on_attach, stream))

        async with open_nursery() as connections:
            with self._accepting:
                await trio.serve_listeners(serve, list(self._listeners), handler_nursery=connections)

    def check(self, admission: Admission, tls: ssl.SSLContext | None = None) -> None:
        """Check that it may let in other clients from now on, and speak TLS with another context.

        Args:
            admission: The clients that would be let in.
            tls: The context; None: that of now.

        Errors: As `ListeningOptions.check`; `ConfigError` for a context if the listener speaks no TLS.
        """
        if tls is not None:
            require_tls(tls, server=True)
            if self._options.tls is None:
                msg = f"{self.url} speaks plain AMQP, and cannot change that"
                raise ConfigError(msg)
        options = replace(self._options, tls=tls or self._options.tls)
        for host in self._bound_to:
            options.check(self._place, host, admission)

    def renew_tls(self, tls: ssl.SSLContext) -> None:
        """Speak TLS with another context to clients that come from now on; connections stay.

        Errors: As `check`; `ConfigError` for no context.
        """
        if not isinstance(tls, ssl.SSLContext):
            refuse_value("renew_tls", "tls", tls, "an ssl.SSLContext, such as rstreams.tls.server_context(...) makes")
        self.check(self._admission, tls)
        self._options = replace(self._options, tls=tls)

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
            text, origin = "the connection from %s failed", arrival.origin
            log_seldom(logger, logging.ERROR, text, arrival.peer, peer=origin, exc_info=error)
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
            level = logging.WARNING if isinstance(error, RemoteProtocolError) else logging.INFO
            log_seldom(logger, level, "a client is gone: %s", error, peer=arrival.origin)

    async def _admit(self, arrival: _Arriving, handshake: Handshake, nursery: trio.Nursery) -> None:
        """Authenticate a client, and open its connection if there is room for one more."""
        try:
            pump, client = await arrival.enter(handshake)
        except (RStreamsError, trio.BrokenResourceError) as error:
            said = error.description if isinstance(error, RemoteProtocolError) else str(error)
            await self._refuse(arrival, said or "it hung up before it had said who it is")
            return
        why = client.account.why_no_connection()
        self._connections[pump] = client
        if why is None:
            client.account.connections += 1
            arrival.counted = client.account
        nursery.start_soon(pump.run)
        if why is None and len(self._opened) < self._options.max_connections:
            await pump.opened.wait()
        if why is None and len(self._opened) >= self._options.max_connections:
            why = f"this listener has its max_connections={self._options.max_connections}"
        if why is None:
            self._opened.add(pump)
        else:
            await self._refuse(arrival, why)

    @staticmethod
    async def _refuse(arrival: _Arriving, why: str) -> None:
        """Log once why a client is refused, tell the client as far as possible, and wait for it only a moment."""
        if arrival.refused:
            return
        arrival.refused = True
        text = "refused a connection from %s: %s"
        log_seldom(logger, logging.WARNING, text, arrival.peer, why, peer=arrival.origin)
        with trio.move_on_after(HANG_UP_TIMEOUT_S):
            if arrival.pump is None:
                await _hang_up(arrival.tcp)
            else:  # the engine sends this when the client has opened the connection
                await arrival.pump.close(Condition.RESOURCE_LIMIT_EXCEEDED.value, why)


class _Arriving:
    """A client that has connected, and its pump when it has one."""

    def __init__(
        self, listening: ListeningOptions, options: ConnectionOptions, on_attach: Attaching, tcp: trio.SocketStream
    ) -> None:
        self.tcp = tcp
        self.pump: Pump | None = None
        self.refused = False
        self.counted: Account | None = None
        self.peer, self.origin = _peer_of(tcp)
        self._listening = listening
        self._options = options
        self._on_attach = on_attach

    async def enter(self, handshake: Handshake) -> tuple[Pump, Client]:
        """Do TLS and SASL; return the pump of the connection, which has not run yet, and the client."""
        options, certificate = self._options, None
        metered = MeteredStream(self.tcp, self._listening.max_handshake_bytes)
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
        client = Client(user, self.peer, _is_local(self.tcp), options.accounts.of(user))
        self.pump = pump = Pump(
            stream,
            peer=self.peer if user is None else f"{user}@{self.peer}",
            container_id=options.container_id,
            limits=options.limits,
            unfinished=Unfinished(options.limits.max_unfinished_bytes, options.unfinished),
            share=Share(options.budget),
            on_attach=partial(self._on_attach, client),
        )
        pump.engine.accept()
        pump.engine.feed(first)
        return pump, client


async def open_listener(place: str, options: ListeningOptions, admission: Admission) -> Listener:
    """Listen at `host:port`; nothing is accepted before `run`.

    Errors: `ConfigError` for a malformed place, or for options that let in no client, passwords in clear text, or
        everyone from other machines;
        `TransportError` if the system refuses the place.
    """
    address = parse_place(place)
    try:
        listeners = await trio.open_tcp_listeners(address.port, host=address.host)
    except OSError as error:
        msg = f"cannot listen on {address}: {error.strerror or error}"
        raise TransportError(msg) from error
    listener = Listener(address, listeners, options, admission)
    try:
        listener.check(admission)
    except ConfigError:
        for each in listeners:
            each.socket.close()
        raise
    return listener


async def _hang_up(stream: trio.SocketStream) -> None:
    """Close a connection so that the client gets the last bytes that were sent.

    A socket that is closed with unread bytes in it is reset. Then a client that sends ahead does not see the reason.
    """
    with suppress(trio.BrokenResourceError):  # the client has closed it before
        await stream.send_eof()
        while await stream.receive_some(4096):
            pass


def _peer_of(stream: trio.SocketStream) -> tuple[str, str]:
    """Return the client's place, and the part of its address that counts as one origin."""
    try:
        host, port = stream.socket.getpeername()[:2]
    except OSError:
        return "a client that has gone", ""
    return str(PeerAddress(host, port)), origin_of(host)


def _is_local(stream: trio.SocketStream) -> bool:
    """Tell whether the client is on this machine."""
    try:
        return bool(is_loopback(str(stream.socket.getpeername()[0])))
    except OSError:
        return False
