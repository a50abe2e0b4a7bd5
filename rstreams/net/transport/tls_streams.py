"""TLS for a connection: `trio.SSLStream`, and its errors in words that say what to do.

The engine does not know of TLS. In TLS 1.3, a client that the server refuses learns it only when it reads for the first
time, after its own handshake. Therefore the stream remembers how TLS failed.
"""

from __future__ import annotations

import ssl
from contextlib import suppress
from typing import Final

import trio

from rstreams.errors import (
    AuthenticationFailed,
    Condition,
    ConfigError,
    ConnectFailed,
    RemoteProtocolError,
    TransportError,
)
from rstreams.net.transport.address import PeerAddress
from rstreams.tls import ClientCertificate

# OpenSSL's codes for refused certificates (`man verify`).
_EXPIRED, _NOT_YET_VALID = 10, 9
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


class TlsStream(trio.abc.Stream):
    """A stream over TLS that remembers how TLS failed."""

    def __init__(self, stream: trio.SSLStream[trio.abc.Stream]) -> None:
        self._stream = stream
        self._failure: ssl.SSLError | None = None

    def refusal(self, address: PeerAddress) -> TransportError | None:
        """Return the meaning of the peer's alert, if TLS failed."""
        return None if self._failure is None else _client_error(address, self._failure)

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send; see `trio.abc.SendStream`."""
        await self._stream.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        """Wait for room; see `trio.abc.SendStream`."""
        await self._stream.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        """Receive; see `trio.abc.ReceiveStream`. An end without TLS's goodbye is allowed: AMQP has its own."""
        try:
            return await self._stream.receive_some(max_bytes)
        except trio.BrokenResourceError as error:
            if isinstance(error.__cause__, ssl.SSLEOFError):
                return b""
            if isinstance(error.__cause__, ssl.SSLError):
                self._failure = error.__cause__
            raise

    async def aclose(self) -> None:
        """Tell the peer that no more bytes come (RFC 8446 section 6.1), and close."""
        await self._stream.aclose()


async def start_tls(stream: trio.abc.Stream, address: PeerAddress, context: ssl.SSLContext) -> TlsStream:
    """Do the handshake as the client.

    Errors: `ConnectFailed` if the peer does not speak TLS or its certificate is not trusted; `AuthenticationFailed` if
        it wants another certificate of this side.
    """
    try:
        tls = trio.SSLStream(stream, context, server_hostname=address.host.rstrip("."))
    except (ssl.SSLError, ValueError) as error:  # a host that no certificate can be for, a context that cannot be used
        msg = f"TLS with {address} cannot be: {error}"
        raise ConfigError(msg) from error
    try:
        await tls.do_handshake()
    except trio.BrokenResourceError as error:
        await _send_alert(tls)
        raise _client_error(address, error.__cause__) from error
    return TlsStream(tls)


async def accept_tls(stream: trio.abc.Stream, context: ssl.SSLContext) -> tuple[TlsStream, ClientCertificate | None]:
    """Do the handshake as the server; return also the client's certificate, if it has shown one that was verified.

    Errors: `RemoteProtocolError` if the client does not speak TLS; `AuthenticationFailed` if its certificate is
        refused.
    """
    tls = trio.SSLStream(stream, context, server_side=True)
    try:
        await tls.do_handshake()
    except trio.BrokenResourceError as error:
        refusal = _server_error(error.__cause__)
        await _send_alert(tls, _PROTOCOL_VERSION if any(each in _reason(error.__cause__) for each in _NO_TLS) else b"")
        raise refusal from error
    found = tls.getpeercert()
    return TlsStream(tls), ClientCertificate.from_peer(found) if found else None


async def _send_alert(stream: trio.SSLStream[trio.abc.Stream], otherwise: bytes = b"") -> None:
    """Send the alert that OpenSSL has written for the peer when the handshake failed: trio (0.35) does not send it."""
    outgoing = getattr(stream, "_outgoing", None)
    alert = (outgoing.read() if isinstance(outgoing, ssl.MemoryBIO) else b"") or otherwise
    if alert:
        with suppress(trio.BrokenResourceError):
            await stream.transport_stream.send_all(alert)


def _client_error(address: PeerAddress, cause: BaseException | None) -> TransportError:
    """Return a client's error for a failure of TLS."""
    reason = _reason(cause)
    if isinstance(cause, ssl.SSLCertVerificationError):
        return ConnectFailed(f"the certificate of {address} is not to be trusted: {_why_not(address, cause)}")
    if any(each in reason for each in _NO_TLS):
        return ConnectFailed(f"{address} does not speak TLS: plain AMQP is amqp://, and TLS has a port of its own")
    if "ALERT" in reason:
        text = f"({reason.lower().replace('_', ' ')})"
        if any(each in reason for each in _ALERTS_ON_CERTIFICATES):
            return AuthenticationFailed(
                f"{address} refused this side's certificate, or wants one {text}: "
                "give it with tls=rstreams.tls.client_context(certificate=..., key=...)"
            )
        hint = "; perhaps it wants a client certificate" if "HANDSHAKE_FAILURE" in reason else ""
        return ConnectFailed(f"{address} refused TLS as this side speaks it {text}{hint}")
    if reason:
        return ConnectFailed(f"TLS with {address} failed ({reason.lower().replace('_', ' ')})")
    return ConnectFailed(f"{address} hung up during the TLS handshake; plain AMQP is amqp://")


def _why_not(address: PeerAddress, error: ssl.SSLCertVerificationError) -> str:
    code, told = error.verify_code, error.verify_message.rstrip(".")
    if code == _EXPIRED:
        return "it has expired; its owner has to renew it"
    if code == _NOT_YET_VALID:
        return "it is not valid yet; is the clock right?"
    if code in _OTHER_NAME:
        return f"it is for another host than {address.host!r} ({told}); connect by a name that stands in it"
    if code in _NOT_TRUSTED:
        ca = "tls=rstreams.tls.client_context(ca_file=...)"
        return f"no authority that is trusted here has signed it ({told}); name the one that has with {ca}"
    return told


def _server_error(cause: BaseException | None) -> AuthenticationFailed | RemoteProtocolError:
    """Return a server's error for a failure of TLS."""
    reason = _reason(cause)
    if isinstance(cause, ssl.SSLCertVerificationError):
        return AuthenticationFailed(f"its certificate was refused: {cause.verify_message.rstrip('.')}")
    if "PEER_DID_NOT_RETURN_A_CERTIFICATE" in reason:
        return AuthenticationFailed("it has shown no client certificate, and this listener wants one")
    if any(each in reason for each in _ALERTS_ON_CERTIFICATES) and "ALERT" in reason:
        text = (
            f"it refused this side's certificate ({reason.lower().replace('_', ' ')}): "
            "it must trust the authority that has signed it, and connect by a name that stands in it"
        )
    elif "ALERT" in reason:
        text = f"it refused TLS as this side speaks it ({reason.lower().replace('_', ' ')})"
    elif any(each in reason for each in _NO_TLS):
        text = "it does not speak TLS, and this listener nothing else: amqps://"
    elif reason:
        text = f"the TLS handshake failed ({reason.lower().replace('_', ' ')})"
    else:
        text = "it hung up during the TLS handshake"
    return RemoteProtocolError(Condition.CONNECTION_FRAMING_ERROR.value, text)


def _reason(cause: BaseException | None) -> str:
    """Return OpenSSL's word for the failure; "" if the peer just hung up."""
    if not isinstance(cause, ssl.SSLError) or isinstance(cause, ssl.SSLEOFError):
        return ""
    return cause.reason or ""
