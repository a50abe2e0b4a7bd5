"""A message that has come in pieces; they are joined once, when it is looked at."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar, overload

from rstreams._codec.section_heads import EMPTY_BODY, body_at
from rstreams.errors import RemoteProtocolError
from rstreams.message import Message, decode_body, decode_message

Decode = TypeVar("Decode", bound=Callable[[bytes], Message])

_decoders: Final[list[Callable[..., Any]]] = [decode_message]
"""The functions that decode a message without a look at its body."""


def decodes_around_body(decode: Decode) -> Decode:
    """Declare that a function decodes a message without a look at its body; return the function."""
    _decoders.append(decode)
    return decode


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
        """Return its body, as `decode_body` would; None if it does not end with a body of bytes, or is malformed."""
        made = self._made(decode_body)
        return None if made is None else [made[1]]

    def messages(self, decode: Callable[[bytes], Any]) -> list[Message] | None:
        """Return it decoded, with its body uncopied; None where `bodies` has none, or `decode` may look at the body."""
        made = self._made(decode) if any(decode is each for each in _decoders) else None
        return None if made is None else [replace(made[0], body=made[1])]

    def _made(self, decode: Callable[[bytes], Any]) -> tuple[Any, bytes] | None:
        """Return what `decode` makes of the sections before the body, and the body."""
        first = self._pieces[0]
        found = body_at(first)
        if found is None or found[1] + found[2] != self.size:
            return None
        begin, start, _ = found
        try:
            made = decode(first[:begin] + EMPTY_BODY)
        except RemoteProtocolError:  # whoever decodes the whole message meets it again
            return None
        rest = (memoryview(first)[start:],) if start < len(first) else ()
        return made, b"".join((*rest, *self._pieces[1:]))  # which copies nothing if the body is one piece

    def __len__(self) -> int:
        return 1

    def __iter__(self) -> Iterator[bytes]:
        return iter((self[0],))  # which knows how many are left

    @overload
    def __getitem__(self, index: int) -> bytes: ...
    @overload
    def __getitem__(self, index: slice) -> list[bytes]: ...
    def __getitem__(self, index: int | slice) -> bytes | list[bytes]:
        if self._message is None:
            self._message = b"".join(self._pieces)
            self._pieces = (self._message,)
        return [self._message][index]
