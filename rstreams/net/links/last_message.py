"""Whether a stream is the same as before a loss, where the peer tells no id of it: its reader compares a message.

RabbitMQ tells only the offset of each message, and refuses no offset. Therefore a reader that goes on asks again for
the last message that was handed over. If this message is still at this offset, the stream is taken for the same one.
The message is dropped then. It counts neither for the demand nor for the position.
"""

from __future__ import annotations

from rstreams._codec.decode import Malformed, skip_value
from rstreams._codec.sections import MESSAGE_ANNOTATIONS, read_section
from rstreams._events.table import LINK_MESSAGES_GONE
from rstreams.errors import MADE_ANEW, Condition, LinkDetached
from rstreams.net.links.offsets import read_offset


class LastMessage:
    """The message with which the next link is to begin.

    Args:
        offset: Its offset.
        encoded: The message, as it came before the loss.
        filtered: Whether the link has a filter. Then a message that is gone does not mean that later ones are missing.

    Attributes:
        offset: Its offset.
    """

    __slots__ = ("_encoded", "_filtered", "offset")

    def __init__(self, offset: int, encoded: bytes, *, filtered: bool) -> None:
        self.offset = offset
        self._encoded = encoded
        self._filtered = filtered

    @property
    def missing(self) -> str:
        """What it means that nothing has come yet."""
        return (
            f"the message at offset {self.offset}, behind which the link goes on, has not come again. If it does not, "
            "the stream was made anew, and is shorter: nothing comes until it has this offset"
        )

    def comes_again(self, encoded: bytes) -> bool:
        """Return whether the first message of a link is this one; False if this one is gone, and the link goes on.

        Args:
            encoded: The first message of the link.

        Errors: `LinkDetached` if it is another message: with `MADE_ANEW` if its offset is the same or an earlier one,
            with `amqp:not-found` if its offset is a later one.
        """
        first, offset = read_offset(encoded), self.offset
        if first == offset and bare(encoded) == bare(self._encoded):
            return True
        place = f"the message at offset {offset}, behind which the link goes on,"
        if first is not None and first > offset:
            text = f"{place} is gone, as all before offset {first}: they were deleted, or the stream was made anew"
            if not self._filtered:
                raise LinkDetached(Condition.NOT_FOUND.value, text)
            LINK_MESSAGES_GONE.tell(why=text, offset=offset, first=first)
            return False
        there = f"the link begins at offset {first}" if first is not None and first < offset else "another one is there"
        text = f"the stream was made anew: {place} is gone, and {there}. What the earlier one had behind it is gone"
        raise LinkDetached(MADE_ANEW, text)


def bare(encoded: bytes) -> bytes:
    """Return the part of a message that its sender has written, and that no peer on the way changes (section 3.2)."""
    at = before = 0
    try:
        while at < len(encoded):
            begin = at
            code, at = read_section(encoded, at, before)
            if code > MESSAGE_ANNOTATIONS:
                return encoded[begin:]
            before, at = code, skip_value(encoded, at)
    except Malformed:
        pass  # the decoder reports it
    return b""
