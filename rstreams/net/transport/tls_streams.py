"""TLS at the beginning of a connection: the handshake, and errors that tell the user what to do.

The engine does not know of TLS. In TLS 1.3, a client that the server refuses learns it only when it reads for the first
time, after its own handshake. Therefore the stream remembers how TLS failed.
"""

from __future__ import annotations

import ssl
from contextlib import suppress
from typing import Final

import trio

from rstreams import _machine
from rstreams._certificate_dates import out_of_date
from rstreams.errors import (
    AuthenticationFailed,
    Condition,
    ConfigError,
    ConnectFailed,
    RemoteProtocolError,
    TransportError,
)
from rstreams.net.transport.address import PeerAddress
from rstreams.net.transport.tls_layer import TlsLayer
from rstreams.tls import ClientCertificate

# OpenSSL's codes for refused certificates (`man verify`).
_EXPIRED, _NOT_YET_VALID = 10, 9
_OF_DATES: Final = frozenset({_EXPIRED, _NOT_YET_VALID})
_NOT_TRUSTED: Final = frozenset({2, 18, 19, 20, 21})
_OTHER_NAME: Final = frozenset({62, 63, 64})

# The alerts (RFC 8446 section 6.2) by which a peer refuses a certificate, or says that it got none.
_ALERTS_ON_CERTIFICATES: Final = (
    "CERTIFICATE",  # bad, expired, revoked, unknown, required, unsupported
    "UNKNOWN_CA",
    "ACCESS_DENIED",
    "DECRYPT_ERROR",
)
_NO_TLS: Final = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "UNKNOWN_PROTOCOL", "RECORD_LAYER_FAILURE", "PACKET_LENGTH")


_PROTOCOL_VERSION: Final = b"\x15\x03\x03\x00\x02\x02\x46"
"""The alert for a client that does not speak TLS; OpenSSL has none for it. It shows any AMQP peer that this is TLS."""


_HANDSHAKE_BYTES: Final = 16 * 1024
"""The most bytes that are read at once before the connection has a wire."""


class TlsStream(trio.abc.Stream):
    """A stream over TLS that remembers how TLS failed.

    Args:
        transport: The stream that carries the bytes.
        layer: TLS, before its handshake.

    Attributes:
        transport: The stream that carries the bytes.
        layer: TLS.
        failure: The error with which TLS failed.
    """

    def __init__(self, transport: trio.abc.Stream, layer: TlsLayer) -> None:
        self.transport = transport
        self.layer = layer
        self.failure: ssl.SSLError | None = None

    def refusal(self, address: PeerAddress) -> TransportError | None:
        """Return the meaning of the peer's alert, if TLS failed."""
        return None if self.failure is None else _client_error(address, self.failure, self.layer.context)

    async def do_handshake(self) -> None:
        """Do the handshake.

        Errors: `ssl.SSLError`, after the alert for the peer has been sent; `trio.BrokenResourceError` if the peer has
            reset the connection.
        """
        try:
            while not self.layer.handshake():
                await self.transport.send_all(self.layer.outgoing())
                self.layer.put(await self.transport.receive_some(_HANDSHAKE_BYTES))
            await self.transport.send_all(self.layer.outgoing())
        except ssl.SSLError as error:
            no_tls = self.layer.is_server and any(each in _reason(error) for each in _NO_TLS)
            alert = self.layer.outgoing() or (_PROTOCOL_VERSION if no_tls else b"")
            with suppress(trio.BrokenResourceError):
                await self.transport.send_all(alert)
            raise

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send; see `trio.abc.SendStream`."""
        try:
            encrypted = self.layer.encrypt(data)
        except ssl.SSLError as error:
            raise trio.BrokenResourceError from error
        await self.transport.send_all(encrypted)

    async def wait_send_all_might_not_block(self) -> None:
        """Wait for room; see `trio.abc.SendStream`."""
        await self.transport.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Receive; see `trio.abc.ReceiveStream`. The end of the network without an end of TLS is an end."""
        room = memoryview(bytearray(max_bytes or _HANDSHAKE_BYTES))
        while not (count := self.decrypt(room)) and not self.layer.ended:
            self.layer.put(await self.transport.receive_some(_HANDSHAKE_BYTES))
        return bytes(room[:count])

    def decrypt(self, room: memoryview) -> int:
        """Put plain bytes that have come into `room`; see `TlsLayer.decrypt`.

        Errors: `trio.BrokenResourceError` if TLS fails; `failure` has the reason.
        """
        try:
            return self.layer.decrypt(room)
        except ssl.SSLError as error:
            self.failure = error
            raise trio.BrokenResourceError from error

    async def aclose(self) -> None:
        """Tell the peer that nothing more comes, and close."""
        try:
            with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                await self.transport.send_all(self.layer.end())
        finally:
            await self.transport.aclose()


async def start_tls(stream: trio.abc.Stream, address: PeerAddress, context: ssl.SSLContext) -> TlsStream:
    """Do the handshake as the client.

    Errors: `ConnectFailed` if the peer does not speak TLS or its certificate is not trusted; `AuthenticationFailed` if
        it wants another certificate of this side.
    """
    try:
        tls = TlsStream(stream, TlsLayer(context, address.host.rstrip(".")))
    except (ssl.SSLError, ValueError) as error:  # no certificate can name this host, or the context cannot be used
        msg = f"TLS with {address} is not possible: {error}"
        raise ConfigError(msg) from error
    try:
        await tls.do_handshake()
    except (ssl.SSLError, trio.BrokenResourceError) as error:
        raise _client_error(address, error, context) from error
    return tls


async def accept_tls(stream: trio.abc.Stream, context: ssl.SSLContext) -> tuple[TlsStream, ClientCertificate | None]:
    """Do the handshake as the server; return also the client's certificate, if it has shown one that was verified.

    Errors: `RemoteProtocolError` if the client does not speak TLS; `AuthenticationFailed` if its certificate is
        refused.
    """
    tls = TlsStream(stream, TlsLayer(context))
    try:
        await tls.do_handshake()
    except (ssl.SSLError, trio.BrokenResourceError) as error:
        raise _server_error(error, context) from error
    found = tls.layer.peer_certificate()
    return tls, ClientCertificate.from_peer(found) if found else None


def _client_error(address: PeerAddress, cause: BaseException, context: ssl.SSLContext) -> TransportError:
    """Return a client's error for a failure of TLS."""
    reason = _reason(cause)
    if isinstance(cause, ssl.SSLCertVerificationError):
        return ConnectFailed(f"the certificate of {address} is not to be trusted: {_why_not(address, cause, context)}")
    if any(each in reason for each in _NO_TLS):
        return ConnectFailed(f"{address} does not speak TLS: plain AMQP is amqp://, and TLS has a port of its own")
    if "ALERT" in reason:
        text = f"({reason.lower().replace('_', ' ')})"
        if any(each in reason for each in _ALERTS_ON_CERTIFICATES):
            give = "give it with tls=rstreams.tls.client_context(certificate=..., key=...)"
            why = out_of_date(context, "certificate", _machine.today_utc()) or give
            return AuthenticationFailed(f"{address} refused this side's certificate, or wants one {text}: {why}")
        hint = "; perhaps it wants a client certificate" if "HANDSHAKE_FAILURE" in reason else ""
        return ConnectFailed(f"{address} refused the TLS of this side {text}{hint}")
    if reason:
        return ConnectFailed(f"TLS with {address} failed ({reason.lower().replace('_', ' ')})")
    return ConnectFailed(f"{address} hung up during the TLS handshake; plain AMQP is amqp://")


def _why_not(address: PeerAddress, error: ssl.SSLCertVerificationError, context: ssl.SSLContext) -> str:
    code, told = error.verify_code, error.verify_message.rstrip(".")
    if code in _OF_DATES and (authority := out_of_date(context, "ca_file", _machine.today_utc())):
        return f"{told}; {authority}"
    if code == _EXPIRED:
        return "it has expired; its owner has to renew it"
    if code == _NOT_YET_VALID:
        return "it is not valid yet; is the clock right?"
    if code in _OTHER_NAME:
        return f"it is for another host than {address.host!r} ({told}); connect by a name that the certificate has"
    if code in _NOT_TRUSTED:
        ca = "tls=rstreams.tls.client_context(ca_file=...)"
        return f"no authority that is trusted here has signed it ({told}); name the one that has signed it with {ca}"
    return told


def _server_error(cause: BaseException, context: ssl.SSLContext) -> AuthenticationFailed | RemoteProtocolError:
    """Return a server's error for a failure of TLS."""
    reason = _reason(cause)
    if isinstance(cause, ssl.SSLCertVerificationError):
        authority = out_of_date(context, "client_ca", _machine.today_utc()) if cause.verify_code in _OF_DATES else ""
        told = cause.verify_message.rstrip(".")
        return AuthenticationFailed(f"its certificate was refused: {told}{authority and '; '}{authority}")
    if "PEER_DID_NOT_RETURN_A_CERTIFICATE" in reason:
        return AuthenticationFailed("it has shown no client certificate, and this listener wants one")
    if any(each in reason for each in _ALERTS_ON_CERTIFICATES) and "ALERT" in reason:
        why = "it must trust the authority that has signed it, and connect by a name that the certificate has"
        if "EXPIRED" in reason:
            why = "it has expired, unless one of the two clocks is wrong"
        why = out_of_date(context, "certificate", _machine.today_utc()) or why
        text = f"it refused this side's certificate ({reason.lower().replace('_', ' ')}): {why}"
    elif "ALERT" in reason:
        text = f"it refused the TLS of this side ({reason.lower().replace('_', ' ')})"
    elif any(each in reason for each in _NO_TLS):
        text = "it does not speak TLS, and this listener speaks only TLS: amqps://"
    elif reason:
        text = f"the TLS handshake failed ({reason.lower().replace('_', ' ')})"
    else:
        text = "it hung up during the TLS handshake"
    return RemoteProtocolError(Condition.CONNECTION_FRAMING_ERROR.value, text)


def _reason(cause: BaseException) -> str:
    """Return OpenSSL's word for the failure; "" if the peer just hung up."""
    if not isinstance(cause, ssl.SSLError) or isinstance(cause, ssl.SSLEOFError):
        return ""
    return cause.reason or ""
