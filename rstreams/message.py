"""Messages: what one delivery carries, as Python values and as AMQP sections (specification 3.2).

A stream of plain items needs nothing from here: bytes travel as a Data section, other values as an AmqpValue section,
and come back as they were. `Message` is for what stands around a body: ids, subject, times, properties.

Delivery annotations and the footer concern one hop and one encoding of a message: they are read over, never written.
"""

from __future__ import annotations

import struct
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from operator import attrgetter
from typing import Any, Final, NamedTuple, TypeAlias
from uuid import UUID

from rstreams._codec.decode import Malformed, malformed, read_list, read_map, skip_value
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
from rstreams._codec.sections import (
    APPLICATION_PROPERTIES,
    DATA,
    HEADER,
    MESSAGE_ANNOTATIONS,
    PROPERTIES,
    START,
    VALUE,
    read_body,
    read_section,
)
from rstreams._codec.types import Described, Symbol
from rstreams.errors import ConfigError

__all__ = [
    "ByteStream",
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
class ByteStream:
    """A body of bytes that is not in memory as a whole: it is sent, or received, while it comes.

    It is sent as one Data section a chunk. One that is received is read by `async for chunk in message.body`, while its
    message is the current one.

    Attributes:
        chunks: What makes the bytes: anything `async for` or `for` can iterate over, or a publisher such as a `Stream`;
            each chunk is bytes of up to 2^32-1. It is gone through once, when the message's turn has come.

    Spec: AMQP 1.0 sections 2.6.14 (transfer of large messages) and 3.2.6.
    """

    chunks: Any

    def __aiter__(self) -> AsyncIterator[bytes]:
        """Read a body that comes, or iterate over one that is async iterable."""
        chunks: AsyncIterator[bytes] = self.chunks.__aiter__()
        return chunks

    async def read(self) -> bytes:
        """Return the whole of it; it must fit in memory."""
        return b"".join([chunk async for chunk in self])


@dataclass(frozen=True, slots=True)
class Message:
    """A body with its header, annotations and properties; `dataclasses.replace` makes a changed copy.

    Values are checked when the message is encoded: what AMQP cannot carry raises `ConfigError` naming the field.

    Attributes:
        body: bytes travel as Data, a `ByteStream` in parts as it comes; every other AMQP value (None, bool, int, float,
            Decimal, str, datetime, UUID, list, mapping) as AmqpValue. An AmqpSequence is received as a list.
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

# ------------------------------------------------------------------------------------------------------------ encoding

_pack_data8: Final = struct.Struct(">IB").pack
_pack_data32: Final = struct.Struct(">II").pack
_DATA8: Final = 0x005375A0  # 0x00 described, 0x53 0x75 by the small ulong 0x75 (data), 0xa0 binary of up to 255 bytes
_DATA32: Final = 0x005375B0


def encode_item(item: object) -> bytes:
    """Return the sections of the message that carries `item`: a `Message`, or a plain value as its body.

    Args:
        item: bytes, bytearray or memoryview become one Data section, a `Message` its sections without the empty ones,
            any other value AMQP knows an AmqpValue section.

    Errors: `ConfigError` naming the type, field or value that AMQP cannot carry, and what is allowed.
    Context: Any; never blocks. About 200 ns for bytes.
    Spec: AMQP 1.0 section 3.2.
    """
    if type(item) is bytes and (size := len(item)) <= _MAX_UINT:
        return (_pack_data8(_DATA8, size) if size < 256 else _pack_data32(_DATA32, size)) + item
    if isinstance(item, Message):
        return _encode_message(item)
    return _encode_body(item)


def _encode_message(message: Message) -> bytes:
    return b"".join(
        (
            _HEADER.encode(message),
            _encode_annotations(message.annotations) if message.annotations else b"",
            _PROPERTIES.encode(message),
            _encode_application_properties(message.properties) if message.properties else b"",
            _encode_body(message.body),
        )
    )


def _encode_body(body: object) -> bytes:
    if isinstance(body, ByteStream):
        msg = (
            "Message.body is a ByteStream: it goes with publish and Sender.send, not effectively_once, and with the "
            "streams that a Node serves; everywhere else the body must be in memory"
        )
        raise ConfigError(msg)
    if isinstance(body, memoryview):
        body = body.tobytes()
    if isinstance(body, (bytes, bytearray)):
        return START[DATA] + encode_sized(0xA0, 0xB0, body, "body")
    return START[VALUE] + encode_value(body)


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


def _encode_count(name: str, value: int) -> bytes:
    if _is_number(value, _MAX_UINT):
        return encode_uint(value)
    raise _refused(value, name, f"an int from 0 to {_MAX_UINT}")


def _encode_seconds(name: str, value: float) -> bytes:
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= _MAX_UINT / 1000:
        return encode_uint(round(value * 1000))
    raise _refused(value, name, f"None or a number of seconds from 0 to {_MAX_UINT / 1000}")


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
    """A field of a section that is a list: how it is written, and what a peer may have written there."""

    name: str
    encode: Callable[[str, Any], bytes]
    kinds: frozenset[type]
    limit: int = 0
    """The largest number, where numbers are allowed."""
    absent: object = None
    """What stands for a field that is not there."""


_BOOL: Final = frozenset({bool})
_BYTES: Final = frozenset({bytes})
_INT: Final = frozenset({int})
_TEXT: Final = frozenset({str})
_TIME: Final = frozenset({datetime})
_ID: Final = frozenset({str, int, UUID, bytes})

_HEADER_FIELDS: Final[tuple[_Field, ...]] = (
    _Field("durable", _encode_flag, _BOOL, absent=False),
    _Field("priority", _encode_priority, _INT, 255, absent=4),
    _Field("ttl_s", _encode_seconds, _INT, _MAX_UINT),
    _Field("first_acquirer", _encode_flag, _BOOL, absent=False),
    _Field("delivery_count", _encode_count, _INT, _MAX_UINT, absent=0),
)
_PROPERTY_FIELDS: Final[tuple[_Field, ...]] = (
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
    _Field("group_sequence", _encode_count, _INT, _MAX_UINT),
    _Field("reply_to_group_id", _encode_text, _TEXT),
)


class _ListSection:
    """A section that is a list of fields, prepared: plain tuples unpack in a third of the time a NamedTuple takes."""

    __slots__ = ("_absent", "_reads", "_start", "_values_of", "_writes")

    def __init__(self, code: int, fields: tuple[_Field, ...]) -> None:
        self._start = START[code]
        self._values_of = attrgetter(*(known.name for known in fields))
        self._absent = tuple(known.absent for known in fields)
        self._writes = tuple((known.name, known.encode, known.absent) for known in fields)
        self._reads = tuple((known.name, known.kinds, known.limit) for known in fields)

    def encode(self, message: Message) -> bytes:
        """Return the section, without the trailing fields that are not there; b"" if none is."""
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
        """Put the values a peer sent into `found`, each under its name."""
        if len(values) > len(self._reads):
            msg = f"a section of a message has {len(values)} fields, and only {len(self._reads)} are known"
            raise ValueError(msg)
        for item, (name, kinds, limit) in zip(values, self._reads, strict=False):
            if item is None:
                continue
            value: Any = str(item) if type(item) is Symbol else item
            kind: type = type(value)
            if kind not in kinds or (kind is int and not 0 <= value <= limit):
                msg = f"the field {name} of a message cannot be {value!r:.80}"
                raise ValueError(msg)
            found[name] = value


_HEADER: Final = _ListSection(HEADER, _HEADER_FIELDS)
_PROPERTIES: Final = _ListSection(PROPERTIES, _PROPERTY_FIELDS)


def _encode_annotations(annotations: Mapping[str | int, Any]) -> bytes:
    pairs: list[tuple[bytes, bytes]] = []
    for key, value in annotations.items():
        if isinstance(key, str) and key.isascii():
            encoded_key = encode_symbol(key)
        elif isinstance(key, int) and _is_number(key, 2**64 - 1):
            encoded_key = encode_ulong(key)
        else:
            raise _refused(annotations, "annotations", f"a mapping with ASCII names or ints as keys, not {key!r}")
        pairs.append((encoded_key, encode_value(value, 1)))
    return START[MESSAGE_ANNOTATIONS] + encode_map(pairs)


def _encode_application_properties(properties: Mapping[str, Any]) -> bytes:
    pairs: list[tuple[bytes, bytes]] = []
    for key, value in properties.items():
        if not isinstance(key, str):
            raise _refused(properties, "properties", f"a mapping with str keys, not {key!r}")
        if isinstance(value, (list, tuple, Mapping, Described)):
            raise _refused(value, f"properties[{key!r}]", "a simple value: no list, mapping or Described (3.2.5)")
        pairs.append((encode_string(key), encode_value(value, 1)))
    return START[APPLICATION_PROPERTIES] + encode_map(pairs)


# ------------------------------------------------------------------------------------------------------------ decoding

_unpack_2u32: Final[Callable[[bytes | memoryview, int], tuple[int, int]]] = struct.Struct(">II").unpack_from


def decode_body(encoded: bytes | memoryview) -> Any:  # noqa: ANN401 - whatever the peer sent
    """Return the body of an encoded message, and nothing else of it.

    Several Data sections are joined; an AmqpSequence gives a list; a message without a body gives None. Sections before
    the body are read over without being looked into.

    Errors: `RemoteProtocolError` with `amqp:decode-error`, whatever the bytes.
    Context: Any; never blocks. About 200 ns for a message that is one Data section.
    Spec: AMQP 1.0 sections 3.2.6-3.2.8.
    """
    length = len(encoded)
    if length >= 8:
        start, size = _unpack_2u32(encoded, 0)
        if start == _DATA32:
            if size == length - 8:
                return encoded[8:] if type(encoded) is bytes else bytes(encoded[8:])
        elif start == _DATA8 and encoded[4] == length - 5:
            return bytes(encoded[5:])
    buffer = bytes(encoded)
    at, code = 0, 0
    try:
        while at < length:
            code, at = read_section(buffer, at, code)
            if DATA <= code <= VALUE:
                return read_body(buffer, at, code)[0]
            at = skip_value(buffer, at)
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
            code, at = read_section(buffer, at, code)
            if code == PROPERTIES:
                values, at = read_list(buffer, at)
                _PROPERTIES.take(values, fields)
            elif code == APPLICATION_PROPERTIES:
                items, at = read_map(buffer, at)
                fields["properties"] = _with_keys(items, _TEXT)
            elif DATA <= code <= VALUE:
                fields["body"], at = read_body(buffer, at, code)
                code = VALUE  # a body is of one kind, and only the footer may follow
            elif code == HEADER:
                values, at = read_list(buffer, at)
                _HEADER.take(values, fields)
            elif code == MESSAGE_ANNOTATIONS:
                items, at = read_map(buffer, at)
                fields["annotations"] = _with_keys(items, _TEXT | _INT)
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
            code, content = read_section(encoded, 0)
            if code == HEADER:
                before, at = _split_header(encoded, content)
    except Malformed as error:
        raise malformed(error) from error
    before += [NULL] * (4 - len(before))
    return START[HEADER] + encode_fields([*before, count]) + encoded[at:]


def _split_header(buffer: bytes, at: int) -> tuple[list[bytes], int]:
    """Return the encoded fields before the delivery count of the header at `at`, and the position after the header."""
    values, end = read_list(buffer, at)
    _HEADER.take(values, {})
    at += {0x45: 1, 0xC0: 3, 0xD0: 9}[buffer[at]]
    fields: list[bytes] = []
    for _ in values[:4]:
        start, at = at, skip_value(buffer, at)
        fields.append(buffer[start:at])
    return fields, end


def _with_keys(items: dict[Any, Any], kinds: frozenset[type]) -> dict[Any, Any]:
    """Return a section's map, each key being one of `kinds`, with symbols as plain text."""
    for key in items:
        if type(key) not in kinds:
            break
    else:
        return items
    plain = {str(key) if type(key) is Symbol else key: value for key, value in items.items()}
    for key in plain:
        if type(key) not in kinds:
            msg = f"a section of a message cannot have the key {key!r:.80}"
            raise ValueError(msg)
    return plain
