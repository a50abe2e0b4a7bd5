"""The bytes for the peer: the engine's output, and the flows that the peer asks for and the engine does not write.

Theory of operation. A peer asks for the state of a link or a session with `echo`, and for that of a sender also with
`drain`. The engine answers a drain as long as there is credit to give back. It answers nothing else. But it writes a
flow of a session, with the right numbers of the session, when the session's capacity is set again to the value it has.
If a receiver has news at that moment, the engine makes the flow one of the receiver's link. For a link that sends, this
module completes the session's flow with the four numbers of the link:

    handle          from the engine's own attach, which is found in its output
    link-credit     the engine's number
    delivery-count  the one up to which the peer's last flow allows, less the link-credit; the engine does not tell it
    drain           the engine's number

This is done when all output of the engine has been taken. Then the numbers are right for this place in the output.

The engine also writes one flow that is wrong. When a delivery is settled while the window of its session is to be
opened, the engine makes the flow one of the delivery's link, even if that link has sent its detach. The handle is
`_NO_HANDLE` then, and a peer ends the connection because of it. This module makes such a flow one of the session.

Spec: AMQP 1.0 sections 2.6.7 (flow control), 2.7.4 (flow).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from cproton_ffi import ffi, lib

from rstreams._codec.decode import read_items
from rstreams._codec.encode import NULL, encode_fields, encode_uint
from rstreams.net._proton.frame_fields import fields_of, of_session
from rstreams.net._proton.loops import Loops
from rstreams.net._proton.outgoing_parts import OutgoingParts
from rstreams.net._proton.pointers import Pointer

BUFFER_BYTES: Final = 512 * 1024
"""The bytes that may wait in a session before its senders wait, and the most bytes that go out at once."""

_ANSWER_BYTES: Final = 512
"""More than a flow and a heartbeat take."""

_PASSING: Final = 0xFFFF & ~(1 << 2)
"""All performatives but attach, 0x12."""

_PASSING_BUT_FLOW: Final = 0xFFFF & ~(1 << 3)
"""All performatives but flow, 0x13."""

_NO_HANDLE: Final = 0xFFFFFFFE
"""The handle in a flow of the engine for a link that has sent its detach."""

_MOST: Final = 2**30
"""No frame of the engine is larger; a protocol header, read as the size of a frame, is."""

_HEADER: Final = b"AMQP"
_ATTACH, _FLOW = b"\x00\x53\x12", b"\x00\x53\x13"
_PERFORMATIVE_AT: Final = 8  # in a frame of the engine

_read_u16: Final = struct.Struct(">H").unpack_from
_read_u32: Final = struct.Struct(">I").unpack_from
_pack_head: Final = struct.Struct(">IBBH").pack


@dataclass(slots=True)
class SenderNumbers:
    """The numbers of a link that sends, which the engine does not tell.

    Attributes:
        handle: The handle that the engine has given the link, once its attach has gone out.
        allowed_until: The delivery-count at which its credit ends, once its state was asked for.
    """

    handle: int | None = None
    allowed_until: int = 0


class OutgoingFrames:
    """The output of one connection.

    Attributes:
        parts: The parts of large messages that go into the output.
        kept: Output that was taken from the engine before it was to be sent.
        is_full: Whether the last output filled the room, and the engine may have more.
        has_window: Whether a session has had a window. Only then the engine writes flows of links without a handle.

    Context: Only the task that owns the connection.
    """

    def __init__(self, loops: Loops, transport: Pointer, room: bytearray | None = None) -> None:
        """Have no output yet; `take` puts it into `room`, or into a room of its own if that is None."""
        self.parts = OutgoingParts(loops)
        self.is_full = False
        self.has_window = False
        self._loops = loops
        self._transport = transport
        self._buffer = memoryview(bytearray(BUFFER_BYTES) if room is None else room)
        self.kept = bytearray()
        self._asked: dict[Pointer, SenderNumbers | None] = {}  # links, and the numbers of those that send
        self._sessions_asked: dict[Pointer, None] = {}
        self._attaching: dict[Pointer, SenderNumbers] = {}  # senders whose attach is to come
        self._skipped = 0  # bytes still to come of the frame that the output so far ends in
        self._held = b""  # the beginning of a frame, too short to be known
        self._unwalked = 0  # bytes still to come of the frame that the output so far ends in, for `_mend_flows`
        self._mends = False  # since an output that ended with a frame

    def take(self) -> Sequence[memoryview]:
        """Return the output in pieces, at most `BUFFER_BYTES` and the parts of large messages.

        The pieces that are not read-only are valid until the next call.
        """
        if not (
            self.kept or self._asked or self._sessions_asked or self._mends or self.has_window or self.parts.waiting
        ):
            size = self._pull(self._buffer)
            self.is_full = size == BUFFER_BYTES
            return (self._buffer[:size],) if size else ()
        if self.has_window and not self._mends:
            self._mends = not (self.is_full or self.kept)
        size = min(len(self.kept), BUFFER_BYTES)
        if size:
            self._buffer[:size] = self.kept[:size]
            del self.kept[:size]
        size += self._pull(self._buffer[size:])
        if (self._asked or self._sessions_asked) and size < BUFFER_BYTES:
            size = self._answer(size)
        self.is_full = size == BUFFER_BYTES
        if self._mends:
            size = self._mend_flows(size)
        output = self._buffer[:size]
        if not self.parts.waiting:
            return (output,) if size else ()
        pieces, used = self.parts.put_into(output)
        if used < size:
            self._unwalked = 0  # the next output begins with this frame
        self.kept[:0] = output[used:]
        return pieces

    @property
    def takes_parts(self) -> bool:
        """Whether a part of a large message may be added: not in the middle of a frame."""
        return bool(self.parts.waiting) or not (self.is_full or self.kept)

    def flush(self) -> None:
        """Have the engine write its frames now."""
        lib.pn_transport_pending(self._transport)

    def keep(self) -> int:
        """Take all output of the engine, to send it later; return how many bytes wait now."""
        room = memoryview(bytearray(BUFFER_BYTES))
        size = BUFFER_BYTES
        while size == BUFFER_BYTES:
            size = self._pull(room)
            self.kept += room[:size]
        return len(self.kept)

    # states that the peer is to be told

    def ask(self, link: Pointer, numbers: SenderNumbers | None = None) -> None:
        """Tell the peer the state of a link, with the next output; `numbers` are those of a link that sends."""
        self._asked[link] = numbers

    def ask_session(self, session: Pointer) -> None:
        """Tell the peer the state of a session, with the next output."""
        self._sessions_asked[session] = None

    def expect_attach(self, link: Pointer, numbers: SenderNumbers) -> None:
        """Note the handle of a link that sends, which has been opened, in its `numbers`."""
        self._attaching[link] = numbers

    def forget(self, link: Pointer) -> None:
        """Forget a link that has ended."""
        self._asked.pop(link, None)
        self._attaching.pop(link, None)
        self.parts.forget(link)

    def forget_session(self, session: Pointer) -> None:
        """Forget a session that has ended."""
        self._sessions_asked.pop(session, None)

    def clear(self) -> None:
        """Forget all links and sessions."""
        self._asked.clear()
        self._sessions_asked.clear()
        self._attaching.clear()
        self.parts.clear()

    # the engine's output

    def _pull(self, room: memoryview) -> int:
        size = self._loops.output(self._transport, room) if len(room) else 0
        # Only output that fills the room can end inside a frame. Other output ends with a frame and may pass unread.
        if size and (self._attaching or self._skipped or self._held or size == len(room)):
            self._look(room[:size])
            if size < len(room):
                self._attaching.clear()  # if an attach did not come, its session has ended
        return size

    def _look(self, output: memoryview) -> None:
        """Note the handles in the engine's attaches."""
        data = memoryview(self._held + bytes(output)) if self._held else output
        at, size = self._skipped, len(data)
        while at < size:
            at, told = self._loops.walk(data, at, _PASSING, _MOST)
            if told < 0 and bytes(data[at : at + 4]) == _HEADER:
                at += 8
                continue
            if told <= 0 or at + told > size:
                break
            self._note_handle(bytes(data[at : at + told]))
            at += told
        self._held = bytes(data[at:])
        self._skipped = max(0, at - size)

    def _note_handle(self, frame: bytes) -> None:
        if frame[5] or frame[_PERFORMATIVE_AT : _PERFORMATIVE_AT + 3] != _ATTACH:
            return  # of SASL
        at = _items_at(frame)
        if frame[at] == 0x40:  # the answer to a link of the peer that has no name
            name, end = b"", at + 1
        else:
            wide = frame[at] == 0xB1  # a string with a length of four bytes, and not of one
            start = at + (5 if wide else 2)
            end = start + (_read_u32(frame, at + 1)[0] if wide else frame[at + 1])
            name = frame[start:end].partition(b"\0")[0]
        (handle, receives), _ = read_items(frame, end, 2, 0)
        for link, numbers in () if receives else self._attaching.items():
            if _name_of(link) == name:
                numbers.handle = handle
                del self._attaching[link]
                break

    def _mend_flows(self, size: int) -> int:
        """Make the flows without a handle those of their session; return how many bytes of output there are then.

        A flow of which the rest is to come is taken out, and comes again in front of its rest.
        """
        at, self._unwalked = self._unwalked, 0
        while at < size:
            at, told = self._loops.walk(self._buffer[:size], at, _PASSING_BUT_FLOW, _MOST)
            if told < 0:
                at += 8  # a protocol header
            elif at < size and (told == 0 or at + told > size):
                if told and self._buffer[at + _PERFORMATIVE_AT + 2] != _FLOW[2]:
                    at += told
                    continue
                self.kept[:0] = self._buffer[at:size]
                return at
            elif told > 0:
                flow = bytes(self._buffer[at : at + told])
                mended = of_session(flow) if _handle_of(flow) == _NO_HANDLE else flow
                if mended is not flow:
                    rest = bytes(self._buffer[at + told : size])
                    size -= len(flow) - len(mended)
                    self._buffer[at:size] = mended + rest
                at += len(mended)
        self._unwalked = at - size
        return size

    # answers

    def _answer(self, size: int) -> int:
        """Add the flows that were asked for behind `size` bytes of output; return how many bytes there are then."""
        sessions, self._sessions_asked = self._sessions_asked, {}
        for session in sessions:
            _have_flow_written(session)
        for link, numbers in list(self._asked.items()):
            if BUFFER_BYTES - size < _ANSWER_BYTES:
                return size
            if numbers is not None and lib.pn_link_get_drain(link) and _goes_out(link):
                continue  # when these deliveries have gone out, its credit is used up
            del self._asked[link]
            if lib.pn_link_state(link) & lib.PN_LOCAL_ACTIVE:
                size += self._write_state(link, numbers, size)
        return size + self._pull(self._buffer[size:])

    def _write_state(self, link: Pointer, numbers: SenderNumbers | None, at: int) -> int:
        """Write the state of a link into the output at `at`; return how many bytes that takes."""
        _have_flow_written(lib.pn_link_session(link))
        if numbers is None:
            lib.pn_link_flow(link, 0)  # counts as news of it, therefore the engine makes the flow one of this link
        size = self._pull(self._buffer[at:])
        if numbers is None or numbers.handle is None:
            return size
        output = bytes(self._buffer[at : at + size])
        start = 0
        while start < size:  # there may be a heartbeat before it
            end = start + _read_u32(output, start)[0]
            if output[start + _PERFORMATIVE_AT : start + _PERFORMATIVE_AT + 3] == _FLOW:
                output = (
                    output[:start]
                    + _completed(output[start:end], link, numbers.handle, numbers.allowed_until)
                    + output[end:]
                )
                break
            start = end
        self._buffer[at : at + len(output)] = output
        return len(output)


def _goes_out(link: Pointer) -> bool:
    """Tell whether deliveries of a link wait in the engine for which there is credit."""
    queued = int(lib.pn_link_queued(link))
    return queued > 0 and int(lib.pn_link_credit(link)) + queued > 0


def _have_flow_written(session: Pointer) -> None:
    """Have the engine write a flow of a session, by setting the capacity that it has."""
    lib.pn_session_set_incoming_capacity(session, lib.pn_session_get_incoming_capacity(session))


def _handle_of(flow: bytes) -> object:
    """Return the handle in a flow of the engine; None in a flow of a session, and in a frame of SASL."""
    if flow[5] or flow[_PERFORMATIVE_AT : _PERFORMATIVE_AT + 3] != _FLOW:
        return None
    return fields_of(flow, 5)[4]


def _name_of(link: Pointer) -> bytes:
    pointer = lib.pn_link_name(link)
    return bytes(ffi.string(pointer)) if pointer else b""


def _completed(flow: bytes, link: Pointer, handle: int, allowed_until: int) -> bytes:
    """Return a session's flow, completed with the state of a link that sends."""
    windows, _ = read_items(flow, _items_at(flow), 4, 0)
    credit = int(lib.pn_link_credit(link)) + int(lib.pn_link_queued(link))
    count = (allowed_until - credit) & 0xFFFFFFFF
    drain = b"\x41" if lib.pn_link_get_drain(link) else b"\x42"
    numbers = [NULL if number is None else encode_uint(number) for number in (*windows, handle, count, credit)]
    body = _FLOW + encode_fields([*numbers, NULL, drain])
    return _pack_head(8 + len(body), 2, 0, _read_u16(flow, 6)[0]) + body


def _items_at(frame: bytes) -> int:
    """Return where the fields of a frame of the engine begin."""
    at = _PERFORMATIVE_AT + 3
    return at + (9 if frame[at] == 0xD0 else 3)
