"""Stream: a publisher with the sources, operators and terminals as methods."""

from rstreams.stream._explain import Explanation
from rstreams.stream._stream import ConnectableStream, GroupedStream, Stream

__all__ = ["ConnectableStream", "Explanation", "GroupedStream", "Stream"]
