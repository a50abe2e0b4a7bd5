"""Data sections of a message, and whole messages, many at a time, in C.

Spec: AMQP 1.0 section 3.2.6.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from rstreams._codec.c_modules import load

_compiled: Final = load("_data_sections", 5)

total_bytes: Final[Callable[[list[bytes]], int]] = _compiled.total_bytes
"""Returns how many bytes the items have together."""

largest_body: Final[Callable[[list[Any]], int]] = _compiled.largest_body
"""Returns how many bytes the largest item has, 0 if there is none; -1 if one of them is not bytes."""

join: Final[Callable[[bytes, list[bytes]], bytes]] = _compiled.join
"""Returns the start with a Data section for each item behind it."""

join_bodies: Final[Callable[[bytes, list[bytes]], bytes]] = _compiled.join_bodies
"""Returns the start and, for each body, a Data section whose content is the message with only that body."""

last: Final[Callable[[bytes, int], bytes | None]] = _compiled.last
"""Returns the content of the last Data section; None if there is none, or anything besides whole ones."""

split_bodies: Final[Callable[[bytes, int], list[bytes] | None]] = _compiled.split_bodies
"""Returns the bodies of the messages in those Data sections, without annotations; None if one is of another kind."""

pack_sizes: Final[Callable[[Sequence[bytes], bytes], list[int | None]]] = _compiled.pack_sizes
"""Returns how many items each message has that begins with the start, the number of its sections in 4 bytes, and them.

None for a message that does not begin with the start; -1 if anything but that many whole sections follows.
"""

cut_numbered: Final[Callable[[bytes, bytes, int, int], list[bytes] | None]] = _compiled.cut_numbered
"""Returns the messages of a stored run, each with the start and its number in 8 bytes in front.

The arguments are the start, the run, how many messages it has, and the number of the first one. A stored run is a size
of 4 bytes for each message, the low byte first, and then the messages. None if one of the messages begins with a header
or with annotations. `ValueError` if the run is shorter than its sizes say.
"""

numbered: Final[Callable[[bytes, list[bytes], Sequence[int]], list[bytes] | None]] = _compiled.numbered
"""Returns each message with the start and its number in 8 bytes in front; None as `cut_numbered`."""

Sections: Final[Callable[[tuple[bytes, ...], int, int], Iterator[bytes]]] = _compiled.Sections
"""The contents of the Data sections of some messages, one after the other: the messages, where they begin, how many."""
