"""Jumps of offsets: places in a log that no message came from.

A peer may jump because it has deleted messages, also behind a link that is attached. It may also jump because offsets
never had a message: RabbitMQ uses one at the beginning of each segment for notes of its own. It deletes whole segments;
a deleted segment is a jump over two offsets or more.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc


class Jump(NamedTuple):
    """Offsets that no message came with.

    Attributes:
        first: The first of them.
        end: The offset behind the last of them.
    """

    first: int
    end: int


def jumps_in(offsets: pa.Array, position: int, end: int) -> Iterator[Jump]:
    """Yield the jumps over two offsets or more that begin in a range.

    Args:
        offsets: The offsets of the messages that came, in order; at least one.
        position: The offset that was expected first.
        end: Where the range ends.
    """
    first, last = offsets[0].as_py(), offsets[len(offsets) - 1].as_py()
    if last - position < len(offsets):
        return
    if first - position > 1:
        yield Jump(position, min(first, end))
    steps = pc.call_function("subtract", [offsets.slice(1), offsets.slice(0, len(offsets) - 1)])
    is_jump = pc.call_function("greater", [steps, pa.scalar(2)])
    for index in pc.call_function("indices_nonzero", [is_jump]).to_pylist():
        begin = offsets[index].as_py() + 1
        if position <= begin < end:
            yield Jump(begin, min(offsets[index + 1].as_py(), end))
