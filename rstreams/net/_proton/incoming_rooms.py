"""The rooms of a large body, into which the network writes the rest of it.

The rest of a body comes in frames. All but the last one have the same size and the same head as the frame that is on
its way, if nothing else comes between. Therefore there is a room for the rest of this frame's payload, and then by
turns one for a head and one for a payload. A frame that turns out to be another one is taken out of its rooms and read
in the usual way.
"""

from __future__ import annotations

from typing import Final

from rstreams.net._proton.incoming_parts import IncomingPart

_MOST_FRAMES: Final = 64
"""The most frames with rooms; the kernel takes 1,024 pieces in one call on Linux, and one that is too many fails."""


class IncomingRooms:
    """The rooms behind the beginning of one frame.

    Attributes:
        part: The payload of that frame.
        rooms: The rooms, one behind the other; none if the payload has no room.
    """

    __slots__ = ("_begin", "part", "rooms")

    def __init__(self, part: IncomingPart) -> None:
        """Make the rooms for what comes behind the part of a payload that has come."""
        self.part = part
        self.rooms: list[memoryview] = []
        if part.room is None:
            return
        head, size = part.head, part.size
        self.rooms.append(part.rest)
        behind = part.behind
        self._begin = head.begin(head.size + size)
        count = min(len(behind) // size, _MOST_FRAMES)
        heads = memoryview(bytearray(count * head.size))
        for at in range(count):
            self.rooms += heads[at * head.size : (at + 1) * head.size], behind[at * size : (at + 1) * size]

    def whole_frames(self, came: int) -> int:
        """Return how many frames with the expected head have come whole, in `came` bytes behind the first room."""
        most = came // (len(self._begin) + self.part.size)
        count = 0
        while count < most and self.rooms[1 + 2 * count] == self._begin:
            count += 1
        return count

    def begun(self, frames: int, came: int) -> IncomingPart | None:
        """Return the payload of the frame behind `frames` whole ones, if its `came` bytes have the expected head."""
        head, size = self.part.head, self.part.size
        if came < head.size or self.rooms[1 + 2 * frames] != self._begin:
            return None
        part = IncomingPart(head, size, came - head.size)
        return None if part.room is None else part

    def rest(self, frames: int, came: int) -> bytes:
        """Return `came` bytes that are in the rooms behind the first one and those of `frames` whole frames."""
        result: list[memoryview] = []
        for room in self.rooms[1 + 2 * frames :]:
            result.append(room[:came])
            came -= len(result[-1])
            if not came:
                break
        return b"".join(result)
