"""Messages: what one delivery carries, as Python values and as AMQP sections (specification 3.2).

A stream of plain items needs nothing from here: bytes travel as a Data section, other values as an AmqpValue section,
and come back as they were. `Message` is for what stands around a body: ids, subject, times, properties.

    header | delivery-annotations | message-annotations | properties | application-properties | body | footer
    0x70     0x71                   0x72                  0x73         0x74                     0x75-7   0x78

Delivery annotations and the footer concern one hop and one encoding of a message: they are read over, never written.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from operator import attrgetter
from typing import Any, Final, TypeAlias
from uuid import UUID

from rstreams._codec.decode import Malformed, malformed, read_binary, read_list, read_map, read_value, skip_value
from rstreams._codec.encode import (
    NULL,
    encode_fields,
    encode_map,
    encode_sized,
    encode_string,
    encode_symbol,
    encode_timestamp,
    encode_uint,
    encode_ulong,
    encode_value,
)
from rstreams._codec.types import Described, Symbol
from rstreams.errors import ConfigError

__all__ = [
    "Described",
    "Message",
    "MessageId",
    "Symbol",
    "decode_body",
    "decode_message",
    "encode_item",
    "with_delivery_count",
]

MessageId: TypeAlias = str | int | UUID | bytes
"""What may identify a message: a string, a number from 0 to 2^64-1, a UUID or bytes (3.2.11-3.2.14)."""


@dataclass(frozen=True, slots=True)
class Message:
    """A body with its header, annotations and properties; `dataclasses.replace` makes a changed copy.

    Values are checked when the message is encoded: what AMQP cannot carry raises `ConfigError` naming the field.

    Attributes:
        body: bytes travel as Data; every other AMQP value (None, bool, int, float, Decimal, str, datetime, UUID, list,
            mapping) as AmqpValue. An AmqpSequence is received as a list.
        id: Identifies the message; unique for its sender.
        subject: What the message is about, in a few words.
        content_type: The MIME type of the body, such as "application/json".
        creation_time: When the message was made; with a time zone, to the millisecond, received in UTC.
        address: The node the message is meant for (the `to` field).
        reply_to: The address for answers.
        correlation_id: The id of the message this one answers or belongs to.
        properties: The application's own properties: names to simple values (no list, mapping or `Described`).
        annotations: Notes for and from the infrastructure, such as "x-opt-..."; a name, or a number, to any AMQP value.
        durable: Whether the message must survive a restart of whoever keeps it.
        priority: 0 to 255, higher goes first; 4 is normal.
        ttl_s: Seconds (to the millisecond, at most 4,294,967.295) after which nobody wants the message; None: never.
        first_acquirer: Whether nobody acquired the message before.
        delivery_count: How many earlier attempts to deliver the message failed.
        user_id: Who made the message, as the peer authenticated it.
        content_encoding: What was done to the body after its content type, such as "gzip".
        expiry_time: When the message expires, as an absolute time.
        group_id: The group the message belongs to.
        group_sequence: Its place in the group, 0 to 2^32-1.
        reply_to_group_id: The group that answers belong to.

    Spec: AMQP 1.0 sections 3.2.1 (header), 3.2.3 (annotations), 3.2.4 (properties), 3.2.5 (application properties),
        3.2.6-3.2.8 (body).
    """

    body: Any = None
    id: MessageId | None = None
    subject: str | None = None
    content_type: str | None = None
    creation_time: datetime | None = None
    address: str | None = None
    reply_to: str | None = None
    correlation_id: MessageId | None = None
    properties: Mapping[str, Any] = field(default_factory=dict)
    annotations: Mapping[str | int, Any] = field(default_factory=dict)
    durable: bool = False
    priority: int = 4
    ttl_s: float | None = None
    first_acquirer: bool = False
    delivery_count: int = 0
    user_id: bytes | None = None
    content_encoding: str | None = None
    expiry_time: datetime | None = None
    group_id: str | None = None
    group_sequence: int | None = None
    reply_to_group_id: str | None = None


_MAX_UINT: Final = 2**32 - 1

_HEADER: Final = 0x70
_MESSAGE_ANNOTATIONS: Final = 0x72
_PROPERTIES: Final = 0x73
_APPLICATION_PROPERTIES: Final = 0x74
_DATA: Final = 0x75
_SEQUENCE: Final = 0x76
_VALUE: Final = 0x77
_FOOTER: Final = 0x78

_SECTION_NAMES: Final[dict[str, int]] = {
    "amqp:header:list": _HEADER,
    "amqp:delivery-annotations:map": 0x71,
    "amqp:message-annotations:map": _MESSAGE_ANNOTATIONS,
    "amqp:properties:list": _PROPERTIES,
    "amqp:application-properties:map": _APPLICATION_PROPERTIES,
    "amqp:data:binary": _DATA,
    "amqp:amqp-sequence:list": _SEQUENCE,
    "amqp:amqp-value:*": _VALUE,
    "amqp:footer:map": _FOOTER,
}

# ------------------------------------------------------------------------------------------------------------ encoding

_pack_data8: Final = struct.Struct(">IB").pack
_pack_data32: Final = struct.Struct(">II").pack
_DATA8: Final = 0x005375A0  # 0x00 described, 0x53 0x75 by the small ulong 0x75 (data), 0xa0 binary of up to 255 bytes
_DATA32: Final = 0x005375B0


def encode_item(item: object) -> bytes:
    """Return the sections of the message that carries `item`: a `Message`, or a plain value as its body.

    Args:
        item: bytes, bytearray or memoryview become one Data section, a `Message` its sections without the empty ones, any
            other value AMQP knows an AmqpValue section.

    Errors: `ConfigError` naming the type, field or value that AMQP cannot carry, and what is allowed.
    Context: Any; never blocks. About 200 ns for bytes.
    Spec: AMQP 1.0 section 3.2.
    """
    if type(item) is bytes:
        size = len(item)
        if size < 256:
            return _pack_data8(_DATA8, size) + item
        if size <= _MAX_UINT:
            return _pack_data32(_DATA32, size) + item
    if isinstance(item, Message):
        return _encode_message(item)
    return _encode_body(item)


def _encode_message(message: Message) -> bytes:
    return b"".join(
        (
            _encode_header(message),
            _encode_annotations(message.annotations) if message.annotations else b"",
            _encode_properties(message),
            _encode_application_properties(message.properties) if message.properties else b"",
            _encode_body(message.body),
        )
    )


def _encode_body(body: object) -> bytes:
    if isinstance(body, memoryview):
        body = body.tobytes()
    if isinstance(body, (bytes, bytearray)):
        return b"\x00\x53\x75" + encode_sized(0xA0, 0xB0, body, "body")
    return b"\x00\x53\x77" + encode_value(body)


def _refused(name: str, value: object, allowed: str) -> ConfigError:
    shown = repr(value)
    return ConfigError(f"Message.{name}={shown if len(shown) <= 80 else shown[:77] + '...'}: must be {allowed}")


def _encode_flag(name: str, value: object) -> bytes:
    if isinstance(value, bool):
        return b"\x41" if value else b"\x42"
    raise _refused(name, value, "True or False")


def _is_number(value: object, largest: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= largest


def _encode_priority(name: str, value: int) -> bytes:
    if _is_number(value, 255):
        return bytes((0x50, value))
    raise _refused(name, value, "an int from 0 to 255")


def _encode_count(name: str, value: int) -> bytes:
    if _is_number(value, _MAX_UINT):
        return encode_uint(value)
    raise _refused(name, value, f"an int from 0 to {_MAX_UINT}")


def _encode_seconds(name: str, value: float) -> bytes:
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= _MAX_UINT / 1000:
        return encode_uint(round(value * 1000))
    raise _refused(name, value, f"None or a number of seconds from 0 to {_MAX_UINT / 1000}")


def _encode_id(name: str, value: object) -> bytes:
    if isinstance(value, str):
        return encode_string(value)
    if isinstance(value, int) and _is_number(value, 2**64 - 1):
        return encode_ulong(value)
    if isinstance(value, (UUID, bytes)):
        return encode_value(value)
    raise _refused(name, value, "a str, bytes, a UUID or an int from 0 to 2^64-1")


def _encode_text(name: str, value: object) -> bytes:
    if isinstance(value, str):
        return encode_string(value)
    raise _refused(name, value, "a str")


def _encode_name(name: str, value: object) -> bytes:
    if isinstance(value, str) and value.isascii():
        return encode_symbol(value)
    raise _refused(name, value, "a str of ASCII characters")


def _encode_bytes(name: str, value: object) -> bytes:
    if isinstance(value, (bytes, bytearray)):
        return encode_value(value)
    raise _refused(name, value, "bytes")


def _encode_time(name: str, value: object) -> bytes:
    if isinstance(value, datetime) and value.utcoffset() is not None:
        return encode_timestamp(value)
    raise _refused(name, value, "a datetime with a time zone, such as datetime.now(UTC)")


_Encode: TypeAlias = Callable[[str, Any], bytes]
_Check: TypeAlias = Callable[[Any], bool]

# Fields in the order of the specification: name, what stands for "not there", encoder.
_HEADER_FIELDS: Final[tuple[tuple[str, object, _Encode], ...]] = (
    ("durable", False, _encode_flag),
    ("priority", 4, _encode_priority),
    ("ttl_s", None, _encode_seconds),
    ("first_acquirer", False, _encode_flag),
    ("delivery_count", 0, _encode_count),
)
_PROPERTY_FIELDS: Final[tuple[tuple[str, object, _Encode], ...]] = (
    ("id", None, _encode_id),
    ("user_id", None, _encode_bytes),
    ("address", None, _encode_text),
    ("subject", None, _encode_text),
    ("reply_to", None, _encode_text),
    ("correlation_id", None, _encode_id),
    ("content_type", None, _encode_name),
    ("content_encoding", None, _encode_name),
    ("expiry_time", None, _encode_time),
    ("creation_time", None, _encode_time),
    ("group_id", None, _encode_text),
    ("group_sequence", None, _encode_count),
    ("reply_to_group_id", None, _encode_text),
)
_header_of: Final = attrgetter(*(name for name, _, _ in _HEADER_FIELDS))
_properties_of: Final = attrgetter(*(name for name, _, _ in _PROPERTY_FIELDS))


def _encode_header(message: Message) -> bytes:
    return _encode_section(b"\x00\x53\x70", _HEADER_FIELDS, _header_of(message))


def _encode_properties(message: Message) -> bytes:
    return _encode_section(b"\x00\x53\x73", _PROPERTY_FIELDS, _properties_of(message))


def _encode_section(
    descriptor: bytes, fields: tuple[tuple[str, object, _Encode], ...], values: tuple[object, ...]
) -> bytes:
    """Return a section whose fields stand in a list, without the trailing ones that are not there; b"" if none is."""
    encoded: list[bytes] = []
    used = 0
    for (name, absent, encode), value in zip(fields, values, strict=True):
        if value is absent or (value == absent and type(value) is type(absent)):
            encoded.append(NULL)
        else:
            encoded.append(encode(name, value))
            used = len(encoded)
    return descriptor + encode_fields(encoded[:used]) if used else b""


def _encode_annotations(annotations: Mapping[str | int, Any]) -> bytes:
    pairs: list[tuple[bytes, bytes]] = []
    for key, value in annotations.items():
        if isinstance(key, str) and key.isascii():
            encoded_key = encode_symbol(key)
        elif isinstance(key, int) and _is_number(key, 2**64 - 1):
            encoded_key = encode_ulong(key)
        else:
            raise _refused("annotations", annotations, f"a mapping with ASCII names or ints as keys, not {key!r}")
        pairs.append((encoded_key, encode_value(value, 1)))
    return b"\x00\x53\x72" + encode_map(pairs)


def _encode_application_properties(properties: Mapping[str, Any]) -> bytes:
    pairs: list[tuple[bytes, bytes]] = []
    for key, value in properties.items():
        if not isinstance(key, str):
            raise _refused("properties", properties, f"a mapping with str keys, not {key!r}")
        if isinstance(value, (list, tuple, Mapping, Described)):
            raise _refused(f"properties[{key!r}]", value, "a simple value: no list, mapping or Described (3.2.5)")
        pairs.append((encode_string(key), encode_value(value, 1)))
    return b"\x00\x53\x74" + encode_map(pairs)


# ------------------------------------------------------------------------------------------------------------ decoding

_unpack_u32: Final[Callable[[bytes | memoryview, int], tuple[int]]] = struct.Struct(">I").unpack_from


def decode_body(encoded: bytes | memoryview) -> Any:  # noqa: ANN401 - whatever the peer sent
    """Return the body of an encoded message, and nothing else of it.

    Several Data sections are joined; an AmqpSequence gives a list; a message without a body gives None. Sections before
    the body are read over without being looked into.

    Errors: `RemoteProtocolError` with `amqp:decode-error`, whatever the bytes.
    Context: Any; never blocks. About 200 ns for a message that is one Data section.
    Spec: AMQP 1.0 sections 3.2.6-3.2.8.
    """
    start = encoded[:4]
    if start == b"\x00\x53\x75\xb0":
        if len(encoded) >= 8 and _unpack_u32(encoded, 4)[0] == len(encoded) - 8:
            return bytes(encoded[8:])
    elif start == b"\x00\x53\x75\xa0" and len(encoded) >= 5 and encoded[4] == len(encoded) - 5:
        return bytes(encoded[5:])
    buffer = bytes(encoded)
    try:
        at, code = 0, 0
        while at < len(buffer):
            code, content = _read_section(buffer, at, code)
            if code >= _DATA:
                return _read_body(buffer, content, code)[0]
            at = skip_value(buffer, content)
    except Malformed as error:
        raise malformed(error) from error
    return None


def decode_message(encoded: bytes | memoryview) -> Message:
    """Return an encoded message with all that stands around its body, but delivery annotations and footer.

    Errors: `RemoteProtocolError` with `amqp:decode-error`, whatever the bytes.
    Context: Any; never blocks.
    Spec: AMQP 1.0 section 3.2.
    """
    buffer = bytes(encoded)
    fields: dict[str, Any] = {}
    at, code = 0, 0
    try:
        while at < len(buffer):
            code, at = _read_section(buffer, at, code)
            if code == _PROPERTIES:
                values, at = read_list(buffer, at)
                _take_fields(fields, values, _PROPERTY_CHECKS)
            elif code == _APPLICATION_PROPERTIES:
                items, at = read_map(buffer, at)
                fields["properties"] = _with_keys(items, str)
            elif code in {_DATA, _SEQUENCE, _VALUE}:
                fields["body"], at, code = _read_body(buffer, at, code)
            elif code == _HEADER:
                values, at = read_list(buffer, at)
                _take_fields(fields, values, _HEADER_CHECKS)
            elif code == _MESSAGE_ANNOTATIONS:
                items, at = read_map(buffer, at)
                fields["annotations"] = _with_keys(items, str, int)
            else:
                at = skip_value(buffer, at)
    except Malformed as error:
        raise malformed(error) from error
    if "ttl_s" in fields:
        fields["ttl_s"] /= 1000
    return Message(**fields)


def with_delivery_count(encoded: bytes, delivery_count: int) -> bytes:
    """Return the same message with another delivery count in its header; every other byte stays what it was.

    Args:
        encoded: A message's sections.
        delivery_count: Failed attempts to deliver it so far, 0 to 2^32-1.

    Errors: `RemoteProtocolError` with `amqp:decode-error` if the header is none; `ConfigError` for an impossible count.
    Spec: AMQP 1.0 section 3.2.1.
    """
    count = _encode_count("delivery_count", delivery_count)
    before: list[bytes] = []
    at = 0
    try:
        if encoded:
            code, content = _read_section(encoded, 0, 0)
            if code == _HEADER:
                before, at = _split_header(encoded, content)
    except Malformed as error:
        raise malformed(error) from error
    before += [NULL] * (4 - len(before))
    return b"\x00\x53\x70" + encode_fields([*before, count]) + encoded[at:]


def _split_header(buffer: bytes, at: int) -> tuple[list[bytes], int]:
    """Return the encoded fields before the delivery count of the header at `at`, and the position after the header."""
    end = skip_value(buffer, at)
    values, _ = read_list(buffer, at)
    if len(values) > len(_HEADER_FIELDS):
        raise _too_many(values, len(_HEADER_FIELDS))
    at += {0x45: 1, 0xC0: 3, 0xD0: 9}[buffer[at]]
    fields: list[bytes] = []
    for _ in values[:4]:
        start, at = at, skip_value(buffer, at)
        fields.append(buffer[start:at])
    return fields, end


def _read_section(buffer: bytes, at: int, before: int) -> tuple[int, int]:
    """Return the code of the section at `at`, which comes after section `before`, and where its content starts."""
    if buffer[at]:
        msg = f"a section is due, not a value of constructor 0x{buffer[at]:02x}"
        raise ValueError(msg)
    if buffer[at + 1] == 0x53:
        code, at = buffer[at + 2], at + 3
    else:
        descriptor, at = read_value(buffer, at + 1)
        code = _SECTION_NAMES.get(descriptor, 0) if isinstance(descriptor, Symbol) else descriptor
    if not isinstance(code, int) or not _HEADER <= code <= _FOOTER:
        msg = f"no section of a message has the descriptor {code!r}"
        raise ValueError(msg)
    if code <= before:
        msg = f"section 0x{code:02x} stands after section 0x{before:02x}"  # 3.2: the order is fixed
        raise ValueError(msg)
    return code, at


def _read_body(buffer: bytes, at: int, code: int) -> tuple[Any, int, int]:
    """Return the body whose first section's content is at `at`, the position after it, and `_VALUE`: no other follows."""
    if code == _FOOTER:
        return None, at, code
    if code == _VALUE:
        value, at = read_value(buffer, at)
        return value, at, _VALUE
    read: Callable[[bytes, int], tuple[Any, int]] = read_binary if code == _DATA else read_list
    part, at = read(buffer, at)
    parts = [part]
    while at < len(buffer):
        following, content = _read_section(buffer, at, 0)
        if following != code:
            break
        part, at = read(buffer, content)
        parts.append(part)
    if code == _DATA:
        return part if len(parts) == 1 else b"".join(parts), at, _VALUE
    return [item for part in parts for item in part], at, _VALUE


def _largest(limit: int) -> _Check:
    return lambda value: type(value) is int and 0 <= value <= limit


def _of(*kinds: type) -> _Check:
    return lambda value: type(value) in kinds


_is_id: Final[_Check] = lambda value: type(value) in {str, UUID, bytes} or (type(value) is int and value >= 0)  # noqa: E731

_HEADER_CHECKS: Final[tuple[tuple[str, _Check], ...]] = tuple(
    zip(
        (name for name, _, _ in _HEADER_FIELDS),
        (_of(bool), _largest(255), _largest(_MAX_UINT), _of(bool), _largest(_MAX_UINT)),
        strict=True,
    )
)
_CHECKS: Final[dict[_Encode, _Check]] = {
    _encode_id: _is_id,
    _encode_text: _of(str),
    _encode_name: _of(str),
    _encode_bytes: _of(bytes),
    _encode_time: _of(datetime),
    _encode_count: _largest(_MAX_UINT),
}
_PROPERTY_CHECKS: Final[tuple[tuple[str, _Check], ...]] = tuple(
    (name, _CHECKS[encode]) for name, _, encode in _PROPERTY_FIELDS
)


def _take_fields(fields: dict[str, Any], values: list[Any], checks: tuple[tuple[str, _Check], ...]) -> None:
    """Put the values of a section into `fields`, each under its name."""
    if len(values) > len(checks):
        raise _too_many(values, len(checks))
    for value, (name, check) in zip(values, checks, strict=False):
        if value is None:
            continue
        plain = str(value) if type(value) is Symbol else value
        if not check(plain):
            msg = f"the field {name} of a message cannot be {value!r:.80}"
            raise ValueError(msg)
        fields[name] = plain


def _too_many(values: list[Any], allowed: int) -> ValueError:
    return ValueError(f"a section has {len(values)} fields; the specification knows {allowed}")


def _with_keys(items: dict[Any, Any], *kinds: type) -> dict[Any, Any]:
    """Return a section's map with its symbols as plain text, each key being one of `kinds`."""
    for key in items:
        if type(key) not in kinds:
            break
    else:
        return items
    plain = {str(key) if type(key) is Symbol else key: value for key, value in items.items()}
    for key in plain:
        if type(key) not in kinds:
            msg = f"a section's map has the key {key!r:.80}"
            raise ValueError(msg)
    return plain
