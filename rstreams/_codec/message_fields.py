"""The fields of a message's sections: how each is written, and the values that a peer may send (3.2.1-3.2.5)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from enum import IntFlag
from operator import attrgetter
from typing import Any, Final, NamedTuple
from uuid import UUID

from rstreams._codec.encode import (
    NULL,
    encode_fields,
    encode_map,
    encode_string,
    encode_symbol,
    encode_timestamp,
    encode_uint,
    encode_ulong,
    encode_value,
)
from rstreams._codec.sections import APPLICATION_PROPERTIES, HEADER, MESSAGE_ANNOTATIONS, PROPERTIES, START
from rstreams._codec.types import Char, Described, Symbol, WholeNumber
from rstreams.errors import ConfigError

MAX_UINT: Final = 2**32 - 1


def _refused(value: object, name: str, allowed: str) -> ConfigError:
    shown = repr(value)
    return ConfigError(f"Message.{name}={shown if len(shown) <= 80 else shown[:77] + '...'}: must be {allowed}")


def _encode_flag(name: str, value: object) -> bytes:
    if isinstance(value, bool):
        return b"\x41" if value else b"\x42"
    raise _refused(value, name, "True or False")


def _is_number(value: object, largest: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= largest


def _encode_priority(name: str, value: int) -> bytes:
    if _is_number(value, 255):
        return bytes((0x50, value))
    raise _refused(value, name, "an int from 0 to 255")


def encode_count(name: str, value: int) -> bytes:
    """Return `value` as an AMQP uint; raise `ConfigError` naming the field if that is impossible."""
    if _is_number(value, MAX_UINT):
        return encode_uint(value)
    raise _refused(value, name, f"an int from 0 to {MAX_UINT}")


def _encode_seconds(name: str, value: float) -> bytes:
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= MAX_UINT / 1000:
        return encode_uint(round(value * 1000))
    raise _refused(value, name, f"None or a number of seconds from 0 to {MAX_UINT / 1000}")


def _encode_id(name: str, value: object) -> bytes:
    if isinstance(value, str):
        return encode_string(value)
    if isinstance(value, int) and _is_number(value, 2**64 - 1):
        return encode_ulong(value)
    if isinstance(value, (UUID, bytes)):
        return encode_value(value)
    raise _refused(value, name, "a str, bytes, a UUID or an int from 0 to 2^64-1")


def _encode_text(name: str, value: object) -> bytes:
    if isinstance(value, str):
        return encode_string(value)
    raise _refused(value, name, "a str")


def _encode_name(name: str, value: object) -> bytes:
    if isinstance(value, str) and value.isascii():
        return encode_symbol(value)
    raise _refused(value, name, "a str of ASCII characters")


def _encode_bytes(name: str, value: object) -> bytes:
    if isinstance(value, (bytes, bytearray)):
        return encode_value(value)
    raise _refused(value, name, "bytes")


def _encode_time(name: str, value: object) -> bytes:
    if isinstance(value, datetime) and value.utcoffset() is not None:
        return encode_timestamp(value)
    raise _refused(value, name, "a datetime with a time zone, such as datetime.now(UTC)")


class _Field(NamedTuple):
    """A field of a section that is a list: how it is written, and the values that a peer may have written."""

    name: str
    encode: Callable[[str, Any], bytes]
    kinds: frozenset[type]
    limit: int = 0
    """The largest number, where numbers are allowed."""
    absent: object = None
    """The value of a field that is absent."""


_BOOL: Final = frozenset({bool})
_BYTES: Final = frozenset({bytes})
_INT: Final = frozenset({int})
_TEXT: Final = frozenset({str})
_TIME: Final = frozenset({datetime})
_ID: Final = frozenset({str, int, UUID, bytes})

_OF_HEADER: Final[tuple[_Field, ...]] = (
    _Field("durable", _encode_flag, _BOOL, absent=False),
    _Field("priority", _encode_priority, _INT, 255, absent=4),
    _Field("ttl_s", _encode_seconds, _INT, MAX_UINT),
    _Field("first_acquirer", _encode_flag, _BOOL, absent=False),
    _Field("delivery_count", encode_count, _INT, MAX_UINT, absent=0),
)
_OF_PROPERTIES: Final[tuple[_Field, ...]] = (
    _Field("id", _encode_id, _ID, 2**64 - 1),
    _Field("user_id", _encode_bytes, _BYTES),
    _Field("address", _encode_text, _TEXT),
    _Field("subject", _encode_text, _TEXT),
    _Field("reply_to", _encode_text, _TEXT),
    _Field("correlation_id", _encode_id, _ID, 2**64 - 1),
    _Field("content_type", _encode_name, _TEXT),
    _Field("content_encoding", _encode_name, _TEXT),
    _Field("expiry_time", _encode_time, _TIME),
    _Field("creation_time", _encode_time, _TIME),
    _Field("group_id", _encode_text, _TEXT),
    _Field("group_sequence", encode_count, _INT, MAX_UINT),
    _Field("reply_to_group_id", _encode_text, _TEXT),
)


class Form(IntFlag):
    """The values of a field and the way it is written, as a number for the codec in C, whose enums are the same."""

    TEXT = 1
    NUMBER = 2
    BINARY = 4
    UNIQUE_ID = 8
    FLAG = 16
    TIME = 32
    SECONDS = 64
    NAME = 128
    OCTET = 256


_FORM_OF: Final[dict[object, Form]] = {
    str: Form.TEXT,
    int: Form.NUMBER,
    bytes: Form.BINARY,
    UUID: Form.UNIQUE_ID,
    bool: Form.FLAG,
    datetime: Form.TIME,
    _encode_seconds: Form.SECONDS,
    _encode_name: Form.NAME,
    _encode_priority: Form.OCTET,
}


class _ListSection:
    """A section that is a list of fields, prepared: plain tuples unpack in a third of the time a NamedTuple takes."""

    __slots__ = ("_absent", "_fields", "_reads", "_start", "_values_of", "_writes")

    def __init__(self, code: int, fields: tuple[_Field, ...]) -> None:
        self._fields = fields
        self._start = START[code]
        self._values_of = attrgetter(*(known.name for known in fields))
        self._absent = tuple(known.absent for known in fields)
        self._writes = tuple((known.name, known.encode, known.absent) for known in fields)
        self._reads = tuple((known.name, known.kinds, known.limit) for known in fields)

    def described(self) -> list[tuple[str, int, int, object]]:
        """Return the name, `Form`, largest number and absent value of each field."""
        forms = [sum(_FORM_OF.get(each, Form(0)) for each in (*known.kinds, known.encode)) for known in self._fields]
        return [(known.name, form, known.limit, known.absent) for known, form in zip(self._fields, forms, strict=True)]

    def encode(self, message: object) -> bytes:
        """Return the section, without trailing fields that are absent; b"" if all are."""
        values = self._values_of(message)
        if values == self._absent:
            return b""
        encoded: list[bytes] = []
        used = 0
        for (name, encode, absent), value in zip(self._writes, values, strict=True):
            if value is absent:
                encoded.append(NULL)
            else:
                encoded.append(encode(name, value))
                used = len(encoded)
        return self._start + encode_fields(encoded[:used])

    def take(self, values: list[Any], found: dict[str, Any]) -> None:
        """Put the values that a peer sent into `found`, each under its name."""
        if len(values) > len(self._reads):
            msg = f"a section of a message has {len(values)} fields, and only {len(self._reads)} are known"
            raise ValueError(msg)
        for item, (name, kinds, limit) in zip(values, self._reads, strict=False):
            if item is None:
                continue
            value = _plain(item)
            kind: type = type(value)
            if kind not in kinds or (kind is int and not 0 <= value <= limit):
                msg = f"the field {name} of a message cannot be {value!r:.80}"
                raise ValueError(msg)
            found[name] = value


HEADER_FIELDS: Final = _ListSection(HEADER, _OF_HEADER)
PROPERTIES_FIELDS: Final = _ListSection(PROPERTIES, _OF_PROPERTIES)


def encode_annotations(annotations: Mapping[str | int, Any]) -> bytes:
    """Return the section of the message annotations (3.2.3)."""
    _check_mapping("annotations", annotations, "a mapping of ASCII names or ints to AMQP values")
    pairs: list[tuple[bytes, bytes]] = []
    for key, value in annotations.items():
        if isinstance(key, str) and key.isascii():
            encoded_key = encode_symbol(key)
        elif isinstance(key, int) and _is_number(key, 2**64 - 1):
            encoded_key = encode_ulong(key)
        else:
            raise _refused(annotations, "annotations", f"a mapping with ASCII names or ints as keys, not {key!r}")
        pairs.append((encoded_key, _encode_under("annotations", key, value)))
    return START[MESSAGE_ANNOTATIONS] + encode_map(pairs)


def encode_application_properties(properties: Mapping[str, Any]) -> bytes:
    """Return the section of the application properties (3.2.5)."""
    check_properties(properties)
    pairs: list[tuple[bytes, bytes]] = []
    for key, value in properties.items():
        if not isinstance(key, str):
            raise _refused(properties, "properties", f"a mapping with str keys, not {key!r}")
        if isinstance(value, (list, tuple, Mapping, Described)):
            raise _refused(value, f"properties[{key!r}]", "a simple value: no list, mapping or Described (3.2.5)")
        pairs.append((encode_string(key), _encode_under("properties", key, value)))
    return START[APPLICATION_PROPERTIES] + encode_map(pairs)


def check_properties(properties: object) -> None:
    """Raise `ConfigError` for a value that is not a mapping; its keys and values are not checked."""
    _check_mapping("properties", properties, "a mapping of str to simple values")


def _check_mapping(name: str, value: object, allowed: str) -> None:
    if type(value) is not dict and not isinstance(value, Mapping):
        raise _refused(value, name, f"{allowed}, not {type(value).__name__}")


def _encode_under(name: str, key: str | int, value: object) -> bytes:
    try:
        return encode_value(value, 1)
    except ConfigError as error:
        msg = f"Message.{name}[{key!r:.80}]: {error}"
        raise ConfigError(msg) from None


def _plain(value: Any) -> Any:  # noqa: ANN401 - any value of the peer
    """Return the value of a field or key: its place tells its AMQP type."""
    return str(value) if isinstance(value, Symbol | Char) else int(value) if isinstance(value, WholeNumber) else value


PROPERTY_KEYS: Final = _TEXT
ANNOTATION_KEYS: Final = _TEXT | _INT


def with_keys(items: dict[Any, Any], kinds: frozenset[type]) -> dict[Any, Any]:
    """Return a section's map, each key being one of `kinds`, as plain text or a plain number."""
    for key in items:
        if type(key) not in kinds:
            break
    else:
        return items
    plain = {_plain(key): value for key, value in items.items()}
    for key in plain:
        if type(key) not in kinds:
            msg = f"a section of a message cannot have the key {key!r:.80}"
            raise ValueError(msg)
    return plain
