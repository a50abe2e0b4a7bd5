"""The frames of a world as text, one a line."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from rstreams.simulation.network import MemoryConnection
from rstreams.simulation.world import World
from rstreams.testing.seen_frames import SeenFrame, read_frame

_SHOWN: int = 200


def frame_lines(world: World) -> list[str]:
    """Return a list that gets a line for each frame while the world runs."""
    lines: list[str] = []
    unread: defaultdict[tuple[int, int], bytearray] = defaultdict(bytearray)

    def see(now_s: float, connection: MemoryConnection, direction: int, data: bytes) -> None:
        names = (connection.client.name, connection.server.name)
        bytes_ = unread[connection.number, direction]
        bytes_ += data
        for frame in _frames(bytes_):
            source, target = names if direction == 0 else names[::-1]
            fields = repr(frame.fields)[:_SHOWN] if frame.fields else ""
            what = f"{frame.performative} {frame.size_bytes} bytes on channel {frame.channel} {fields}"
            lines.append(f"{now_s:.6f} {connection.number} {source} -> {target} {what}".rstrip())

    world.on_bytes = see
    return lines


def _frames(data: bytearray) -> Iterator[SeenFrame]:
    """Take whole frames from the beginning; bytes that are no frames are taken as one."""
    while data:
        try:
            frame = read_frame(bytes(data), len(data))
        except ValueError:
            frame = SeenFrame("data", 0, len(data), bytes(data))
        if frame is None or frame.size_bytes > len(data):
            return
        del data[: frame.size_bytes]
        yield frame
