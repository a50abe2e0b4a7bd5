"""The payloads of large transfers, which go to their link beside the engine.

The engine copies each byte of a message three times. Therefore it gets a large transfer without its payload. The
payload is copied once, out of the room for input. The engine makes an event of the transfer, which names the delivery.

This is worth it only for messages of several frames. The first transfer of a message goes this way only if its payload
says at its beginning that there is a large body, or if its head says that there is more. A further transfer always
does. Thus the engine has no large buffers, which it would keep until the connection ends.

Links whose bytes the engine counts against a session's window are left alone: their transfers go through the engine.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Sequence
from typing import Final

from rstreams.net._proton.arriving_body import ArrivingBody, large_body_at
from rstreams.net._proton.frame_fields import Malformed, fields_of, number_of, performative_of
from rstreams.net._proton.pointers import Pointer
from rstreams.net._proton.receiving_driver import ReceivingDriver

LARGE_FRAME_BYTES: Final = 32 * 1024
"""The size from which on a transfer's payload goes beside the engine."""

HEAD_BYTES: Final = 512
"""More than the head of a transfer takes whose list has a size of one byte."""

_LIST_AT: Final = 11
_LIST: Final = b"\x00\x53\x14\xc0"  # a transfer, as a list whose size has one byte
_NO_EXTENDED_HEADER: Final = 2
_TRUE: Final = re.compile(rb"\x41|\x56\x01")

_read_channel: Final = struct.Struct(">H").unpack_from
_pack_size: Final = struct.Struct(">I").pack


def _head_bytes(frame: memoryview) -> int:
    """Return how many bytes of a large transfer are before its payload; 0 where that is not easily told."""
    if len(frame) < HEAD_BYTES or frame[4] != _NO_EXTENDED_HEADER or bytes(frame[_LIST_AT - 3 : _LIST_AT + 1]) != _LIST:
        return 0
    return _LIST_AT + 2 + frame[_LIST_AT + 1]


class Head:
    """The head of a transfer: all of its frame but the payload.

    Attributes:
        size: The bytes of it.
        fields: These bytes, behind the size of the frame.
        frame: The transfer without a payload.
        driver: Of its link.
        begins: Whether it may be the first transfer of its delivery.
        goes_on: Whether the delivery has further transfers.
        delivery: The delivery, once the engine has named it.
    """

    __slots__ = ("begins", "delivery", "driver", "fields", "frame", "goes_on", "size")

    def __init__(self, fields: bytes, driver: ReceivingDriver, *, begins: bool, goes_on: bool) -> None:
        """Be the head with these bytes."""
        self.size = 4 + len(fields)
        self.fields = fields
        self.frame = _pack_size(self.size) + fields
        self.driver = driver
        self.begins = begins
        self.delivery: Pointer | None = None
        self.goes_on = goes_on

    @property
    def is_known(self) -> bool:
        """Whether another transfer with this head is of the same delivery, which is still wanted."""
        return self.goes_on and self.delivery is not None and self.driver.has_pieces(self.delivery)

    @property
    def room(self) -> memoryview | None:
        """Where the payloads of the next transfers with this head may be written, one behind the other."""
        return self.driver.room_for(self.delivery) if self.is_known and self.delivery is not None else None

    def take_named(self, delivery: Pointer, part: IncomingPart) -> bool:
        """Note the delivery, which the engine has named, and give it the payload of this transfer.

        Returns:
            Whether what comes behind the payload may be written behind it.
        """
        self.delivery = delivery
        if part.body is None:
            self.driver.put_pieces(delivery, part.pieces)
            return False
        part.body.skip(part.size - part.body.head_bytes)
        return self.driver.put_body(delivery, part.body, part.size) and self.goes_on

    def take(self, part: IncomingPart) -> None:
        """Take the payload of a further transfer of the delivery."""
        if part.room is not None:
            self.note_written(part.size)
        elif self.delivery is not None:
            self.driver.put_pieces(self.delivery, part.pieces)

    def note_written(self, size: int) -> None:
        """Note that payloads of `size` bytes have been written into the room for them."""
        if size and self.delivery is not None:
            self.driver.note_written(self.delivery, size)

    def payloads(self, data: memoryview, size: int) -> list[memoryview]:
        """Return the payloads of the frames at the beginning of `data` that have this head and `size` bytes each."""
        begin = self.begin(size)
        result: list[memoryview] = []
        at = 0
        while at + size <= len(data) and data[at : at + self.size] == begin:
            result.append(data[at + self.size : at + size])
            at += size
        return result

    def begin(self, size: int) -> bytes:
        """Return the beginning of a frame of `size` bytes with this head."""
        return _pack_size(size) + self.fields


class LargeHeads:
    """Knows of which large transfers the payload goes beside the engine.

    Attributes:
        last: The head of the last one.
    """

    def __init__(self) -> None:
        """Have seen none."""
        self.last: Head | None = None
        self._begun = b""  # the head of the last large transfer that went through the engine

    def head_of(self, frame: memoryview, driver_of: Callable[[int, int], ReceivingDriver | None]) -> Head | None:
        """Return the head of a large transfer whose payload goes beside the engine; None for any other frame.

        Args:
            frame: The frame, or as much of it as has come.
            driver_of: Returns the driver of the link on which the peer sends, by its channel and handle.
        """
        last, size = self.last, _head_bytes(frame)
        if last is not None and last.is_known and bytes(frame[4 : last.size]) == last.fields:
            return last
        if not size:
            return None
        begun, self._begun = self._begun, bytes(frame[4:size])
        is_another = begun != self._begun
        goes_on = is_another and large_body_at(frame[size:]) == (0, 0)  # then only if there is more
        if goes_on and not _TRUE.search(self._begun):
            return None
        head = _read_head(bytes(frame[:size]), driver_of, begins=is_another)
        return None if head is None or (goes_on and not head.goes_on) else head


def _read_head(head: bytes, driver_of: Callable[[int, int], ReceivingDriver | None], *, begins: bool) -> Head | None:
    try:
        performative_of(head)
        handle, number, tag, message_format, _, more, _, _, _, aborted = fields_of(head, 10)
    except Malformed:
        return None  # the engine says what is wrong with it
    driver = driver_of(_read_channel(head, 6)[0], number_of(handle))
    if number_of(message_format) or aborted is True or driver is None or not driver.takes_pieces:
        return None
    begins = begins and number is not None and tag is not None  # which the first transfer must have (2.7.5)
    return Head(head[4:], driver, begins=begins, goes_on=more is True)


class IncomingPart:
    """The payload of a large transfer, while it comes.

    Attributes:
        head: The head of the transfer.
        size: The bytes of the payload.
        left: The bytes of it that are still to come.
        body: The body that it begins, in memory of its size; None if it begins none.
        room: Where it is written, without what is before the body; None if its pieces are kept until it is whole.
        behind: Where further payloads of the delivery may be written.
    """

    __slots__ = ("_pieces", "behind", "body", "head", "left", "room", "size")

    def __init__(self, head: Head, size: int, written: int = 0, body: ArrivingBody | None = None) -> None:
        """Expect `size` bytes, of which `written` are in their places already."""
        self.head = head
        self.size = size
        self.left = size - written
        self.body = body
        self.room: memoryview | None = None
        self.behind = memoryview(b"")
        self._pieces: list[bytes] = []
        room = head.room if body is None else body.room
        own = size if body is None else size - body.head_bytes
        if room is not None and own <= len(room):
            self.room, self.behind = room[:own], room[own:]

    @property
    def unfinished(self) -> bytes:
        """The beginning of the frame, for the engine to report."""
        return self.head.begin(self.head.size + self.size)

    @property
    def rest(self) -> memoryview:
        """Where what is left is written, if there is a room."""
        return memoryview(b"") if self.room is None else self.room[len(self.room) - self.left :]

    @property
    def pieces(self) -> Sequence[bytes | memoryview]:
        """What has come, if it begins no body."""
        return self._pieces if self.room is None else (self.room[: self.size - self.left],)

    def take(self, data: memoryview) -> int:
        """Take what there is of the payload at the beginning of `data`; return how many bytes that was."""
        piece = data[: self.left]
        if self.room is not None:
            self.rest[: len(piece)] = piece
        elif len(piece):
            self._pieces.append(bytes(piece))
        self.left -= len(piece)
        return len(piece)
