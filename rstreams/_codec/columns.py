"""Columns of encoded messages, and messages of columns, in C; see `rstreams.columns`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from rstreams._codec.c_modules import load
from rstreams._codec.data_sections import Sections
from rstreams._codec.message_fields import HEADER_FIELDS, PROPERTIES_FIELDS
from rstreams.errors import ConfigError

_compiled: Final = load("_columns", 4)

_HEADER: Final = HEADER_FIELDS.described()
_PROPERTIES: Final = PROPERTIES_FIELDS.described()
_KNOWN: Final = tuple([(form, limit) for _, form, limit, _ in section] for section in (_HEADER, _PROPERTIES))
_PARTS: Final = {"body": 2, "body_type": 3, "properties": 4, "annotations": 5}
_AN_ANNOTATION: Final = 6
"""The sources of `_columns.c` that are not fields of a list."""


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


class FieldColumns(Protocol):
    """Fields of encoded messages, as columns.

    Attributes:
        rows: How many rows there are.
        size: How many bytes these messages have, about.

    Context: Any; one thread at a time. Never blocks.
    """

    @property
    def rows(self) -> int: ...

    @property
    def size(self) -> int: ...

    def add(self, messages: Iterator[bytes], most: int, most_bytes: int, largest: int) -> bytes | None:
        """Add encoded messages while there are fewer than `most` rows and `most_bytes`, and messages.

        Returns: A message that was drawn and not added, because it is rare, malformed or larger than `largest`: the
            caller decodes it, and adds its values by `append`. None if there is none.
        """
        ...

    def append(self, values: list[Any]) -> None:
        """Add a row: bytes, a str, an int, a bool or a dict of texts, as the form of the column says; or None."""
        ...

    def take(self) -> list[Part]:
        """Return the columns, and start anew."""
        ...


def field_columns(fields: Sequence[tuple[str, ColumnForm]]) -> FieldColumns:
    """Return columns without rows.

    Args:
        fields: The field of each column, and the form of its values: a field of a `Message`, or `body_type`. The forms
            of a field are in `FORMS_OF`. `ttl_s` comes in milliseconds. Ids and the values of maps come as text.
            `annotation:KEY` is a single annotation that is a whole number, as `INT64`; null in messages without it.

    Errors: `ConfigError` for a field that has no such form.
    """
    for name, form in fields:
        if form not in forms_of(name):
            allowed = ", ".join(f"{known} as {each.name}" for known in FORMS_OF for each in FORMS_OF[known])
            msg = f"field_columns: {name!r} as {form!r} must be one of {allowed}, {ANNOTATION}KEY as INT64"
            raise ConfigError(msg)
    made: FieldColumns = _compiled.make(*_KNOWN, [_described(name, form) for name, form in fields], Sections)
    return made


class FilledColumn(NamedTuple):
    """A column with the values of a field.

    Attributes:
        field: A field of a `Message`, or `body_type`.
        form: The form of its values: one of `FORMS_OF`, and for `body` also `TEXT`.
        part: The values. Its offsets count from the beginning of its buffers.
    """

    field: str
    form: ColumnForm
    part: Part


def encode_rows(
    columns: Sequence[FilledColumn],
    rows: int,
    *,
    durable: bool = False,
    id_prefix: str | None = None,
    first_id: int = 0,
) -> list[bytes | None]:
    """Return the encoded message of each row; None for a row that the caller has to encode.

    That is a row with a value that no message can have, with a text that is not UTF-8, or with another body type than
    `binary` and `string`. Null means that a message does not have the field.
    A body of bytes becomes a section of data, and a text an AMQP value.

    Args:
        columns: The columns, each field once.
        rows: How many rows each column has.
        durable: Whether rows are durable that do not say it.
        id_prefix: Rows without an id, or with an empty one, get this text and their number as id; None: they get none.
        first_id: The number of the first row.

    Errors: `ConfigError` for a field that has no such form or is given twice. `ValueError` for a column that does not
        have the buffers of its form.
    """
    names = [column.field for column in columns]
    for column in columns:
        allowed = FORMS_OF.get(column.field, ())
        if column.form not in ((*allowed, ColumnForm.TEXT) if column.field == "body" else allowed):
            msg = f"encode_rows: {column.field!r} as {column.form!r} cannot be a column of a message"
            raise ConfigError(msg)
        if names.count(column.field) > 1:
            msg = f"encode_rows: {column.field!r} is given twice"
            raise ConfigError(msg)
    described = [(*_described(column.field, column.form), column.part) for column in columns]
    encoded: list[bytes | None] = _compiled.encode(*_KNOWN, described, rows, durable, id_prefix, first_id)
    return encoded


def _described(name: str, form: ColumnForm) -> tuple[int, int, int, object]:
    if name.startswith(ANNOTATION):
        return _AN_ANNOTATION, 0, form, name.removeprefix(ANNOTATION).encode()
    if name in _PARTS:
        return _PARTS[name], 0, form, None
    for source, section in enumerate((_HEADER, _PROPERTIES)):
        for index, (known, _, _, absent) in enumerate(section):
            if known == name:
                return source, index, form, absent
    raise AssertionError(name)
