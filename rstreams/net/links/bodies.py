"""The bodies of messages that are sent while they come."""

from __future__ import annotations

from typing import Any

from rstreams.abc import Publisher
from rstreams.message import ByteStream
from rstreams.stream import Stream


def open_body(body: ByteStream) -> Publisher[Any]:
    """Return the publisher of a body's chunks."""
    chunks = body.chunks
    if isinstance(chunks, Publisher):
        return chunks
    if hasattr(chunks, "__aiter__"):
        return Stream.from_async_iterable(chunks)
    return Stream.from_iterable(chunks)
