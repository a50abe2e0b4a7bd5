"""Opening a connection as the client: TCP, TLS, SASL and `open`, from an address to a pump that runs.

One call is one attempt, and leaves nothing behind if it fails. For another attempt call again, with the same options
and the same or another address. The errors say what to do:

    ConfigError             the options cannot work with this address; another attempt is of no use
    AuthenticationFailed    the peer refused the credentials, takes no mechanism that this side may use, or says that it
                            cannot check credentials and that this will not pass
    ConnectFailed           all other failures up to `open`: no listener, no AMQP, no TLS, a certificate not trusted
    ConnectionClosed        the peer opened the connection and closed it at once, with a condition
"""

from __future__ import annotations

import errno
import os
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias, get_args

import trio

from rstreams._checks.choices import require_flag
from rstreams.errors import (
    AuthenticationFailed,
    ConfigError,
    ConnectFailed,
    PeerClosed,
    RemoteProtocolError,
    RStreamsError,
)
from rstreams.net._proton import LinkDriver
from rstreams.net.options.limits import (
    ConnectionLimits,
    require_time_limit,
    require_tls,
)
from rstreams.net.transport.address import PeerAddress, is_loopback
from rstreams.net.transport.pump import Pump
from rstreams.net.transport.tls_streams import TlsStream, start_tls
from rstreams.protocol.frames import Attach
from rstreams.tls import client_context

Mechanism: TypeAlias = Literal["ANONYMOUS", "PLAIN", "EXTERNAL"]

DEFAULT_CONNECT_TIMEOUT_S: Final = 10.0

LAST_WORDS_S: Final = 1.0
"""How long a connection that failed before it was open may take to tell the peer why, in seconds."""


@dataclass(frozen=True, slots=True)
class OpeningOptions:
    """The options of one attempt to open a connection, besides the address; they hold no secrets.

    Attributes:
        container_id: This side's name for the peer.
        tls: The context for `amqps`; None makes one that verifies certificate and host name, by the system's CAs.
        sasl: The one SASL mechanism to use; None: PLAIN with a user in the url, else over TLS EXTERNAL if the peer
            offers it, else ANONYMOUS.
        allow_plain_over_tcp: Whether a password may go to another machine in clear text.
        connect_timeout_s: Seconds until the connection must be open.
        limits: The limits of the connection.
        sends_tokens: Whether tokens are sent over it when it is open; tokens are secrets, like passwords.

    Errors: `ConfigError` that names an option with a value that is not allowed.
    """

    container_id: str
    tls: ssl.SSLContext | None = None
    sasl: Mechanism | None = None
    allow_plain_over_tcp: bool = False
    connect_timeout_s: float = DEFAULT_CONNECT_TIMEOUT_S
    limits: ConnectionLimits = field(default_factory=ConnectionLimits)
    sends_tokens: bool = False

    def __post_init__(self) -> None:
        """Check each option by itself."""
        require_tls(self.tls, server=False)
        if self.sasl is not None and self.sasl not in get_args(Mechanism):
            msg = f"sasl={self.sasl!r}: it must be None, 'ANONYMOUS', 'PLAIN' or 'EXTERNAL'"
            raise ConfigError(msg)
        require_flag("", "allow_plain_over_tcp", self.allow_plain_over_tcp)
        require_time_limit("connect_timeout_s", self.connect_timeout_s)

    def check(self, address: PeerAddress) -> None:
        """Check that the options can work with an address, as far as can be told without the network.

        Errors: `ConfigError` that says what does not go together, without a password.
        """
        if self.tls is not None and not address.tls:
            msg = f"tls={self.tls!r}: not allowed with the url {address.url}; for TLS the url begins with amqps://"
            raise ConfigError(msg)
        self.mechanisms(address)
        if is_loopback(address.host) is False:
            self.check_plain(address, address.host)

    def mechanisms(self, address: PeerAddress) -> tuple[Mechanism, ...]:
        """Return the SASL mechanisms that may be used; the engine takes one that the peer offers.

        Errors: `ConfigError` if the address and `sasl` do not go together.
        """
        given = "a user" if address.password is None else "a password"
        match self.sasl:
            case None if address.user is not None:
                return ("PLAIN",)
            case None:
                return ("EXTERNAL", "ANONYMOUS") if address.tls else ("ANONYMOUS",)
            case "PLAIN" if address.user is None:
                why = "PLAIN needs a user and a password in the url"
            case "EXTERNAL" if not address.tls:
                why = "EXTERNAL is by client certificate, and needs TLS: amqps://"
            case "EXTERNAL" if address.user is not None:
                why = f"there is {given} in the url, and EXTERNAL shows the client certificate alone"
            case "ANONYMOUS" if address.user is not None:
                why = f"there is {given} in the url, and ANONYMOUS shows none"
            case _:
                return (self.sasl,)
        msg = f"sasl={self.sasl!r} with {address.url}: {why}"
        raise ConfigError(msg)

    def check_plain(self, address: PeerAddress, host: str) -> None:
        """Check that no password or token goes to `host` in clear text, unless that is allowed.

        Errors: `ConfigError`.
        """
        secret = "password" if "PLAIN" in self.mechanisms(address) else "token" if self.sends_tokens else None
        if address.tls or self.allow_plain_over_tcp or secret is None or is_loopback(host):
            return
        msg = (
            f"allow_plain_over_tcp=False: the {secret} for {address.url} would go over the network in clear text; "
            "connect with amqps://, or allow it if the network itself can be trusted"
        )
        raise ConfigError(msg)


async def open_connection(
    address: PeerAddress,
    options: OpeningOptions,
    nursery: trio.Nursery,
    *,
    on_attach: Callable[[LinkDriver, Attach], None],
) -> Pump:
    """Try once to open a connection; return its pump, which runs in `nursery`.

    Args:
        address: Where the peer is.
        options: The options of the attempt.
        nursery: Where the pump's task lives.
        on_attach: Called for each link that the peer attaches.

    Errors: Those of the module's table, within `options.connect_timeout_s`. Then no task and no socket is left.
    Cancels: No task and no socket is left; the peer sees the connection break.
    """
    options.check(address)
    attempt = _Attempt(address, options)
    with trio.move_on_after(options.connect_timeout_s):
        return await attempt.open(nursery, on_attach)
    msg = f"{address} did not answer within connect_timeout_s={options.connect_timeout_s:g} ({attempt.phase})"
    raise ConnectFailed(msg)


class _Attempt:
    """One attempt, and how far it has come."""

    def __init__(self, address: PeerAddress, options: OpeningOptions) -> None:
        self.phase = "TCP"
        self._address = address
        self._options = options
        self._stream: trio.abc.Stream | None = None

    async def open(self, nursery: trio.Nursery, on_attach: Callable[[LinkDriver, Attach], None]) -> Pump:
        address, options = self._address, self._options
        tcp = await _open_tcp(address)
        try:
            self._stream = await self._secured(tcp)
            pump = Pump(
                self._stream,
                peer=str(address),
                container_id=options.container_id,
                hostname=address.asked_for,
                limits=options.limits,
                on_attach=on_attach,
            )
        except BaseException:
            await trio.aclose_forcefully(tcp)
            raise
        self.phase = "SASL and open"
        pump.user = address.user or ""
        pump.engine.connect(address.user, address.password, options.mechanisms(address))
        nursery.start_soon(pump.run)
        try:
            await pump.opened.wait()
            if pump.error is None:
                return pump
            with trio.move_on_after(LAST_WORDS_S):
                await pump.ended.wait()
        except BaseException:
            await _cut(pump)
            raise
        await _cut(pump)
        raise self._explained(pump.error)

    async def _secured(self, tcp: trio.SocketStream) -> trio.abc.Stream:
        """Return the stream for AMQP, and check that no password goes over it in clear text unless that is allowed."""
        address = self._address
        if address.tls:
            self.phase = "TLS"
            context = client_context() if self._options.tls is None else self._options.tls
            return await start_tls(tcp, address, context)
        try:
            host = tcp.socket.getpeername()[0]
        except OSError as error:  # the peer has closed it before
            msg = f"{address} hung up before the connection was open"
            raise ConnectFailed(msg) from error
        self._options.check_plain(address, host)
        return tcp

    def _explained(self, error: RStreamsError) -> RStreamsError:
        """Return the error of a connection that ended before it was open, in words that say what to do."""
        address = self._address
        refused = None if not isinstance(self._stream, TlsStream) else self._stream.refusal(address)
        if refused is not None:
            return refused
        if isinstance(error, PeerClosed | RemoteProtocolError):
            return error
        if isinstance(error, AuthenticationFailed):
            refused_here = "[mech=" in str(error)
            return AuthenticationFailed(f"{address} {self._refusal(str(error))}") if refused_here else error
        text = str(error)
        if not address.tls and "['\\x15\\x03" in text:  # a TLS record: an alert
            return ConnectFailed(f"{address} speaks TLS: connect with amqps://")
        if not address.tls and ("no protocol header found" in text or "hung up before" in text):
            text = f"{address} hung up without a word; if it speaks TLS, connect with amqps://"
        if "hung up (" in text and (address.virtual_host is not None or address.user is not None):
            name = "/" if address.virtual_host is None else address.virtual_host
            text += f"; RabbitMQ does that if it has no virtual host {name!r:.80}, or its user may not use it"
        return error if isinstance(error, ConnectFailed) and text == str(error) else ConnectFailed(text)

    def _refusal(self, told: str) -> str:
        """Say why the peer refused this side, and what may help."""
        mechanisms = self._options.mechanisms(self._address)
        if "[mech=none]" in told:
            hints = {
                "ANONYMOUS": "it asks for credentials: give user:password in the url, or a client certificate",
                "PLAIN": "it accepts no password here" + ("" if self._address.tls else ", or only over TLS: amqps://"),
                "EXTERNAL": "it got no client certificate, or accepts none",
            }
            return f"offers no SASL mechanism that may be used ({' or '.join(mechanisms)}); {hints[mechanisms[-1]]}"
        if "[mech=PLAIN]" in told:
            return "refused the credentials: it knows no such user with this password"
        if "[mech=EXTERNAL]" in told:
            return "refused the client certificate (EXTERNAL): it belongs to no user there, or none was sent"
        return "refused the credentials: it lets in no client without credentials (ANONYMOUS)"


async def _cut(pump: Pump) -> None:
    """End a connection at once; this is quick, because its socket is closed without waiting."""
    pump.cut()
    with trio.CancelScope(shield=True):
        await pump.ended.wait()


async def _open_tcp(address: PeerAddress) -> trio.SocketStream:
    try:
        return await trio.open_tcp_stream(address.host, address.port)
    except OSError as error:
        cause = error.__cause__ or error
        if isinstance(cause, BaseExceptionGroup):
            cause = cause.exceptions[0]
        msg = f"cannot connect to {address}: {_reason(cause)}"
        raise ConnectFailed(msg) from error


def _reason(error: BaseException) -> str:
    """Return why a connection could not be made, without the address, which the caller adds."""
    if not isinstance(error, OSError):
        return str(error)
    if error.errno is not None and error.errno in errno.errorcode and not isinstance(error, socket.gaierror):
        return os.strerror(error.errno)
    return error.strerror or str(error)
