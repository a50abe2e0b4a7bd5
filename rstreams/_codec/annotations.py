"""Message annotations added to a message that is encoded already: every other byte stays what it was (3.2.3)."""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping

from rstreams._codec.decode import read_map, skip_value
from rstreams._codec.encode import encode_map, encode_symbol
from rstreams._codec.sections import MESSAGE_ANNOTATIONS, START, read_section


def with_annotations(encoded: bytes, added: Mapping[str, bytes], removed: Collection[str] = ()) -> bytes:
    """Return the same message with more annotations.

    Args:
        encoded: A message's sections.
        added: Encoded values by name; they take the place of those of the same name.
        removed: The names of others that are not to stay.

    Errors: `Malformed` if it is no message.
    """
    at = 0
    before = code = content = 0
    while at < len(encoded):
        code, content = read_section(encoded, at, before)
        if code >= MESSAGE_ANNOTATIONS:
            break
        before, at = code, skip_value(encoded, content)
    pairs: list[tuple[bytes, bytes]] = []
    end = at
    if code == MESSAGE_ANNOTATIONS:
        pairs, end = _split_map(encoded, content, {*added, *removed})
    pairs += [(encode_symbol(name), value) for name, value in added.items()]
    return encoded[:at] + START[MESSAGE_ANNOTATIONS] + encode_map(pairs) + encoded[end:]


def _split_map(buffer: bytes, at: int, without: Container[object]) -> tuple[list[tuple[bytes, bytes]], int]:
    """Return the encoded pairs of the map at `at` but for the keys in `without`, and the position after the map."""
    known, end = read_map(buffer, at)
    at += 3 if buffer[at] == 0xC1 else 9
    pairs: list[tuple[bytes, bytes]] = []
    for key in known:
        value = skip_value(buffer, at)
        after = skip_value(buffer, value)
        if key not in without:
            pairs.append((buffer[at:value], buffer[value:after]))
        at = after
    return pairs, end
