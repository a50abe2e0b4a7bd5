"""SASL for the node's side: who may open a connection (AMQP 1.0 part 5).

The engine speaks SASL as a client; as a server, without a further library, it knows no PLAIN. So the listener does the
few frames before the AMQP header itself and hands the rest of the bytes to the engine.
"""

from __future__ import annotations

import hmac
import struct
from collections.abc import Mapping
from typing import Any, Final

import trio

from rstreams._codec import Described, Symbol, decode_value, encode_value
from rstreams.errors import AuthenticationFailed, Condition, RemoteProtocolError

AMQP_HEADER: Final = b"AMQP\x00\x01\x00\x00"
SASL_HEADER: Final = b"AMQP\x03\x01\x00\x00"

MAX_SASL_FRAME_BYTES: Final = 512
"""The largest SASL frame there may be (5.3.1): what a stranger can make this side keep."""

_MECHANISMS, _INIT, _OUTCOME = 0x40, 0x41, 0x44


async def authenticate(stream: trio.abc.Stream, users: Mapping[str, str] | None) -> tuple[str | None, bytes]:
    """Let a client in, or raise.

    Args:
        stream: The connection, nothing of it read yet.
        users: Passwords by user, for SASL PLAIN; None lets everyone in by ANONYMOUS, or without SASL.

    Returns:
        The user (None: anonymous) and the bytes that came behind, for the engine.

    Errors: `RemoteProtocolError` if what comes is not AMQP; `AuthenticationFailed` if the credentials are wrong; in
        both cases the client has been answered as the specification asks. No error carries a password.
    Cancels: The client has got what was sent so far.
    """
    reader = _Reader(stream)
    header = await reader.take(8)
    if header == AMQP_HEADER and users is None:
        return None, header + reader.rest
    await stream.send_all(SASL_HEADER)
    if header != SASL_HEADER:
        text = "the client skipped SASL" if header == AMQP_HEADER else f"what came is no AMQP header: {header!r}"
        raise RemoteProtocolError(Condition.CONNECTION_FRAMING_ERROR.value, text)
    mechanism = "ANONYMOUS" if users is None else "PLAIN"
    await stream.send_all(_mechanisms_frame(mechanism))
    user, accepted = _check(await reader.sasl_init(), mechanism, users)
    await stream.send_all(_outcome_frame(accepted=accepted))
    if not accepted:
        raise AuthenticationFailed(f"user {user!r} was refused" if user else "the client was refused")
    if await reader.take(8) != AMQP_HEADER:
        text = "no AMQP header came after SASL"
        raise RemoteProtocolError(Condition.CONNECTION_FRAMING_ERROR.value, text)
    return user, AMQP_HEADER + reader.rest


def _check(init: list[Any], mechanism: str, users: Mapping[str, str] | None) -> tuple[str | None, bool]:
    """Return who a sasl-init says it is, and whether that is so."""
    chosen, response = [*init, None, None][:2]
    if str(chosen) != mechanism:
        return None, False
    if users is None:
        return None, True
    # RFC 4616: [authzid] NUL authcid NUL passwd
    parts = response.split(b"\x00") if isinstance(response, bytes) else []
    if len(parts) != 3:
        return None, False
    user = parts[1].decode("utf-8", "replace")
    password = users.get(user)
    # Compared even if there is no such user, so that the time taken does not tell.
    right = hmac.compare_digest(parts[2], ("" if password is None else password).encode())
    return user, right and password is not None


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
            text = f"what came is no SASL frame of at most {MAX_SASL_FRAME_BYTES} bytes"
            raise RemoteProtocolError(Condition.CONNECTION_FRAMING_ERROR.value, text)
        body = (await self.take(size - 8))[4 * offset - 8 :]
        value = decode_value(body)
        if not isinstance(value, Described) or value.descriptor not in (_INIT, "amqp:sasl-init:list"):
            text = "the SASL frame is no sasl-init"
            raise RemoteProtocolError(Condition.CONNECTION_FRAMING_ERROR.value, text)
        return list(value.value) if isinstance(value.value, list) else []


def _mechanisms_frame(mechanism: str) -> bytes:
    return _frame(_MECHANISMS, encode_value([Symbol(mechanism)]))


def _outcome_frame(*, accepted: bool) -> bytes:
    # A list of one ubyte, a width that encode_value does not write.
    return _frame(_OUTCOME, b"\xc0\x03\x01\x50" + (b"\x00" if accepted else b"\x01"))


def _frame(code: int, fields: bytes) -> bytes:
    body = b"\x00\x53" + bytes([code]) + fields
    return struct.pack(">IBBH", 8 + len(body), 2, 1, 0) + body
