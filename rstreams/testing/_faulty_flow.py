"""One direction of a connection through a `FaultyNetwork`.

Theory of operation. One task reads runs of bytes. At most `BUFFER_BYTES` of them wait: a receiver that does not read
stops the sender here as it would without this network. Another task passes them on. A run waits until it is due. Then
it is cut at the places where a trigger fires, at the sizes of bandwidth or slicing, and at the ends of frames: a fault
at a frame happens exactly there. The conditions that hold when bytes leave count, and not those when they came.

A frame can be recognized only from its first bytes. They are held back until it is recognized, but only while a trigger
waits for a frame.
"""

from __future__ import annotations

import contextlib
import math
import os
import random
import socket
import struct
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Protocol

import trio

from rstreams.runtime.scope import open_nursery
from rstreams.testing.faults import Conditions, FaultTrigger, OneWay
from rstreams.testing.seen_frames import SEEN_BYTES, SeenFrame, is_amqp, read_frame

BUFFER_BYTES: Final = 256 * 1024
"""The most bytes under way in one direction of a connection: delayed bytes are among them."""

_PIECE_BYTES: Final = 64 * 1024

_PIECES_A_SECOND: Final = 50
"""The number of parts in which a bandwidth's bytes of one second are passed on."""


class FlowListener(Protocol):
    """The calls of a flow to its connection."""

    def triggers(self, way: OneWay) -> Iterable[FaultTrigger]:
        """Return the triggers that wait for something in this direction."""
        ...

    def fire(self, trigger: FaultTrigger) -> None:
        """Do a trigger's faults."""
        ...

    def passed(self, way: OneWay, *, passed: int = 0, swallowed: int = 0, corrupted: int = 0) -> None:
        """Count bytes."""
        ...

    def broken(self, way: OneWay) -> None:
        """Note that the end to which this direction leads has broken the connection."""
        ...

    def reset_seen(self) -> None:
        """Note that a reset has gone through the network."""
        ...


@dataclass(slots=True)
class _Bytes:
    """Bytes that were read at once; none for the end of them."""

    came: float
    shake: float  # the random part of the jitter, -1 to 1
    data: bytes
    reset: bool = False


class FaultyFlow:
    """The bytes in one direction.

    Attributes:
        conditions: How they travel now.
        position: How many bytes have been through, passed on or swallowed.
    """

    def __init__(
        self,
        way: OneWay,
        connection: FlowListener,
        source: trio.SocketStream,
        sink: trio.SocketStream,
        seed: str,
    ) -> None:
        """Prepare to pass on the bytes of `source` to `sink`."""
        self.conditions = Conditions()
        self.position = 0
        self._way: OneWay = way
        self._connection = connection
        self._source = source
        self._sink = sink
        self._sink_gone = False
        self._jitter = random.Random(f"jitter of {seed}")  # noqa: S311 - the same in every run, as wanted
        self._noise = random.Random(f"noise of {seed}")  # noqa: S311 - likewise
        self._scope = trio.CancelScope()
        self._bell = trio.Event()
        self._room = trio.Event()
        self._sending = trio.CancelScope()
        self._runs: deque[_Bytes] = deque()
        self._held = 0
        self._all_read = False
        self._pending = bytearray()
        self._free_at = -math.inf
        # the places of faults, counted like `position`
        self._stops: list[tuple[int, FaultTrigger]] = []
        self._flips: dict[int, int] = {}
        self._next_noise = math.inf
        # the frame at `position`
        self._amqp = True
        self._frame_end = 0
        self._frame_ends: list[int] = []  # of several frames that were read together
        self._waited_for = False  # a trigger has come, and may wait for frames that have not left yet
        self._head = b""  # the bytes of an unknown frame that have left
        self._seen: dict[FaultTrigger, tuple[int, int]] = {}  # how many frames it met, and how far it has looked

    async def run(self) -> None:
        """Pass on bytes until they end."""
        with self._scope:
            async with open_nursery() as nursery:
                nursery.start_soon(self._read)
                await self._pass_on()
                nursery.cancel_scope.cancel()

    def change(self, changes: dict[str, object]) -> None:
        """Change the conditions, for bytes that have not left yet."""
        for name, value in changes.items():
            setattr(self.conditions, name, value)
        if "corrupt_at" in changes:
            at, self.conditions.corrupt_at = self.conditions.corrupt_at, None
            if at is None:
                self._flips.clear()
            else:
                self._flips[self.position + at] = self.conditions.flip
        if "corrupt_probability" in changes:
            self._next_noise = self._draw_noise(self.position)
        self._free_at = -math.inf
        self._sending.cancel()
        self._bell.set()

    def watch(self, trigger: FaultTrigger) -> None:
        """Take in a trigger, from this place on."""
        if trigger.after_bytes is not None:
            self._stops.append((self.position + trigger.after_bytes, trigger))
        self._waited_for = True
        self._sending.cancel()
        self._bell.set()

    def ring(self) -> None:
        """Look again at the bytes that are held back."""
        self._bell.set()

    def abandon(self) -> None:
        """Stop: the connection that the bytes come from is closed."""
        self._scope.cancel()

    def lose_sink(self) -> None:
        """Swallow the bytes that come: the connection that the bytes go to is closed."""
        self._sink_gone = True
        self._sending.cancel()

    def break_source(self) -> None:
        """Pass on that the end from which the bytes come has broken the connection."""
        if not self._all_read:
            self._add(_Bytes(trio.current_time(), 0.0, b"", reset=True))
        elif not self.conditions.blackhole:
            self._connection.reset_seen()

    # the reading task

    async def _read(self) -> None:
        while not self._all_read:
            while self._held >= BUFFER_BYTES:
                self._room = trio.Event()
                await self._room.wait()
            reset = False
            try:
                data = await self._source.receive_some(min(_PIECE_BYTES, BUFFER_BYTES - self._held))
            except trio.ClosedResourceError:
                return  # from here
            except trio.BrokenResourceError:
                data, reset = b"", True
            if not self._all_read:
                self._add(_Bytes(trio.current_time(), self._jitter.uniform(-1, 1), bytes(data), reset))

    def _add(self, run: _Bytes) -> None:
        self._runs.append(run)
        self._held += len(run.data)
        self._all_read = not run.data
        self._bell.set()

    # the passing task

    async def _pass_on(self) -> None:
        run: _Bytes | None = None
        while True:
            self._fire()
            if self._runs:
                run = self._runs.popleft()
                self._pending += run.data
            if run is not None:
                await self._pass_pending(run)
                if not run.data:
                    await self._until_due(run)
                    self._pass_end(run)
                    return
            if not self._runs:
                await self._sleep(math.inf)

    async def _pass_pending(self, run: _Bytes) -> None:
        """Pass on the bytes that are there, except the beginning of a frame that is not recognized yet."""
        while self._pending and not self._scope.cancel_called:
            await self._until_due(run)
            size = self._recognize(last=not run.data)
            if size == 0:
                return
            if not self._fire():
                await self._send(min(size, self._most()))
                self._fire()
                for _ in range(1 if self.conditions.slice_bytes is None else 2):
                    await trio.lowlevel.checkpoint()  # twice: a receiver in this run has then had its turn

    async def _until_due(self, run: _Bytes) -> None:
        while True:
            now = self.conditions
            due = max(run.came + now.delay_s + run.shake * now.jitter_s, self._free_at)
            if now.stalled:
                due = math.inf
            elif due <= trio.current_time():
                return
            await self._sleep(due)
            self._fire()

    async def _sleep(self, until: float) -> None:
        self._bell = trio.Event()
        with trio.move_on_at(until):
            await self._bell.wait()

    def _most(self) -> int:
        """Return how many bytes may leave at once."""
        now = self.conditions
        limits = [_PIECE_BYTES, *(offset - self.position for offset, _ in self._stops)]
        if now.slice_bytes is not None:
            limits.append(now.slice_bytes)
        if now.bytes_per_s is not None:
            limits.append(max(1, int(now.bytes_per_s / _PIECES_A_SECOND)))
        return min(limits)

    async def _send(self, size: int) -> None:
        now = self.conditions
        piece = bytes(self._pending[:size])
        if now.blackhole or self._sink_gone:
            self._connection.passed(self._way, swallowed=size)
        else:
            piece = piece[: await self._write(self._corrupted(piece))]
        if self.position >= self._frame_end:
            self._head += piece
        size = len(piece)
        self.position += size
        self._held -= size
        del self._pending[:size]
        self._room.set()
        if now.bytes_per_s is not None:
            self._free_at = max(trio.current_time(), self._free_at) + size / now.bytes_per_s
        if now.slice_bytes is not None and now.gap_s:
            self._free_at = max(self._free_at, trio.current_time() + now.gap_s)

    async def _write(self, piece: bytes) -> int:
        """Send bytes, and return how many of them have left; no other task runs between that and the next step."""
        sent = 0
        while not sent:
            try:
                sent = os.write(self._sink.socket.fileno(), piece)
            except BlockingIOError:
                with trio.CancelScope() as self._sending:
                    await trio.lowlevel.wait_writable(self._sink.socket)
                if self._sending.cancelled_caught:
                    return 0  # the conditions have changed, or a trigger has come
            except OSError:
                if not self._sink_gone:
                    self._sink_gone = True
                    self._connection.broken(self._way)
                return 0
        end = self.position + sent
        flipped = sum(self.position <= at < end for at in self._flips)
        self._flips = {at: flip for at, flip in self._flips.items() if at >= end}
        self._connection.passed(self._way, passed=sent, corrupted=flipped)
        return sent

    def _pass_end(self, run: _Bytes) -> None:
        if self.conditions.blackhole or self._sink_gone:
            return
        if run.reset:
            self._connection.reset_seen()
        else:
            with contextlib.suppress(OSError):
                self._sink.socket.shutdown(socket.SHUT_WR)

    # bytes that change

    def _corrupted(self, piece: bytes) -> bytes:
        end = self.position + len(piece)
        while self._next_noise < end:
            at = int(self._next_noise)
            self._flips[at] = self.conditions.flip
            self._next_noise = self._draw_noise(at + 1)
        if not self._flips:
            return piece
        changed = bytearray(piece)
        for at, flip in self._flips.items():
            if self.position <= at < end:
                changed[at - self.position] ^= flip
        return bytes(changed)

    def _draw_noise(self, at: int) -> float:
        """Return the place of the next changed byte, from `at` on, if each has the same probability."""
        probability = self.conditions.corrupt_probability
        if probability in (0, 1):
            return at if probability else math.inf
        return at + int(math.log1p(-self._noise.random()) / math.log1p(-probability))

    # places of faults

    def _fire(self) -> bool:
        """Do the faults of this place; tell whether there were any."""
        due = [trigger for offset, trigger in self._stops if offset <= self.position]
        if due:
            self._stops = [stop for stop in self._stops if stop[0] > self.position]
            for trigger in due:
                self._connection.fire(trigger)
        return bool(due)

    def _recognize(self, *, last: bool) -> int:
        """Return how many bytes may leave before the next look at them; 0 if more must come first."""
        if self._waited_for:
            self._waited_for = False
            self._frame_end = next((end for end in self._frame_ends if end >= self.position), self._frame_end)
        if self.position < self._frame_end:
            return min(len(self._pending), self._frame_end - self.position)
        waiting = [trigger for trigger in self._connection.triggers(self._way) if trigger.waits_for_frames]
        look_at = SEEN_BYTES if any(trigger.looks_at for trigger in waiting) else 0
        self._frame_ends = [] if self._head else [self.position]
        at = 0
        while at < len(self._pending):
            frame = self._next_frame(at, look_at, whole=last)
            if frame is None:
                break
            begin = self.position + at - len(self._head)
            self._head = b""
            self._frame_end = begin + frame.size_bytes
            self._frame_ends.append(self._frame_end)
            at = self._frame_end - self.position
            if not waiting:
                self._pass_over()
            if not waiting or self._meets(frame, begin, waiting):
                break
        if self.position >= self._frame_end:  # the beginning of the next frame has not come yet
            return 0 if waiting and not last else len(self._pending)
        return min(len(self._pending), self._frame_end - self.position)

    def _meets(self, frame: SeenFrame, begin: int, waiting: Iterable[FaultTrigger]) -> bool:
        """Note which triggers a frame meets; tell whether one is to fire at it."""
        stops = len(self._stops)
        for trigger in waiting:
            count, looked_to = self._seen.get(trigger, (0, begin))
            if looked_to > begin:
                continue  # it has seen this frame: it is read again because of another trigger
            matches = trigger.matches(frame)
            self._seen[trigger] = (count + matches, self._frame_end)
            offset = trigger.offset(frame, count + 1) if matches else None
            if offset is not None:
                self._stops.append((begin + offset, trigger))
        return len(self._stops) > stops

    def _next_frame(self, at: int, look_at: int, *, whole: bool) -> SeenFrame | None:
        """Return the frame that begins at a place in the bytes; None if too little of it has come.

        `whole`: no more bytes will come.
        """
        start = self._head + bytes(self._pending[at : at + SEEN_BYTES])
        self._amqp = self._amqp and (self.position + at > len(self._head) or is_amqp(start))
        if self._amqp:
            try:
                frame = read_frame(start, look_at)
                if frame is None and whole:
                    frame = read_frame(start)
            except ValueError:
                self._amqp = False
            else:
                self._amqp = frame is None or frame.performative != "tls_header"
                return frame
        return SeenFrame("data", 0, len(start), start)

    def _pass_over(self) -> None:
        """Go on to the last frame that begins in the bytes: no trigger waits for a frame."""
        if not self._amqp:
            self._frame_end = self.position + len(self._pending)
            self._frame_ends.append(self._frame_end)
            return
        at = self._frame_end - self.position
        while at + 8 <= len(self._pending):
            (size,) = struct.unpack_from(">I", self._pending, at)
            at += 8 if self._pending.startswith(b"AMQP", at) else size
            if size < 8:
                return  # not a frame
            self._frame_end = self.position + at
            self._frame_ends.append(self._frame_end)
