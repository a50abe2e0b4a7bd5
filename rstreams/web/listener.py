"""The listening side of HTTP: sockets, TLS, bounds, and the clients that are let in.

Who is let in is decided as for AMQP: by the same users, passwords, certificates and permissions, and with the same
rules about clear text and other machines (`ListeningOptions.check`). A client names its user by HTTP's Basic
authentication, or by its certificate. Bounds hold for all clients, because each can be a stranger:

    connections    max_connections; as many more are told so, and each further one is closed at once
    time           handshake_timeout_s, for TLS, for a request, and for taking the answer
    bytes          those of `conversation`
    names          a browser can be made to ask a name that leads to this machine (DNS rebinding). Therefore a listener
                   that lets everyone of this machine in answers only to names of this machine.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

import trio

from rstreams._events.table import HTTP_FAILED, HTTP_LOGIN_REFUSED, HTTP_REFUSED, HTTP_SILENT
from rstreams.errors import RStreamsError
from rstreams.net.transport.accounts import Client
from rstreams.net.transport.address import PeerAddress, is_loopback
from rstreams.net.transport.handshakes import MeteredStream
from rstreams.net.transport.listening_place import HANG_UP_TIMEOUT_S, ListeningPlace, hang_up, who_is
from rstreams.net.transport.password_line import CheckLater
from rstreams.net.transport.passwords import Passwords
from rstreams.net.transport.security import Admission
from rstreams.net.transport.tls_streams import accept_tls
from rstreams.runtime.scope import open_nursery
from rstreams.tls import ClientCertificate
from rstreams.web.conversation import Request, Response, converse, refusal

Pages = Callable[[Request, Client | None], Awaitable[Response]]
"""Makes the answer to a request of a client; None: it has not said who it is."""


class HttpListener(ListeningPlace):
    """A place where a node answers HTTP."""

    speaks = "HTTP"

    _connections = 0

    @property
    def url(self) -> str:
        """The url of its pages."""
        return f"{'http' if self._options.tls is None else 'https'}://{PeerAddress(self.host, self.port)}"

    async def run(self, pages: Pages) -> None:
        """Answer clients until cancelled; the failure of one is logged, and the others go on."""
        async with open_nursery() as clients:
            await trio.serve_listeners(partial(self._serve, pages), list(self._sockets), handler_nursery=clients)

    async def _serve(self, pages: Pages, tcp: trio.SocketStream) -> None:
        peer, origin, _ = came_from = who_is(tcp)
        if self._connections >= 2 * self._options.max_connections:
            why = f"more than twice max_connections={self._options.max_connections} are open"
            HTTP_REFUSED.tell(origin, peer=peer, why=why)
            await trio.aclose_forcefully(tcp)
            return
        metered = MeteredStream(tcp, self._options.max_handshake_bytes)
        self._connections += 1
        try:
            with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                await self._talk(pages, metered, came_from)
                await hang_up(tcp)
        except RStreamsError as error:
            event = HTTP_REFUSED if metered.came else HTTP_SILENT  # a probe may hang up without a word
            event.tell(origin, peer=peer, why=error)
        except Exception as error:  # a defect that one client has found must not end the others' connections
            HTTP_FAILED.tell(origin, raised=error, peer=peer)
        finally:
            self._connections -= 1
            await trio.aclose_forcefully(tcp)

    async def _talk(self, pages: Pages, metered: MeteredStream, came_from: tuple[str, str, bool]) -> None:
        options, certificate = self._options, None
        stream: trio.abc.Stream = metered
        is_full = self._connections > options.max_connections
        if options.tls is not None:
            with trio.move_on_after(options.handshake_timeout_s) as patience:
                stream, certificate = await accept_tls(metered, options.tls)
            if patience.cancelled_caught:
                return
        metered.trust()  # what comes next is bounded by each request
        visitor = _Visitor(self._admission, certificate, came_from)

        async def answer(request: Request) -> Response:
            if is_full:
                return refusal(503, f"max_connections={options.max_connections} are open", ("Connection", "close"))
            known = await visitor.who_asks(request)
            return known if isinstance(known, Response) else await pages(request, known)

        timeout_s = HANG_UP_TIMEOUT_S if is_full else options.handshake_timeout_s
        await converse(stream, answer, request_timeout_s=timeout_s)


class _Visitor:
    """The one at the other end of a connection, before it is known for whom it asks."""

    def __init__(
        self, admission: Admission, certificate: ClientCertificate | None, came_from: tuple[str, str, bool]
    ) -> None:
        self._admission = admission
        self._certificate = certificate
        self._peer, self._origin, self._is_local = came_from

    async def who_asks(self, request: Request) -> Client | Response | None:
        """Return the client that has sent a request, or its refusal; None: it has not said who it is."""
        admission, certificate = self._admission, self._certificate
        if admission.is_open and self._is_local and not _names_this_machine(request.headers.get("host", "")):
            return refusal(421, "everyone of this machine is let in here, but only by its own names, such as localhost")
        kind, _, credentials = request.headers.get("authorization", "").partition(" ")
        if admission.users is not None and kind.lower() == "basic":
            return await self._with_password(admission.users, *_decoded(credentials))
        if certificate is not None and "EXTERNAL" in admission.mechanisms(certificate):
            user = admission.user_of(certificate)
            return ask_who("the owner of this certificate is not a user here") if user is None else self._client(user)
        return self._client(None) if admission.is_open else None

    async def _with_password(self, users: Passwords, user: str, password: bytes) -> Client | Response:
        try:
            if await users.check(user, password, self._origin):
                return self._client(user)
        except CheckLater:
            return refusal(503, "too many passwords of this address are being checked", ("Retry-After", "1"))
        HTTP_LOGIN_REFUSED.tell(self._origin, peer=self._peer, user=user)
        return ask_who("the user or the password is wrong")

    def _client(self, user: str | None) -> Client:
        return Client(user, self._peer, self._is_local)


def ask_who(why: str) -> Response:
    """Return the answer that makes a client say who it is."""
    return refusal(401, why, ("WWW-Authenticate", 'Basic realm="rstreams", charset="UTF-8"'))


def _decoded(credentials: str) -> tuple[str, bytes]:
    """Return the user and the password (RFC 7617)."""
    try:
        user, _, password = base64.b64decode(credentials.strip(), validate=True).partition(b":")
    except (binascii.Error, ValueError):
        return "", b""
    return user.decode("utf-8", "replace"), password


def _names_this_machine(host: str) -> bool:
    """Tell whether the `Host` of a request is a name of this machine, and not one that only leads to it."""
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
    name = name.strip("[]").lower()
    return name == "localhost" or bool(is_loopback(name))
