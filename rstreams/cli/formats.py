r"""The lines that `recv --format` writes: text with `%` and a letter for each part of a message.

    %s     the body as text                 %k     the key (the annotation x-opt-partition-key)
    %i     the id                           %p{N}  the property N
    %u     the subject                      %a{N}  the annotation N
    %o     the offset in a log              %t     the time when the message was made
    %c     the content type                 %d     the failed attempts to deliver it
    %r     the address for answers          %C     the correlation id
    %g     the group                        %S     the size of the body as text, in bytes
    %n     its number, from 1               %j     the whole message, as --json writes it
    %%     a percent sign                   \n \t \0 \\

A part that a message does not have is empty. A line ends with a newline, unless the format ends with `\n` or `\0`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from rstreams.cli.envelope import envelope_line, plain_value
from rstreams.cli.exit_codes import mistake
from rstreams.message import Message

KEY: Final = "x-opt-partition-key"
OFFSET: Final = "x-stream-offset"

_PIECE: Final = re.compile(r"%([pa])\{([^{}]*)\}|%(.)?|\\(.)?", re.DOTALL)
_ESCAPES: Final = {"n": b"\n", "t": b"\t", "0": b"\0", "\\": b"\\"}

Part = Callable[[Message, int], bytes]
"""Writes one part of a message; the number counts the messages."""


def body_bytes(body: object) -> bytes:
    """Return a body as text: bytes as they are, text in UTF-8, and any other value as JSON."""
    if type(body) is bytes:
        return body
    return value_bytes(body)


def value_bytes(value: object) -> bytes:
    """Return any value of a message as text; None is empty."""
    if value is None:
        return b""
    plain = plain_value(value)
    text = plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False, separators=(",", ":"))
    return text.encode(errors="surrogatepass")


_PARTS: Final[Mapping[str, Part]] = {
    "s": lambda message, _: body_bytes(message.body),
    "k": lambda message, _: value_bytes(message.annotations.get(KEY)),
    "i": lambda message, _: value_bytes(message.id),
    "u": lambda message, _: value_bytes(message.subject),
    "o": lambda message, _: value_bytes(message.annotations.get(OFFSET)),
    "t": lambda message, _: value_bytes(message.creation_time),
    "c": lambda message, _: value_bytes(message.content_type),
    "d": lambda message, _: value_bytes(message.delivery_count),
    "r": lambda message, _: value_bytes(message.reply_to),
    "C": lambda message, _: value_bytes(message.correlation_id),
    "g": lambda message, _: value_bytes(message.group_id),
    "S": lambda message, _: value_bytes(len(body_bytes(message.body))),
    "n": lambda _, number: value_bytes(number),
    "j": lambda message, _: envelope_line(message).encode(errors="surrogatepass"),
}


def writer_of(form: str) -> Part:
    """Return what writes a message in a format.

    Errors: `CommandEnded` for a format that cannot be.
    """
    pieces: list[bytes | Part] = []
    at = 0
    for found in _PIECE.finditer(form):
        pieces += [form[at : found.start()].encode(errors="surrogateescape"), _piece(form, found)]
        at = found.end()
    pieces.append(form[at:].encode(errors="surrogateescape"))
    if not form.endswith((r"\n", r"\0")):
        pieces.append(b"\n")
    return lambda message, number: b"".join(
        piece if isinstance(piece, bytes) else piece(message, number) for piece in pieces
    )


def _piece(form: str, found: re.Match[str]) -> bytes | Part:
    kind, name, letter, escaped = found.groups()
    if kind is not None:
        return _named(kind, name)
    if escaped is not None and escaped in _ESCAPES:
        return _ESCAPES[escaped]
    if letter == "%":
        return b"%"
    if letter is not None and letter in _PARTS:
        return _PARTS[letter]
    what = form[found.start() : found.start() + 2]
    known = " ".join(f"%{each}" for each in _PARTS)
    msg = rf"--format: {what!r} is none of {known} %p{{NAME}} %a{{NAME}} %% \n \t \0 \\"
    raise mistake(msg)


def _named(kind: str, name: str) -> Part:
    def of_properties(message: Message, _: int) -> bytes:
        return value_bytes(message.properties.get(name))

    def of_annotations(message: Message, _: int) -> bytes:
        values: Mapping[Any, Any] = message.annotations
        return value_bytes(values.get(name))

    return of_properties if kind == "p" else of_annotations
