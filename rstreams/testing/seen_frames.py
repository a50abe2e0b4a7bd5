"""The frames that go through a `FaultyNetwork`, found in the bytes without taking part in the protocol.

A frame is recognized by its first bytes: its size, its kind and the descriptor of its performative. No part of it is
kept or changed. Bytes that do not begin as AMQP, of TLS or any other protocol, are `data`, run by run as they come.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias, get_args

from rstreams._codec.decode import Malformed, read_value
from rstreams._codec.types import Described

__all__ = ["Performative", "SeenFrame"]

Performative: TypeAlias = Literal[
    "sasl_header",
    "tls_header",
    "amqp_header",
    "sasl_mechanisms",
    "sasl_init",
    "sasl_challenge",
    "sasl_response",
    "sasl_outcome",
    "open",
    "begin",
    "attach",
    "flow",
    "transfer",
    "disposition",
    "detach",
    "end",
    "close",
    "heartbeat",
    "unknown",
    "data",
]
"""The kinds of frames; `heartbeat` is an empty frame, `data` a run of bytes that are not AMQP."""

PERFORMATIVES: Final[tuple[Performative, ...]] = get_args(Performative)

SEEN_BYTES: Final = 4096
"""The most bytes of a frame that a predicate gets."""

_HEADERS: Final[dict[int, Performative]] = {0: "amqp_header", 2: "tls_header", 3: "sasl_header"}
_HEADER: Final = b"AMQP"

# AMQP 1.0 sections 2.7 and 5.3.3: the descriptors of frames, 0x10 to 0x18 and 0x40 to 0x44.
_FRAMES: Final[dict[int, Performative]] = {
    **dict(enumerate(PERFORMATIVES[PERFORMATIVES.index("open") : PERFORMATIVES.index("heartbeat")], 0x10)),
    **dict(enumerate(PERFORMATIVES[PERFORMATIVES.index("sasl_mechanisms") : PERFORMATIVES.index("open")], 0x40)),
}


@dataclass(frozen=True, slots=True)
class SeenFrame:
    """A frame, or a protocol header, on its way through a `FaultyNetwork`.

    Attributes:
        performative: Its kind: `attach`, `transfer`, `sasl_header`; `data` for bytes that are not AMQP.
        channel: The channel of its session.
        size_bytes: Its whole size.
        data: Its first bytes, at most 4096.
    """

    performative: Performative
    channel: int
    size_bytes: int
    data: bytes = field(repr=False)

    @property
    def fields(self) -> list[Any]:
        """Return the performative's fields in AMQP's order, decoded; those at the end that are null may be missing.

        The list is empty for a frame without fields, and for a performative longer than `data`.
        """
        if self.performative in ("data", *_HEADERS.values()):
            return []
        try:
            value, _ = read_value(self.data, 4 * self.data[4])
        except Malformed:
            return []
        return list(value.value) if isinstance(value, Described) and isinstance(value.value, list) else []


def is_amqp(start: bytes) -> bool:
    """Tell whether a stream that begins so can be AMQP."""
    return _HEADER.startswith(start[: len(_HEADER)])


def read_frame(start: bytes, look_at: int = 0) -> SeenFrame | None:
    """Return the frame at the beginning of `start`; None if more bytes are needed to recognize it.

    Args:
        start: Bytes of an AMQP stream from the beginning of a frame.
        look_at: How many of the frame's bytes are wanted in `data`, if it has so many.

    Errors: `ValueError` for bytes that cannot be a frame.
    """
    if len(start) < 8:
        return None
    if start.startswith(_HEADER):
        return SeenFrame(_HEADERS.get(start[4], "unknown"), 0, 8, start[:8])
    size, offset, kind, channel = struct.unpack_from(">IBBH", start)
    at = 4 * offset
    if not 8 <= at <= size or kind > 1:
        msg = "the bytes are not a frame"
        raise ValueError(msg)
    if len(start) < min(max(at + 11, look_at), size):
        return None
    performative: Performative = "heartbeat" if at == size else _performative(start, at)
    return SeenFrame(performative, channel, size, start[: min(size, SEEN_BYTES)])


def _performative(start: bytes, at: int) -> Performative:
    constructor = start[at : at + 2]
    if constructor == b"\x00\x53" and len(start) > at + 2:
        return _FRAMES.get(start[at + 2], "unknown")
    if constructor == b"\x00\x80" and len(start) >= at + 10:
        return _FRAMES.get(int.from_bytes(start[at + 2 : at + 10]), "unknown")
    return "unknown"
