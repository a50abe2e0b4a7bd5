"""The bodies of messages that are sent while they come."""

from __future__ import annotations

from typing import Any

from rstreams.abc import Publisher
from rstreams.message import ByteStream, Message, encode_item
from rstreams.stream import Stream


def open_body(body: ByteStream) -> Publisher[Any]:
    """Return the publisher of a body's chunks."""
    chunks = body.chunks
    if isinstance(chunks, Publisher):
        return chunks
    if hasattr(chunks, "__aiter__"):
        return Stream.from_async_iterable(chunks)
    return Stream.from_iterable(chunks)


def is_streamed(item: object) -> bool:
    """Tell whether an item is a message whose body is not in memory."""
    return isinstance(item, Message) and isinstance(item.body, ByteStream)


def encode_once(item: object) -> bytes:
    """Return the encoded message of an item; an item of bytes has been encoded already."""
    return item if type(item) is bytes else encode_item(item)
