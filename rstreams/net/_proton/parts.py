"""The parts of a delivery that has not come whole.

There are two kinds:

- The engine's part is read out of the engine. This opens the session's window again.
- A piece of a large frame never goes into the engine, which would copy it three times. The engine gets the transfer
  without it (`incoming_parts`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from cproton_ffi import ffi, lib

from rstreams.net._proton.arriving_body import ArrivingBody
from rstreams.net._proton.loops import as_delivery
from rstreams.net._proton.pointers import Pointer
from rstreams.protocol.frames import Transfer
from rstreams.protocol.joined_message import JoinedMessage

READ_BYTES: Final = 16 * 1024
"""The fewest bytes of an unfinished delivery that are read, unless a window is to open again."""

_uncleared: Final = ffi.new_allocator(should_clear_after_alloc=False)


@dataclass(slots=True)
class _Beside:
    """The pieces of one delivery that came beside the engine.

    Attributes:
        pieces: Each with the number of the delivery's bytes that the engine got before it.
        body: Used in place of `pieces` if the delivery begins with a large body, and the engine has none of its bytes.
        size: The bytes of all pieces.
    """

    pieces: list[tuple[int, bytes]] = field(default_factory=list)
    body: ArrivingBody | None = None
    size: int = 0

    def put(self, before: int, piece: bytes | memoryview) -> None:
        """Keep a copy of a piece that comes behind `before` bytes that the engine has got."""
        if self.body is not None and not before and len(piece) <= len(self.body.room):
            self.body.fill(piece)
        else:
            if self.body is not None:
                self.pieces += ((0, each) for each in self.body.pieces())
                self.body = None
            self.pieces.append((before, bytes(piece)))
        self.size += len(piece)

    def message(self, parts: Sequence[bytes]) -> JoinedMessage:
        """Return the message that these pieces are, and the parts that the engine had."""
        body = self.body
        if body is None:
            return JoinedMessage(_woven(parts, self.pieces))
        if sum(map(len, parts)) != len(body.room):
            return JoinedMessage([*body.pieces(), *parts])
        for part in parts:
            body.fill(part)
        return JoinedMessage(body.pieces())


class Parts:
    """The parts of a receiving link's deliveries: of the current one those that were read, and of each the pieces.

    Context: Only the task that owns the connection.
    """

    def __init__(self, link: Pointer) -> None:
        """Have nothing of the deliveries of `link` yet."""
        self._link = link
        self._read: list[bytes] = []
        self._read_size = 0
        self._has_beginning = False  # the engine has a part
        self._beside: dict[Pointer, _Beside] = {}

    def __bool__(self) -> bool:
        """Tell whether there is a part of a delivery, in the engine or here."""
        return bool(self._has_beginning or self._read or self._beside)

    @property
    def has_pieces(self) -> bool:
        """Whether a delivery has pieces; then deliveries are read one by one."""
        return bool(self._beside)

    @property
    def size(self) -> int:
        """The bytes of the current delivery that are not in the engine."""
        return self._read_size + self._pieces_size if self._beside else self._read_size

    @property
    def _pieces_size(self) -> int:
        beside = self._beside.get(lib.pn_link_current(self._link))
        return beside.size if beside is not None else 0

    def has(self, delivery: Pointer) -> bool:
        """Tell whether a delivery has pieces."""
        return delivery in self._beside

    def put(self, delivery: Pointer, pieces: Sequence[bytes | memoryview]) -> None:
        """Keep copies of pieces of a delivery; they come behind all that the engine has got of it so far."""
        before = self._engine_bytes(delivery)
        beside = self._beside.get(delivery)
        if beside is None:
            beside = self._beside[delivery] = _Beside()
        for piece in pieces:
            beside.put(before, piece)

    def put_body(self, delivery: Pointer, body: ArrivingBody, size: int) -> bool:
        """Take the body with which a delivery begins; tell whether it is one.

        Args:
            delivery: The delivery.
            body: The payload of its transfer. If the delivery had begun before, it only looked like a body.
            size: The bytes that have come of it, with what is before it.
        """
        if delivery in self._beside or self._engine_bytes(delivery):
            self.put(delivery, body.pieces())
            return False
        self._beside[delivery] = _Beside(body=body, size=size)
        return True

    def room(self, delivery: Pointer) -> memoryview | None:
        """Return where the rest of a delivery's body is to be written; None if that is not told by its size."""
        beside = self._beside.get(delivery)
        if beside is None or beside.body is None or self._engine_bytes(delivery):
            return None
        return beside.body.room

    def note_written(self, delivery: Pointer, size: int) -> None:
        """Note that the next `size` bytes of a delivery have been written into its room."""
        beside = self._beside[delivery]
        assert beside.body is not None, "there was a room"
        beside.body.skip(size)
        beside.size += size

    def _engine_bytes(self, delivery: Pointer) -> int:
        """Return how many bytes of a delivery the engine has got."""
        size = int(lib.pn_delivery_pending(delivery))
        if self._read_size and delivery == lib.pn_link_current(self._link):
            size += self._read_size
        return size

    def check(self) -> None:
        """Drop the parts of a delivery that its sender has aborted, or that is gone."""
        current = lib.pn_link_current(self._link)
        if not current:
            self.drop()
        elif lib.pn_delivery_aborted(current):
            self.drop_current()

    def skip_aborted(self) -> None:
        """Let the engine forget aborted deliveries up to one that is not: it may use their places for others."""
        while (current := lib.pn_link_current(self._link)) and lib.pn_delivery_aborted(current):
            self.drop_current()
            lib.pn_delivery_settle(current)  # advances, too

    def take_in(self, *, whole: bool) -> None:
        """Read the bytes of the current delivery that have come; unless `whole`, only `READ_BYTES` or more."""
        pending = int(lib.pn_delivery_pending(lib.pn_link_current(self._link)))
        self._has_beginning = self._has_beginning or pending > 0
        if pending and (whole or pending >= READ_BYTES):
            part = take_part(self._link)
            self._read.append(part)
            self._read_size += len(part)

    def complete(self, frame: Transfer) -> Transfer:
        """Return a frame of deliveries that were read, of which the first has these parts."""
        read, last = self._read, frame.payloads[0]
        beside = self._beside.pop(as_delivery(frame.deliveries[0]), None) if self._beside else None
        self._forget_read()
        if beside is not None:
            return Transfer(frame.deliveries, beside.message([*read, last]), frame.settled)
        if read:
            return Transfer(frame.deliveries, [b"".join((*read, last)), *frame.payloads[1:]], frame.settled)
        return frame

    def drop_current(self) -> None:
        """Forget the parts of the current delivery."""
        self._beside.pop(lib.pn_link_current(self._link), None)
        self._forget_read()

    def drop(self) -> None:
        """Forget all parts."""
        self._beside.clear()
        self._forget_read()

    def _forget_read(self) -> None:
        if self._read:
            self._read = []
        self._read_size = 0
        self._has_beginning = False


def _woven(parts: Sequence[bytes], pieces: Sequence[tuple[int, bytes]]) -> list[bytes]:
    """Return the parts that the engine had with the pieces between them, each at its place."""
    result: list[bytes] = []
    engine, at = b"".join(parts), 0
    for before, piece in pieces:
        if before > at:
            result.append(engine[at:before])
            at = before
        result.append(piece)
    if at < len(engine):
        result.append(engine[at:])
    return result


def take_part(link: Pointer) -> bytes:
    """Return the bytes of the current delivery that have come since the last call; none if it was aborted."""
    size = int(lib.pn_delivery_pending(lib.pn_link_current(link)))
    room = _uncleared("char[]", size)
    taken = int(lib.pn_link_recv(link, room, size)) if size else 0
    return bytes(ffi.buffer(room, taken)) if taken > 0 else b""
