"""Columns of encoded messages, in Python; see `rstreams.columns`. `_columns.c` has the same in C.

Python decodes each message, and therefore calls all messages rare. C reads most messages itself.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import Any, Final, TypeAlias


class ColumnForm(IntEnum):
    """The form of a column's values; `_columns.c` has the same numbers."""

    BYTES = 0
    TEXT = 1
    TIME = 2
    """Microseconds since 1970, in 64 bits."""
    INT32 = 3
    INT64 = 4
    FLAG = 5
    MAP = 6
    """From text to text or null."""


_TEXTS: Final = (
    "id",
    "subject",
    "content_type",
    "content_encoding",
    "address",
    "reply_to",
    "correlation_id",
    "group_id",
    "reply_to_group_id",
    "body_type",
)
FORMS_OF: Final[dict[str, tuple[ColumnForm, ...]]] = {
    "body": (ColumnForm.BYTES,),
    "user_id": (ColumnForm.BYTES,),
    **dict.fromkeys(_TEXTS, (ColumnForm.TEXT,)),
    **dict.fromkeys(("creation_time", "expiry_time"), (ColumnForm.TIME,)),
    **dict.fromkeys(("durable", "first_acquirer"), (ColumnForm.FLAG,)),
    **dict.fromkeys(("priority", "delivery_count", "group_sequence"), (ColumnForm.INT32, ColumnForm.INT64)),
    "ttl_s": (ColumnForm.INT64,),
    **dict.fromkeys(("properties", "annotations"), (ColumnForm.MAP,)),
}
"""The forms that a field may have."""

ANNOTATION: Final = "annotation:"
"""The field of a single annotation that is a whole number begins with this; its key follows."""


def forms_of(field: str) -> tuple[ColumnForm, ...]:
    """Return the forms that a field, or a single annotation, may have."""
    return (ColumnForm.INT64,) if field.startswith(ANNOTATION) else FORMS_OF.get(field, ())


Part: TypeAlias = tuple[int, int, list[Any], list[Any]]
"""An Arrow array: its length, its nulls, its buffers, and for a map the arrays of its keys and its values."""

_NUMBERS: Final = {ColumnForm.TIME: "q", ColumnForm.INT32: "i", ColumnForm.INT64: "q"}
_MAX_INT32: Final = 2**31 - 1


class ColumnsInPython:
    """Columns that the caller fills by `append`; see `columns.FieldColumns`."""

    def __init__(self, forms: Sequence[ColumnForm]) -> None:
        """Have no rows."""
        self._forms = forms
        self._start()

    def _start(self) -> None:
        self._columns: list[list[Any]] = [[] for _ in self._forms]
        self.rows = 0
        self.size = 0

    def add(self, messages: Iterator[bytes], most: int, most_bytes: int, largest: int) -> bytes | None:  # noqa: ARG002
        """Return the next message: here all are rare."""
        if self.rows >= most or self.size >= most_bytes:
            return None
        return next(messages, None)

    def append(self, values: list[Any]) -> None:
        """Add a row."""
        for column, value in zip(self._columns, values, strict=True):
            column.append(value)
            self.size += len(value) if isinstance(value, bytes | str) else 8
        self.rows += 1

    def take(self) -> list[Part]:
        """Return the columns, and start anew."""
        made = [_part(form, column) for form, column in zip(self._forms, self._columns, strict=True)]
        self._start()
        return made


def _part(form: ColumnForm, values: list[Any]) -> Part:
    rows, nulls = len(values), values.count(None)
    valid = _bits([value is not None for value in values]) if nulls else None
    if form is ColumnForm.FLAG:
        return rows, nulls, [valid, _bits(values)], []
    if form in _NUMBERS:
        largest = _MAX_INT32 if form is ColumnForm.INT32 else 2**63 - 1
        return rows, nulls, [valid, array(_NUMBERS[form], [min(value or 0, largest) for value in values])], []
    if form is ColumnForm.MAP:
        maps = [value or {} for value in values]
        keys = [name for each in maps for name in each]
        items = [item for each in maps for item in each.values()]
        children = [_part(ColumnForm.TEXT, keys), _part(ColumnForm.TEXT, items)]
        return rows, nulls, [valid, _offsets(map(len, maps))], children
    encoded = [value.encode() if isinstance(value, str) else value or b"" for value in values]
    return rows, nulls, [valid, _offsets(map(len, encoded)), b"".join(encoded)], []


def _offsets(sizes: Iterator[int]) -> bytes:
    at, offsets = 0, [0]
    for size in sizes:
        at += size
        offsets.append(at)
    return struct.pack(f"={len(offsets)}i", *offsets)


def _bits(values: Sequence[object]) -> bytes:
    bits = bytearray(-(-len(values) // 8))
    for at, value in enumerate(values):
        if value:
            bits[at // 8] |= 1 << at % 8
    return bytes(bits)
