"""`RSTREAMS_TRACE=frames`: the AMQP frames of a connection on standard error, as they are on the wire."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any, Final

from rstreams._codec import Described
from rstreams._codec.decode import Malformed, read_value
from rstreams.net._proton.engine import Engine

_PAYLOAD_BYTES: Final = 256
"""The most bytes that are shown of the message in a frame."""

_TYPES: Final = """
16 open container-id hostname max-frame-size channel-max idle-time-out outgoing-locales incoming-locales \
offered-capabilities desired-capabilities properties
17 begin remote-channel next-outgoing-id incoming-window outgoing-window handle-max offered-capabilities \
desired-capabilities properties
18 attach name handle role snd-settle-mode rcv-settle-mode source target unsettled incomplete-unsettled \
initial-delivery-count max-message-size offered-capabilities desired-capabilities properties
19 flow next-incoming-id incoming-window next-outgoing-id outgoing-window handle delivery-count link-credit available \
drain echo properties
20 transfer handle delivery-id delivery-tag message-format settled more rcv-settle-mode state resume aborted batchable
21 disposition role first last settled state batchable
22 detach handle closed error
23 end error
24 close error
29 error condition description info
35 received section-number section-offset
36 accepted
37 rejected error
38 released
39 modified delivery-failed undeliverable-here message-annotations
40 source address durable expiry-policy timeout dynamic dynamic-node-properties distribution-mode filter \
default-outcome outcomes capabilities
41 target address durable expiry-policy timeout dynamic dynamic-node-properties capabilities
"""
_FIELDS: Final[dict[object, tuple[str, list[str]]]] = {
    int(code): (name, fields) for code, name, *fields in map(str.split, _TYPES.strip().splitlines())
}
_CODES: Final = {f"amqp:{name}:list": code for code, (name, _) in _FIELDS.items()}


class TracedEngine(Engine):
    """An engine whose frames are shown.

    Attributes:
        hidden: Whether no frame is shown at present, because frames carry secrets.
    """

    def __init__(self, *args: Any, **options: Any) -> None:  # noqa: ANN401 - those of `Engine`
        """See `Engine`."""
        super().__init__(*args, **options)
        self.hidden = False
        self._frames = {"<-": bytearray(), "->": bytearray()}  # a frame that is not whole, at most, in each direction
        self._rooms: Sequence[memoryview] = ()
        self._rooms_of_c, self.rooms = self.rooms, self._note_rooms

    def feed_some(self, data: bytes | bytearray | memoryview, slow_frames: int) -> int:
        """See `Engine`."""
        came = bytes(data)
        taken = super().feed_some(data, slow_frames)
        self._show("<-", came[:taken])
        return taken

    def _note_rooms(self) -> Sequence[memoryview]:
        self._rooms = self._rooms_of_c()
        return self._rooms

    def take_rooms(self, came: int, data: bytes | bytearray | memoryview) -> bytes | bytearray | memoryview:
        """See `Engine`."""
        written, behind = b"".join(self._rooms), len(data)
        left = super().take_rooms(came, data)
        self._show("<-", written[: came - (len(left) - behind)])
        return left

    def output_pieces(self) -> Sequence[memoryview]:
        """See `Engine`."""
        pieces = super().output_pieces()
        self._show("->", b"".join(pieces))
        return pieces

    def _show(self, way: str, data: bytes) -> None:
        frames = self._frames[way]
        frames += data
        while len(frames) >= 8:
            size = 8 if frames.startswith(b"AMQP") else max(8, int.from_bytes(frames[:4]))
            if len(frames) < size:
                break
            frame = bytes(frames[:size])
            del frames[:size]
            # A frame of SASL may carry the password.
            if not (self.hidden or frame.startswith(b"AMQP") or frame[5] or size == 4 * frame[4]):
                sys.stderr.write(f"{way} {_told(frame)}\n")


def _told(frame: bytes) -> str:
    channel = int.from_bytes(frame[6:8])
    try:
        performative, end = read_value(frame, 4 * frame[4])
    except Malformed:
        return f"@unreadable channel={channel} {frame[8 : 8 + _PAYLOAD_BYTES]!r}"
    payload, more = frame[end : end + _PAYLOAD_BYTES], "..." * (len(frame) > end + _PAYLOAD_BYTES)
    return f"@{_shown(performative)} channel={channel}" + (
        f" {len(frame) - end} bytes {payload!r}{more}" if payload else ""
    )


def _shown(value: Any) -> str:  # noqa: ANN401 - any value of AMQP
    if not isinstance(value, Described) or not isinstance(value.value, list):
        return f'"{value}"' if isinstance(value, str) else str(value)
    code = _CODES.get(value.descriptor, value.descriptor)
    name, fields = _FIELDS.get(code, (f"described-{code}", []))
    names = [*fields, *map(str, range(len(fields), len(value.value)))]
    told = (f"{field}={_shown(each)}" for field, each in zip(names, value.value, strict=False) if each is not None)
    return f"{name} [{', '.join(told)}]"


def engine_class() -> type[Engine]:
    """Return the class of a new connection's engine: its frames are shown if that is wished."""
    return TracedEngine if os.environ.get("RSTREAMS_TRACE") == "frames" else Engine


def hide(engine: Engine, *, hidden: bool) -> None:
    """Show no frames of a connection, because they carry secrets; or show them again."""
    if isinstance(engine, TracedEngine):
        engine.hidden = hidden
