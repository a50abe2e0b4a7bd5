"""The peer's frames, read one by one before the engine gets them.

Theory of operation. The engine ignores frames that it does not know, and some that are not allowed. It keeps neither a
flow's `echo` nor a transfer's `message-format`. Therefore the frames are walked over on their way to the engine.

    transfers, dispositions    nearly all frames; they are read in C. Transfers go to the engine without their payloads
    flows                      are read and corrected by `incoming_flows`
    any other frame            is read; then it goes on as it is, or it goes on and a corrected one follows, or it ends
                               the session or the connection

Sometimes only the engine knows which link or session a frame means. Then the frame is given to the engine alone, and
the event that the engine makes of it tells.

Some bytes pass unread, because the engine reports the errors in them:

- the headers and the client's SASL frames, which come before the AMQP frames
- everything behind a `close`, or behind a frame that has a size no frame can have
- fields that cannot be decoded

Spec: AMQP 1.0 sections 2.3 (framing), 2.6.7 (flow control), 2.7 (performatives).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final

from cproton_ffi import lib

from rstreams._codec.encode import encode_string
from rstreams._codec.types import UShort
from rstreams.errors import Condition
from rstreams.net._proton.engine_events import EngineEvents
from rstreams.net._proton.frame_fields import (
    ATTACH,
    BEGIN,
    CLOSE,
    DETACH,
    DISPOSITION,
    END,
    FLOW,
    NAMES,
    OPEN,
    TRANSFER,
    Malformed,
    encoded_fields_of,
    fields_of,
    has_nul,
    performative_of,
    require_uint,
    with_name,
    with_numbered_types,
)
from rstreams.net._proton.host_connection import HostConnection
from rstreams.net._proton.incoming_flows import Bytes, Channel, IncomingFlows, ToEngine
from rstreams.net._proton.pointers import Pointer
from rstreams.net._proton.receiving_driver import ReceivingDriver
from rstreams.net._proton.session_windows import window_of

SLOW_FRAMES: Final = 8
"""The most frames beginning or ending a link or a session that are read before others have their turn: some 2 ms."""

READ_BYTES: Final = 16 * 1024
"""With as many unread bytes of an unfinished message, nothing more is read until the links have had a turn."""

_AMQP_HEADER: Final = b"AMQP\x00\x01\x00\x00"
_HAVE_TYPES: Final = frozenset((ATTACH, DISPOSITION, DETACH, END, CLOSE))
_SLOW: Final = frozenset((BEGIN, ATTACH, DETACH, END))

_read_u16: Final[Callable[[Bytes, int], tuple[int]]] = struct.Struct(">H").unpack_from
_read_u32: Final[Callable[[Bytes, int], tuple[int]]] = struct.Struct(">I").unpack_from


class IncomingFrames:
    """The frames that come on one connection.

    Attributes:
        is_full: Whether the engine has much of a message that has not come whole, and the links have not read since. It
            keeps the buffer of a delivery as large as it once was.
        since_turn: The bytes that came since then.

    Context: Only the task that owns the connection.
    """

    def __init__(self, events: EngineEvents, host: HostConnection) -> None:
        """Expect the peer's first byte."""
        self._events = events
        self._loops = host.loops
        self._names = host.names
        self._most = host.limits.max_frame_bytes
        self._engine = ToEngine(events, host.loops)
        self._push = self._engine.push
        self._header = b""  # the bytes that have come of a protocol header, or of a SASL frame's header
        self._skipped = 0  # bytes still to come of a frame that is passed over
        self._in_frames = False  # behind the AMQP header
        self._held = b""  # the beginning of a frame, which has not been given to the engine yet
        self._passes_all = False  # all further bytes go to the engine unread
        self._refused = False
        self._opened = False
        self._channels: dict[int, Channel] = {}
        self.is_full = False
        self.since_turn = 0
        self._flows = IncomingFlows(events, host, self._engine)

    def feed(self, data: Bytes, slow_frames: int = SLOW_FRAMES, *, waits: bool = False) -> int:
        """Read bytes that have come, and give them to the engine.

        Args:
            data: The bytes.
            slow_frames: The most frames that begin or end a link or a session; others are to have their turn then.
            waits: Whether nothing is read while the engine is full.

        Returns:
            How many bytes were read.
        """
        size = len(data)
        if self.is_full and waits:
            return 0
        if self._refused:
            return size
        if not self._in_frames:
            at = self._find_frames(data)
            self._push(memoryview(data)[:at])
            data = memoryview(data)[at:]
        if self._held:
            data = self._held + bytes(data)
            self._held = b""
        if len(data) and self._in_frames:
            size -= self._feed_frames(memoryview(data), slow_frames)
            self.since_turn += size
            if self.since_turn >= READ_BYTES:
                self.is_full = self._has_much_unread()
        return size

    def end(self) -> None:
        """Give the engine the incomplete last frame, because nothing more comes: the engine reports it."""
        if not self._refused:
            self._loops.end_frames()
            self._push(self._held)
            self._held = b""

    # from bytes to frames

    def _find_frames(self, data: Bytes) -> int:
        """Return where the AMQP frames begin, or the end of the data."""
        at = 0
        while at < len(data):
            if self._skipped:
                step = min(self._skipped, len(data) - at)
                self._skipped -= step
                at += step
                continue
            head = self._header + bytes(data[at : at + 8 - len(self._header)])
            at += len(head) - len(self._header)
            self._header = head
            if len(head) < 8:
                break
            self._header = b""
            if head == _AMQP_HEADER:
                self._in_frames = True
                break
            if not head.startswith(b"AMQP"):  # a SASL frame, or something that the engine will refuse
                self._skipped = max(0, _read_u32(head, 0)[0] - 8)
        return at

    def _feed_frames(self, view: memoryview, slow_frames: int) -> int:
        """Give the engine frames; return how many bytes are left for the next time."""
        at, told, slow, size = 0, 0, 0, len(view)
        take: Callable[[Bytes, int, int], tuple[int, int]] = self._loops.take
        while not self._passes_all:
            at, told = take(view, at, self._most)
            if told <= 0 or at + told > size:
                self._passes_all = told < 0
                break
            frame = bytes(view[at : at + told])
            self._take(frame)
            if self._refused:
                return 0
            at += told
            slow += _is_slow(frame)
            if slow == slow_frames and not self._passes_all:
                return size - at
        if self._passes_all:
            self._push(view[at:])
        else:
            self._held = bytes(view[at:])
        return 0

    def _has_much_unread(self) -> bool:
        return any(
            lib.pn_session_incoming_bytes(each.session) >= READ_BYTES and any(map(_is_long, each.senders.values()))
            for each in self._channels.values()
        )

    def _refuse(self, condition: Condition, text: str) -> bool:
        """End the connection because of a frame, after everything before it: an error in that comes first."""
        self._refused = True
        self._events.refuse_peer(condition.value, text)
        return True

    def _break(self, channel: int, condition: Condition, text: str) -> bool:
        """End a session because of a frame, after everything before it; pass over what comes in the session."""
        known = self._channels[channel]
        known.is_broken = True
        for handle in known.senders:
            self._loops.expect(channel, handle, None)
        self._flows.forget(channel)
        self._events.break_session(known.session, condition.value, text)
        return True

    # frame by frame

    def _take(self, frame: bytes) -> bool:
        """Read a frame, and give it to the engine, or refuse it; tell whether it did, which is always."""
        if frame[5]:
            text = f"it sent a frame of type {frame[5]}; an AMQP frame has type 0"
            return self._refuse(Condition.CONNECTION_FRAMING_ERROR, text)
        try:
            code, plain = performative_of(frame)
        except Malformed:
            text = "it sent a frame whose performative cannot be decoded"
            return self._refuse(Condition.DECODE_ERROR, text)
        if not OPEN <= code <= CLOSE:
            text = f"it sent a frame whose performative is 0x{code:x}; AMQP 1.0 has 0x10 to 0x18"
            return self._refuse(Condition.NOT_IMPLEMENTED, text)
        if code != OPEN and not self._opened:
            text = f"it sent {NAMES[code - OPEN]} before open"
            return self._refuse(Condition.ILLEGAL_STATE, text)
        try:
            if code in _HAVE_TYPES:
                plain = with_numbered_types(plain, code)
            taken = _TAKERS[code](self, plain, _read_u16(plain, 6)[0])
        except Malformed:  # the engine would read as much of it as it can, and have a link that nobody here knows
            text = f"it sent {NAMES[code - OPEN]} with fields that cannot be decoded"
            return self._refuse(Condition.DECODE_ERROR, text)
        if not taken:
            self._push(plain)
        return True

    def _take_open(self, frame: bytes, _channel: int) -> bool:
        if self._opened:
            return self._refuse(Condition.ILLEGAL_STATE, "it sent open twice")
        if any(map(has_nul, encoded_fields_of(frame)[:1])):
            return self._refuse(Condition.INVALID_FIELD, "it sent open with a NUL in its container-id")
        self._opened = True
        return False

    def _take_begin(self, frame: bytes, channel: int) -> bool:
        (ours,) = fields_of(frame, 1)
        if ours is not None and type(ours) is not UShort:
            raise ValueError
        if channel in self._channels:
            text = f"it sent begin on channel {channel}, where it has a session already"
            return self._refuse(Condition.ILLEGAL_STATE, text)
        if ours is not None and any(each.ours == ours for each in self._channels.values()):
            return self._refuse(Condition.ILLEGAL_STATE, f"it answered the begin on channel {ours} twice")
        event = self._engine.push_alone(frame, lib.PN_SESSION_INIT, lib.PN_SESSION_REMOTE_OPEN)
        if event:
            known = self._channels[channel] = Channel(lib.pn_event_session(event), ours)
            self._loops.begin_session(channel)
            self._events.note_window(known.session, window_of(known.session))
        return True

    def _take_attach(self, frame: bytes, channel: int) -> bool:
        _, handle, receives = fields_of(frame, 3)
        known, handle = self._channels.get(channel), require_uint(handle)
        if known is not None:
            name, *fields = encoded_fields_of(frame)
            if any(map(has_nul, fields[4:6])):
                return self._refuse(Condition.INVALID_FIELD, "it sent attach with a NUL in an address")
            if known.is_broken:
                return True
            if handle in known.handles:
                text = f"it attached a link with handle {handle} on channel {channel}, which another link has"
                return self._break(channel, Condition.SESSION_HANDLE_IN_USE, text)
            known.handles[handle] = receives is not True
            known.unused = max(known.unused, handle + 1)
            own = self._names.come(known.session, name, sends=receives is True)
            frame = with_name(frame, encode_string(own.decode()))
            if receives is True:
                self._push(frame)
            else:
                event = self._engine.push_alone(frame, lib.PN_LINK_INIT, lib.PN_LINK_REMOTE_OPEN)
                if event:
                    link = known.senders[handle] = lib.pn_event_link(event)
                    self._expect(channel, handle, link)
        return known is not None

    def _expect(self, channel: int, handle: int, link: Pointer) -> None:
        """Let the messages that come on a link be found by its handle."""
        self._events.note()  # which makes the driver of the link, if the peer has attached it
        driver = self._events.links.of(link)
        if isinstance(driver, ReceivingDriver):
            self._loops.expect(channel, handle, driver.arrivals)

    def _take_flow(self, frame: bytes, channel: int) -> bool:
        known = self._channels.get(channel)
        if known is None or known.is_broken:
            return known is not None
        if not self._flows.take(frame, channel, known):
            text = f"it sent flow with handle {fields_of(frame, 5)[4]} on channel {channel}, which no link has had"
            return self._break(channel, Condition.SESSION_UNATTACHED_HANDLE, text)
        return True

    def _take_transfer(self, frame: bytes, channel: int) -> bool:
        known = self._channels.get(channel)
        if known is None or known.is_broken:
            return known is not None
        handle = require_uint(fields_of(frame, 1)[0])
        if handle not in known.handles:
            text = f"it sent transfer with handle {handle} on channel {channel}, which no link has"
            return self._break(channel, Condition.SESSION_UNATTACHED_HANDLE, text)
        if not known.handles[handle]:
            text = f"it sent transfer with handle {handle} on channel {channel}, on whose link it is the receiver"
            return self._break(channel, Condition.NOT_ALLOWED, text)
        at, told = self._loops.take(frame, 0, self._most)
        if self._loops.is_out_of_order():
            text = f"it sent transfer with another delivery-id than was due on channel {channel}"
            return self._break(channel, Condition.INVALID_FIELD, text)
        if told or at < len(frame):
            raise ValueError
        return True

    def _take_detach(self, frame: bytes, channel: int) -> bool:
        known, handle = self._channels.get(channel), require_uint(fields_of(frame, 1)[0])
        if known is None or known.is_broken:
            return known is not None
        if known.handles.pop(handle, None) is None:
            text = f"it sent detach with handle {handle} on channel {channel}, which no link has"
            return self._break(channel, Condition.SESSION_UNATTACHED_HANDLE, text)
        known.receivers.pop(handle, None)
        if known.senders.pop(handle, None) is not None:
            self._loops.expect(channel, handle, None)
        self._flows.forget(channel, handle)
        return False

    def _take_end(self, _frame: bytes, channel: int) -> bool:
        known = self._channels.pop(channel, None)
        for handle in () if known is None else known.senders:
            self._loops.expect(channel, handle, None)
        self._flows.forget(channel)
        return False

    def _take_close(self, _frame: bytes, _channel: int) -> bool:
        self._passes_all = True
        return False

    def _take_disposition(self, _frame: bytes, _channel: int) -> bool:
        return False


_TAKERS: Final[dict[int, Callable[[IncomingFrames, bytes, int], bool]]] = {
    OPEN: IncomingFrames._take_open,
    BEGIN: IncomingFrames._take_begin,
    ATTACH: IncomingFrames._take_attach,
    FLOW: IncomingFrames._take_flow,
    TRANSFER: IncomingFrames._take_transfer,
    DISPOSITION: IncomingFrames._take_disposition,
    DETACH: IncomingFrames._take_detach,
    END: IncomingFrames._take_end,
    CLOSE: IncomingFrames._take_close,
}


def _is_long(link: Pointer) -> bool:
    """Tell whether much of a link's next delivery is unread, and the delivery has not come whole."""
    delivery = lib.pn_link_current(link)
    return bool(delivery) and lib.pn_delivery_partial(delivery) and lib.pn_delivery_pending(delivery) >= READ_BYTES


def _is_slow(frame: bytes) -> bool:
    """Tell whether a frame begins or ends a link or a session, if its performative is written in the shortest way."""
    at = 4 * frame[4]
    return frame[at + 1] == 0x53 and frame[at + 2] in _SLOW if at + 2 < len(frame) else False
