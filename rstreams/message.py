"""Messages: the contents of one delivery, as Python values and as AMQP sections (specification 3.2).

A stream of plain items needs nothing from this module: bytes are sent as a Data section, other values as an AmqpValue
section, and they are received unchanged. `Message` adds the parts around a body: ids, subject, times, properties.

Values keep their AMQP types when a received message is sent on. `Int(5)` and the other types here are for peers that
need another type than the one that a plain Python value has.

Delivery annotations and the footer concern one hop and one encoding of a message. They are skipped when a message is
read, and never written.
"""

from __future__ import annotations

import struct
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, TypeAlias
from uuid import UUID

from rstreams._checks.argument_names import name_arguments
from rstreams._codec import delivery_count as _delivery_count
from rstreams._codec.compiled import Codec, codec_for
from rstreams._codec.decode_in_python import Malformed, malformed, read_list, read_map, skip_value
from rstreams._codec.encode import encode_sized, encode_value
from rstreams._codec.message_fields import (
    ANNOTATION_KEYS,
    HEADER_FIELDS,
    MAX_UINT,
    PROPERTIES_FIELDS,
    PROPERTY_KEYS,
    encode_annotations,
    encode_application_properties,
    with_keys,
)
from rstreams._codec.sections_in_python import (
    APPLICATION_PROPERTIES,
    DATA,
    HEADER,
    MESSAGE_ANNOTATIONS,
    PROPERTIES,
    SEQUENCE,
    START,
    VALUE,
    read_body,
    read_section,
)
from rstreams._codec.types import (
    AmqpSequence,
    Array,
    Binary,
    Byte,
    Char,
    Decimal32,
    Decimal64,
    Described,
    Float,
    Int,
    Short,
    Symbol,
    UByte,
    UInt,
    ULong,
    UShort,
)
from rstreams.errors import ConfigError

__all__ = [
    "AmqpSequence",
    "Array",
    "Binary",
    "Byte",
    "ByteStream",
    "Char",
    "Decimal32",
    "Decimal64",
    "Described",
    "Float",
    "Int",
    "Message",
    "MessageId",
    "Short",
    "Symbol",
    "UByte",
    "UInt",
    "ULong",
    "UShort",
    "decode_body",
    "decode_message",
    "encode_item",
    "with_delivery_count",
]

MessageId: TypeAlias = str | int | UUID | bytes
"""The values that may identify a message: a string, a number from 0 to 2^64-1, a UUID or bytes (3.2.11-3.2.14)."""


@dataclass(frozen=True, slots=True)
class ByteStream:
    """A body of bytes that is never in memory as a whole: its chunks are sent or received one after another.

    It is sent as one Data section for each chunk. Read a received body by `async for chunk in message.body` before you
    take the next message; with `rstreams.blocking` by `for chunk in message.body`.

    Attributes:
        chunks: The source of the bytes: an object for `async for` or `for`, or a publisher such as a `Stream`; each
            chunk is bytes of up to 2^32-1. It is iterated over once, when the message is sent.

    Errors: `ConfigError` for an object that is not iterable, and for bytes, because their items are numbers.
    Spec: AMQP 1.0 sections 2.6.14 (transfer of large messages) and 3.2.6.
    """

    chunks: Any

    def __post_init__(self) -> None:
        chunks = self.chunks
        is_many = any(hasattr(chunks, name) for name in ("subscribe", "__aiter__", "__iter__"))
        if not is_many or isinstance(chunks, str | bytes | bytearray | memoryview):
            kind = type(chunks).__name__
            msg = f"ByteStream(chunks): chunks must be an iterable or async iterable of bytes, not {kind}"
            raise ConfigError(msg)

    def __aiter__(self) -> AsyncIterator[bytes]:
        """Read a body that comes, or iterate over one that is async iterable."""
        chunks: AsyncIterator[bytes] = self.chunks.__aiter__()
        return chunks

    def __iter__(self) -> Iterator[bytes]:
        """Read a body that comes to `rstreams.blocking`, or iterate over one that is iterable."""
        return iter(self.chunks)

    async def read(self) -> bytes:
        """Return all of its bytes; they must fit in memory."""
        return b"".join([chunk async for chunk in self])


@dataclass(frozen=True, slots=True)
class Message:
    """A body with its header, annotations and properties; `dataclasses.replace` makes a changed copy.

    Values are checked when the message is encoded: `ConfigError` names a field with a value that AMQP cannot carry.

    Attributes:
        body: The value of the message. bytes travel as a Data section, a `ByteStream` as several. Every other AMQP
            value (None, bool, int, float, Decimal, str, datetime, UUID, list, mapping, and the other types of this
            module) travels as an AmqpValue section.
        id: Identifies the message; unique for its sender.
        subject: The topic of the message, in a few words.
        content_type: The MIME type of the body, such as "application/json".
        creation_time: The time when the message was made, with a time zone, to the millisecond; received in UTC.
        address: The address to which the message is sent (the field `to`).
        reply_to: The address for answers.
        correlation_id: The id of the message that this message answers, or to which it belongs.
        properties: The application's own properties: names to simple values (no list, mapping or `Described`).
        annotations: Notes for and from the infrastructure, such as "x-opt-..."; a name, or a number, to any AMQP value.
        durable: Whether the message must survive a restart of the peer that stores it.
        priority: 0 to 255; messages with a higher priority go first; 4 is normal.
        ttl_s: Seconds (to the millisecond, at most 4,294,967.295) after which the message is too old; None: never.
        first_acquirer: Whether no receiver acquired the message before.
        delivery_count: How many earlier attempts to deliver the message failed.
        user_id: The user that made the message, as the peer authenticated it.
        content_encoding: The encoding of the body besides its content type, such as "gzip".
        expiry_time: When the message expires, as an absolute time.
        group_id: The group to which the message belongs.
        group_sequence: Its place in the group, 0 to 2^32-1.
        reply_to_group_id: The group to which answers belong.

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


# ------------------------------------------------------------------------------------------------------------ encoding

_pack_data8: Final = struct.Struct(">IB").pack
_pack_data32: Final = struct.Struct(">II").pack
_DATA8: Final = 0x005375A0  # 0x00 described, 0x53 0x75 by the small ulong 0x75 (data), 0xa0 binary of up to 255 bytes
_DATA32: Final = 0x005375B0


def _encode_item(item: object) -> bytes:
    if type(item) is bytes and (size := len(item)) <= MAX_UINT:
        return (_pack_data8(_DATA8, size) if size < 256 else _pack_data32(_DATA32, size)) + item
    if isinstance(item, Message):
        return _encode_message(item)
    return _encode_body(item, streamed="a ByteStream is the body of a message: send Message(ByteStream(...))")


def _encode_message(message: Message) -> bytes:
    return b"".join(
        (
            HEADER_FIELDS.encode(message),
            encode_annotations(message.annotations) if message.annotations else b"",
            PROPERTIES_FIELDS.encode(message),
            encode_application_properties(message.properties) if message.properties else b"",
            _encode_body(message.body, streamed=_STREAMED_BODY),
        )
    )


_STREAMED_BODY: Final = (
    "Message.body is a ByteStream: publish and Sender.send take it, except with effectively_once, and so do the "
    "streams that a Node serves; everywhere else the body must be in memory"
)


def _encode_body(body: object, *, streamed: str) -> bytes:
    if isinstance(body, ByteStream):
        raise ConfigError(streamed)
    if isinstance(body, memoryview):
        body = body.tobytes()
    if isinstance(body, (bytes, bytearray)) and not isinstance(body, Binary):
        return START[DATA] + encode_sized(0xA0, 0xB0, body, "body")
    return START[SEQUENCE if isinstance(body, AmqpSequence) else VALUE] + encode_value(body)


def as_is(encoded: bytes) -> bytes:
    """Return the message, for publishers whose items are encoded; a run of them costs no call for each.

    Errors: `ConfigError` for an item that is not bytes.
    """
    if type(encoded) is not bytes:
        msg = f"an encoded message must be bytes, not {type(encoded).__name__}"
        raise ConfigError(msg)
    return encoded


# ------------------------------------------------------------------------------------------------------------ decoding

_unpack_2u32: Final[Callable[[bytes | memoryview, int], tuple[int, int]]] = struct.Struct(">II").unpack_from


def _decode_body(encoded: bytes | memoryview) -> Any:  # noqa: ANN401 - any value of the peer
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


def _decode_message(encoded: bytes | memoryview) -> Message:
    buffer = bytes(encoded)
    fields: dict[str, Any] = {}
    at, code = 0, 0
    try:
        while at < len(buffer):
            code, at = read_section(buffer, at, code)
            if code == PROPERTIES:
                values, at = read_list(buffer, at)
                PROPERTIES_FIELDS.take(values, fields)
            elif code == APPLICATION_PROPERTIES:
                items, at = read_map(buffer, at)
                fields["properties"] = with_keys(items, PROPERTY_KEYS)
            elif DATA <= code <= VALUE:
                fields["body"], at = read_body(buffer, at, code)
                code = VALUE  # a body is of one kind, and only the footer may follow
            elif code == HEADER:
                values, at = read_list(buffer, at)
                HEADER_FIELDS.take(values, fields)
            elif code == MESSAGE_ANNOTATIONS:
                items, at = read_map(buffer, at)
                fields["annotations"] = with_keys(items, ANNOTATION_KEYS)
            else:
                at = skip_value(buffer, at)
    except Malformed as error:
        raise malformed(error) from error
    if "ttl_s" in fields:
        fields["ttl_s"] /= 1000
    return Message(**fields)


_IN_PYTHON: Final = Codec(_decode_body, _decode_message, _encode_item, _delivery_count.with_delivery_count)
_codec: Final = codec_for(Message, _IN_PYTHON)
name_arguments("Message", Message)

encode_item: Final[Callable[[object], bytes]] = _codec.encode_item
"""Return the sections of the message that carries an item: a `Message`, or a plain value as its body.

bytes, bytearray and memoryview become one Data section, a `Message` its sections without the empty ones, and any other
value that AMQP knows an AmqpValue section.

Errors: `ConfigError` naming the type, field or value that AMQP cannot carry, and what is allowed.
Context: Any; never blocks.
Spec: AMQP 1.0 section 3.2.
"""

decode_body: Final[Callable[[bytes | memoryview], Any]] = _codec.decode_body
"""Return the body of an encoded message, and nothing else of it.

Several Data sections are joined; an AmqpSequence gives a list; a message without a body gives None. Sections before the
body are passed over.

Errors: `RemoteProtocolError` with `amqp:decode-error`, and no other for any bytes.
Context: Any; never blocks.
Spec: AMQP 1.0 sections 3.2.6-3.2.8.
"""

decode_message: Final[Callable[[bytes | memoryview], Message]] = _codec.decode_message
"""Return an encoded message with all parts around its body, except delivery annotations and footer.

Errors: `RemoteProtocolError` with `amqp:decode-error`, and no other for any bytes.
Context: Any; never blocks.
Spec: AMQP 1.0 section 3.2.
"""


def with_delivery_count(encoded: bytes, delivery_count: int) -> bytes:
    """Return the same message with another delivery count in its header; every other byte stays the same.

    Args:
        encoded: A message's sections.
        delivery_count: Failed attempts to deliver it so far, 0 to 2^32-1.

    Errors: `RemoteProtocolError` with `amqp:decode-error` for a malformed header; `ConfigError` for another count.
    Spec: AMQP 1.0 section 3.2.1.
    """
    return _codec.with_delivery_count(encoded, delivery_count)


def __dir__() -> list[str]:
    return __all__
