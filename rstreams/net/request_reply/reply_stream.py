"""The replies to one request as a stream, on a link of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from rstreams._checks.publishers import require_subscriber
from rstreams._core.claims_in_order import ClaimsInOrder
from rstreams._core.sight import Watched
from rstreams._core.subscription import ENDED, subscribe_failed
from rstreams._stages.stage import Stage
from rstreams.abc import Subscriber
from rstreams.errors import ConfigError, LinkDetached, RequestFailed
from rstreams.message import MessageId
from rstreams.net.links.connection_links import Links
from rstreams.net.request_reply.properties import END, LAST, MARKED, REPLY, REPLY_STREAM, STREAM, decoded, failure_of
from rstreams.net.request_reply.temporary_links import Reply, ReplyLink, attach_replies
from rstreams.protocol.frames import Attach

T = TypeVar("T")


class Requests(Protocol):
    """The sender of the request."""

    def start_sending(
        self, item: object, reply_to: str, wants: str, on_failed: Callable[[BaseException], None]
    ) -> MessageId:
        """Send a request soon; return its id."""
        ...

    def count_late(self) -> None:
        """Count a reply to another request."""
        ...


class ReplyPublisher(Watched, Generic[T]):
    """The publisher behind `Requester.stream`: each subscription attaches a link and sends the request."""

    def __init__(
        self,
        requests: Requests,
        links: Links,
        item: object,
        decode: Callable[[bytes], T],
        *,
        window: int,
        address: str | None,
    ) -> None:
        """Publish the replies to `item`, which come to `address` or to one that the peer makes."""
        super().__init__()
        self._requests = requests
        self._links = links
        self._item = item
        self._decode = decode
        self._window = window
        self._address = address

    def subscribe(self, subscriber: Subscriber[T]) -> None:
        """Attach a link for `subscriber`; see `Requester.stream`."""
        require_subscriber(subscriber)
        links, address = self._links, self._address
        error = links.elsewhere("Requester.stream()")
        if error is not None:
            subscribe_failed(subscriber, error)
            return
        stage = _Replies(subscriber, self._decode, self._requests.count_late)

        def on_attached(frame: Attach) -> None:
            if address is not None:
                stage.correlation = self._send(stage, links.dialect.target(address).address, MARKED)
            else:
                wants = STREAM if REPLY_STREAM in frame.properties else MARKED
                stage.correlation = self._send(stage, frame.source or "", wants)

        end = ReplyLink(stage, on_attached, window=self._window, links=links)
        self._begins(end)
        try:
            attach_replies(links, end, address, streamed=True)
        except ConfigError as unknown:
            subscribe_failed(subscriber, unknown)

    def _send(self, stage: _Replies[T], reply_to: str, wants: str) -> MessageId:
        return self._requests.start_sending(self._item, reply_to, wants, stage.fail)


class _Replies(Stage[Reply, T]):
    """Takes the replies to one request out of their messages; an end or a failure ends the stream."""

    __slots__ = ("_count_late", "_decode", "correlation")

    operator = "replies"

    def __init__(self, downstream: Subscriber[T], decode: Callable[[bytes], T], count_late: Callable[[], None]) -> None:
        super().__init__(downstream)
        self._decode = decode
        self._count_late = count_late
        self.correlation: object = None

    def on_next(self, item: Reply) -> None:
        if self._ended:
            return
        message, payload = item
        if message.correlation_id != self.correlation:
            self._count_late()
            self._upstream.request(1)
            return
        failed = failure_of(message)
        if failed is not None:
            self.fail(failed)
            return
        mark = message.properties.get(REPLY)
        if mark != END:
            reply, broken = decoded(payload, self._decode)
            if broken is not None:
                self._upstream.hold().fail(broken)
                self.fail(broken)
                return
            self._downstream.on_next(reply)
        if mark in {END, LAST} and not self._ended:
            self._upstream.cancel()
            self.on_complete()

    def gather(self, *, loose: bool) -> ClaimsInOrder | None:  # noqa: ARG002 - a subscription's own name for it
        """Claim nothing: replies cannot be given back, and their sender ends when all are settled."""
        return None

    def on_error(self, error: BaseException) -> None:
        if isinstance(error, LinkDetached) and self.correlation is not None:
            failed: BaseException = RequestFailed(error.condition, error.description)
            failed.__cause__ = error
            error = failed
        super().on_error(error)

    def fail(self, error: BaseException) -> None:
        """End the stream from here."""
        if self._ended:
            return
        if self._upstream is ENDED:  # before the link is there
            self._ended = True
            subscribe_failed(self._downstream, error)
            return
        self._upstream.cancel()
        Stage.on_error(self, error)
