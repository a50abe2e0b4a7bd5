"""Rows of the sink to messages, a record batch at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final

from rstreams.errors import ConfigError
from rstreams.message import Message
from rstreams_spark._bodies import value_of

if TYPE_CHECKING:
    import pyarrow as pa


class BadRow(ConfigError):
    """A row that cannot become a message.

    Attributes:
        row: The place of the row in its record batch.
    """

    def __init__(self, row: int, why: str) -> None:
        """Name the row."""
        super().__init__(why)
        self.row = row


def messages_of(record_batch: pa.RecordBatch, ids: Iterator[str] | None, *, durable: bool) -> list[Message]:
    """Return the messages for the rows of a record batch.

    Without a column `body_type`, a binary body travels as Data, a string as an AmqpValue string, and null as null.

    Args:
        record_batch: The rows, in the columns of the sink.
        ids: The ids of rows without a message id, one for each row; None: they get none.
        durable: Whether the peer must keep the messages over a restart.

    Errors: `BadRow` for a body that is not of the type that `body_type` names.
    """
    columns = {name: record_batch.column(name) for name in record_batch.schema.names}

    def values(name: str) -> Any:  # noqa: ANN401 - as many values as there are rows, or endlessly None
        column = columns.get(name)
        return repeat(None) if column is None or column.null_count == len(column) else column.to_pylist()

    bodies = columns["body"].to_pylist()
    if "body_type" in columns:
        bodies = _typed(bodies, columns["body_type"].to_pylist())
    rows = zip(
        bodies,
        _ids(values("message_id"), ids),
        values("subject"),
        values("content_type"),
        values("creation_time"),
        values("properties"),
        strict=False,
    )
    messages = [
        Message(body, message_id, subject, content_type, at, properties=_map(properties), durable=durable)
        for body, message_id, subject, content_type, at, properties in rows
    ]
    return _with_more(messages, columns, durable=durable)


_MORE: Final[Mapping[str, tuple[str, int | None]]] = {
    "correlation_id": ("correlation_id", None),
    "reply_to": ("reply_to", None),
    "to": ("address", None),
    "content_encoding": ("content_encoding", None),
    "expiry_time": ("expiry_time", None),
    "group_id": ("group_id", None),
    "group_sequence": ("group_sequence", 2**32 - 1),
    "reply_to_group_id": ("reply_to_group_id", None),
    "user_id": ("user_id", None),
    "durable": ("durable", None),
    "priority": ("priority", 255),
    "ttl_ms": ("ttl_s", 2**32 - 1),
    "annotations": ("annotations", None),
}
"""Columns that few streams have: the field of a message, and its largest value if it is a number."""


def _with_more(messages: list[Message], columns: Mapping[str, pa.Array], *, durable: bool) -> list[Message]:
    """Return the messages with the fields of the columns of `_MORE` that are there; null leaves a field as it is."""
    there = {name: column for name, column in columns.items() if name in _MORE and column.null_count < len(column)}
    if not there:
        return messages
    fields: list[dict[str, Any]] = [{"durable": durable} for _ in messages]
    for name, column in there.items():
        field, most = _MORE[name]
        for row, value in enumerate(column.to_pylist()):
            if value is None:
                continue
            if most is not None and not 0 <= value <= most:
                raise BadRow(row, f"column {name} is {value}: must be null or from 0 to {most}")
            fields[row][field] = dict(value) if name == "annotations" else value / 1000 if name == "ttl_ms" else value
    return [replace(message, **each) for message, each in zip(messages, fields, strict=True)]


_EMPTY: Mapping[str, Any] = {}


def _map(properties: Sequence[tuple[str, str | None]] | None) -> Mapping[str, Any]:
    return dict(properties) if properties else _EMPTY


def _ids(given: Any, ids: Iterator[str] | None) -> Any:  # noqa: ANN401 - an iterable of texts, with None among them
    if ids is None:
        return given
    if isinstance(given, repeat):
        return ids
    return [each or other for each, other in zip(given, ids, strict=False)]


def _typed(bodies: list[Any], types: list[str | None]) -> list[Any]:
    made = []
    for row, (body, body_type) in enumerate(zip(bodies, types, strict=True)):
        try:
            made.append(value_of(body, body_type))
        except ConfigError as error:
            raise BadRow(row, str(error)) from None
    return made
