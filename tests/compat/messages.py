"""The messages of the cases: what message a number has in each form, and whether a message came as it was sent.

Both sides run this file, each with its own version: what one of them encodes, the other compares after decoding.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from rstreams import Message
from rstreams.message import Byte, Int, Short, Symbol, UByte, UInt, ULong, UShort

_DAY: Final = datetime(2026, 1, 1, tzinfo=UTC)


def _record(number: int) -> dict[str, object]:
    return {"number": number, "station": f"Zürich {number}", "celsius": number / 8, "raw": bytes([number % 256]) * 9}


def _types(number: int) -> list[object]:
    small = number % 100
    typed = [Byte(-small), Short(small), Int(number), UByte(small), UShort(small), UInt(number), ULong(number)]
    moment = _DAY + timedelta(milliseconds=number)
    others = [Symbol(f"s-{number}"), uuid.UUID(int=number), moment, Decimal(number), True, None, -(2**40) - number]
    return [*typed, *others, b"b%d" % number, {"deep": [number, {"deeper": f"{number}"}]}]


FORMS: Final[dict[str, Callable[[int], Any]]] = {
    "int": lambda number: number,
    "bytes": b"message %d".__mod__,
    "text": "message {}: ünï".format,
    "map": _record,
    "types": _types,
    "none": lambda _number: None,
    "large": lambda number: bytes([number % 251]) * (300_000 + number),
}
"""The bodies, by the name of their form."""

MIXED: Final = ("int", "bytes", "text", "map", "types", "none")
"""The forms that the messages of form "mixed" have in turn."""


def message_of(form: str, number: int, keys: int = 0, fields: Mapping[str, Any] | None = None) -> Message:
    """Return the message of a number.

    Args:
        form: One of `FORMS`, or "mixed".
        number: Its number, which is in its properties also.
        keys: So many keys, one of which is in the annotation by which a log finds its partition; 0: none.
        fields: More fields of the message, or others than these.
    """
    form = MIXED[number % len(MIXED)] if form == "mixed" else form
    given: dict[str, Any] = {"id": f"m-{number}", "properties": {"number": number, "form": form}}
    if keys:
        given["annotations"] = {"x-opt-partition-key": f"key {number % keys}"}
    return Message(FORMS[form](number), **(given | dict(fields or {})))


def told_of(message: Message) -> dict[str, Any]:
    """Return what the driver wants to know of a message that came."""
    number, form = message.properties["number"], message.properties["form"]
    found, wanted = described(message.body), described(FORMS[form](number))
    at = next((at for at, (one, other) in enumerate(zip(found, wanted, strict=False)) if one != other), 0)
    wrong = "" if found == wanted else f"{number}: {found[at : at + 60]!r} instead of {wanted[at : at + 60]!r}"
    return {
        "number": number,
        "wrong": wrong,
        "attempts": message.delivery_count,
        "priority": message.priority,
        "subject": message.subject,
        "id": message.id,
        "annotations": {str(key): described(value) for key, value in message.annotations.items()},
        "offset": message.annotations.get("x-stream-offset"),
    }


def described(value: object) -> str:
    """Return a value with its types, as a text that is the same in both versions."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{described(key)}: {described(each)}" for key, each in value.items()) + "}"
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return "[" + ", ".join(map(described, value)) + "]"
    return f"{type(value).__name__} {value!s}"
