"""A short link to a log: the offsets of the messages at one place, without more of the log."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import datetime
from typing import Any, Final, NamedTuple, Protocol

import trio

from rstreams import Connection
from rstreams.message import Message, decode_message

_MOST: Final = 1_000


class SeenOffsets(NamedTuple):
    """The messages that came.

    Attributes:
        first: The offset of the first one; None if there was none.
        last: The offset of the last one.
        messages: How many there were.
        bytes: Their bytes.
        digest: Tells the first one from other messages: of what its sender has written, but for annotations.
    """

    first: int | None = None
    last: int | None = None
    messages: int = 0
    bytes: int = 0
    digest: str = ""


class _Drains(Protocol):
    def request(self, n: int) -> None: ...

    def cancel(self) -> None: ...

    def drain(self, on_drained: Callable[[], None]) -> None: ...


async def offsets_at(
    connection: Connection, address: str, start: str | int | datetime, most: int | None, annotation: str
) -> SeenOffsets:
    """Return the offsets from a place on: of `most` messages, or of all that are there.

    Args:
        connection: The connection.
        address: The partition.
        start: The place.
        most: The most messages; None: all until the end, which a drain finds.
        annotation: The annotation of a message that has its offset.

    Errors: `LinkDetached` if the peer refuses the link; the connection's error if it is lost.
    """
    looker = _Looker(most, annotation)
    filters = connection.dialect.offset(start)  # type: ignore[arg-type]  # one of its words
    connection.stream(address, decode=bytes, settlement="at_most_once", window=_MOST, filters=filters).subscribe(looker)
    try:
        await looker.done.wait()
    finally:
        looker.cancel()
    if looker.error is not None:
        raise looker.error
    return looker.seen


class _Looker:
    """Requests messages until it has enough, or a drain brings none."""

    def __init__(self, most: int | None, annotation: str) -> None:
        self.done = trio.Event()
        self.error: BaseException | None = None
        self.seen = SeenOffsets()
        self._subscription: _Drains | None = None
        self._cancelled = False
        self._most = most
        self._annotation = annotation
        self._before = 0

    def cancel(self) -> None:
        """End the link; if the peer has not answered its attach yet, when it does."""
        self._cancelled = True
        if self._subscription is not None:
            self._subscription.cancel()

    def on_subscribe(self, subscription: Any) -> None:  # noqa: ANN401 - a subscription that drains
        self._subscription = subscription
        if self._cancelled:
            subscription.cancel()
        else:
            self._ask(subscription)

    def _ask(self, subscription: _Drains) -> None:
        self._before = self.seen.messages
        subscription.request(_MOST if self._most is None else self._most)
        subscription.drain(lambda: self._on_drained(subscription))

    def on_next(self, item: bytes) -> None:
        message = decode_message(item)
        offset = message.annotations.get(self._annotation)
        if not isinstance(offset, int):
            return
        seen = self.seen
        first = offset if seen.first is None else seen.first
        digest = seen.digest or _digest(message)
        self.seen = SeenOffsets(first, offset, seen.messages + 1, seen.bytes + len(item), digest)

    def _on_drained(self, subscription: _Drains) -> None:
        came = self.seen.messages - self._before
        if came == 0 or self._most is not None:
            self.done.set()
        else:
            self._ask(subscription)

    def on_error(self, error: BaseException) -> None:
        self.error = error
        self.done.set()

    def on_complete(self) -> None:
        self.done.set()


def _digest(message: Message) -> str:
    """Return a digest of a message; brokers of other versions add other annotations, which have no effect."""
    written = (message.id, message.creation_time, message.subject, message.properties, message.body)
    return hashlib.blake2b(repr(written).encode(), digest_size=8).hexdigest()
