"""A client that means harm, written frame by frame: no engine of its own bounds what it says."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Final, Self

from rstreams._codec.encode import NULL, encode_fields, encode_sized, encode_string, encode_uint

MOST_CREDIT: Final = 2**31 - 1
LIMIT: Final = b"amqp:resource-limit-exceeded"
ATTACH: Final = b"\x00\x53\x12"
TRANSFER: Final = b"\x00\x53\x14"

_HEADER: Final = b"AMQP\x00\x01\x00\x00"
_TRUE, _FALSE = b"\x41", b"\x42"


def frame(code: int, *fields: bytes, payload: bytes = b"") -> bytes:
    """Return a frame on channel 0, its fields encoded already."""
    body = b"\x00\x53" + bytes([code]) + encode_fields(fields) + payload
    return struct.pack(">IBBH", 8 + len(body), 2, 0, 0) + body


def opening() -> bytes:
    """Return what opens a connection and one session."""
    window = encode_uint(2**31 - 1)
    return _HEADER + frame(0x10, encode_string("hostile")) + frame(0x11, NULL, encode_uint(0), window, window)


def attach(handle: int, *, receives: str | None = None, sends: str | None = None, settled: bool = False) -> bytes:
    """Return the attach of a link that receives from one address, or sends to one."""
    return frame(
        0x12,
        encode_string(f"link {handle}"),
        encode_uint(handle),
        _FALSE if receives is None else _TRUE,
        b"\x50\x01" if settled else NULL,
        NULL,
        b"\x00\x53\x28" + encode_fields([NULL if receives is None else encode_string(receives)]),
        b"\x00\x53\x29" + encode_fields([NULL if sends is None else encode_string(sends)]),
        NULL,
        NULL,
        encode_uint(0) if receives is None else NULL,
    )


def grant(handle: int, credit: int = MOST_CREDIT, *, drain: bool = False) -> bytes:
    """Return the flow that grants a link credit, before anything has come on it."""
    window, none = encode_uint(2**31 - 1), encode_uint(0)
    return frame(
        0x13,
        none,
        window,
        none,
        window,
        encode_uint(handle),
        none,
        encode_uint(credit),
        NULL,
        _TRUE if drain else _FALSE,
    )


def detach(handle: int) -> bytes:
    """Return the frame that ends a link."""
    return frame(0x16, encode_uint(handle), _TRUE)


def close() -> bytes:
    """Return the frame that ends a connection."""
    return frame(0x18)


def parts(handle: int, number: int, size: int, frame_bytes: int = 65_000) -> Iterable[bytes]:
    """Return the frames of a message that never comes to its end: so many bytes of it."""
    tag = encode_sized(0xA0, 0xB0, struct.pack(">I", number), "tag")
    payload = bytes(frame_bytes)
    begin = (encode_uint(handle), encode_uint(number), tag, encode_uint(0), _FALSE, _TRUE)
    yield frame(0x14, *begin, payload=payload[: min(size, frame_bytes)])
    again = frame(0x14, encode_uint(handle), *[NULL] * 4, _TRUE, payload=payload)
    for _ in range(frame_bytes, size, frame_bytes):
        yield again


class HostileClient:
    """A connection that takes in everything and answers nothing.

    Attributes:
        received: The bytes that have come.
        transfers: The frames with transfers that have come.
        replies: The links that the node has attached, or refused.
        refusals: The links that it has ended because of a limit.
        closed: Whether the node has closed the connection.
    """

    def __init__(self, port: int, *, reads: bool = True, waits: bool = True) -> None:
        """Connect to a port of 127.0.0.1.

        Args:
            port: The port.
            reads: Whether it reads what comes; otherwise that stays in the kernel.
            waits: Whether it waits until it is connected, and until its bytes have gone.
        """
        self.received = self.transfers = self.replies = self.refusals = 0
        self.last = b""
        self.closed = threading.Event()
        self._socket = socket.socket()
        self._socket.setblocking(waits)
        with suppress(BlockingIOError):
            self._socket.connect(("127.0.0.1", port))
        self._reader = threading.Thread(target=self._read, daemon=True) if reads else None
        if self._reader is not None:
            self._reader.start()

    def __enter__(self) -> Self:
        """Use it for the length of a block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Hang up, without a word."""
        self.close()

    def send(self, *data: bytes) -> None:
        """Send frames; what the node does not want to hear any more is not its own fault."""
        with suppress(OSError):
            self._socket.sendall(b"".join(data))

    def hear(self) -> bytes:
        """Return what comes next, where nothing else reads."""
        return self._socket.recv(65536)

    def shut(self) -> None:
        """Send nothing more, without a word; the socket stays."""
        self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Hang up, without a word."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        if self._reader is not None:
            self._reader.join()
        self._socket.close()

    def _read(self) -> None:
        with suppress(OSError):
            while data := self._socket.recv(1 << 20):
                self.received += len(data)
                self.transfers += data.count(TRANSFER)
                self.replies += data.count(ATTACH)
                self.refusals += data.count(LIMIT)
                self.last = (self.last + data)[-4096:]
        self.closed.set()


def hang_up(clients: Sequence[HostileClient]) -> None:
    """Close all of them."""
    for client in clients:
        client.close()
