"""The codec for messages in C, bound to the types in use; it leaves rare and malformed values to rstreams.message."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from datetime import UTC, datetime
from typing import Any, NamedTuple
from uuid import UUID

from rstreams._codec.c_modules import load
from rstreams._codec.decode import VALUES
from rstreams._codec.encode import encode_value
from rstreams._codec.message_fields import HEADER_FIELDS, PROPERTIES_FIELDS
from rstreams._codec.types import MAX_DEPTH, NARROW_TYPES, Described, Symbol

_INTERFACE = 3  # of `_decode.c` and `_encode.c`


class Codec(NamedTuple):
    """The functions between messages and bytes, see `rstreams.message`."""

    decode_body: Callable[[bytes | memoryview], Any]
    decode_message: Callable[[bytes | memoryview], Any]
    encode_item: Callable[[object], bytes]
    with_delivery_count: Callable[[bytes, int], bytes]


def codec_for(message: type, in_python: Codec) -> Codec:
    """Return the functions in C for messages of the class `message`.

    `message` also gets a quicker `__init__`.

    Args:
        message: A dataclass with slots and the fields of `message_fields`.
        in_python: The same functions in Python. Those in C call them for rare and malformed values.
    """
    decoder, encoder = load("_decode", _INTERFACE), load("_encode", _INTERFACE)
    known = fields(message)
    names = [each.name for each in known]
    slot_of: dict[str, int] = dict(zip(names, VALUES.slots(message, names), strict=True))
    header, properties = HEADER_FIELDS.described(), PROPERTIES_FIELDS.described()
    places = (slot_of["body"], slot_of["annotations"], slot_of["properties"])
    made: Any = message.__init__  # type: ignore[misc]
    defaults: tuple[Any, ...] = made.__defaults__  # one for each field
    decode_body, decode_message, with_delivery_count, fill = decoder.bind(
        VALUES,
        message,
        (in_python.decode_body, in_python.decode_message, in_python.with_delivery_count),
        places,
        [(slot_of[each.name], default, each.default is MISSING) for each, default in zip(known, defaults, strict=True)],
        *([(slot_of[name], form, limit) for name, form, limit, _ in section] for section in (header, properties)),
    )
    (encode_item,) = encoder.bind(
        (message, Symbol, UUID, datetime, UTC, NARROW_TYPES),
        (list, tuple, Mapping, Described),
        (encode_value, in_python.encode_item),
        places,
        *(
            [(slot_of[name], form, limit, absent) for name, form, limit, absent in section]
            for section in (header, properties)
        ),
        MAX_DEPTH,
    )
    message.__init__ = _quicker(made, names, fill)  # type: ignore[misc]
    return Codec(decode_body, decode_message, encode_item, with_delivery_count)


def _quicker(made: Any, names: list[str], fill: Callable[..., None]) -> Any:  # noqa: ANN401 - functions
    """Return an `__init__` like the one that dataclasses has `made`, which sets all fields in one call of `fill`.

    It takes a sixth of the time: the `__init__` of a frozen dataclass calls `object.__setattr__` for each field.
    """
    given = ", ".join(names)
    scope: dict[str, Any] = {"fill": fill, "__name__": made.__globals__["__name__"]}
    exec(f"def __init__(self, {given}): fill(self, {given})", scope)  # noqa: S102 - as dataclasses does
    quick: Any = scope["__init__"]
    quick.__defaults__ = made.__defaults__
    quick.__annotations__ = made.__annotations__
    quick.__qualname__ = made.__qualname__
    quick.__doc__ = made.__doc__
    return quick
