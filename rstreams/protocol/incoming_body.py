"""A message that is read while it comes: the sections before its body, and the bytes of the body."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from rstreams._codec.section_heads import section_at
from rstreams._codec.sections import DATA, FOOTER
from rstreams._core.kept_errors import KeptError
from rstreams.errors import RStreamsError

MAX_HEAD_BYTES: Final = 1024 * 1024
"""The most bytes before the body; they are kept until it begins."""

MAX_WHOLE_BYTES: Final = 64 * 1024 * 1024
"""The most bytes of a message whose body is not binary data and can only be read as a whole."""

BODY_BYTES: Final = 256 * 1024
"""The bytes of a body that may wait for their reader; then no more are taken from the network."""


class Splitter:
    """Finds the sections of a message in bytes that come in pieces of any size.

    Attributes:
        head: The sections before the body, when the body has begun; the whole message if its body is not binary data,
            when it has come.
        is_whole: Whether `head` is a whole message.

    Errors: `ValueError` for bytes that are not a message.
    """

    def __init__(self) -> None:
        """Expect the first byte."""
        self.head: bytes | None = None
        self.is_whole = False
        self._buffer = bytearray()
        self._left = 0  # bytes of the current data section that have not come yet
        self._in_footer = False

    def feed(self, part: bytes) -> bytes:
        """Take the next bytes; return those that belong to the body."""
        self._buffer += part
        if self.head is None:
            self._read_head()
            if self.head is None:
                return b""
        return self._read_body()

    def finish(self) -> None:
        """Check at the end that nothing is missing."""
        if self.head is None and self.is_whole:
            self.head = bytes(self._buffer)
        elif self.head is None or self._left or (self._buffer and not self._in_footer):
            msg = "the message ends in the middle of a section, or before its body"
            raise ValueError(msg)

    def _read_head(self) -> None:
        at = 0
        while not self.is_whole and (found := section_at(self._buffer, at)) is not None:
            code, start, size = found
            if code == DATA:
                self.head = bytes(self._buffer[:at])
                del self._buffer[:at]
                return
            if code >= DATA:
                self.is_whole = True
            elif len(self._buffer) - start < size:
                break
            else:
                at = start + size
        if len(self._buffer) > (MAX_WHOLE_BYTES if self.is_whole else MAX_HEAD_BYTES):
            msg = "the part before the body, or a body that is not binary data, is too large to be read as a whole"
            raise ValueError(msg)

    def _read_body(self) -> bytes:
        body: list[bytes] = []
        buffer = self._buffer
        while buffer and not self._in_footer:
            if not self._left:
                found = section_at(buffer, 0)
                if found is None:
                    break
                code, start, size = found
                if code not in (DATA, FOOTER):
                    msg = "another section comes between the data sections of a message"
                    raise ValueError(msg)
                self._in_footer = code == FOOTER
                self._left = 0 if self._in_footer else size
                del buffer[:start]
            piece = bytes(buffer[: self._left])
            del buffer[: self._left]
            self._left -= len(piece)
            body.append(piece)
        if self._in_footer:
            buffer.clear()
        return b"".join(body)


class IncomingBody:
    """The bytes of a body between the link that receives them and their reader.

    Attributes:
        on_news: Called when `take` has new bytes or an end to report.
    """

    def __init__(self, on_room: Callable[[], None]) -> None:
        """Start without bytes; `on_room` is called when there is room for more again."""
        self.on_news: Callable[[], None] = _nothing
        self._on_room = on_room
        self._chunks: deque[bytes] = deque()
        self._size = 0
        self._ended = False
        self._skipped = False
        self._error: KeptError[BaseException] | None = None

    @property
    def through(self) -> bool:
        """Whether all bytes have come and been taken."""
        return self._ended and not self._chunks

    def room(self) -> int:
        """Return how many more bytes may wait here; any number if they are not read any more."""
        return BODY_BYTES if self._skipped or self._error is not None else BODY_BYTES - self._size

    def take(self) -> bytes | None:
        """Return the next bytes; None if there are none now, or no more (`through`).

        Errors: The error that ended the body too early; `RStreamsError` if its message has been settled.
        """
        if self._chunks:
            chunk = self._chunks.popleft()
            self._size -= len(chunk)
            self._on_room()
            return chunk
        if self._error is not None:
            raise self._error.again()
        return None

    def put(self, chunk: bytes) -> None:
        """Keep received bytes, if they will be read."""
        if chunk and not self._skipped and self._error is None:
            self._chunks.append(chunk)
            self._size += len(chunk)
            self.on_news()

    def end(self) -> None:
        """Note that all bytes have come."""
        if self._error is None:
            self._ended = True
            self.on_news()

    def fail(self, error: BaseException) -> None:
        """Note that no more bytes come; those that came can still be read."""
        if not self._ended and self._error is None:
            self._error = KeptError(error)
            self.on_news()

    def skip(self) -> None:
        """Drop unread bytes, and those still to come: the message has been settled."""
        if not self._skipped and not self.through:
            self._skipped = True
            self._chunks.clear()
            self._size = 0
            self._ended = False
            text = "the body of a message can only be read until the message is settled: while it is the current one"
            self._error = self._error or KeptError(RStreamsError(text))
            self.on_news()
            self._on_room()


def _nothing() -> None:
    """Do nothing: there is no reader yet."""
