"""Data sections of a message, and whole messages, many at a time: in C where that was built, otherwise in Python.

`RSTREAMS_PURE=1` in the environment chooses Python.

Spec: AMQP 1.0 section 3.2.6.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from rstreams._codec import data_sections_in_python
from rstreams._codec.c_modules import load

_compiled: Final = load("_data_sections", 5)

_chosen: Final = data_sections_in_python if _compiled is None else _compiled

total_bytes: Final[Callable[[list[bytes]], int]] = _chosen.total_bytes
largest_body: Final[Callable[[list[Any]], int]] = _chosen.largest_body
join: Final[Callable[[bytes, list[bytes]], bytes]] = _chosen.join
join_bodies: Final[Callable[[bytes, list[bytes]], bytes]] = _chosen.join_bodies
last: Final[Callable[[bytes, int], bytes | None]] = _chosen.last
split_bodies: Final[Callable[[bytes, int], list[bytes] | None]] = _chosen.split_bodies
pack_sizes: Final[Callable[[Sequence[bytes], bytes], list[int | None]]] = _chosen.pack_sizes
cut_numbered: Final[Callable[[bytes, bytes, int, int], list[bytes] | None]] = _chosen.cut_numbered
numbered: Final[Callable[[bytes, list[bytes], Sequence[int]], list[bytes] | None]] = _chosen.numbered
Sections: Final[Callable[[tuple[bytes, ...], int, int], Iterator[bytes]]] = _chosen.Sections
