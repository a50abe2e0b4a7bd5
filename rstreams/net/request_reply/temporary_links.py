"""The ends of links that do not outlive their connection: an address that was made for a link is gone with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from rstreams.abc import Publisher, Subscriber
from rstreams.message import Message, decode_message
from rstreams.net.links.connection_links import Links
from rstreams.net.links.failures import strategy_for
from rstreams.net.links.sending_end import PublishingEnd
from rstreams.net.request_reply.properties import REPLY_QUEUE, REPLY_STREAM, TEMPORARY
from rstreams.protocol.frames import Attach, Detach, Lost, Role
from rstreams.protocol.options import ReceivingOptions, SendingOptions
from rstreams.protocol.receiver import LinkSubscription

T = TypeVar("T")

Reply = tuple[Message, bytes]


class ReplyLink(LinkSubscription[Reply]):
    """Receives replies, and learns from the peer's attach to which address they are to be sent.

    Attributes:
        returns: Whether another link may be attached: its connection is opened again, or lives on.
    """

    def __init__(
        self, subscriber: Subscriber[Reply], on_attached: Callable[[Attach], None], *, window: int, links: Links
    ) -> None:
        """Hand over to `subscriber`; `on_attached` hears the peer's attach, before the subscriber gets any signal."""
        options = ReceivingOptions(
            decode=_decode,
            window=window,
            on_failure=strategy_for("reject", "the address for replies", links.dead_letters_to),
            renews_at_zero=links.dialect.renews_at_zero,
            answers_drain=links.dialect.answers_drain,
            label="link for replies",
        )
        super().__init__(subscriber, options, subscriber.on_error)
        self.returns = False
        self._was_attached = False
        self._on_attached = on_attached

    def on_attach(self, frame: Attach) -> None:
        """The peer has made the address, unless this is a refusal."""
        if not frame.refuses:
            self._was_attached = True
            self._on_attached(frame)
        super().on_attach(frame)

    def on_detach(self, frame: Detach) -> None:
        """The address is gone, if it was ever made: another link would get another one."""
        if self._was_attached:
            self.returns = frame.announces_close and self.attach_later is not None
            self.attach_later = None
        super().on_detach(frame)

    def on_lost(self, frame: Lost) -> None:
        """The address is gone, if it was ever made."""
        self.returns = frame.returns and self._was_attached
        super().on_lost(Lost(frame.error) if self.returns else frame)


class RequestLink(PublishingEnd[T]):
    """Sends requests. They name an address that is gone with the connection; therefore they are not sent again."""

    def __init__(
        self,
        publisher: Publisher[T],
        on_finished: Callable[[BaseException | None], None],
        on_attached: Callable[[Attach], None],
        where: Callable[[], str],
    ) -> None:
        """Send encoded requests as `PublishingEnd`; `on_attached` hears that the peer takes requests."""
        super().__init__(publisher, SendingOptions(encode=bytes, settle_before_detach=True), on_finished, where)
        self.returns = False
        self._was_attached = False
        self._on_attached = on_attached

    def on_attach(self, frame: Attach) -> None:
        """The peer takes requests, unless this is a refusal."""
        super().on_attach(frame)
        if not frame.refuses:
            self._was_attached = True
            self._on_attached(frame)

    def on_detach(self, frame: Detach) -> None:
        """The peer takes no more requests; the address for replies to earlier ones is gone soon."""
        if self._was_attached:
            self.returns = frame.announces_close and self.attach_later is not None
            self.attach_later = None
        super().on_detach(frame)

    def on_lost(self, frame: Lost) -> None:
        """The link is gone for good, if it was ever attached."""
        self.returns = frame.returns and self._was_attached
        super().on_lost(Lost(frame.error) if self.returns else frame)


def attach_replies(links: Links, end: ReplyLink, address: str | None, *, streamed: bool = False) -> None:
    """Attach a link for replies.

    Args:
        links: Of the connection.
        end: This side's end of it.
        address: The address that they come to; None: one that the peer makes.
        streamed: Whether the link is for the replies to one request.

    Errors: `ConfigError` for an address that the peer's dialect cannot write.
    """
    name = links.new_name()
    if address is not None:
        place = links.dialect.source(address)
        frame = Attach(name, Role.RECEIVER, place.address, "", capabilities=place.capabilities)
    else:
        # Always two: the engine does not write a single symbol as a list, and RabbitMQ 4 looks for it in a list only.
        wishes = (TEMPORARY, REPLY_STREAM if streamed else REPLY_QUEUE)
        frame = Attach(name, Role.RECEIVER, "", "", dynamic=True, capabilities=wishes)
    links.attach(end, frame)  # not a stream of the user: `drain_and_close` must not complete it


def _decode(payload: bytes) -> Reply:
    return decode_message(payload), payload
