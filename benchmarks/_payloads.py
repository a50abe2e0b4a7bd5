"""The items that people send, of about 1 KB each, and how peers without a type system of their own encode them.

What is measured sends the same value again and again: making values is no part of it. A peer that knows bytes alone
sends text as UTF-8, and a mapping or a whole message as one msgpack map.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import repeat
from typing import Any, Final

import msgpack

from benchmarks._processes import Counter, Load, Shape

KIB: Final = 1024
MIB: Final = 1024 * KIB

RECORD: Final[dict[str, Any]] = {
    "id": 4711,
    "sensor": "roof/north-7",
    "unit": "degC",
    "valid": True,
    "previous": None,
    "reading": 21.375,
    "history": [20.0 + step / 8 for step in range(32)],
    "place": {"latitude": 52.520008, "longitude": 13.404954, "height_m": 34.5},
    "tags": ["outdoor", "calibrated", "mains", "north"],
    "remark": "t" * 460,
}
"""A mapping as people have them: texts, numbers, a list of numbers, and a mapping inside."""

FULL: Final[dict[str, Any]] = {
    "body": b"x" * KIB,
    "id": "6f1c8b9e-2f0a-4d38-9a2e-0c54d1a7e6b3",
    "subject": "reading",
    "content_type": "application/octet-stream",
    "creation_time": datetime(2024, 2, 29, 12, 30, 15, tzinfo=UTC),
    "correlation_id": "request-4711",
    "properties": {"tenant": "acme", "attempt": 3, "ratio": 0.75, "urgent": True},
    "annotations": {"x-opt-trace": "4bf92f3577b34da6a3ce929d0e0e4736", "x-opt-partition": 17},
}
"""The fields of a whole message."""


def plain(load: Load) -> Any:  # noqa: ANN401 - by its shape
    """Return one item as Python values, without a class of rstreams."""
    values: dict[Shape, Any] = {
        "bytes": load.item,
        "str": "x" * KIB,
        "dict": RECORD,
        "full": {**FULL, "body": load.item},
    }
    return values[load.shape]


def encode(load: Load) -> Callable[[Any], bytes]:
    """Return the function by which a peer that knows bytes alone encodes an item."""
    if load.shape == "bytes":
        return bytes
    return str.encode if load.shape == "str" else msgpack.Packer(datetime=True).pack


def packed(load: Load) -> Iterator[bytes]:
    """Return the encoded items of a load, each encoded when it is asked for; bytes are the items themselves."""
    items = repeat(plain(load), load.items)
    return items if load.shape == "bytes" else map(encode(load), items)


def unpacking(load: Load) -> tuple[Counter, Callable[[Any], None]]:
    """Return a counter for a consumer, and the function that decodes one item and counts it."""
    if load.shape == "bytes":
        counter = Counter(load)
        return counter, counter
    count = counter = Counter(load, plain(load))
    if load.shape == "str":
        return counter, lambda data: count(str(data, "utf-8"))
    unpack = msgpack.unpackb
    return counter, lambda data: count(unpack(data, timestamp=3))
