"""The codec's modules in C, where they were built and `RSTREAMS_PURE=1` does not choose Python."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import MISSING, fields
from datetime import UTC, datetime
from importlib import import_module
from typing import Any, NamedTuple
from uuid import UUID, SafeUUID

from rstreams._codec.decode import read_value
from rstreams._codec.encode import encode_value
from rstreams._codec.message_fields import HEADER_FIELDS, PROPERTIES_FIELDS
from rstreams._codec.types import MAX_DEPTH, Symbol

_INTERFACE = 1  # of `_decode.c` and `_encode.c`


def load(name: str, interface: int) -> Any:  # noqa: ANN401 - a module without types
    """Return the module `name` of this package, in C; None if there is none that fits, or Python is asked for."""
    if os.environ.get("RSTREAMS_PURE") == "1":
        return None
    try:
        compiled = import_module(f"{__package__}.{name}")
    except ImportError:
        return None
    return compiled if getattr(compiled, "INTERFACE", None) == interface else None


class Codec(NamedTuple):
    """The functions between messages and bytes, see `rstreams.message`."""

    decode_body: Callable[[bytes | memoryview], Any]
    decode_message: Callable[[bytes | memoryview], Any]
    encode_item: Callable[[object], bytes]


def codec_for(message: type, in_python: Codec) -> Codec:
    """Return the functions in C for messages of the class `message`; `in_python` where there are none.

    Args:
        message: A dataclass with slots that has the fields that `message_fields` tells of.
        in_python: The same functions in Python. Those in C call them with whatever is rare or wrong.
    """
    decoder, encoder = load("_decode", _INTERFACE), load("_encode", _INTERFACE)
    if decoder is None or encoder is None:
        return in_python
    known = fields(message)
    names = [each.name for each in known]
    try:
        slot_of: dict[str, int] = dict(zip(names, decoder.slots(message, names), strict=True))
        uuid_slots = tuple(decoder.slots(UUID, ["int", "is_safe"]))
    except AttributeError:
        return in_python  # an interpreter that keeps slots elsewhere
    header, properties = HEADER_FIELDS.described(), PROPERTIES_FIELDS.described()
    places = (slot_of["body"], slot_of["annotations"], slot_of["properties"])
    decoder.bind(
        (message, Symbol, UUID, SafeUUID.unknown, datetime, UTC),
        (in_python.decode_body, in_python.decode_message, read_value),
        places,
        uuid_slots,
        [(slot_of[each.name], dict if each.default is MISSING else each.default) for each in known],
        *([(slot_of[name], form, limit) for name, form, limit, _ in section] for section in (header, properties)),
        MAX_DEPTH,
    )
    encoder.bind(
        (message, Symbol, UUID, datetime, UTC),
        (encode_value, in_python.encode_item),
        places,
        *(
            [(slot_of[name], form, limit, absent) for name, form, limit, absent in section]
            for section in (header, properties)
        ),
        MAX_DEPTH,
    )
    return Codec(decoder.decode_body, decoder.decode_message, encoder.encode_item)
