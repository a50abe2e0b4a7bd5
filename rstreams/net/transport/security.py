"""SASL for the node's side, which decides about the clients that may open a connection (AMQP 1.0 part 5).

The engine speaks SASL as a client. As a server it does not know PLAIN without a further library. Therefore the listener
reads and writes the few frames before the AMQP header itself, and hands the other bytes to the engine.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, Final

import trio

from rstreams._checks.names import CertificateUsers
from rstreams._codec import Described, decode_value
from rstreams._codec.encode import encode_fields, encode_symbol_array
from rstreams._events.table import CERTIFICATE_USERS_RAISED
from rstreams.errors import AuthenticationFailed, Condition, RemoteProtocolError
from rstreams.net.transport.password_line import CheckLater
from rstreams.net.transport.passwords import PasswordHash, Passwords
from rstreams.tls import ClientCertificate

AMQP_HEADER: Final = b"AMQP\x00\x01\x00\x00"
SASL_HEADER: Final = b"AMQP\x03\x01\x00\x00"

MAX_SASL_FRAME_BYTES: Final = 512
"""The largest SASL frame that is allowed (5.3.1), and thus the most bytes that this side keeps of one."""

_MECHANISMS, _INIT, _OUTCOME = 0x40, 0x41, 0x44

_OK, _AUTH, _SYS_TEMP = 0, 1, 4  # 5.3.3.6: the last one is passing trouble; the client may try again


class Admission:
    """The clients that are let in.

    Args:
        users: For each user the password or its hash, for PLAIN; in no repr.
        certificate_users: The users of client certificates, for EXTERNAL: users by the certificate's subject, or a
            function of the certificate that returns the user, or None for a certificate without one.
    """

    def __init__(
        self,
        users: Mapping[str, str | PasswordHash] | None = None,
        certificate_users: CertificateUsers | None = None,
    ) -> None:
        self.users: Passwords | None = None
        self.renew(users, certificate_users)

    def renew(self, users: Mapping[str, str | PasswordHash] | None, certificate_users: CertificateUsers | None) -> None:
        """Let in other clients from now on. Clients that are in stay; users are still recognized by the same hash."""
        if users is None:
            self.users = None
        elif self.users is None:
            self.users = Passwords(users)
        else:
            self.users.renew(users)
        self.certificate_users = certificate_users

    def lets_in(self, user: str | None) -> bool:
        """Tell whether a client that is in as `user` would be let in now."""
        who = self.certificate_users
        if self.is_open:
            return True
        if user is None:
            return False
        if self.users is not None and user in self.users:
            return True
        return user in who.values() if isinstance(who, Mapping) else who is not None

    @property
    def is_open(self) -> bool:
        """Whether every client is let in, by ANONYMOUS or without SASL."""
        return self.users is None and self.certificate_users is None

    def mechanisms(self, certificate: ClientCertificate | None) -> list[str]:
        """Return the mechanisms offered to a client with such a certificate; at least one (5.3.3.1)."""
        offered = []
        if certificate is not None and (self.is_open or self.certificate_users is not None):
            offered.append("EXTERNAL")
        if self.users is not None:
            offered.append("PLAIN")
        if self.is_open:
            offered.append("ANONYMOUS")
        return offered or ["EXTERNAL"]

    def user_of(self, certificate: ClientCertificate) -> str | None:
        """Return the user of a certificate; None if it has none."""
        who = self.certificate_users
        if who is None:
            return certificate.name
        if isinstance(who, Mapping):
            return who.get(certificate.subject)
        try:
            user = who(certificate)
        except Exception as error:
            CERTIFICATE_USERS_RAISED.tell(raised=error, subject=certificate.subject)
            return None
        return user if isinstance(user, str) else None


async def authenticate(
    stream: trio.abc.Stream, admission: Admission, certificate: ClientCertificate | None = None, origin: str = ""
) -> tuple[str | None, bytes]:
    """Let a client in, or raise.

    Args:
        stream: The connection, nothing of it read yet.
        admission: The clients that are let in.
        certificate: The client's certificate, if TLS has verified one.
        origin: Where the client comes from: addresses have turns.

    Returns:
        The user (None: anonymous) and the bytes that came behind, for the engine.

    Errors: `RemoteProtocolError` if the bytes are not AMQP; `AuthenticationFailed` if the credentials are wrong;
        `CheckLater` if they cannot be checked now. The client has then been answered as the specification asks. No
        error carries a password.
    Cancels: The client has got the bytes that were sent so far.
    """
    reader = _Reader(stream)
    header = await reader.take(8)
    if header == AMQP_HEADER and admission.is_open:
        return None, header + reader.rest
    await stream.send_all(SASL_HEADER)
    if header != SASL_HEADER:
        raise RemoteProtocolError(Condition.CONNECTION_FRAMING_ERROR.value, _no_sasl(header))
    offered = admission.mechanisms(certificate)
    await stream.send_all(_frame(_MECHANISMS, encode_fields([encode_symbol_array(offered)])))
    init = await reader.sasl_init()
    try:
        user, refusal = await _check(init, offered, admission, certificate, origin)
    except CheckLater:
        await stream.send_all(_outcome_frame(_SYS_TEMP))
        raise
    await stream.send_all(_outcome_frame(_OK if refusal is None else _AUTH))
    if refusal is not None:
        raise AuthenticationFailed(refusal)
    if await reader.take(8) != AMQP_HEADER:
        text = "no AMQP header came after SASL"
        raise RemoteProtocolError(Condition.CONNECTION_FRAMING_ERROR.value, text)
    return user, AMQP_HEADER + reader.rest


def _no_sasl(header: bytes) -> str:
    """Return a text that describes the bytes that a client sent instead of a SASL header."""
    if header == AMQP_HEADER:
        return "the client skipped SASL"
    if header[:2] == b"\x16\x03":
        return "the client sent TLS, which this listener does not speak, and no AMQP header: listen(tls=...)"
    return f"the client sent no AMQP header: {header!r}"


async def _check(
    init: list[Any], offered: list[str], admission: Admission, certificate: ClientCertificate | None, origin: str
) -> tuple[str | None, str | None]:
    """Return the user of a sasl-init, and the reason of a refusal; None if it is not refused."""
    chosen, response = [*init, None, None][:2]
    if str(chosen) not in offered:
        return None, f"the client was refused: it chose no mechanism of {', '.join(offered)}"
    if chosen == "EXTERNAL":
        return _check_external(response, admission, certificate)
    if chosen == "ANONYMOUS" or admission.users is None:
        return None, None
    # RFC 4616: [authzid] NUL authcid NUL passwd
    parts = response.split(b"\x00") if isinstance(response, bytes) else []
    if len(parts) != 3:
        return None, "the client was refused: it sent no user and password"
    user = parts[1].decode("utf-8", "replace")
    if parts[0] not in {b"", parts[1]}:
        return None, f"user {user!r} was refused: it may not act for another user"
    return user, None if await admission.users.check(user, parts[2], origin) else f"user {user!r} was refused"


def _check_external(
    response: object, admission: Admission, certificate: ClientCertificate | None
) -> tuple[str | None, str | None]:
    """Check EXTERNAL (RFC 4422 A): the certificate names the client; a response names a user for whom it acts."""
    if certificate is None:
        return None, "the client was refused: it has shown no certificate"
    user = admission.user_of(certificate)
    if not user:
        return None, f"the certificate of {certificate.subject!r} was refused: its owner is not a user here"
    if response and response != user.encode():
        return None, f"user {user!r} was refused: it may not act for another user"
    return user, None


class _Reader:
    """Takes exact numbers of bytes from a stream."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream
        self.rest = b""

    async def take(self, size: int) -> bytes:
        while len(self.rest) < size:
            data = await self._stream.receive_some(4096)
            if not data:
                text = "the client hung up before it had said who it is"
                raise RemoteProtocolError(Condition.CONNECTION_FRAMING_ERROR.value, text)
            self.rest += data
        taken, self.rest = self.rest[:size], self.rest[size:]
        return taken

    async def sasl_init(self) -> list[Any]:
        size, offset, kind, _ = struct.unpack(">IBBH", await self.take(8))
        if kind != 1 or offset < 2 or not 4 * offset <= size <= MAX_SASL_FRAME_BYTES:
            text = f"the client sent no SASL frame of at most {MAX_SASL_FRAME_BYTES} bytes"
            raise RemoteProtocolError(Condition.CONNECTION_FRAMING_ERROR.value, text)
        body = (await self.take(size - 8))[4 * offset - 8 :]
        value = decode_value(body)
        if not isinstance(value, Described) or value.descriptor not in (_INIT, "amqp:sasl-init:list"):
            text = "the SASL frame is not a sasl-init"
            raise RemoteProtocolError(Condition.CONNECTION_FRAMING_ERROR.value, text)
        return list(value.value) if isinstance(value.value, list) else []


def _outcome_frame(code: int) -> bytes:
    # A list of one ubyte, a width that encode_value does not write.
    return _frame(_OUTCOME, b"\xc0\x03\x01\x50" + bytes([code]))


def _frame(code: int, fields: bytes) -> bytes:
    body = b"\x00\x53" + bytes([code]) + fields
    return struct.pack(">IBBH", 8 + len(body), 2, 1, 0) + body
