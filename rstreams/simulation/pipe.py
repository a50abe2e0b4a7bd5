"""One direction of a connection in memory: bytes that were sent, are on their way, and have arrived."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Final

import trio

from rstreams.simulation.agenda import Agenda

GRAIN_S: Final = 0.0005
"""Bytes arrive at multiples of this time, in seconds. The fewer moments there are, the quicker is the simulation."""

_PIECES: Final = 64
"""After so many pieces they may be twice as long, so that a long message does not become thousands of them."""

BUFFER_BYTES: Final = 64 * 1024
"""The most bytes that a direction holds: on their way, or arrived and not yet read. Then the sender waits."""

LARGE_BUFFER_BYTES: Final = 4 * 1024 * 1024
"""The same in a network that takes much at once, such as that within one machine."""


@dataclass(slots=True)
class Path:
    """How bytes travel in one direction between two hosts.

    Attributes:
        latency_s: The shortest time on the way, in seconds.
        jitter_s: The most that is added to it; bytes never overtake each other.
        bytes_per_s: The bandwidth; None: there is no limit.
        piece_bytes: The most bytes that one call sends or reads; the real number is drawn. None: any number.
        blocked: Whether nothing arrives: bytes wait, as TCP sends them again and again.
        buffer_bytes: The most bytes that a connection holds.
    """

    latency_s: float = 0.0005
    jitter_s: float = 0.001
    bytes_per_s: float | None = None
    piece_bytes: int | None = None
    blocked: bool = False
    buffer_bytes: int = BUFFER_BYTES


class Pipe:
    """The bytes from one socket to another one.

    Args:
        path: How they travel; a part of the network, which may change it.
        agenda: Has them arrive.
        random: Draws what differs from call to call.
        sent: Called with the bytes of each call that sends.

    Attributes:
        blocked: Whether nothing arrives on this connection, besides what `path` says.
        piece_bytes: As that of the path, for this connection.
        bytes_per_s: As that of the path, for this connection.
        extra_s: A delay of this connection, in seconds.
        broken: Whether the connection was reset.
        ended: Whether no further bytes will come, when those that have arrived are read.
        closed_reader: Called when bytes, or the end (None), arrive for a socket that is closed; None: it is open.
        on_break: Called after the bytes of `break_after`.
    """

    def __init__(self, path: Path, agenda: Agenda, random: Random, sent: Callable[[bytes], None]) -> None:
        self.path = path
        self.blocked = False
        self.piece_bytes: int | None = None
        self.bytes_per_s: float | None = None
        self.extra_s = 0.0
        self.broken = False
        self.ended = False
        self.closed_reader: Callable[[bytes | None], None] | None = None
        self.on_break: Callable[[], None] = self.break_off
        self._agenda = agenda
        self._random = random
        self._sent = sent
        self._flight: deque[tuple[float, bytes | None]] = deque()  # None: the end
        self._ready = bytearray()
        self._size = 0
        self._left: int | None = None
        self._pieces = 0
        self._last_due = 0.0
        self._now = trio.lowlevel.current_clock().current_time
        self.readers = trio.lowlevel.ParkingLot()
        self.writers = trio.lowlevel.ParkingLot()

    @property
    def unread(self) -> int:
        """The bytes that have arrived."""
        return len(self._ready)

    @property
    def room(self) -> int:
        """How many bytes may be sent now."""
        return self.path.buffer_bytes - self._size

    def put(self, data: bytes | memoryview) -> int:
        """Send the bytes that there is room for, or fewer; return how many."""
        size = self._piece(min(len(data), self.room, self.room if self._left is None else self._left))
        piece = bytes(data[:size])
        self._sent(piece)
        self._size += size
        if self._left is not None:
            self._left -= size
            if not self._left:
                self._left = None
                self._agenda.after(self.path.latency_s + self.path.jitter_s, self.on_break)
        self._fly(piece, size / min(self.bytes_per_s or math.inf, self.path.bytes_per_s or math.inf))
        return size

    def put_end(self) -> None:
        """Tell the reader that nothing more comes, behind what is on its way."""
        self._fly(None, 0.0)

    def take(self, most: int) -> bytes:
        """Read bytes that have arrived, at most `most`, or fewer."""
        size = self._piece(min(most, len(self._ready)))
        piece = bytes(self._ready[:size])
        del self._ready[:size]
        self._size -= size
        self.writers.unpark_all()
        return piece

    def break_off(self) -> None:
        """Reset the connection: both sides get an error, and what was on its way is gone."""
        self.broken = True
        self._flight.clear()
        self._ready.clear()
        self.wake()

    def break_after(self, count: int | None) -> None:
        """Reset the connection when so many more bytes have been sent, in the middle of anything; None: never."""
        self._left = count

    def wake(self) -> None:
        """Have those who wait look again."""
        self.readers.unpark_all()
        self.writers.unpark_all()

    def unblock(self) -> None:
        """Let what has waited arrive."""
        if self._flight:
            self._agenda.after(self.path.latency_s, self._arrive)

    def _piece(self, most: int) -> int:
        limit = min(self.piece_bytes or BUFFER_BYTES, self.path.piece_bytes or BUFFER_BYTES)
        if limit == BUFFER_BYTES or not most:
            return most
        self._pieces += 1
        return self._random.randint(1, min(most, limit << self._pieces // _PIECES))

    def _fly(self, piece: bytes | None, takes_s: float) -> None:
        travel_s = self.path.latency_s + self.extra_s + self.path.jitter_s * self._random.random()
        due = max(self._now() + travel_s, self._last_due) + takes_s
        self._last_due = math.ceil(due / GRAIN_S) * GRAIN_S
        self._flight.append((self._last_due, piece))
        self._agenda.at(self._last_due, self._arrive)

    def _arrive(self) -> None:
        if self.blocked or self.path.blocked:
            return
        now = self._now()
        while self._flight and self._flight[0][0] <= now:
            _, piece = self._flight.popleft()
            if self.closed_reader is not None:
                self.closed_reader(piece)
            elif piece is None:
                self.ended = True
            else:
                self._ready += piece
        self.readers.unpark_all()
