"""The sections of a message on the wire: their kinds, their order, and the content of the body (3.2).

    header | delivery-annotations | message-annotations | properties | application-properties | body   | footer
    0x70     0x71                   0x72                  0x73         0x74                     0x75-77  0x78

A section is a described value: its code, as the descriptor, tells the meaning of the list, map or value after it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from rstreams._codec.decode_in_python import read_binary, read_list, read_value
from rstreams._codec.types import AmqpSequence, Binary, Symbol

HEADER: Final = 0x70
MESSAGE_ANNOTATIONS: Final = 0x72
PROPERTIES: Final = 0x73
APPLICATION_PROPERTIES: Final = 0x74
DATA: Final = 0x75
SEQUENCE: Final = 0x76
VALUE: Final = 0x77
FOOTER: Final = 0x78

START: Final[dict[int, bytes]] = {code: bytes((0x00, 0x53, code)) for code in range(HEADER, FOOTER + 1)}
"""How each section starts as it is written here: described, by the small ulong that is its code."""

_NAMES: Final[dict[str, int]] = {
    "amqp:header:list": HEADER,
    "amqp:delivery-annotations:map": 0x71,
    "amqp:message-annotations:map": MESSAGE_ANNOTATIONS,
    "amqp:properties:list": PROPERTIES,
    "amqp:application-properties:map": APPLICATION_PROPERTIES,
    "amqp:data:binary": DATA,
    "amqp:amqp-sequence:list": SEQUENCE,
    "amqp:amqp-value:*": VALUE,
    "amqp:footer:map": FOOTER,
}


def read_section(buffer: bytes, at: int, before: int = 0) -> tuple[int, int]:
    """Return the code of the section at `at`, which comes after section `before`, and where its content starts."""
    code: Any = None
    if buffer[at] == 0:
        if buffer[at + 1] == 0x53:
            code, at = buffer[at + 2], at + 3
            if before < code <= FOOTER and code >= HEADER:
                return code, at
        else:
            descriptor, at = read_value(buffer, at + 1)
            code = _NAMES.get(descriptor) if isinstance(descriptor, Symbol) else descriptor
    if not isinstance(code, int) or not HEADER <= code <= FOOTER:
        msg = f"no section of a message has the descriptor {code!r:.80}"
        raise ValueError(msg)
    if code <= before:
        msg = f"section 0x{code:02x} of a message cannot follow section 0x{before:02x}"  # 3.2: the order is fixed
        raise ValueError(msg)
    return code, at


def read_body(buffer: bytes, at: int, code: int) -> tuple[Any, int]:
    """Return the body, whose first section is `code` with its content at `at`, and the position after the body."""
    if code == VALUE:
        value, at = read_value(buffer, at)
        return Binary(value) if type(value) is bytes else value, at
    read: Callable[[bytes, int], tuple[Any, int]] = read_binary if code == DATA else read_list
    part, at = read(buffer, at)
    if at == len(buffer) and code == DATA:
        return part, at
    parts: list[Any] = [part]
    while at < len(buffer):
        following, content = read_section(buffer, at)
        if following != code:
            break
        part, at = read(buffer, content)
        parts.append(part)
    return b"".join(parts) if code == DATA else AmqpSequence(item for part in parts for item in part), at
