"""Large messages, which do not fit into one frame, given to the engine in parts.

Each time the window of a session closes on a delivery, the engine copies all bytes of the delivery that it has. For a
message of 20 MB that takes a minute, in which no other link has a turn. Therefore the engine gets no more of a message
than it can soon send. The link's next frames wait behind a large message.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Final, cast

from rstreams._codec.data_sections import largest_body
from rstreams.protocol.frames import Flow, Transfer

PART_BYTES: Final = 128 * 1024
"""The bytes of a part; with fewer bytes waiting in the session the engine gets another part."""


class LargeMessages:
    """The transfers of one sending link from the first large message on, until all of it is in the engine.

    Attributes:
        deliveries: How many deliveries wait, including one that is in the engine in part.

    Context: Only the task that owns the connection.
    """

    def __init__(self) -> None:
        """Have no frames."""
        self.deliveries = 0
        self._waiting: deque[Iterator[Transfer | Flow]] | None = None  # most links never have any

    @property
    def waits(self) -> bool:
        """Whether further frames have to wait."""
        return bool(self._waiting)

    def take(self, frame: Transfer | Flow, frame_bytes: int = 0) -> bool:
        """Take a frame if it has a large message, or comes behind one; tell whether it did.

        Args:
            frame: A frame of the link.
            frame_bytes: The most bytes of a message that go beside the engine in one frame. A larger message is one
                part, of which a body is not encoded. 0: messages go through the engine, in parts of `PART_BYTES`.
        """
        if not self._waiting and (isinstance(frame, Flow) or not _has_large(frame.payloads, frame_bytes or PART_BYTES)):
            return False
        if self._waiting is None:
            self._waiting = deque()
        if isinstance(frame, Flow):
            self._waiting.append(iter([frame]))
        else:
            self._waiting.append(_in_parts(frame, frame_bytes))
            self.deliveries += 0 if frame.more else len(frame.deliveries)
        return True

    def go_on(self, send: Callable[[Transfer | Flow], None], has_room: Callable[[], bool]) -> None:
        """Give the engine waiting frames while it has room.

        Args:
            send: Gives a frame to the engine.
            has_room: Tells whether the engine has sent most of the bytes that it was given before.
        """
        while self._waiting and has_room():
            frame = next(self._waiting[0], None)
            if frame is None:
                self._waiting.popleft()
                continue
            send(frame)
            if isinstance(frame, Transfer) and not frame.more:
                self.deliveries -= len(frame.deliveries)

    def drop(self) -> None:
        """Forget the waiting frames, because the link has ended."""
        self._waiting = None
        self.deliveries = 0


def _has_large(payloads: Sequence[bytes], most: int) -> bool:
    largest = largest_body(payloads if isinstance(payloads, list) else list(payloads))
    return (largest if largest >= 0 else max(map(len, payloads))) > most


def _in_parts(frame: Transfer, frame_bytes: int) -> Iterator[Transfer]:
    """Return the parts of a frame: large messages in parts, the messages between them in runs."""
    most = frame_bytes or PART_BYTES
    if frame.more or frame.aborted or not _has_large(frame.payloads, most):
        yield frame
        return
    at = 0
    for large, run in groupby(frame.payloads, lambda payload: len(payload) > most):
        payloads = list(run)
        deliveries = frame.deliveries[at : at + len(payloads)]
        at += len(payloads)
        run_frame = Transfer(deliveries, payloads, frame.settled, are_bodies=frame.are_bodies)
        if not large:
            yield run_frame
            continue
        are_bodies = frame.are_bodies and frame_bytes > 0
        payloads = payloads if are_bodies else list(run_frame.encoded().payloads)
        for delivery, payload in zip(deliveries, payloads, strict=True):
            view = memoryview(payload)
            part_bytes = len(payload) if frame_bytes else PART_BYTES
            for begin in range(0, len(payload), part_bytes):
                part, more = view[begin : begin + part_bytes], begin + part_bytes < len(payload)
                yield Transfer([delivery], [cast("bytes", part)], frame.settled, more, are_bodies=are_bodies)
