"""A message that has come in pieces; they are joined once, when it is looked at."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, overload

_DATA: Final = b"\x00\x53\x75\xb0"  # a Data section whose length has four bytes
_HEAD: Final = len(_DATA) + 4
_read_length: Final = struct.Struct(">I").unpack_from


class JoinedMessage(Sequence[bytes]):
    """One encoded message, as the only one of its run.

    Attributes:
        size: Its bytes.
    """

    __slots__ = ("_message", "_pieces", "size")

    def __init__(self, pieces: Sequence[bytes]) -> None:
        """Have the message that these pieces are."""
        self._pieces = pieces
        self._message: bytes | None = None
        self.size = sum(map(len, pieces))

    def bodies(self) -> list[bytes] | None:
        """Return its body, as `decode_body` would; None if it has anything else than a body of bytes."""
        first = self._pieces[0]
        if first[:4] != _DATA or len(first) < _HEAD or _read_length(first, 4)[0] != self.size - _HEAD:
            return None
        if len(first) == _HEAD:
            return [b"".join(self._pieces[1:])]  # which copies nothing if the body is one piece
        return [b"".join((memoryview(first)[_HEAD:], *self._pieces[1:]))]

    def __len__(self) -> int:
        return 1

    @overload
    def __getitem__(self, index: int) -> bytes: ...
    @overload
    def __getitem__(self, index: slice) -> list[bytes]: ...
    def __getitem__(self, index: int | slice) -> bytes | list[bytes]:
        if self._message is None:
            self._message = b"".join(self._pieces)
            self._pieces = (self._message,)
        return [self._message][index]
