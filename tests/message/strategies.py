"""What AMQP can carry, for hypothesis."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

from hypothesis import strategies as st

from rstreams.message import (
    Array,
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

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FIRST_MS = (datetime.min.replace(tzinfo=UTC) - EPOCH) // timedelta(milliseconds=1)
LAST_MS = (datetime.max.replace(tzinfo=UTC) - EPOCH) // timedelta(milliseconds=1)

names = st.text(st.characters(max_codepoint=127), max_size=20)
texts = st.text(max_size=20) | st.text(min_size=256, max_size=300)
binaries = st.binary(max_size=20) | st.binary(min_size=254, max_size=258)
moments = st.integers(FIRST_MS, LAST_MS).map(lambda ms: EPOCH + timedelta(milliseconds=ms))
decimals = st.builds(
    lambda sign, digits, exponent: Decimal((sign, tuple(map(int, str(digits))), exponent)),
    st.integers(0, 1),
    st.integers(0, 10**34 - 1),
    st.integers(-6176, 6111),
)


def _narrow_decimals(kind: type[Decimal32 | Decimal64]) -> st.SearchStrategy[Decimal32 | Decimal64]:
    return st.builds(
        lambda sign, digits, exponent: kind((sign, tuple(map(int, str(digits))), exponent)),
        st.integers(0, 1),
        st.integers(0, 10**kind.digits - 1),
        st.integers(kind.least_exponent, kind.most_exponent),
    )


narrow = st.one_of(
    *(
        st.integers(least, most).map(kind)
        for kind, least, most in (
            (Byte, -(2**7), 2**7 - 1),
            (UByte, 0, 2**8 - 1),
            (Short, -(2**15), 2**15 - 1),
            (UShort, 0, 2**16 - 1),
            (Int, -(2**31), 2**31 - 1),
            (UInt, 0, 2**32 - 1),
            (ULong, 0, 2**64 - 1),
        )
    ),
    st.floats(width=32).map(Float),
    st.characters(exclude_categories=["Cs"]).map(Char),
    _narrow_decimals(Decimal32),
    _narrow_decimals(Decimal64),
)
simple = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.integers(-130, 260)
    | st.floats()
    | texts
    | names.map(Symbol)
    | binaries
    | st.uuids()
    | moments
    | decimals
    | narrow
)
values = st.recursive(
    simple,
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.dictionaries(texts | st.integers(2, 300) | st.uuids(), inner, max_size=5)
        | st.builds(Described, names.map(Symbol) | st.integers(0, 2**64 - 1).map(ULong), inner)
        | st.lists(texts, max_size=3).map(lambda items: Array(items, of=str))
    ),
    max_leaves=20,
)

uints = st.integers(0, 2**32 - 1)
ids = texts | st.integers(0, 2**64 - 1) | st.uuids() | st.binary(max_size=20)
messages = st.builds(
    Message,
    values,
    id=st.none() | ids,
    subject=st.none() | texts,
    content_type=st.none() | names,
    creation_time=st.none() | moments,
    address=st.none() | texts,
    reply_to=st.none() | texts,
    correlation_id=st.none() | ids,
    properties=st.dictionaries(texts, simple, max_size=4),
    annotations=st.dictionaries(names | st.integers(0, 2**64 - 1), values, max_size=3),
    durable=st.booleans(),
    priority=st.integers(0, 255),
    ttl_s=st.none() | uints.map(lambda ms: ms / 1000),
    first_acquirer=st.booleans(),
    delivery_count=uints,
    user_id=st.none() | st.binary(max_size=20),
    content_encoding=st.none() | names,
    expiry_time=st.none() | moments,
    group_id=st.none() | texts,
    group_sequence=st.none() | uints,
    reply_to_group_id=st.none() | texts,
)
