"""AMQP to Python values, from a peer that is not trusted: in C, which leaves rare and malformed values to Python.

`decode_in_python` documents the functions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple
from uuid import UUID, SafeUUID

from rstreams._codec import decode_in_python
from rstreams._codec.c_modules import load
from rstreams._codec.decode_in_python import Malformed, decode_value, malformed, read_items, read_value
from rstreams._codec.forwarding_in_python import lifetime_of, may_ask, may_expire, with_annotations
from rstreams._codec.sections_in_python import read_section
from rstreams._codec.types import MAX_DEPTH, NARROW_TYPES, Symbol

__all__ = [
    "Malformed",
    "decode_value",
    "malformed",
    "read_items",
    "read_list",
    "read_map",
    "read_value",
    "skip_value",
    "split_items",
]


class Functions(NamedTuple):
    """The functions that are written twice, in the order in which `_values.c` binds them."""

    read_list: Callable[[bytes, int], tuple[list[Any], int]]
    read_map: Callable[[bytes, int], tuple[dict[Any, Any], int]]
    read_section: Callable[..., tuple[int, int]]
    skip_value: Callable[[bytes, int], int]
    split_items: Callable[[bytes, int, int], list[bytes]]
    with_annotations: Callable[..., bytes]
    lifetime_of: Callable[[bytes], tuple[float, datetime | None]]
    may_expire: Callable[[Sequence[bytes]], bool]
    may_ask: Callable[[bytes, int], bool]


IN_PYTHON: Final = Functions(
    decode_in_python.read_list,
    decode_in_python.read_map,
    read_section,
    decode_in_python.skip_value,
    decode_in_python.split_items,
    with_annotations,
    lifetime_of,
    may_expire,
    may_ask,
)


VALUES: Final[Any] = load("_values", 4)

_SLOTS: Final = tuple(VALUES.slots(UUID, ["int", "is_safe"]))
_TYPES: Final = (Symbol, UUID, SafeUUID.unknown, datetime, UTC, NARROW_TYPES)

FUNCTIONS: Final = Functions(*VALUES.bind(_TYPES, _SLOTS, read_value, IN_PYTHON, MAX_DEPTH))

read_list: Final = FUNCTIONS.read_list
read_map: Final = FUNCTIONS.read_map
skip_value: Final = FUNCTIONS.skip_value
split_items: Final = FUNCTIONS.split_items
