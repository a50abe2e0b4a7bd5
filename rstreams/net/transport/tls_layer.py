"""TLS between two buffers: bytes of the network on one side, plain bytes on the other. It neither sends nor waits.

The engine knows nothing of TLS. The stream of a handshake (`tls_streams.py`) and the wire of a connection (`wire.py`)
use the same layer, one after the other.
"""

from __future__ import annotations

import ssl
from contextlib import suppress
from typing import Any


class TlsLayer:
    """One side of a TLS connection.

    Args:
        context: The trusted authorities, and the certificate to show.
        server_hostname: The name that the certificate of the server must have; None on the server's side.

    Attributes:
        context: The context.
        is_server: Which side this is.
        ended: Whether the peer sends nothing more.

    Errors: `ssl.SSLError` and `ValueError` for a context or a name that cannot be used.
    """

    def __init__(self, context: ssl.SSLContext, server_hostname: str | None = None) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(
            self._incoming, self._outgoing, server_side=server_hostname is None, server_hostname=server_hostname
        )
        self.context = context
        self.is_server = server_hostname is None
        self.ended = False
        self._failure: ssl.SSLError | None = None

    def handshake(self) -> bool:
        """Go on with the handshake; tell whether it is over. `outgoing` has the bytes to send for it.

        Errors: `ssl.SSLError`, also where the peer hung up.
        """
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        return True

    def peer_certificate(self) -> dict[str, Any] | None:
        """Return the certificate of the peer, if it has shown one that was verified."""
        return self._tls.getpeercert()

    def put(self, data: bytes | bytearray | memoryview) -> None:
        """Take bytes that came from the network; no bytes are its end."""
        if data:
            self._incoming.write(data)
        else:
            self._incoming.write_eof()

    def outgoing(self) -> bytes:
        """Return, once, the bytes that are to be sent to the peer."""
        return self._outgoing.read()

    def encrypt(self, data: bytes | bytearray | memoryview) -> bytes:
        """Return the bytes to send for `data`, behind those that were to be sent before.

        Errors: `ssl.SSLError`.
        """
        view, at = memoryview(data), 0
        while at < len(view):
            at += self._tls.write(view[at:])  # one record at a time
        return self._outgoing.read()

    def decrypt(self, room: memoryview) -> int:
        """Put plain bytes into `room`, as many as have come and fit; return how many.

        The peer's end of TLS sets `ended`. The end of the network alone also does, because AMQP has an end of its own.

        Errors: `ssl.SSLError`, once all that came before has been returned.
        """
        at, size = 0, len(room)
        while at < size and self._failure is None:
            try:
                # One record at a time. With a buffer `read` returns how many bytes it has put there.
                count: int = self._tls.read(size - at, room[at:])  # type: ignore[assignment]
            except ssl.SSLWantReadError:
                break
            except ssl.SSLEOFError:
                count = 0
            except ssl.SSLError as error:
                self._failure = error
                break
            if not count:
                self.ended = True
                break
            at += count
        if self._failure is not None and not at:
            raise self._failure
        return at

    def end(self) -> bytes:
        """Return the bytes that tell the peer that nothing more comes (RFC 8446 section 6.1)."""
        with suppress(ssl.SSLError):  # the peer has not said so yet, or TLS has failed
            self._tls.unwrap()
        return self._outgoing.read()
