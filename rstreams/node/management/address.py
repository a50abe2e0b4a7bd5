"""The address for management: requests come on one link, and the answers go out on its pair, or to an address.

As at RabbitMQ 4, a client attaches two links of the same name: it sends requests on one, and receives the answers on
the other. A request says `reply-to: $me`. A client without a pair of links names an address for the answers instead,
such as one that the node has made for it.

A link has at most `REQUESTS` requests under way. They are carried out one after another.
"""

from __future__ import annotations

from collections import deque
from typing import Final

import trio

from rstreams._core.claims import NO_HOLD
from rstreams._core.demand import add_demand, take_demand
from rstreams._core.spell import Spell
from rstreams._core.subscription import ENDED
from rstreams._events.table import MANAGEMENT_FAILED
from rstreams.abc import Hold, Subscriber, Subscription
from rstreams.errors import Condition, ProtocolError, RStreamsError
from rstreams.message import Message, decode_message
from rstreams.net.transport.accounts import Client
from rstreams.node.access import Access, Action
from rstreams.node.address import Address, LinkRequest, NodeServices, Supply
from rstreams.node.management.operations import BAD_REQUEST, FAILED, Carries
from rstreams.node.request_address import LocalReplies
from rstreams.node.statistics_address import STATISTICS

MANAGEMENT: Final = ("$management", "/management")
"""The names of the address: that of the AMQP management drafts, and that of RabbitMQ 4."""

REQUESTS: Final = 16
"""The most requests of one link that are not answered."""

PAIR: Final = "$me"
"""The reply-to of a request whose answer goes to the pair of its link."""


class ManagementAddress(Address):
    """Answers requests about the node.

    Args:
        name: The name of the address.
        carry_out: Carries out one request.
    """

    kind = "management"
    _services: NodeServices

    def __init__(self, name: str, carry_out: Carries) -> None:
        self.name = name
        self.carry_out = carry_out
        self._answers: dict[tuple[Client, str], _Answers] = {}

    def begin(self, services: NodeServices) -> None:
        """Answer requests in tasks of the node's scope."""
        self._services = services

    def explain(self) -> str:
        """Return an empty line: there is no state."""
        return ""

    def check_access(self, access: Access, client: Client, action: Action) -> None:  # noqa: ARG002 - both or none
        """Let in clients that may manage an address, or see the statistics."""
        if not (access.manages(client) or access.is_permitted(client, "subscribe", STATISTICS)):
            needed = f"a permission to manage an address is needed, or one to subscribe to {STATISTICS!r}"
            text = f"{client.shown} may not use {self.name!r}: {needed}"
            raise ProtocolError(Condition.UNAUTHORIZED_ACCESS.value, text)

    def producer_for(self, link: LinkRequest) -> Subscriber[bytes]:
        """Return the subscriber of the requests of one link."""
        return _RequestsOfLink(self, link.client, link.attach.name)

    def supply(self, link: LinkRequest) -> Supply:
        """Return the answers to the requests that come on the link of the same name."""
        key = (link.client, link.attach.name)
        answers = self._answers[key] = _Answers()

        def forget(_error: BaseException | None) -> None:
            if self._answers.get(key) is answers:
                del self._answers[key]

        return Supply(answers, moves=True, properties={"paired": True}, on_ended=forget)

    def start_soon(self, requests: _RequestsOfLink) -> None:
        """Have a link's requests answered."""
        self._services.start_soon(requests.answer_all)

    async def answer(self, client: Client, link: str, request: Message) -> None:
        """Carry out a request, and send the answer; return when it has gone, or cannot be sent."""
        try:
            if request.subject is None or request.address is None:
                status, body = BAD_REQUEST, "a request needs a method (subject) and a path (to)"
            else:
                status, body = await self.carry_out(client, request.subject, request.address, request.body)
        except Exception as error:
            method, path = request.subject, request.address
            MANAGEMENT_FAILED.tell(self.name, raised=error, address=self.name, method=method, path=path)
            status, body = FAILED, "the node could not carry it out; its log tells the reason"
        known = request.id if request.correlation_id is None else request.correlation_id
        answer = Message(body, subject=str(status), correlation_id=known)
        if request.reply_to == PAIR:
            answers = self._answers.get((client, link))
            if answers is not None:
                await answers.send(answer)
        elif request.reply_to:
            await self._replies(client).send(request.reply_to, answer)

    def _replies(self, client: Client) -> LocalReplies:
        return LocalReplies(lambda name: self._services.find_for(client, name))


class _RequestsOfLink:
    """The subscriber of one link's requests."""

    def __init__(self, address: ManagementAddress, client: Client, link: str) -> None:
        self._address = address
        self._client = client
        self._link = link
        self._subscription: Subscription = ENDED
        self._waiting: deque[tuple[bytes, Hold]] = deque()
        self._at_work = False

    def on_subscribe(self, subscription: Subscription) -> None:
        if self._subscription is not ENDED:
            subscription.cancel()
            return
        self._subscription = subscription
        subscription.request(REQUESTS)

    def on_next(self, item: bytes) -> None:
        self._waiting.append((item, self._subscription.hold()))
        if not self._at_work:
            self._at_work = True
            self._address.start_soon(self)

    def on_error(self, error: BaseException) -> None:
        """Do nothing: requests that have come are carried out."""

    def on_complete(self) -> None:
        """Do nothing, as `on_error`."""

    async def answer_all(self) -> None:
        """Answer the requests that wait, one after another."""
        try:
            while self._waiting:
                item, hold = self._waiting.popleft()
                try:
                    await self._address.answer(self._client, self._link, decode_message(item))
                except RStreamsError as error:  # it is not a message
                    hold.fail(error)
                else:
                    hold.done()
                self._subscription.request(1)
        finally:
            self._at_work = False


class _Answers:
    """The publisher of the answers for one link, and its subscription."""

    def __init__(self) -> None:
        self._subscriber: Subscriber[Message] | None = None
        self._demand = 0
        self._ended = False
        self._waiting: deque[tuple[Message, trio.Event]] = deque()
        self.unasked = Spell()

    async def send(self, answer: Message) -> None:
        """Hand an answer over; return when it is asked for, or the link has ended."""
        through = trio.Event()
        self._waiting.append((answer, through))
        self._flush()
        await through.wait()

    def subscribe(self, subscriber: Subscriber[Message]) -> None:
        self._subscriber = subscriber
        subscriber.on_subscribe(self)

    def request(self, n: int) -> None:
        self._demand = add_demand(self._demand, n)
        self._flush()

    def cancel(self) -> None:
        self._ended = True
        self._flush()

    def hold(self) -> Hold:
        return NO_HOLD

    def _flush(self) -> None:
        while self._waiting and (self._ended or self._demand):
            answer, through = self._waiting.popleft()
            through.set()
            if not self._ended and self._subscriber is not None:
                self._demand = take_demand(self._demand, 1)
                self._subscriber.on_next(answer)
        if bool(self._waiting) is not self.unasked.lasts:
            self.unasked.note(lasts=not self.unasked.lasts)
