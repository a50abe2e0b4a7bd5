"""The peer's node `$cbs`, which takes tokens: requests on one link, answers on another, while a connection lasts."""

from __future__ import annotations

import itertools
from typing import Final

import trio

from rstreams._core.kept_errors import KeptError
from rstreams._core.subscription import ENDED
from rstreams.abc import Subscription
from rstreams.errors import (
    AuthenticationFailed,
    Condition,
    ConnectFailed,
    DeliveryFailed,
    LinkDetached,
    PeerClosed,
    RStreamsError,
)
from rstreams.message import Message
from rstreams.net._proton.trace import hide
from rstreams.net.cbs.tokens import Token
from rstreams.net.dialects.base import NONE
from rstreams.net.links.connection_links import Links
from rstreams.net.links.sender import Receipt, SenderPublisher
from rstreams.net.request_reply.temporary_links import Reply, ReplyLink, RequestLink
from rstreams.net.transport.pump import Pump
from rstreams.protocol.frames import Attach, Role

ADDRESS: Final = "$cbs"

WINDOW: Final = 256
"""The window for answers; each is handled as soon as it comes."""


class CbsNode:
    """Puts tokens to the peer of one connection.

    The two links are attached for the first token. They are attached again for a later one if the peer has ended them,
    as Azure does with links without traffic.
    """

    def __init__(self, pump: Pump, container_id: str) -> None:
        """Put tokens over `pump`."""
        self._pump = pump
        self._links = Links(pump, f"{container_id}/cbs", NONE)
        self._numbers = itertools.count(1)
        self._pair: _Pair | None = None
        self._secrets = 0  # tokens sent and not answered

    async def put(self, audience: str, token: Token) -> None:
        """Put a token, and return when the peer has taken it.

        Errors: `AuthenticationFailed` if the peer refuses it, or takes no tokens; `ConnectFailed` if it could not take
            it now; the error that ended the connection. None of them has the token in its text.
        Cancels: The peer may have taken it.
        """
        pair = self._pair
        if pair is None or pair.error is not None:
            pair = self._pair = _Pair(self._pump, self._links)
        self._hide(1)
        failed: RStreamsError  # raised without a cause: the peer's text may repeat the token
        try:
            answer = await self._ask(pair, audience, token)
        except DeliveryFailed as error:
            self._hide(-1)
            failed = self._refused(audience, token, str(error))
        except PeerClosed as error:
            failed = self._closed(pair, audience, _without(token, error))
        else:
            self._hide(-1)
            self._check(audience, token, answer)
            return
        raise failed

    async def _ask(self, pair: _Pair, audience: str, token: Token) -> Message:
        key = f"put-token-{next(self._numbers)}"
        properties = {"operation": "put-token", "type": token.type, "name": audience, "expiration": token.expires_at}
        return await pair.ask(key, Message(token.value, id=key, reply_to=pair.name, properties=properties))

    def _check(self, audience: str, token: Token, answer: Message) -> None:
        status, told = answer.properties.get("status-code"), answer.properties.get("status-description") or ""
        if isinstance(status, int) and 200 <= status < 300:
            return
        if isinstance(status, int) and 400 <= status < 500:
            raise self._refused(audience, token, f"{status}, {told}" if told else f"{status}")
        msg = f"{self._pump.peer} could not take the token for {audience!r} ({status!r}, {told})"
        raise ConnectFailed(_without(token, msg))

    def _refused(self, audience: str, token: Token, why: str) -> AuthenticationFailed:
        msg = f"{self._pump.peer} refused the token for {audience!r} ({why})"
        return AuthenticationFailed(_without(token, msg))

    def _closed(self, pair: _Pair, audience: str, why: str) -> RStreamsError:
        peer = self._pump.peer
        if pair.was_open:
            return ConnectFailed(
                f"the token for {audience!r} has no answer: {peer} ended the link to {ADDRESS!r} ({why})"
            )
        msg = f"{peer} takes no token for {audience!r}: it refused a link to {ADDRESS!r} ({why})"
        return AuthenticationFailed(msg)

    def _hide(self, more: int) -> None:
        """Trace no frames while a token may be among them: a token without an answer may be sent at any time."""
        self._secrets += more
        hide(self._pump.engine, hidden=self._secrets > 0)


def _without(token: Token, told: object) -> str:
    """Return the peer's text without the token, which the peer may have repeated."""
    return str(told).replace(token.value, "***")


class _Pair:
    """The two links; the subscriber of the answers.

    Attributes:
        name: The name of both links, and the address of the answers.
        was_open: Whether the peer has attached both.
        error: The error that ended them.
    """

    def __init__(self, pump: Pump, links: Links) -> None:
        self.name = links.new_name()
        self.was_open = False
        self.error: KeptError[BaseException] | None = None
        self._settled = trio.Event()  # set when it is known whether they are open
        self._to_come = 2
        self._asked = 0
        self._waiting: dict[object, _Answer] = {}
        self._subscription: Subscription = ENDED
        self._sender = SenderPublisher(ADDRESS)
        answers = ReplyLink(self, self._on_attached, window=WINDOW, links=links)
        requests = RequestLink[bytes](self._sender, self._on_finished, self._on_attached, links.where(ADDRESS))
        # In one session, as the services expect it of a link and its answers: a pair in the engine's sense.
        paired = {"paired": True}
        pump.attach(answers, Attach(self.name, Role.RECEIVER, ADDRESS, self.name, properties=paired))
        pump.attach(requests, Attach(self.name, Role.SENDER, self.name, ADDRESS, properties=paired))

    async def ask(self, key: str, request: Message) -> Message:
        """Send a request with the id `key`, and return its answer."""
        await self._settled.wait()
        if self.error is not None:
            raise self.error.again()
        answer = self._waiting[key] = _Answer()
        try:
            self._ask_for_answers()
            receipt = await self._sender.submit(request)
            receipt.when_settled(answer.on_settled)
            return await answer.wait()
        finally:
            del self._waiting[key]

    # the links call these

    def on_subscribe(self, subscription: Subscription) -> None:
        """Note that the link for answers is attached."""
        self._subscription = subscription

    def on_next(self, item: Reply) -> None:
        """Hand an answer to its request."""
        self._asked -= 1
        message, _ = item
        answer = self._waiting.get(message.correlation_id)
        if answer is not None:
            answer.finish(message, None)
        else:
            self._ask_for_answers()  # no request waits for it any more, and the others have one credit less

    def on_error(self, error: BaseException) -> None:
        """Fail the requests that wait: no more answers come."""
        self._end(error)

    def on_complete(self) -> None:
        """Fail the requests that wait, as `on_error`."""
        self._end(LinkDetached(Condition.LINK_DETACH_FORCED.value, f"the peer ended the link of {ADDRESS!r}"))

    def _on_finished(self, error: BaseException | None) -> None:
        self._sender.on_finished(error)
        if error is None:
            self.on_complete()
        else:
            self._end(error)

    def _on_attached(self, _frame: Attach) -> None:
        self._to_come -= 1
        if not self._to_come and self.error is None:
            self.was_open = True
            self._settled.set()

    def _end(self, error: BaseException) -> None:
        if self.error is not None:
            return
        self.error = KeptError(error)
        self._settled.set()
        self._sender.complete()
        self._subscription.cancel()
        for answer in list(self._waiting.values()):
            answer.finish(None, error)

    def _ask_for_answers(self) -> None:
        more = len(self._waiting) - self._asked
        if more > 0:
            self._asked += more
            self._subscription.request(more)


class _Answer:
    """An answer that a request waits for."""

    def __init__(self) -> None:
        self._came = trio.Event()
        self._message: Message | None = None
        self._error: KeptError[BaseException] | None = None

    def finish(self, message: Message | None, error: BaseException | None) -> None:
        """Note the answer, or that there will be none."""
        if not self._came.is_set():
            self._message, self._error = message, None if error is None else KeptError(error)
            self._came.set()

    def on_settled(self, receipt: Receipt) -> None:
        """Note whether the peer has taken the request; the link for answers tells of its end."""
        if isinstance(receipt.error, DeliveryFailed):
            self.finish(None, receipt.error)

    async def wait(self) -> Message:
        """Wait for the answer."""
        await self._came.wait()
        if self._message is not None:
            return self._message
        assert self._error is not None, "finished with a message or an error"
        raise self._error.again()
