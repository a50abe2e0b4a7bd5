"""Logs whose links begin at an offset: streams of RabbitMQ 4, and logs of a node of rstreams, in the same words."""

from __future__ import annotations

from typing import Any, Final

from rstreams._codec import Described, Symbol
from rstreams.errors import Condition
from rstreams.message import Message
from rstreams.net.dialects.base import Dialect, Filters, Offset, PeerDescription, require_offset

OFFSET: Final = "x-stream-offset"
"""The annotation with the offset of a message."""

START_AT: Final = "rabbitmq:stream-offset-spec"
"""The filter that says where a link begins."""


class StreamOffsets(Dialect):
    """Base of the dialects of peers with such logs."""

    def offset(self, offset: Offset) -> Filters:
        """Return the filter for a place in a log to begin at; with a time, some earlier messages may come."""
        require_offset(offset)
        return {START_AT: Described(Symbol(START_AT), offset)}

    def after(self, message: Message) -> Filters:
        """Return the filter for the messages of a log behind `message`; its `x-stream-offset` tells its place."""
        offset: Any = message.annotations.get(OFFSET)
        if isinstance(offset, int) and not isinstance(offset, bool):
            return self.offset(offset + 1)
        error = self._nowhere(OFFSET)
        raise error


class RStreamsNode(StreamOffsets):
    """A node of rstreams: addresses are sent as they are."""

    name = "rstreams"
    marks_durable = False
    place_gone = frozenset({Condition.NOT_FOUND.value})

    def matches(self, peer: PeerDescription) -> bool:
        """Return whether it is a node of rstreams."""
        return peer.product == "rstreams"
