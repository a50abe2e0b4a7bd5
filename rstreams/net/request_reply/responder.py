"""The senders of a client's replies: one for each address, kept for a while."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import trio

from rstreams._events.table import REPLY_FAILED, REPLY_NOT_SENT
from rstreams.errors import DeliveryFailed, RStreamsError
from rstreams.message import Message, encode_item
from rstreams.net.dialects import Place
from rstreams.net.links.connection_links import Links, Sending
from rstreams.net.links.sender import SenderPublisher
from rstreams.net.links.tracing import sender_for
from rstreams.net.request_reply.properties import failure_instead
from rstreams.protocol.options import SendingOptions
from rstreams.stream import Stream

MAX_SENDERS: Final = 64
"""The most links for replies that are kept while nothing is sent on them."""

IDLE_S: Final = 60.0
"""How long such a link is kept."""

REPLY_TIMEOUT_S: Final = 30.0
"""How long one reply may wait for its requester to take it."""


class _Open:
    """A sender to one address, and the number of its users."""

    def __init__(self, sender: SenderPublisher, sending: Sending) -> None:
        self.sender = sender
        self.sending = sending
        self.users = 0
        self.used_at = 0.0


class ReplySenders:
    """Sends replies to any number of addresses: the `Way` of a client.

    Addresses are sent as the peer names them, without a dialect.
    """

    def __init__(self, links: Links) -> None:
        """Send over `links`."""
        self._links = links
        self._open: OrderedDict[str, _Open] = OrderedDict()  # the one used last at the end

    def send_now(self, address: str, reply: Message) -> bool:  # noqa: ARG002 - the parameters of a way
        """Send nothing: the peer's outcome is always waited for; see `Way`."""
        return False

    async def send(self, address: str, reply: Message) -> None:
        """Send one reply; see `Way`."""
        try:
            with trio.fail_after(REPLY_TIMEOUT_S):
                async with self._sender(address) as sender:
                    await _send(sender, address, reply)
        except (RStreamsError, trio.TooSlowError) as error:
            REPLY_NOT_SENT.tell(address, address=address, why=error)

    async def send_all(self, address: str, replies: Stream[Message]) -> None:
        """Send replies on a link of their own, as the requester asks for them; see `Way`."""
        sending = self._links.send(
            f"respond: replies to {address!r}",
            address,
            replies,
            SendingOptions(encode=encode_item, fail_on_refusal=True),
            place=Place(address),
        )
        _give_up_if_refused(sending)
        try:
            await sending.finished.wait()
        except trio.Cancelled:
            sending.end.abort()
            raise
        if sending.error is not None:
            REPLY_NOT_SENT.tell(address, address=address, why=sending.error)

    def close(self) -> None:
        """Detach every link."""
        while self._open:
            self._open.popitem()[1].sender.complete()

    @asynccontextmanager
    async def _sender(self, address: str) -> AsyncIterator[SenderPublisher]:
        entry = self._open.get(address) or self._attach(address)
        self._open.move_to_end(address)
        entry.users += 1
        try:
            yield entry.sender
        finally:
            entry.users -= 1
            entry.used_at = trio.current_time()
            self._close_idle()

    def _attach(self, address: str) -> _Open:
        sender = sender_for(self._links.tracing, address)

        def on_finished(error: BaseException | None) -> None:
            sender.on_finished(error)
            if self._open.get(address) is entry:
                del self._open[address]

        sending = self._links.send(
            f"respond: replies to {address!r}",
            address,
            sender,
            SendingOptions(encode=bytes),
            place=Place(address),
            on_leave=sender.complete,
            on_finished=on_finished,
        )
        _give_up_if_refused(sending)
        entry = self._open[address] = _Open(sender, sending)
        return entry

    def _close_idle(self) -> None:
        now, spare = trio.current_time(), len(self._open) - MAX_SENDERS
        for address, entry in list(self._open.items()):
            if spare <= 0 and entry.used_at + IDLE_S > now:
                break
            if not entry.users:
                del self._open[address]
                entry.sender.complete()
                spare -= 1


async def _send(sender: SenderPublisher, address: str, reply: Message) -> None:
    """Send a reply; if it is larger than the peer takes, the requester is told that."""
    try:
        await sender.send(reply)
    except DeliveryFailed as error:
        failure = failure_instead(reply, error) if error.refused_here else None
        if failure is None:
            raise
        REPLY_FAILED.tell(address, address=address, why=error)
        await sender.send(failure)


def _give_up_if_refused(sending: Sending) -> None:
    """Do not attach the link again when the peer refuses it: the address of a requester that has gone never returns."""
    sending.end.attach_later = None
