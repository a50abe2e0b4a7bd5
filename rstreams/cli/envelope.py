"""The envelope: a message as one JSON object, as `recv --json` writes and `send --jsonl` reads it.

    {"body":"tea","encoding":"text","id":"a-1","properties":{"shop":5},"types":{"/properties/shop":"ubyte"}}

Values are those of JSON, for `jq` and its like. AMQP has more types than JSON. Where a value is of another type than
its JSON says, `types` has it, by the path of the value (a JSON pointer, RFC 6901). Therefore the envelope is exact: the
message that is made of it has the same values and types.

`encoding` tells what the body is:

    text     bytes (a Data section) that are UTF-8
    json     bytes that are JSON, by the content type of the message; `body` is the value. If another writer would
             write it in other bytes, `raw` has the text itself
    hex      other bytes, two digits each
    value    an AMQP value
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from operator import attrgetter
from typing import Any, Final
from uuid import UUID

from rstreams.cli.exit_codes import mistake
from rstreams.message import (
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
    Message,
    Short,
    Symbol,
    UByte,
    UInt,
    ULong,
    UShort,
)

FIELDS: Final = {
    "id": None,
    "subject": None,
    "content_type": None,
    "creation_time": None,
    "address": None,
    "reply_to": None,
    "correlation_id": None,
    "durable": False,
    "priority": 4,
    "ttl_s": None,
    "first_acquirer": False,
    "delivery_count": 0,
    "user_id": None,
    "content_encoding": None,
    "expiry_time": None,
    "group_id": None,
    "group_sequence": None,
    "reply_to_group_id": None,
}
"""The fields of `Message` that are in an envelope if they differ from this default."""

_DEFAULTS: Final = tuple(FIELDS.values())
_fields_of: Final = attrgetter(*FIELDS)

_OF_A_DELIVERY: Final = {"first_acquirer", "delivery_count"}
"""Fields about the deliveries of a message, which a copy begins anew."""

_AS_THEY_ARE: Final = frozenset((str, bool, type(None), int))
_TEXT_ALONE: Final = frozenset((str,))
_FIELD_TYPES: Final = {"creation_time": "timestamp", "expiry_time": "timestamp", "user_id": "binary"}
"""The types that fields have by themselves."""


def _number(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)


def _time(value: datetime) -> str:
    return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def read_time(text: str) -> datetime:
    """Return the moment that a text in the form of ISO 8601 names; without a zone it is this machine's.

    Errors: `ValueError` if it names none.
    """
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo is not None else moment.astimezone()


_TEXT: Final[Callable[[Any], str]] = str

_SCALARS: Final[Mapping[type, tuple[str, Callable[[Any], Any], Callable[[Any], Any]]]] = {
    Symbol: ("symbol", _TEXT, Symbol),
    Char: ("char", _TEXT, Char),
    Byte: ("byte", int, Byte),
    UByte: ("ubyte", int, UByte),
    Short: ("short", int, Short),
    UShort: ("ushort", int, UShort),
    Int: ("int", int, Int),
    UInt: ("uint", int, UInt),
    ULong: ("ulong", int, ULong),
    Float: ("float", lambda value: _number(float(value)), lambda value: Float(float(value))),
    Decimal: ("decimal128", _TEXT, Decimal),
    Decimal64: ("decimal64", _TEXT, Decimal64),
    Decimal32: ("decimal32", _TEXT, Decimal32),
    UUID: ("uuid", _TEXT, UUID),
    datetime: ("timestamp", _time, read_time),
    bytes: ("binary", bytes.hex, bytes.fromhex),
    Binary: ("binary", bytes.hex, bytes.fromhex),
}
"""The types that are not JSON's: their names, and how a value becomes one of JSON and comes back."""

_READERS: Final = {name: read for name, _, read in _SCALARS.values()}
_CLASSES: Final = {name: kind for kind, (name, _, _) in _SCALARS.items() if kind is not Binary}

_COMPACT: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_escape: Final = str.maketrans({"~": "~0", "/": "~1"})


# -------------------------------------------------------------------------------------------------- a message as JSON


def envelope_of(message: Message) -> dict[str, Any]:
    """Return the envelope of a message."""
    types: dict[str, str] = {}
    found: dict[str, Any] = {}
    _put_body(message, found, types)
    values = _fields_of(message)
    if values != _DEFAULTS:
        _put_fields(values, found, types)
    if message.properties:
        found["properties"] = _plain(message.properties, "/properties", types)
    if message.annotations:
        found["annotations"] = _plain(message.annotations, "/annotations", types)
    if types:
        found["types"] = types
    return found


def _put_fields(values: tuple[Any, ...], found: dict[str, Any], types: dict[str, str]) -> None:
    for name, value, default in zip(FIELDS, values, _DEFAULTS, strict=True):
        if value != default:
            kind = type(value)
            if kind in _AS_THEY_ARE:
                found[name] = value
            elif name in _FIELD_TYPES:
                found[name] = _time(value) if kind is datetime else value.hex()
            else:
                found[name] = _plain(value, f"/{name}", types)


def envelope_line(message: Message) -> str:
    """Return the envelope of a message as one line."""
    return _COMPACT.encode(envelope_of(message))


def plain_value(value: object) -> Any:  # noqa: ANN401 - any value of JSON
    """Return a value of AMQP as one of JSON, without what it was before."""
    return _plain(value, "", {})


def _put_body(message: Message, found: dict[str, Any], types: dict[str, str]) -> None:
    body = message.body
    if type(body) is not bytes:
        found["body"], found["encoding"] = _plain(body, "/body", types), "value"
        return
    try:
        text = body.decode()
    except UnicodeDecodeError:
        found["body"], found["encoding"] = body.hex(), "hex"
        return
    if message.content_type is not None and _is_json(message.content_type):
        try:
            value = json.loads(text)
            written = _COMPACT.encode(value)
        except (ValueError, RecursionError):
            pass
        else:
            found["body"], found["encoding"] = value, "json"
            if written != text:
                found["raw"] = text
            return
    found["body"], found["encoding"] = text, "text"


def _is_json(content_type: str) -> bool:
    kind = content_type.partition(";")[0].strip().lower()
    return kind == "application/json" or kind.endswith("+json")


def _plain(value: Any, path: str, types: dict[str, str]) -> Any:  # noqa: ANN401 - any value of AMQP
    kind = type(value)
    if kind in _AS_THEY_ARE:
        return value
    if kind is float:
        if not math.isfinite(value):
            types[path] = "double"
        return _number(value)
    if kind in _SCALARS:
        types[path], write, _ = _SCALARS[kind]
        return write(value)
    if isinstance(value, Mapping):
        return _plain_map(value, path, types)
    if isinstance(value, Described):
        types[path] = "described"
        return [_plain(value.descriptor, f"{path}/0", types), _plain(value.value, f"{path}/1", types)]
    if isinstance(value, Array):
        of = next((name for name, each in _CLASSES.items() if each is value.of), "")
        types[path] = f"array {of}".rstrip()
    elif isinstance(value, AmqpSequence):
        types[path] = "sequence"
    return [_plain(each, f"{path}/{at}", types) for at, each in enumerate(value)]


def _plain_map(value: Mapping[Any, Any], path: str, types: dict[str, str]) -> Any:  # noqa: ANN401
    if _TEXT_ALONE.issuperset(map(type, value)):
        if _AS_THEY_ARE.issuperset(map(type, value.values())):
            return value if type(value) is dict else dict(value)
        return {key: _plain(each, f"{path}/{key.translate(_escape)}", types) for key, each in value.items()}
    types[path] = "map"
    return [
        [_plain(key, f"{path}/{at}/0", types), _plain(each, f"{path}/{at}/1", types)]
        for at, (key, each) in enumerate(value.items())
    ]


# --------------------------------------------------------------------------------------------------- JSON as a message


def read_envelope(line: str | bytes) -> Message:
    """Return the message of an envelope.

    Errors: `CommandEnded` for a line that is none; the text says what is wrong.
    """
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        msg = f"it is not JSON: {error}"
        raise mistake(msg) from None
    if not isinstance(found, dict):
        msg = 'an envelope is an object, such as {"body": "tea"}'
        raise mistake(msg)
    types = found.pop("types", None)
    try:
        if types:
            _restore(found, types)
        return Message(**_fields(found))
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, ArithmeticError) as error:
        msg = f"{type(error).__name__}: {error}"
        raise mistake(msg) from None


def _fields(found: dict[str, Any]) -> dict[str, Any]:
    fields: dict[str, Any] = {"body": _body(found)}
    for name, value in found.items():
        if name in FIELDS:
            if name not in _OF_A_DELIVERY:
                kind = _FIELD_TYPES.get(name)
                fields[name] = value if kind is None else _READERS[kind](value)
        elif name in {"properties", "annotations"}:
            if not isinstance(value, dict):
                msg = f"{name} must be an object"
                raise ValueError(msg)
            fields[name] = value
        else:
            msg = f"an envelope has no field {name!r}; it has body, encoding, raw, properties, annotations, types, "
            msg += ", ".join(FIELDS)
            raise ValueError(msg)
    return fields


def _body(found: dict[str, Any]) -> Any:  # noqa: ANN401 - any body
    body, raw = found.pop("body", None), found.pop("raw", None)
    encoding = found.pop("encoding", "text" if isinstance(body, str) else "value")
    if encoding == "value":
        return Binary(body) if type(body) is bytes else body
    if encoding == "text":
        return body.encode()
    if encoding == "json":
        return (_COMPACT.encode(body) if raw is None else raw).encode()
    if encoding == "hex":
        return bytes.fromhex(body)
    msg = f"encoding {encoding!r}: it must be text, json, hex or value"
    raise ValueError(msg)


def _restore(found: dict[str, Any], types: Mapping[str, str]) -> None:
    """Give the values the types of AMQP, those within others first."""
    for path in sorted(types, key=lambda each: -each.count("/")):
        *way, last = path.split("/")[1:]
        place: Any = found
        for step in way:
            place = place[_key(place, step)]
        key = _key(place, last)
        place[key] = _typed(place[key], types[path])


def _key(place: object, step: str) -> Any:  # noqa: ANN401 - a name, or a number
    return int(step) if isinstance(place, list) else step.replace("~1", "/").replace("~0", "~")


def _typed(value: Any, kind: str) -> Any:  # noqa: ANN401 - any value of AMQP
    if kind in _READERS:
        return _READERS[kind](value)
    if kind == "double":
        return float(value)
    if kind == "map":
        return dict(value)
    if kind == "described":
        descriptor, inner = value
        return Described(descriptor, inner)
    if kind == "sequence":
        return AmqpSequence(value)
    if kind.split(" ", maxsplit=1)[0] == "array":
        return Array(value, of=_CLASSES.get(kind[6:]))
    msg = f"there is no type {kind!r} of AMQP"
    raise ValueError(msg)
