"""Sparse runs: most messages of such a run are deleted. When it is written again, and in which parts.

A part is a run of its own. It begins and ends with a message that is there. Deleted messages in the middle of a part
have no bytes; only their sizes, which are 0, are left. A part ends where so many messages are missing that their sizes
would need more room than a further run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

_A_RUN: Final = 64
"""About how many bytes a run on disk takes besides its body."""

_A_SIZE: Final = 4
"""The bytes of the size of one message."""

_LONGEST_GAP: Final = _A_RUN // _A_SIZE


def smaller_parts(sizes: Sequence[int], gone: int) -> list[range] | None:
    """Return the parts that a run is to be written as; None if they would not need less than half of its room.

    Args:
        sizes: The size of each message on disk.
        gone: Has a bit for each message that is deleted.
    """
    whole = _A_RUN + sum(sizes) + _A_SIZE * len(sizes)
    parts: list[range] = []
    begin = end = -1
    room = 0
    for at, size in enumerate(sizes):
        if gone >> at & 1:
            continue
        room += size
        if 2 * room >= whole:
            return None
        if begin < 0:
            begin = at
        elif at - end > _LONGEST_GAP:
            parts.append(range(begin, end))
            begin = at
        end = at + 1
    parts.append(range(begin, end))
    room += sum(_A_RUN + _A_SIZE * len(part) for part in parts)
    return parts if 2 * room < whole else None
