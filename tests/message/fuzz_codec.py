r"""Compares the codec in C with the one in Python, on mutated messages.

    python -m tests.message.fuzz_codec --messages 10000000 --seed 1

`make sanitize` runs it with the sanitizers of gcc for addresses and undefined behaviour.

Each message goes through the functions that decode, and through one of the others that are written twice. Values are
compared by type and content, errors by type and text, encoded messages byte by byte. The first difference is printed
with its bytes, and the exit status is 1.
"""

from __future__ import annotations

import argparse
import io
import math
import pickle
import random
import struct
import sys
import time
from collections import UserDict
from collections.abc import Callable
from dataclasses import fields
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from enum import IntEnum
from operator import attrgetter
from typing import Any
from uuid import UUID

from rstreams import message as codec
from rstreams._codec.asking import asked_by
from rstreams._codec.decode import FUNCTIONS, IN_PYTHON
from rstreams._codec.types import EPOCH
from rstreams.message import (
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

FROM_ONE = 40  # mutations of each message that is made

_fields = attrgetter(*(each.name for each in fields(Message)))
_CODES = bytes.fromhex(
    "00 40 41 42 43 44 45 50 51 52 53 54 55 56 60 61 70 71 72 73 74 80 81 82 83 84 94 98"
    "a0 a1 a3 b0 b1 b3 c0 c1 d0 d1 e0 f0 ff"
)


class Difference(Exception):
    """The two implementations do not do the same."""


class Level(IntEnum):
    """An int of a class of its own."""

    LOW = 1
    HIGH = 300


class Text(str):
    """A str of a class of its own."""

    __slots__ = ()


def content_of(value: object) -> bytes:
    """Return the types and contents of a value as bytes, whichever objects it is made of."""
    if type(value) is bytes:
        return b"bytes " + value
    out = io.BytesIO()
    pickler = pickle.Pickler(out, 5)
    pickler.fast = True  # without its memory of equal objects
    pickler.dump((type(value), _fields(value)) if type(value) is Message else value)
    return out.getvalue()


def outcome(function: Callable[..., Any], *arguments: object) -> tuple[object, Any]:
    """Return what came of a call, to be compared; and the result itself."""
    try:
        result = function(*arguments)
    except Exception as error:
        return (type(error), str(error)), None
    return content_of(result), result


def compare(name: str, in_python: Callable[..., Any], in_c: Callable[..., Any], *arguments: object) -> Any:  # noqa: ANN401
    """Return the result of both functions, None if they raised.

    Errors: `Difference` if they did not do the same.
    """
    expected, result = outcome(in_python, *arguments)
    found, _ = outcome(in_c, *arguments)
    if expected != found:
        shown = [each.hex() if isinstance(each, bytes) else repr(each) for each in arguments]
        msg = f"{name}({', '.join(shown)})\n  Python: {expected!r}\n  C:      {found!r}"
        raise Difference(msg)
    return result


_ADDED = {"x-opt-a": b"\x55\x07", "x-opt-long": b"\xa0\xc8" + bytes(200)}


def _compare_delivery_count(encoded: bytes, draw: random.Random) -> None:
    count = draw.choice((0, 1, 255, 256, 2**32 - 1, 2**32, -1, True))
    in_python, in_c = codec._IN_PYTHON.with_delivery_count, codec._codec.with_delivery_count
    compare("with_delivery_count", in_python, in_c, encoded, count)


def _compare_annotations(encoded: bytes, draw: random.Random) -> None:
    removed = draw.choice(((), ("a", "b"), {"a"}))
    compare("with_annotations", IN_PYTHON.with_annotations, FUNCTIONS.with_annotations, encoded, _ADDED, removed)


def _compare_lifetime(encoded: bytes, _draw: random.Random) -> None:
    lifetime = compare("lifetime_of", IN_PYTHON.lifetime_of, FUNCTIONS.lifetime_of, encoded)
    for functions in (IN_PYTHON, FUNCTIONS):
        if not functions.may_expire([encoded]) and lifetime not in (None, (math.inf, None)):
            msg = f"may_expire([{encoded.hex()}]) is False, and lifetime_of finds {lifetime!r}"
            raise Difference(msg)


def _compare_wishes(encoded: bytes, draw: random.Random) -> None:
    among = draw.randrange(128)
    for functions in (IN_PYTHON, FUNCTIONS):
        if not functions.may_ask(encoded, among) and asked_by(encoded) & among:
            msg = f"may_ask({encoded.hex()}, {among}) is False, and asked_by finds {asked_by(encoded)!r}"
            raise Difference(msg)


def _compare_parts(encoded: bytes, draw: random.Random) -> None:
    at = draw.randrange(-1, len(encoded) + 2)
    which = draw.choice(("read_list", "read_map", "skip_value", "read_section"))
    compare(which, getattr(IN_PYTHON, which), getattr(FUNCTIONS, which), encoded, at)
    compare("split_items", IN_PYTHON.split_items, FUNCTIONS.split_items, encoded, at, draw.randrange(4))


_COMPARISONS = (_compare_delivery_count, _compare_annotations, _compare_lifetime, _compare_wishes, _compare_parts)


def compare_all(encoded: bytes, draw: random.Random) -> bool:
    """Put one message through the functions that decode, and one of the others; return whether it can be decoded."""
    python, c = codec._IN_PYTHON, codec._codec
    compare("decode_body", python.decode_body, c.decode_body, encoded)
    message = compare("decode_message", python.decode_message, c.decode_message, encoded)
    _COMPARISONS[int(draw.random() * len(_COMPARISONS))](encoded, draw)
    if message is not None:
        compare("encode_item", python.encode_item, c.encode_item, message)
    return message is not None


# --------------------------------------------------------------------------------------------------- messages at random


def a_text(draw: random.Random) -> str:
    """Return a text: short, around a border of its length, or with more than ASCII."""
    kind = draw.randrange(8)
    if kind == 0:
        return "é€𐍈"[: draw.randrange(4)] * draw.choice((1, 1, 90))
    if kind == 1:
        return "x" * draw.choice((0, 254, 255, 256, 257, 1000))
    return "".join(draw.choices("abc-x:opt", k=draw.randrange(9)))


_FIRST = datetime(1, 1, 1, tzinfo=UTC)
_LAST = datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)
_BEFORE = EPOCH - timedelta(microseconds=1)


def a_moment(draw: random.Random) -> datetime:
    """Return a datetime: at a border, in another time zone, or any."""
    kind = draw.randrange(5)
    if kind == 0:
        return draw.choice((_FIRST, _LAST, _BEFORE))
    moment = EPOCH + timedelta(microseconds=draw.randrange(-(10**16), 10**16))
    if kind == 1:
        return moment.astimezone(timezone(timedelta(minutes=draw.randrange(-1000, 1000))))
    return moment if kind == 2 else moment.replace(microsecond=draw.choice((0, 999, 1000, 999_999)))


def a_number(draw: random.Random) -> int:
    """Return an int around a border of its encoded forms."""
    return draw.choice((1, -1)) * draw.choice((0, 128, 256, 2**31, 2**32, 2**63, 2**64)) + draw.randrange(-2, 3)


_FLOATS = (0.0, -0.0, 1.5, 1e300, float("inf"), float("-inf"), float("nan"))

_SIMPLE: tuple[Callable[[random.Random], object], ...] = (
    a_number,
    a_number,
    a_number,
    a_text,
    a_text,
    a_moment,
    a_moment,
    lambda draw: draw.choice((None, True, False)),
    lambda draw: draw.choice((*_FLOATS, draw.random())),
    lambda draw: Symbol(a_text(draw)),
    lambda draw: draw.randbytes(draw.choice((0, 1, 5, 255, 256))),
    lambda draw: UUID(int=draw.getrandbits(128)),
    lambda draw: Decimal(draw.randrange(10**9)).scaleb(draw.randrange(-40, 40)),
    lambda draw: bytearray(draw.randbytes(3)),
    lambda draw: draw.choice((Byte, UByte, Short, UShort, Int, UInt, ULong))(draw.choice((0, 1, 100, 127))),
    lambda draw: draw.choice((UShort(65535), Int(-128), Int(-129), UInt(256), ULong(2**64 - 1), Byte(-128))),
    lambda draw: draw.choice(
        (Float(0.1), Float("inf"), Char("é"), Decimal32("1.5"), Decimal64("-2E+300"), Binary(b"b"))
    ),
)
_ODD: tuple[Callable[[random.Random], object], ...] = (
    lambda draw: draw.choice((Level.LOW, Level.HIGH, Text("t"), Text("é"))),
    lambda draw: draw.choice((memoryview(b"ab"), "\ud800", Symbol("\udcff"))),
    lambda draw: a_moment(draw).replace(tzinfo=None),
    lambda draw: draw.choice((object, 2**70, -(2**70), {1}, 1j)),
)


def simple(draw: random.Random, *, odd: bool) -> Any:  # noqa: ANN401 - anything
    """Return a value that is no list, mapping or `Described`; if `odd`, maybe one of a rare class or without a form."""
    return draw.choice(_SIMPLE + _ODD if odd else _SIMPLE)(draw)


def a_value(draw: random.Random, depth: int = 0, *, odd: bool = False) -> Any:  # noqa: ANN401 - anything
    """Return any value."""
    kind = draw.randrange(10)
    if kind > 3 or depth > 4:
        return simple(draw, odd=odd)
    inner = [a_value(draw, depth + 1, odd=odd) for _ in range(draw.choice((0, 1, 2, 3, 130 if depth > 2 else 4)))]
    if kind == 0:
        return inner
    if kind == 1:
        return tuple(inner)
    if kind == 2:
        names = (draw.choice(("a", "b", a_text(draw), draw.randrange(9), Symbol("c"), UUID(int=5), 1.5)) for _ in inner)
        pairs = dict(zip(names, inner, strict=True))
        return UserDict(pairs) if draw.randrange(10) == 0 else pairs
    if kind == 3 and draw.randrange(2):
        return Array(inner[:1], of=draw.choice((None, UByte, Symbol, Level)))
    return Described(draw.choice((Symbol("a:b"), 7)), inner)


def a_message(draw: random.Random) -> Message:
    """Return a message of which each field is there or not; of an odd one, a field may be of a wrong type."""
    odd = draw.randrange(4) == 0
    made: dict[str, Any] = {
        "body": draw.randbytes(draw.randrange(300)) if draw.randrange(2) else a_value(draw, odd=odd)
    }
    some: dict[str, Callable[[], Any]] = {
        "id": lambda: draw.choice((a_text(draw), draw.getrandbits(64), UUID(int=draw.getrandbits(128)), b"id")),
        "subject": lambda: a_text(draw),
        "content_type": lambda: draw.choice(("application/json", "x" * 256, "é" if odd else "")),
        "creation_time": lambda: a_moment(draw),
        "address": lambda: a_text(draw),
        "reply_to": lambda: a_text(draw),
        "correlation_id": lambda: draw.choice((a_text(draw), draw.getrandbits(63))),
        "properties": lambda: {
            draw.choice((a_text(draw), "a", "b")): simple(draw, odd=odd) for _ in range(draw.randrange(5))
        },
        "annotations": lambda: {
            draw.choice((a_text(draw), "a", "b", Symbol("c"), draw.randrange(3), draw.getrandbits(64))): a_value(
                draw, 1, odd=odd
            )
            for _ in range(draw.randrange(4))
        },
        "durable": lambda: draw.choice((True, False)),
        "priority": lambda: draw.choice((0, 4, 255)),
        "ttl_s": lambda: draw.choice(
            (0, 1, 0.0005, 0.0015, 0.0025, 4294967.295, draw.random() * 1e6, draw.randrange(10**6))
        ),
        "first_acquirer": lambda: draw.choice((True, False)),
        "delivery_count": lambda: draw.choice((0, 1, 255, 256, 2**32 - 1)),
        "user_id": lambda: draw.randbytes(4),
        "content_encoding": lambda: "gzip",
        "expiry_time": lambda: a_moment(draw),
        "group_id": lambda: a_text(draw),
        "group_sequence": lambda: draw.getrandbits(32),
        "reply_to_group_id": lambda: a_text(draw),
    }
    share = draw.choice((0.1, 0.5, 0.9))
    made |= {name: make() for name, make in some.items() if draw.random() < share}
    if odd:
        name = draw.choice([each.name for each in fields(Message)])
        made[name] = draw.choice((simple(draw, odd=True), 0, 1, 4.0, False, None, [], UserDict(a=1), Text("t")))
    return Message(**made)


_LENGTHS = tuple(struct.pack(">I", length) for length in (0, 1, 255, 256, 2**31, 2**32 - 1))
_ENDS = (b"\0Sx\xc1\1\0", b"\0Su\xa0\1x", b"\0Sv\xc0\2\1@", b"\0")

_MUTATIONS: tuple[Callable[[bytes, int, bytes, random.Random], bytes], ...] = (
    lambda old, at, _, __: old[:at],
    lambda old, at, _, draw: old[:at] + bytes((draw.choice(_CODES),)) + old[at:],
    lambda old, at, _, draw: old[:at] + old[at + draw.choice((1, 1, 2, 4)) :],
    lambda old, at, _, draw: old[:at] + old[max(0, at - draw.randrange(1, 20)) :],
    lambda old, at, other, draw: old[:at] + other[draw.randrange(len(other) + 1) :],
    lambda old, at, _, draw: old[:at] + draw.choice(_LENGTHS) + old[at + 4 :],
    lambda old, _, other, draw: old + draw.choice((other, *_ENDS)),
    lambda old, at, _, draw: (
        old[:at] + bytes((old[at] + draw.choice((-2, -1, 1, 2)) & 0xFF,)) + old[at + 1 :] if at < len(old) else old
    ),
    lambda old, at, _, draw: old[:at] + bytes((draw.choice(_CODES),)) + old[at + 1 :],
    lambda old, at, _, draw: old[:at] + bytes((draw.randrange(256),)) + old[at + 1 :],
)


def mutated(encoded: bytes, other: bytes, draw: random.Random) -> bytes:
    """Return the bytes with one change: replaced, put in, cut out, repeated, or spliced with another message."""
    reach = len(encoded) if draw.random() < 0.7 else min(len(encoded), 12)
    at = int(draw.random() * (reach + 1))
    return _MUTATIONS[int(draw.random() * len(_MUTATIONS))](encoded, at, other, draw)


def run(messages: int, seed: int, *, tell_every: int = 1_000_000) -> int:
    """Compare both implementations on so many mutated messages; return how many of them could be decoded.

    Errors: `Difference` at the first one.
    """
    draw = random.Random(seed)  # noqa: S311 - to be repeated
    other, made, decoded = b"\0Su\xa0\1x", 0, 0
    began = time.monotonic()
    while made < messages:
        message = a_message(draw)
        encoded = compare("encode_item", codec._IN_PYTHON.encode_item, codec._codec.encode_item, message)
        body = compare("encode_item", codec._IN_PYTHON.encode_item, codec._codec.encode_item, message.body)
        for original in (encoded, body):
            if original is None:
                continue
            compare_all(original, draw)
            changed = original
            for step in range(min(FROM_ONE // 2, messages - made)):
                changed = mutated(original if step % 3 == 0 else changed, other, draw)[:4000]
                decoded += compare_all(changed, draw)
                made += 1
                if made % tell_every == 0:
                    print(f"{made:,} messages, {decoded:,} decoded, {time.monotonic() - began:,.0f} s", flush=True)  # noqa: T201
            other = original
    return decoded


def main() -> int:
    """Run it from the command line."""
    parser = argparse.ArgumentParser(description="compare the codec in C with the one in Python on mutated messages")
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    try:
        decoded = run(given.messages, given.seed)
    except Difference as difference:
        print(f"they differ: {difference}")  # noqa: T201
        return 1
    print(f"{given.messages:,} messages, seed {given.seed}: no difference; {decoded:,} could be decoded")  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
