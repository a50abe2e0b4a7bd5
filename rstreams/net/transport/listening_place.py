"""A place where a node listens, for AMQP or for HTTP: its options, and the clients that it may let in."""

from __future__ import annotations

import ssl
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import ClassVar, Final, TypeVar

import trio

from rstreams import _machine
from rstreams._certificate_dates import warnings_about
from rstreams._checks.choices import require_flag
from rstreams._checks.numbers import require_count
from rstreams._checks.refusals import refuse_value
from rstreams._events.table import CERTIFICATE_DATES
from rstreams.errors import ConfigError, TransportError
from rstreams.net.options.limits import DEFAULT_MAX_CONNECTIONS, MAX_COUNT, require_time_limit, require_tls
from rstreams.net.transport.address import PeerAddress, is_loopback, parse_place
from rstreams.net.transport.password_line import origin_of
from rstreams.net.transport.security import Admission

L = TypeVar("L", bound="ListeningPlace")

DEFAULT_MAX_HANDSHAKES: Final = 128
DEFAULT_HANDSHAKE_TIMEOUT_S: Final = 10.0
DEFAULT_MAX_HANDSHAKE_BYTES: Final = 64 * 1024

HANG_UP_TIMEOUT_S: Final = 1.0
"""How long a refused client may take to hang up, in seconds."""


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


class ListeningPlace(ABC):
    """A place where a node listens.

    Attributes:
        speaks: The protocol.
        host: The address it listens at.
        port: The port; if port 0 was asked for, the one that the system has chosen.
    """

    speaks: ClassVar[str]

    def __init__(
        self,
        place: PeerAddress,
        sockets: Sequence[trio.SocketListener],
        options: ListeningOptions,
        admission: Admission,
    ) -> None:
        """Wrap listening sockets."""
        self.host = place.host
        self.port = int(sockets[0].socket.getsockname()[1])
        self._place = place
        self._sockets = sockets
        self._bound_to = [str(each.socket.getsockname()[0]) for each in sockets]
        self._options = options
        self._admission = admission

    @property
    @abstractmethod
    def url(self) -> str:
        """The url for clients."""

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
                msg = f"tls={tls!r}: {self.url} was opened without TLS, and this cannot change while it listens"
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
        self.tell_dates()

    def tell_dates(self) -> None:
        """Log a warning for each certificate that is not valid now, or will not be soon."""
        if self._options.tls is not None:
            for text in warnings_about(self._options.tls, _machine.today_utc()):
                CERTIFICATE_DATES.tell(text, listener=self.url, why=text)


async def open_place(kind: type[L], place: str, options: ListeningOptions, admission: Admission) -> L:
    """Listen at `host:port`; nothing is accepted before the listener runs.

    Errors: `ConfigError` for a malformed place, or for options that let in no client, passwords in clear text, or
        everyone from other machines; `TransportError` if the system refuses the place.
    """
    address = parse_place(place)
    try:
        sockets = await trio.open_tcp_listeners(address.port, host=address.host)
    except OSError as error:
        msg = f"cannot listen on {address}: {error.strerror or error}"
        raise TransportError(msg) from error
    listener = kind(address, sockets, options, admission)
    try:
        listener.check(admission)
    except ConfigError:
        for each in sockets:
            each.socket.close()
        raise
    listener.tell_dates()
    return listener


async def hang_up(stream: trio.SocketStream) -> None:
    """Close this side of a connection so that the client gets the last bytes that were sent; wait for it only a moment.

    A socket that is closed with unread bytes in it is reset. Then a client that sends ahead does not see the reason.
    """
    with trio.move_on_after(HANG_UP_TIMEOUT_S), suppress(trio.BrokenResourceError):  # the client has closed it before
        await stream.send_eof()
        while await stream.receive_some(4096):
            pass


def who_is(stream: trio.SocketStream) -> tuple[str, str, bool]:
    """Return a client's place, the part of it that counts as one origin, and whether it is on this machine."""
    try:
        host, port = stream.socket.getpeername()[:2]
    except OSError:
        return "a client that has gone", "", False
    return str(PeerAddress(host, port)), origin_of(host), bool(is_loopback(str(host)))
