"""The bodies of messages that are sent while they come."""

from __future__ import annotations

from collections.abc import Callable
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


def encoded_once(encode: Callable[[object], bytes]) -> Callable[[object], bytes]:
    """Return a function like `encode` that takes bytes for a message that has been encoded already."""
    return lambda item: item if type(item) is bytes else encode(item)
