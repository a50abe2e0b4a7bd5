"""Columns of encoded messages: in C where that was built, otherwise in Python; see `rstreams.columns`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, Protocol

from rstreams._codec.c_modules import load
from rstreams._codec.columns_in_python import FORMS_OF, ColumnForm, ColumnsInPython, Part
from rstreams._codec.message_fields import HEADER_FIELDS, PROPERTIES_FIELDS
from rstreams.errors import ConfigError

_compiled: Final = load("_columns", 1)

_HEADER: Final = HEADER_FIELDS.described()
_PROPERTIES: Final = PROPERTIES_FIELDS.described()
_PARTS: Final = {"body": 2, "body_type": 3, "properties": 4, "annotations": 5}
"""The sources of `_columns.c` that are not fields of a list."""


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

    Errors: `ConfigError` for a field that has no such form.
    """
    for name, form in fields:
        if form not in FORMS_OF.get(name, ()):
            allowed = ", ".join(f"{known} as {each.name}" for known in FORMS_OF for each in FORMS_OF[known])
            msg = f"field_columns: {name!r} as {form!r} must be one of {allowed}"
            raise ConfigError(msg)
    if _compiled is None:
        return ColumnsInPython([form for _, form in fields])
    made: FieldColumns = _compiled.make(
        [(form, limit) for _, form, limit, _ in _HEADER],
        [(form, limit) for _, form, limit, _ in _PROPERTIES],
        [_described(name, form) for name, form in fields],
    )
    return made


def _described(name: str, form: ColumnForm) -> tuple[int, int, int, object]:
    if name in _PARTS:
        return _PARTS[name], 0, form, None
    for source, section in enumerate((_HEADER, _PROPERTIES)):
        for index, (known, _, _, absent) in enumerate(section):
            if known == name:
                return source, index, form, absent
    raise AssertionError(name)
