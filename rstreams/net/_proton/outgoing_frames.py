"""The bytes for the peer: the engine's output, and the flows that the peer asks for and the engine does not write.

Theory of operation. A peer asks for the state of a link or a session with `echo`, and for that of a sender also with
`drain`. The engine answers a drain as long as there is credit to give back. It answers nothing else. But it writes a
flow of a session, with the right numbers of the session, when the session's capacity is set again to the value it has.
If a receiver has news at that moment, the engine makes the flow one of the receiver's link. For a link that sends, this
module completes the session's flow with the four numbers of the link:

    handle          from the engine's own attach, which is read in its output
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

from cproton_ffi import lib

from rstreams._codec.decode import read_items
from rstreams._codec.encode import NULL, encode_fields, encode_uint
from rstreams.net._proton.frame_fields import (
    ATTACH,
    FLOW,
    OPEN,
    encoded_fields_of,
    fields_of,
    of_session,
    require_uint,
    text_in,
    with_name,
)
from rstreams.net._proton.link_names import LinkNames, own_name_of
from rstreams.net._proton.loops import Loops
from rstreams.net._proton.pointers import Pointer

BUFFER_BYTES: Final = 512 * 1024
"""The bytes that may wait in a session before its senders wait, and the most bytes that are copied into one output."""

LARGE_BYTES: Final = 1024 * 1024
"""The bytes of large messages with which an output is full, until it is told how quick the network is."""

_ANSWER_BYTES: Final = 512
"""More than a flow and a heartbeat take."""

_ATTACHES, _FLOWS = 1 << ATTACH - OPEN, 1 << FLOW - OPEN

_NO_HANDLE: Final = 0xFFFFFFFE
"""The handle in a flow of the engine for a link that has sent its detach."""

_HEAD: Final = b"\x00\x53\x13"
_PERFORMATIVE_AT: Final = 8  # in a frame of the engine

_read_u16: Final = struct.Struct(">H").unpack_from
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
        kept: Output that was taken from the engine before it was to be sent.
        is_full: Whether the last output was full, and there may be more.
        large_bytes: The bytes of large messages, whole or in parts, with which an output is full. They are not copied.

    Context: Only the task that owns the connection.
    """

    def __init__(self, loops: Loops, names: LinkNames, room: bytearray | None = None) -> None:
        """Have no output yet; `take` puts it into `room`, or into a room of its own if that is None."""
        self._names = names
        self.is_full = False
        self.large_bytes = LARGE_BYTES
        self.kept = bytearray()
        self._loops = loops
        self._room = memoryview(bytearray(BUFFER_BYTES) if room is None else room)
        self._told = _ATTACHES  # the frames of the engine that are read, and perhaps written anew
        self._asked: dict[Pointer, SenderNumbers | None] = {}  # links, and the numbers of those that send
        self._sessions_asked: dict[Pointer, None] = {}
        self._attaching: dict[bytes, SenderNumbers] = {}  # senders whose attach is to come, by `own_name_of`
        self._completing: tuple[Pointer, SenderNumbers] | None = None  # whose state the next flow is to tell

    def take(self) -> Sequence[memoryview]:
        """Return the output in pieces: at most `BUFFER_BYTES`, and large messages.

        The pieces that are not read-only are valid until the next call.
        """
        if not (self.kept or self._asked or self._sessions_asked):
            output: tuple[list[memoryview], int, bool] = self._loops.output(
                self._room, self.large_bytes, self._told, self._on_frame
            )
            self.is_full = output[2]
            return output[0]
        size = min(len(self.kept), BUFFER_BYTES)
        self._room[:size] = self.kept[:size]
        del self.kept[:size]
        pieces = [self._room[:size]] if size else []
        size = self._pull(pieces, size)
        if not self.is_full:
            self._answer(pieces, size)
        return pieces

    def _pull(self, pieces: list[memoryview], size: int) -> int:
        """Add output of the engine behind `size` bytes in the room; return how many bytes are there then."""
        room, enough = self._room[size:], self.large_bytes
        more, taken, self.is_full = self._loops.output(room, enough, self._told, self._on_frame)
        pieces += more
        return size + int(taken)

    def keep(self) -> int:
        """Take all output of the engine, to send it later; return how many bytes wait now."""
        room = memoryview(bytearray(BUFFER_BYTES))
        is_full = True
        while is_full:
            pieces, _, is_full = self._loops.output(room, self.large_bytes, self._told, self._on_frame)
            for piece in pieces:
                self.kept += piece
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
        self._attaching[own_name_of(link)] = numbers

    def mend_flows(self) -> None:
        """Make flows without a handle those of their session: the engine writes such where a session has a window."""
        self._told |= _FLOWS

    def forget(self, link: Pointer) -> None:
        """Forget a link that has ended."""
        self._asked.pop(link, None)
        self._attaching.pop(own_name_of(link), None)

    def forget_session(self, session: Pointer) -> None:
        """Forget a session that has ended."""
        self._sessions_asked.pop(session, None)

    def clear(self) -> None:
        """Forget all links and sessions."""
        self._asked.clear()
        self._sessions_asked.clear()
        self._attaching.clear()

    # the frames of the engine

    def _on_frame(self, frame: bytes) -> bytes | None:
        """Read an attach or a flow of the engine; return the frame that goes out in its place, or None."""
        if frame[_PERFORMATIVE_AT + 2] == ATTACH:
            return self._named(frame)
        if self._completing is not None:
            (link, numbers), self._completing = self._completing, None
            return _completed(frame, link, numbers)
        return of_session(frame) if fields_of(frame, 5)[4] == _NO_HANDLE else None

    def _named(self, attach: bytes) -> bytes:
        """Return an attach of the engine with the name that the link has on the wire; note the handle of a sender."""
        own = text_in(encoded_fields_of(attach)[0]) or b""
        numbers = self._attaching.pop(own, None)
        if numbers is not None:
            numbers.handle = require_uint(fields_of(attach, 2)[1])
        return with_name(attach, self._names.encoded(own))

    # answers

    def _answer(self, pieces: list[memoryview], size: int) -> None:
        """Add the flows that were asked for behind `size` bytes of output, as far as there is room."""
        sessions, self._sessions_asked = self._sessions_asked, {}
        for session in sessions:
            _have_flow_written(session)
        size = self._pull(pieces, size)
        for link, numbers in list(self._asked.items()):
            if self.is_full or BUFFER_BYTES - size < _ANSWER_BYTES:
                self.is_full = True
                break
            if numbers is not None and lib.pn_link_get_drain(link) and _goes_out(link):
                continue  # when these deliveries have gone out, its credit is used up
            del self._asked[link]
            if lib.pn_link_state(link) & lib.PN_LOCAL_ACTIVE:
                size = self._write_state(link, numbers, pieces, size)

    def _write_state(self, link: Pointer, numbers: SenderNumbers | None, pieces: list[memoryview], size: int) -> int:
        """Add the state of a link behind `size` bytes of output; return how many bytes there are then."""
        _have_flow_written(lib.pn_link_session(link))
        told = self._told
        if numbers is None:
            lib.pn_link_flow(link, 0)  # counts as news of it, therefore the engine makes the flow one of this link
        elif numbers.handle is not None:
            self._completing = link, numbers
            self._told |= _FLOWS
        size = self._pull(pieces, size)
        self._told, self._completing = told, None
        return size


def _goes_out(link: Pointer) -> bool:
    """Tell whether deliveries of a link wait in the engine for which there is credit."""
    queued = int(lib.pn_link_queued(link))
    return queued > 0 and int(lib.pn_link_credit(link)) + queued > 0


def _have_flow_written(session: Pointer) -> None:
    """Have the engine write a flow of a session, by setting the capacity that it has."""
    lib.pn_session_set_incoming_capacity(session, lib.pn_session_get_incoming_capacity(session))


def _completed(flow: bytes, link: Pointer, numbers: SenderNumbers) -> bytes:
    """Return a session's flow, completed with the state of a link that sends."""
    windows, _ = read_items(flow, _items_at(flow), 4, 0)
    credit = int(lib.pn_link_credit(link)) + int(lib.pn_link_queued(link))
    count = (numbers.allowed_until - credit) & 0xFFFFFFFF
    drain = b"\x41" if lib.pn_link_get_drain(link) else b"\x42"
    told = [NULL if each is None else encode_uint(each) for each in (*windows, numbers.handle, count, credit)]
    body = _HEAD + encode_fields([*told, NULL, drain])
    return _pack_head(8 + len(body), 2, 0, _read_u16(flow, 6)[0]) + body


def _items_at(frame: bytes) -> int:
    """Return where the fields of a frame of the engine begin."""
    at = _PERFORMATIVE_AT + 3
    return at + (9 if frame[at] == 0xD0 else 3)
