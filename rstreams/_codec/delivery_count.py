"""Another delivery count in the header of an encoded message: every other byte stays the same (3.2.1)."""

from __future__ import annotations

from rstreams._codec.decode_in_python import Malformed, malformed, read_list, split_items
from rstreams._codec.encode import NULL, encode_fields
from rstreams._codec.forwarding import LIST_HEADS
from rstreams._codec.message_fields import HEADER_FIELDS, encode_count
from rstreams._codec.sections_in_python import HEADER, START, read_section


def with_delivery_count(encoded: bytes, delivery_count: int) -> bytes:
    """Return the message with another delivery count; `rstreams.message` documents it, `_decode.c` has it in C."""
    count = encode_count("delivery_count", delivery_count)
    before: list[bytes] = []
    at = 0
    try:
        if encoded:
            code, content = read_section(encoded, 0)
            if code == HEADER:
                values, at = read_list(encoded, content)
                HEADER_FIELDS.take(values, {})
                before = split_items(encoded, content + LIST_HEADS[encoded[content]], len(values[:4]))
    except Malformed as error:
        raise malformed(error) from error
    before += [NULL] * (4 - len(before))
    return START[HEADER] + encode_fields([*before, count]) + encoded[at:]
