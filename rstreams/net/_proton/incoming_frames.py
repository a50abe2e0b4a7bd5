"""The peer's frames, read one by one before the engine gets them.

Theory of operation. The engine ignores frames that it does not know, and some that are not allowed. It keeps neither a
flow's `echo` nor a transfer's `message-format`. Therefore the frames are walked over on their way to the engine.

    transfers, dispositions    nearly all frames; they are passed over and not copied (`frame_walk`)
    large transfers            go to the engine without their payload (`incoming_parts`)
    flows                      are read and corrected by `incoming_flows`
    any other frame            is read; then it goes on as it is, or it goes on and a corrected one follows, or it ends
                               the connection

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
from collections.abc import Callable, Sequence
from typing import Final

from cproton_ffi import lib

from rstreams.errors import Condition
from rstreams.net._proton.arriving_body import ArrivingBody
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
    fields_of,
    number_of,
    performative_of,
)
from rstreams.net._proton.frame_listener import Channel, FrameListener
from rstreams.net._proton.host_connection import HostConnection
from rstreams.net._proton.incoming_flows import Bytes, IncomingFlows
from rstreams.net._proton.incoming_parts import HEAD_BYTES, LARGE_FRAME_BYTES, IncomingPart, LargeHeads
from rstreams.net._proton.incoming_rooms import IncomingRooms
from rstreams.net._proton.parts import READ_BYTES
from rstreams.net._proton.pointers import Pointer
from rstreams.net._proton.receiving_driver import ReceivingDriver

SLOW_FRAMES: Final = 8
"""The most frames beginning or ending a link or a session that are read before others have their turn: some 2 ms."""

_AMQP_HEADER: Final = b"AMQP\x00\x01\x00\x00"
_PASSING: Final = 1 << (TRANSFER - OPEN) | 1 << (DISPOSITION - OPEN)
_SLOW: Final = frozenset((BEGIN, ATTACH, DETACH, END))

_read_u16: Final[Callable[[Bytes, int], tuple[int]]] = struct.Struct(">H").unpack_from
_read_u32: Final[Callable[[Bytes, int], tuple[int]]] = struct.Struct(">I").unpack_from


class IncomingFrames:
    """The frames that come on one connection.

    Context: Only the task that owns the connection.
    """

    def __init__(self, listener: FrameListener, host: HostConnection, transport: Pointer, collector: Pointer) -> None:
        """Expect the peer's first byte.

        Args:
            listener: The connection.
            host: The connection as its links see it.
            transport: The connection's bytes in the engine.
            collector: The connection's events in the engine.
        """
        self._listener = listener
        self._host = host
        self._loops = host.loops
        self._outgoing = host.outgoing
        self._most = host.limits.max_frame_bytes
        self._transport = transport
        self._collector = collector
        self._header = b""  # the bytes that have come of a protocol header, or of a SASL frame's header
        self._skipped = 0  # bytes still to come of a frame that is passed over
        self._in_frames = False  # behind the AMQP header
        self._held = b""  # the beginning of a frame, which has not been given to the engine yet
        self._passes_all = False  # all further bytes go to the engine unread
        self._refused = False
        self._opened = False
        self._channels: dict[int, Channel] = {}
        self._part: IncomingPart | None = None  # the payload that is on its way beside the engine
        self._rooms: IncomingRooms | None = None  # for the rest of that payload, and what comes behind
        self._is_full = False  # the engine has much of an unread message, and the links have not had a turn since
        self._since_turn = 0  # the bytes that came since then
        self._large = LargeHeads()
        self._heads: list[bytes] = []  # of large transfers, for the engine
        self._flows = IncomingFlows(listener, host)

    def feed(self, data: Bytes, slow_frames: int = SLOW_FRAMES, *, waits: bool = False) -> int:
        """Read bytes that have come, and give them to the engine.

        Args:
            data: The bytes.
            slow_frames: The most frames that begin or end a link or a session; others are to have their turn then.
            waits: Whether nothing is read while the engine is full: until `note_turn`.

        Returns:
            How many bytes were read.
        """
        size = len(data)
        if self._is_full and waits:
            return 0
        if self._refused:
            return size
        if not self._in_frames:
            at = self._find_frames(data)
            self._loops.feed(self._transport, memoryview(data)[:at])
            data = memoryview(data)[at:]
        if self._held:
            data = self._held + bytes(data)
            self._held = b""
        view = memoryview(data)
        if view and self._in_frames:
            size -= self._feed_frames(view, slow_frames)
            self._look_for_unread(size)
        return size

    def end(self) -> None:
        """Give the engine the incomplete last frame, because nothing more comes: the engine reports it."""
        if self._part is not None:
            self._held = self._part.unfinished
        if not self._refused:
            self.push(b"")
            self._loops.end_frames(self._transport)
            self._loops.feed(self._transport, self._held)
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

    def _feed_frames(self, view: memoryview, slow_frames: int) -> int:  # noqa: C901 - one kind of frame after the other
        """Give the engine frames; return how many bytes are left for the next time."""
        size, slow = len(view), 0
        fed = 0 if self._part is None else self._take_part(self._part, view)
        at = fed + self._skipped
        while at < size and not self._passes_all:
            at, told = self._loops.walk(view, at, _PASSING, self._most, LARGE_FRAME_BYTES)
            if told >= LARGE_FRAME_BYTES:
                taken = self._take_large(view[at:], told, view[fed:at])
                if taken:
                    fed = at = at + taken
                    continue
                if size - at < HEAD_BYTES:
                    break  # more must come to see what it is
                at, told = self._loops.walk(view, at, _PASSING, self._most)
            if told < 0:
                self._passes_all = True
            end = at + told
            if told <= 0 or end > size:
                break
            if self._take(bytes(view[at:end]), view[fed:at]):
                fed = end
            if self._refused:
                return 0
            at = end
            slow += _is_slow(view[end - told : end])
            if slow == slow_frames:
                break
        self.push(view[fed:at])
        if self._passes_all:
            self._loops.feed(self._transport, view[at:])
            at = size
        self._skipped = max(0, at - size)
        if slow == slow_frames and at < size:
            return size - at
        self._held = bytes(view[at:])
        return 0

    def _look_for_unread(self, more: int) -> None:
        """Look whether the engine is full, if it has got many bytes since the last turn.

        It is full if it has many unread bytes of a message that has not come whole: it keeps the buffer of a delivery
        as large as it once was.
        """
        self._since_turn += more
        if self._since_turn >= READ_BYTES:
            self._is_full = any(
                lib.pn_session_incoming_bytes(each.session) >= READ_BYTES and any(map(_is_long, each.senders.values()))
                for each in self._channels.values()
            )

    def note_turn(self) -> None:
        """Note that the links read now."""
        self._is_full = False
        self._since_turn = 0

    def _take_large(self, data: memoryview, size: int, before: memoryview) -> int:
        """Take what has come of large transfers whose payloads go beside the engine; return how many bytes.

        Args:
            data: The bytes from the first transfer on.
            size: The size of that transfer.
            before: The bytes before it that the engine has not got.
        """
        head = self._large.head_of(data[:size], self._driver_of)
        if head is None:
            return 0
        if len(before):
            self.push(before)
        if head.is_known and head.delivery is not None and (payloads := head.payloads(data, size)):
            self._heads.append(head.frame * len(payloads))
            head.driver.put_pieces(head.delivery, payloads)
            return len(payloads) * size
        begin, frame, size = head.size, data[:size], size - head.size
        is_first = head.begins and head.delivery is None
        body = ArrivingBody.begun_by(frame[begin:], size, self._loops.memory) if is_first else None
        written = 0 if body is None else body.head_bytes
        self._part = IncomingPart(head, size, written, body)
        return begin + written + self._take_part(self._part, data[begin + written :])

    def _driver_of(self, channel: int, handle: int) -> ReceivingDriver | None:
        known = self._channels.get(channel)
        link = None if known is None else known.senders.get(handle)
        driver = None if link is None else self._listener.driver_at(link)
        return driver if isinstance(driver, ReceivingDriver) else None

    def _take_part(self, part: IncomingPart, data: memoryview) -> int:
        """Take what has come of a payload; when it is whole, give the engine its transfer. Return how many bytes."""
        taken = part.take(data)
        if not part.left:
            self._end_part(part)
        return taken

    def _end_part(self, part: IncomingPart) -> bool:
        """Give the engine the transfer of a whole payload; tell whether the rooms behind it are of its delivery."""
        self._part, head = None, part.head
        self._large.last = head
        if head.is_known:
            self._heads.append(head.frame)
            head.take(part)
            return True
        event = self.push_alone(b"", head.frame, lib.PN_DELIVERY)
        return bool(event) and head.take_named(lib.pn_event_delivery(event), part)

    def rooms(self) -> Sequence[memoryview]:
        """Return where the next bytes may be written as they come, up to the next call of `feed` or `take_rooms`."""
        self._rooms = None if self._part is None or self._refused else IncomingRooms(self._part)
        return () if self._rooms is None else self._rooms.rooms

    def take_rooms(self, came: int) -> bytes:
        """Take bytes that have been written into the rooms; return those that are still to be fed."""
        rooms, self._rooms = self._rooms, None
        assert rooms is not None, "there were rooms"
        part, head = rooms.part, rooms.part.head
        first = min(came, part.left)
        part.left -= first
        came -= first
        if part.left:
            return b""
        stays = self._end_part(part)
        frames = rooms.whole_frames(came) if stays and head.is_known else 0
        if frames:
            self._heads.append(head.frame * frames)
            head.note_written(frames * part.size)
            came -= frames * (head.size + part.size)
        self.push(b"")
        if came and stays:
            self._part = rooms.begun(frames, came)
        return rooms.rest(frames, came) if came and self._part is None else b""

    def push(self, data: Bytes) -> None:
        """See `ToEngine`."""
        if self._heads:
            heads, self._heads = self._heads, []
            self._loops.feed_frames(self._transport, b"".join(heads))
        if len(data):
            self._loops.feed_frames(self._transport, data)

    def push_alone(self, before: Bytes, frame: bytes, *kinds: int) -> Pointer | None:
        """See `ToEngine`."""
        self.push(before)
        self._listener.note_events()
        self.push(frame)
        event = lib.pn_collector_peek(self._collector)
        return event if event and lib.pn_event_type(event) in kinds else None

    def _refuse(self, before: Bytes, condition: Condition, text: str) -> bool:
        """End the connection because of a frame, after everything before it: an error in that comes first."""
        self.push(before)
        self._refused = True
        self._listener.refuse_peer(condition.value, text)
        return True

    # frame by frame

    def _take(self, frame: bytes, before: Bytes) -> bool:
        """Read a frame; tell whether it and all bytes before it were given to the engine, or refused."""
        if frame[5]:
            text = f"it sent a frame of type {frame[5]}; an AMQP frame has type 0"
            return self._refuse(before, Condition.CONNECTION_FRAMING_ERROR, text)
        try:
            code, plain = performative_of(frame)
        except Malformed:
            text = "it sent a frame whose performative cannot be decoded"
            return self._refuse(before, Condition.DECODE_ERROR, text)
        if not OPEN <= code <= CLOSE:
            text = f"it sent a frame whose performative is 0x{code:x}; AMQP 1.0 has 0x10 to 0x18"
            return self._refuse(before, Condition.NOT_IMPLEMENTED, text)
        if code != OPEN and not self._opened:
            text = f"it sent {NAMES[code - OPEN]} before open"
            return self._refuse(before, Condition.ILLEGAL_STATE, text)
        try:
            taken = _TAKERS[code](self, plain, _read_u16(plain, 6)[0], before)
        except Malformed:
            taken = False  # the engine reads as much of it as it can
        if not taken and plain is not frame:
            self.push(before)
            self.push(plain)
            taken = True
        return taken

    def _take_open(self, _frame: bytes, _channel: int, before: Bytes) -> bool:
        if self._opened:
            return self._refuse(before, Condition.ILLEGAL_STATE, "it sent open twice")
        self._opened = True
        return False

    def _take_begin(self, frame: bytes, channel: int, before: Bytes) -> bool:
        (ours,) = fields_of(frame, 1)
        if channel in self._channels:
            text = f"it sent begin on channel {channel}, where it has a session already"
            return self._refuse(before, Condition.ILLEGAL_STATE, text)
        if ours is not None and any(each.ours == ours for each in self._channels.values()):
            return self._refuse(before, Condition.ILLEGAL_STATE, f"it answered the begin on channel {ours} twice")
        event = self.push_alone(before, frame, lib.PN_SESSION_INIT, lib.PN_SESSION_REMOTE_OPEN)
        if event:
            known = self._channels[channel] = Channel(lib.pn_event_session(event), ours)
            self._flows.note_begin(known)
        return True

    def _take_attach(self, frame: bytes, channel: int, before: Bytes) -> bool:
        _, handle, receives = fields_of(frame, 3)
        known, handle = self._channels.get(channel), number_of(handle)
        if known is not None:
            if handle in known.handles:
                text = f"it attached a link with handle {handle} on channel {channel}, which another link has"
                return self._refuse(before, Condition.SESSION_HANDLE_IN_USE, text)
            known.handles[handle] = receives is not True
            known.unused = max(known.unused, handle + 1)
            if receives is not True:
                event = self.push_alone(before, frame, lib.PN_LINK_INIT, lib.PN_LINK_REMOTE_OPEN)
                if event:
                    link = known.senders[handle] = lib.pn_event_link(event)
                    self._expect(channel, handle, link)
                return True
        return False

    def _expect(self, channel: int, handle: int, link: Pointer) -> None:
        """Let messages come beside the engine, unless it counts their bytes, or shows its frames."""
        if not self._host.is_traced and not lib.pn_session_get_incoming_capacity(lib.pn_link_session(link)):
            limit = self._host.limits.max_message_bytes
            self._loops.expect(channel, handle, link, min(limit or self._most, self._most))

    def _take_flow(self, frame: bytes, channel: int, before: Bytes) -> bool:
        known = self._channels.get(channel)
        if known is not None:
            self._flows.take(frame, channel, known, before, self)
        return known is not None

    def _take_transfer(self, frame: bytes, _channel: int, before: Bytes) -> bool:
        message_format = number_of(fields_of(frame, 4)[3])
        if not message_format:
            return False
        event = self.push_alone(before, frame, lib.PN_DELIVERY)
        driver = self._listener.driver_at(lib.pn_event_link(event)) if event else None
        if isinstance(driver, ReceivingDriver):
            driver.note_format(lib.pn_event_delivery(event), message_format)
        return True

    def _take_detach(self, frame: bytes, channel: int, _before: Bytes) -> bool:
        handle = number_of(fields_of(frame, 1)[0])
        if channel in self._channels:
            self._channels[channel].handles.pop(handle, None)
            self._channels[channel].receivers.pop(handle, None)
            if self._channels[channel].senders.pop(handle, None) is not None:
                self._loops.expect_no_more(channel, handle)
            self._flows.forget(channel, handle)
        return False

    def _take_end(self, _frame: bytes, channel: int, _before: Bytes) -> bool:
        known = self._channels.pop(channel, None)
        for handle in () if known is None else known.senders:
            self._loops.expect_no_more(channel, handle)
        self._flows.forget(channel)
        return False

    def _take_close(self, _frame: bytes, _channel: int, _before: Bytes) -> bool:
        self._passes_all = True
        return False

    def _take_disposition(self, _frame: bytes, _channel: int, _before: Bytes) -> bool:
        return False


_TAKERS: Final[dict[int, Callable[[IncomingFrames, bytes, int, Bytes], bool]]] = {
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


def _is_slow(frame: memoryview) -> bool:
    """Tell whether a frame begins or ends a link or a session, if its performative is written in the shortest way."""
    at = 4 * frame[4]
    return frame[at + 1] == 0x53 and frame[at + 2] in _SLOW if at + 2 < len(frame) else False
