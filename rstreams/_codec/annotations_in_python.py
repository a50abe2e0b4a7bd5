"""Message annotations added to a message that is encoded already: every other byte stays what it was (3.2.3)."""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping

from rstreams._codec.decode_in_python import read_map, skip_value, split_items
from rstreams._codec.encode import encode_map, encode_symbol
from rstreams._codec.sections_in_python import MESSAGE_ANNOTATIONS, START, read_section


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
    parts = split_items(buffer, at + (3 if buffer[at] == 0xC1 else 9), 2 * len(known))
    pairs = zip(known, parts[::2], parts[1::2], strict=True)
    return [(encoded_key, value) for key, encoded_key, value in pairs if key not in without], end
