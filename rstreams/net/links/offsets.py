"""Offsets: the positions of the messages of a log, and how a link says where it begins.

The words are those of RabbitMQ's streams. Therefore the same client reads a log of a node and a stream of RabbitMQ 4:

    filter `rabbitmq:stream-offset-spec`    where a link begins: "first", "last", "next", an offset or a time
    annotation `x-stream-offset`            the offset of a message

A log of a node also tells where and when it has appended a message, in the words of Azure:

    annotation `x-opt-partition-id`         the number of its partition
    annotation `x-opt-enqueued-time`        the time, to the millisecond

Both sides of a link use this module.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, Final, NamedTuple

from rstreams._checks.choices import require_flag
from rstreams._checks.names import require_name
from rstreams._checks.refusals import refuse_value
from rstreams._codec import Described, Symbol
from rstreams._codec.annotations import with_annotations
from rstreams._codec.data_sections import cut_numbered, numbered
from rstreams._codec.decode import Malformed
from rstreams._codec.encode import encode_symbol
from rstreams._codec.sections import MESSAGE_ANNOTATIONS, START
from rstreams._codec.types import is_whole
from rstreams.errors import ConfigError
from rstreams.net.dialects import Offset, require_offset
from rstreams.net.dialects.stream_offsets import OFFSET, START_AT
from rstreams.net.links.effectively_once import read_annotations

GROUP: Final = "rstreams:consumer-group"
"""The filter that names the consumer group that a link is a member of."""

TO_END: Final = "rstreams:to-end"
"""The filter of a link that completes behind the messages that are there when it begins.

Its value is true, or the offset behind the last of these messages. A node tells a reader that offset in its attach, and
the reader names it when it goes on after a loss.
"""

INCARNATION: Final = "rstreams:incarnation"
"""The name of the id of a log, which no other log has that gets the address later.

A node tells it as a property of its attach. A peer that goes on behind an offset names it in a filter of its own
attach. The node refuses the link (`MADE_ANEW`) if the log has another id: the offset is not one of this log.
"""

PARTITION: Final = "x-opt-partition-id"
"""The annotation with the number of the partition of a log that a message is in."""

APPENDED_AT: Final = "x-opt-enqueued-time"
"""The annotation with the time at which a log has appended a message."""

MAX_GROUP_NAME: Final = 128
MAX_INCARNATION: Final = 128

_WORDS: Final = ("first", "last", "next")
_MOST: Final = 2**63
_ULONG: Final = b"\x80"
_INT: Final = b"\x71"
_TIMESTAMP: Final = b"\x83"
_OFFSET: Final = encode_symbol(OFFSET) + _ULONG
_PARTITION: Final = encode_symbol(PARTITION) + _INT
_APPENDED_AT: Final = encode_symbol(APPENDED_AT) + _TIMESTAMP
_pack: Final = struct.Struct(">Q").pack
_pack_int: Final = struct.Struct(">i").pack
_pack_time: Final = struct.Struct(">q").pack
_unpack: Final = struct.Struct(">Q").unpack_from


def _begin(size: int, pairs: int) -> bytes:
    """Return the begin of message annotations whose pairs have so many bytes."""
    return START[MESSAGE_ANNOTATIONS] + bytes((0xC1, size + 1, 2 * pairs))


_HEAD: Final = _begin(len(_OFFSET) + 8, 1) + _OFFSET
_AFTER_HEAD: Final = len(_HEAD)
_HEAD_OF_LOG: Final = _begin(len(_PARTITION) + 4 + len(_APPENDED_AT) + 8 + len(_OFFSET) + 8, 3) + _PARTITION
_TIME_AT: Final = slice(len(_HEAD_OF_LOG) + 4, len(_HEAD_OF_LOG) + 4 + len(_APPENDED_AT))
_OFFSET_AT: Final = slice(_TIME_AT.stop + 8, _TIME_AT.stop + 8 + len(_OFFSET))


def with_offset(encoded: bytes, offset: int) -> bytes:
    """Return an encoded message with its offset; its own annotations are kept."""
    if encoded[2:3] > b"r":  # it has no header and no annotations (0x72): they come first
        return _HEAD + _pack(offset) + encoded
    return _annotated(encoded, {OFFSET: _ULONG + _pack(offset)})


def _annotated(encoded: bytes, added: dict[str, bytes]) -> bytes:
    try:
        return with_annotations(encoded, added)
    except Malformed:
        return encoded  # the receiver that decodes it gets the error


class Appended(NamedTuple):
    """Where and when a log has appended some messages together.

    Attributes:
        partition: The number of the partition.
        time_ms: The time, in milliseconds since 1970.
    """

    partition: int
    time_ms: int

    def noted(self, messages: Sequence[bytes], offsets: Sequence[int]) -> list[bytes]:
        """Return encoded messages with their offsets, their partition and the time; their own annotations are kept."""
        made = numbered(self._head(), list(messages), offsets)
        return list(map(self._note, messages, offsets)) if made is None else made

    def cut(self, stored: bytes, count: int, first: int) -> list[bytes] | None:
        """Return the messages of a stored run as `noted` does; their offsets begin with `first`.

        Args:
            stored: The run: see `rstreams._codec.data_sections.cut_numbered`.
            count: How many messages it has.
            first: The offset of the first one.

        Returns: None if one of the messages begins with a header or with annotations.
        """
        return cut_numbered(self._head(), stored, count, first)

    def _head(self) -> bytes:
        partition, time_ms = self
        return b"".join((_HEAD_OF_LOG, _pack_int(partition), _APPENDED_AT, _pack_time(time_ms), _OFFSET))

    def _note(self, encoded: bytes, offset: int) -> bytes:
        partition, time_ms = _INT + _pack_int(self.partition), _TIMESTAMP + _pack_time(self.time_ms)
        return _annotated(encoded, {PARTITION: partition, APPENDED_AT: time_ms, OFFSET: _ULONG + _pack(offset)})


def read_offset(encoded: bytes) -> int | None:
    """Return the offset of an encoded message; None if it has none."""
    if encoded[_OFFSET_AT] == _OFFSET and encoded[_TIME_AT] == _APPENDED_AT and encoded.startswith(_HEAD_OF_LOG):
        at = _OFFSET_AT.stop
    else:
        at = _AFTER_HEAD if encoded.startswith(_HEAD) else 0
    if at and len(encoded) >= at + 8:
        offset: int = _unpack(encoded, at)[0]
        return offset
    if encoded[2:3] > b"r":
        return None
    noted = read_annotations(encoded).get(OFFSET, -1)
    return noted if is_whole(noted) and 0 <= noted < _MOST else None


def require_start(start: Offset | None, *, browse: bool) -> Offset | None:
    """Return `start` if a stream may begin there.

    Errors: `ConfigError` if it is malformed, or together with `browse`.
    """
    if start is not None:
        require_offset(start, "start")
        _refuse_browse("start", start, browse)
    return start


def require_group(group: str | None, *, browse: bool) -> str | None:
    """Return `group` if it can be the name of a consumer group.

    Errors: `ConfigError` if not, or together with `browse`.
    """
    if group is not None:
        require_name("", "group", group)
        if len(group) > MAX_GROUP_NAME:
            refuse_value("", "group", group, f"a name of 1 to {MAX_GROUP_NAME} characters")
        _refuse_browse("group", group, browse)
    return group


def _refuse_browse(option: str, value: object, browse: bool) -> None:  # noqa: FBT001 - the option itself
    if browse:
        msg = f"{option}={value!r}: a log cannot be browsed; all its readers get copies"
        raise ConfigError(msg)


def group_filter(group: str | None) -> dict[str, Any]:
    """Return the filter for a member of a consumer group; none without a group."""
    return {} if group is None else {GROUP: Described(Symbol(GROUP), group)}


def read_start(filters: Mapping[str, Any]) -> Offset | None:
    """Return where a peer wants a link to begin; None if it does not say.

    Errors: `ValueError` for a value that is not a place in a log.
    """
    value = filters.get(START_AT)
    value = value.value if isinstance(value, Described) else value
    if value is None:
        return None
    if isinstance(value, str) and value in _WORDS:
        return str(value)  # type: ignore[return-value]
    if isinstance(value, datetime):
        return value
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MOST:
        return int(value)
    msg = f"{START_AT}={value!r:.80}: it must be 'first', 'last', 'next', an offset or a timestamp"
    raise ValueError(msg)


def read_group(filters: Mapping[str, Any]) -> str | None:
    """Return the consumer group that a peer wants its link to be in; None for none.

    Errors: `ValueError` for a value that is not a name.
    """
    value = filters.get(GROUP)
    value = value.value if isinstance(value, Described) else value
    if value is None:
        return None
    if not isinstance(value, str) or not 0 < len(value) <= MAX_GROUP_NAME or not value.isprintable():
        msg = f"{GROUP}={value!r:.80}: it must be a printable name of 1 to 128 characters"
        raise ValueError(msg)
    return str(value)


def end_filter(*, to_end: bool) -> dict[str, Any]:
    """Return the filter for a link that completes behind the messages that are there; none without `to_end`."""
    return {TO_END: Described(Symbol(TO_END), to_end)} if to_end else {}


def read_to_end(filters: Mapping[str, Any]) -> int | None:
    """Return where a peer wants a link to complete: behind the last message, -1, or at an offset; None for nowhere.

    Errors: `ValueError` for another value.
    """
    value = filters.get(TO_END)
    value = value.value if isinstance(value, Described) else value
    if value is None:
        return None
    if value is True:
        return -1
    if is_whole(value) and 0 <= value < _MOST:
        return int(value)
    msg = f"{TO_END}={value!r:.80}: it must be true or an offset"
    raise ValueError(msg)


def require_to_end(to_end: bool, *, browse: bool) -> bool:  # noqa: FBT001 - the option itself
    """Return `to_end` if it is a flag.

    Errors: `ConfigError` if not, or together with `browse`.
    """
    if require_flag("", "to_end", to_end):
        _refuse_browse("to_end", to_end, browse)
    return to_end


def read_incarnation(filters: Mapping[str, Any]) -> str | None:
    """Return the id that a log must have for a peer to go on in it; None if any log will do.

    Errors: `ValueError` for a value that is not an id.
    """
    value = filters.get(INCARNATION)
    value = value.value if isinstance(value, Described) else value
    if value is None:
        return None
    if not isinstance(value, str) or not 0 < len(value) <= MAX_INCARNATION:
        msg = f"{INCARNATION}={value!r:.80}: it must be a text of 1 to {MAX_INCARNATION} characters"
        raise ValueError(msg)
    return str(value)


class Position:
    """The place in a log that a receiver has got to: it notes the offset of the last message of each run.

    Args:
        in_group: Whether the receiver is a member of a consumer group. The log then knows the place itself.
        keeps_last: Whether the next link begins with the last message again, which is kept until then; see
            `rstreams.net.links.last_message`.

    Attributes:
        following: The offset behind the last message that was handed over. Before the first one it is the offset at
            which the peer says that the link begins, or None.
        incarnation: The id of the log that the offset is of; None if the peer does not tell it.
        last: The last message that was handed over, if it is kept; else empty.
    """

    __slots__ = ("_in_group", "_keeps_last", "_to_end", "following", "incarnation", "last")

    def __init__(self, *, in_group: bool = False, keeps_last: bool = False) -> None:
        """Have no messages yet."""
        self._in_group = in_group
        self._keeps_last = keeps_last
        self.last = b""
        self.following: int | None = None
        self.incarnation: str | None = None
        self._to_end: int | None = None  # where the first link completes

    def begin(self, filters: Mapping[str, Any], properties: Mapping[str, Any]) -> None:
        """Note the log, and the offset at which the link begins, if the peer's attach tells them."""
        told = properties.get(INCARNATION)
        begins = self.following is None and not self._in_group
        if isinstance(told, str) and (begins or self.incarnation is None):
            self.incarnation = str(told)
        if begins:
            with suppress(ValueError):  # it is not of this library, and need not tell a place
                start = read_start(filters)
                self.following = start if isinstance(start, int) else None
                self._to_end = read_to_end(filters)

    def note(self, encoded: bytes) -> None:
        """Note the offset of a message that was handed over, the last one so far."""
        offset = None if self._in_group else read_offset(encoded)
        if offset is not None:
            self.following = offset + 1
            if self._keeps_last:
                self.last = encoded

    def going_on(self, begin_at: Callable[[int], Mapping[str, Any]]) -> dict[str, Any]:
        """Return the filters of a link that goes on here; a node refuses to go on in another log.

        Args:
            begin_at: Returns the filters that begin at an offset.
        """
        if self.following is None and not self._in_group:
            return {}
        at = self.following
        begin = {} if at is None else dict(begin_at(at - 1 if self.last else at))
        if self._to_end is not None:
            begin[TO_END] = Described(Symbol(TO_END), self._to_end)
        known = self.incarnation
        return begin if known is None else {**begin, INCARNATION: Described(Symbol(INCARNATION), known)}
