"""Streams of messages whose bodies are read while they come."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import trio

from rstreams._checks.publishers import require_subscriber
from rstreams._codec.section_heads import EMPTY_BODY
from rstreams._core.sight import Watched
from rstreams.abc import Subscriber
from rstreams.errors import RStreamsError
from rstreams.message import ByteStream, Message, decode_message
from rstreams.net.links.connection_links import Links
from rstreams.net.links.named_subscriptions import log_raised
from rstreams.net.links.remote_stream import receiving_from
from rstreams.protocol.delivery import END, FailureStrategy
from rstreams.protocol.frames import Attach, Role
from rstreams.protocol.incoming_body import IncomingBody
from rstreams.protocol.options import ReceivingOptions
from rstreams.protocol.streamed_receiver import StreamedSubscription


class BodyReader:
    """Reads a body while it comes: an async iterator of its bytes, for one task at a time.

    Errors: The error of the link. `RStreamsError` if the sender aborted the message, if the message has been let go of,
        or if the body is read again after its end: it comes once.
    Cancels: While it waits: nothing is lost.
    Context: Any task of the connection's trio run.
    """

    def __init__(self, body: IncomingBody) -> None:
        """Read `body`."""
        self._body = body
        self._news = trio.Event()
        self._is_read = False
        body.on_news = self._ring

    def __aiter__(self) -> BodyReader:
        if self._is_read:
            msg = "the body of this message has been read to its end: it can be read only once"
            raise RStreamsError(msg)
        return self

    async def __anext__(self) -> bytes:
        """Return the next bytes, as they came."""
        await trio.lowlevel.checkpoint()
        while True:
            self._news = trio.Event()
            chunk = self._body.take()
            if chunk is not None:
                return chunk
            if self._body.through:
                self._is_read = True
                raise StopAsyncIteration
            await self._news.wait()

    def _ring(self) -> None:
        self._news.set()


@dataclass(frozen=True, slots=True)
class StreamedOptions:
    """The options of `Connection.streamed_messages`, checked.

    Attributes:
        address: The peer's name for the source.
        on_failure: Decides the outcome of a message whose processing failed.
        filters: The filters of the source, by their names.
        capabilities: Capabilities that the source must have.
    """

    address: str
    on_failure: FailureStrategy = END
    filters: Mapping[str, Any] = field(default_factory=dict)
    capabilities: tuple[str, ...] = ()


class StreamedPublisher(Watched):
    """The publisher behind `Connection.streamed_messages`: each subscription attaches a link."""

    def __init__(self, links: Links, options: StreamedOptions) -> None:
        """Publish the messages from `options.address`."""
        super().__init__()
        self._links = links
        self._options = options

    def subscribe(self, subscriber: Subscriber[Message]) -> None:
        """Attach a link for `subscriber`; see `Connection.streamed_messages`."""
        require_subscriber(subscriber)
        links, options = self._links, self._options
        place = links.source_for(subscriber, "streamed_messages", options.address)
        if place is None:
            return

        def decode(head: bytes) -> Message:
            if end.body is None:
                return decode_message(head)
            return replace(decode_message(head + EMPTY_BODY), body=ByteStream(BodyReader(end.body)))

        receiving = ReceivingOptions(decode=decode, window=1, on_failure=options.on_failure)
        end = StreamedSubscription(
            subscriber,
            receiving_from(options.address, links.dialect, receiving),
            lambda raised: log_raised(options.address, raised),
        )
        self._begins(end)
        frame = Attach(
            links.new_name(),
            Role.RECEIVER,
            place.address,
            "",
            filters=options.filters,
            capabilities=options.capabilities or place.capabilities,
        )
        links.receive(end, frame)
