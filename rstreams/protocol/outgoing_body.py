"""The body of a message that is sent while it comes: a subscriber that requests one chunk at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from rstreams._checks.publishers import require_subscription
from rstreams._codec.encode import encode_sized
from rstreams._codec.sections import DATA, START
from rstreams._core.subscription import ENDED, checked_error
from rstreams.abc import Publisher, Subscription
from rstreams.errors import ConfigError, SpecViolation
from rstreams.message import ByteStream, Message


class StreamedHead(bytes):
    """The sections of a message before its body, whose chunks will come from a publisher.

    Attributes:
        chunks: The publisher of the body.
    """

    chunks: Publisher[Any]

    @classmethod
    def of(cls, head: bytes, chunks: Publisher[Any]) -> StreamedHead:
        """Return `head` with its body."""
        streamed = cls(head)
        streamed.chunks = chunks
        return streamed


def streaming(
    encode: Callable[[Any], bytes], open_body: Callable[[ByteStream], Publisher[Any]]
) -> Callable[[Any], bytes]:
    """Return a function like `encode` that makes a `StreamedHead` of a message whose body is streamed.

    Args:
        encode: Makes an encoded message of an item.
        open_body: Makes the publisher of the body's chunks.
    """

    def encode_or_stream(item: Any) -> bytes:  # noqa: ANN401 - an item, which may be a Message
        if type(item) is not Message or not isinstance(item.body, ByteStream):
            return encode(item)
        head = encode(replace(item, body=b""))  # with an empty first section of data; the others follow
        return StreamedHead.of(head, open_body(item.body))

    return encode_or_stream


class OutgoingBody:
    """Subscribes to the chunks of a body; each becomes a Data section.

    Attributes:
        tag: The link's name for the delivery.
        through: Whether the last chunk has come and been taken.
        error: The error that the body failed with.

    Demand: One chunk, when the one before has been taken: at most one is in memory.
    """

    def __init__(self, tag: int, chunks: Publisher[Any], wake: Callable[[], None]) -> None:
        """Prepare; `wake` is called when something has come after the last `take`."""
        self.tag = tag
        self.error: BaseException | None = None
        self._wake = wake
        self._subscription: Subscription = ENDED
        self._section: bytes | None = None
        self._awaits = False
        self._taking = False
        self._completed = False
        self._cancelled = False
        try:
            chunks.subscribe(self)
        except Exception as error:  # a broken publisher must not end the connection
            self.on_error(error)

    @property
    def through(self) -> bool:
        """Whether the last chunk has come and been taken."""
        return self._completed and self._section is None

    def take(self) -> bytes | None:
        """Return the next section; None if it has not come yet, or there are no more."""
        self._taking = True
        try:
            if self._section is None and not self._awaits and not self._completed:
                self._awaits = True
                try:
                    self._subscription.request(1)
                except Exception as error:  # it breaks 3.16
                    self.on_error(error)
        finally:
            self._taking = False
        section, self._section = self._section, None
        return section

    def cancel(self) -> None:
        """Take no more chunks."""
        self._section = None
        if not self._cancelled and not self._completed:
            self._cancelled = self._completed = True
            self._subscription.cancel()

    # the publisher calls these

    def on_subscribe(self, subscription: Subscription) -> None:
        """Keep the subscription; a second one is cancelled (2.5)."""
        require_subscription(subscription)
        if self._subscription is not ENDED or self._completed:
            subscription.cancel()
            return
        self._subscription = subscription

    def on_next(self, item: Any) -> None:  # noqa: ANN401 - any object from the user's iterable
        """Keep a chunk until it is taken."""
        if self._completed:
            return
        if not self._awaits:
            self._fail(SpecViolation("1.1", "the body's publisher sent more chunks than were requested"))
        elif not isinstance(item, bytes | bytearray | memoryview):
            self._fail(ConfigError(f"a chunk of a ByteStream must be bytes, not {type(item).__name__}"))
        else:
            self._awaits = False
            self._section = _DATA + encode_sized(0xA0, 0xB0, bytes(item), "body")
            self._notify()

    def on_error(self, error: BaseException) -> None:
        """Note that the body failed: the delivery must be aborted."""
        if not self._completed:
            self._completed = True
            self._section = None
            self.error = checked_error(error)
            self._notify()

    def on_complete(self) -> None:
        """Note that the body is complete."""
        if not self._completed:
            self._completed = True
            self._notify()

    def _fail(self, error: BaseException) -> None:
        self.on_error(error)
        self._subscription.cancel()

    def _notify(self) -> None:
        if not self._taking:
            self._wake()


_DATA: Final = START[DATA]
