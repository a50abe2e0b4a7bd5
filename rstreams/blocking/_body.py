"""Message bodies that threads read while they come."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import replace

from rstreams.message import ByteStream, Message
from rstreams.runtime.portal import Portal


def readable(portal: Portal, message: Message) -> Message:
    """Return the message; if its body still comes, with a body for threads: `for chunk in message.body`."""
    if not isinstance(message.body, ByteStream):
        return message
    return replace(message, body=ByteStream(_Chunks(portal, message.body)))


class _Chunks:
    """The chunks of a body that comes to the portal's trio run."""

    def __init__(self, portal: Portal, body: ByteStream) -> None:
        self._portal = portal
        self._body = body

    def __aiter__(self) -> AsyncIterator[bytes]:
        return aiter(self._body)  # in the connection's thread, as for operators

    def __iter__(self) -> Iterator[bytes]:
        chunks = aiter(self._body)

        async def next_one() -> bytes | None:
            return await anext(chunks, None)

        while (chunk := self._portal.run(next_one)) is not None:
            yield chunk
