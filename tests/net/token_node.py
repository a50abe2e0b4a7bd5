"""A node that lets links in by tokens, as Azure does: its `$cbs` checks them, and what has none is turned away."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import trio
from trio.testing import MockClock

import rstreams
from rstreams import Connection, Message, Node
from rstreams.abc import Hold, Subscriber, Subscription
from rstreams.errors import Condition, DeliveryFailed
from rstreams.message import decode_message
from rstreams.net._proton import LinkDriver
from rstreams.net.cbs import Token, TokenSource, tokens
from rstreams.node import Address, Client, LinkRequest, Supply
from rstreams.protocol.frames import Attach, Detach, Role
from rstreams.protocol.receiver import LinkSubscription
from rstreams.protocol.refusal import refuse
from rstreams.protocol.sender import LinkSubscriber
from tests.net.over_tcp import pump_of

START = datetime(2026, 1, 1, tzinfo=UTC)

SILENT_S = 1_000_000.0
"""An idle time-out for hours of virtual time without heartbeats."""


@pytest.fixture
def autojump_clock(monkeypatch: pytest.MonkeyPatch) -> MockClock:
    """The time of day goes with the clock of trio, which jumps when nothing is under way in a socket either."""
    monkeypatch.setattr(tokens, "now", lambda: START + timedelta(seconds=trio.current_time()))
    return MockClock(autojump_threshold=0.002)


class Source:
    """Makes tokens, and counts them.

    Attributes:
        asked: The audiences asked for.
    """

    def __init__(self, lifetime_s: float = 3600.0) -> None:
        self.asked: list[str] = []
        self.lifetime_s = lifetime_s
        self.error: Exception | None = None
        self.hangs = False

    async def __call__(self, audience: str) -> Token:
        self.asked.append(audience)
        if self.hangs:
            await trio.sleep_forever()
        if self.error is not None:
            raise self.error
        expires_at = tokens.now() + timedelta(seconds=self.lifetime_s)
        return Token(f"sesame/{audience}/{len(self.asked)}", expires_at)


@dataclass
class Put:
    """What one request said, and on which connection."""

    connection: int
    audience: str
    value: str
    type: str
    request: Message
    expires_at: datetime


@dataclass
class Tokens(Address):
    """The node's `$cbs`.

    Attributes:
        puts: What has been put.
        answer: Makes the status and the description for a request; None is no answer.
        holding: By connection and address, until when a token holds.
        rejects: Whether requests are rejected as messages.
    """

    answer: Callable[[Put], tuple[int, str] | None] = lambda _: (202, "Accepted")
    puts: list[Put] = field(default_factory=list)
    holding: dict[tuple[int, str], float] = field(default_factory=dict)
    rejects: bool = False
    connection: int = 0
    name: str = "$cbs"
    _replies: dict[int, Replies] = field(default_factory=dict)

    def supply(self, link: LinkRequest) -> Supply:  # noqa: ARG002 - each link gets the same
        return Supply(self)

    def subscribe(self, subscriber: Subscriber[Message]) -> None:
        self._replies[self.connection] = Replies(subscriber)
        subscriber.on_subscribe(self._replies[self.connection])

    def producer(self, *, once: bool = False) -> Subscriber[bytes]:
        assert not once
        return _Requests(self, self.connection)

    def take(self, connection: int, request: Message) -> None:
        said = request.properties
        assert said["operation"] == "put-token"
        assert request.reply_to
        put = Put(connection, said["name"], str(request.body), said["type"], request, said["expiration"])
        self.puts.append(put)
        told = self.answer(put)
        if told is None:
            return
        status, description = told
        if status < 300:
            self.holding[connection, put.audience.removeprefix("sb://127.0.0.1/")] = (
                trio.current_time() + (put.expires_at - tokens.now()).total_seconds()
            )
        properties = {"status-code": status, "status-description": description}
        self._replies[connection].send(Message(correlation_id=request.id, properties=properties))


class _Requests:
    def __init__(self, tokens: Tokens, connection: int) -> None:
        self._tokens = tokens
        self._connection = connection
        self._subscription: Subscription | None = None

    def on_subscribe(self, subscription: Subscription) -> None:
        self._subscription = subscription
        subscription.request(2**63 - 1)

    def on_next(self, item: bytes) -> None:
        if self._tokens.rejects:
            assert self._subscription is not None
            self._subscription.hold().fail(DeliveryFailed("rejected", "amqp:not-allowed", "no such command"))
            return
        self._tokens.take(self._connection, decode_message(item))

    def on_error(self, error: BaseException) -> None:
        pass

    def on_complete(self) -> None:
        pass


class Replies:
    """The subscription of one who gets answers, which wait until they are asked for."""

    def __init__(self, subscriber: Subscriber[Message]) -> None:
        self._subscriber = subscriber
        self._demand = 0
        self._waiting: list[Message] = []
        self.ended = False

    def send(self, *replies: Message) -> None:
        self._waiting += replies
        while self._waiting and self._demand and not self.ended:
            self._demand -= 1
            self._subscriber.on_next(self._waiting.pop(0))

    def end(self) -> None:
        self.ended = True
        self._subscriber.on_complete()

    def request(self, n: int) -> None:
        self._demand += n
        self.send()

    def cancel(self) -> None:
        self.ended = True

    def hold(self) -> Hold:
        return _Nothing()


class _Nothing:
    def done(self) -> None:
        pass

    def fail(self, error: BaseException) -> None:
        pass

    def release(self) -> None:
        pass


class TokenNode(Node):
    """A node whose addresses need a token of the same name.

    Attributes:
        tokens: Its `$cbs`; None: there is none.
        refused: Links turned away, by address.
        filters: Those of the link that came last.
        ended: Links ended because their token had run out.
    """

    def __init__(self, *, cbs: bool = True) -> None:
        super().__init__(idle_timeout_s=SILENT_S)
        self.tokens = Tokens()
        self.refused: list[str] = []
        self.filters: Mapping[str, Any] = {}
        self.ended: list[str] = []
        self._ends: list[tuple[int, str, LinkSubscriber[bytes] | LinkSubscription[bytes]]] = []
        self._connections: list[object] = []  # kept: an address in memory may come again
        if cbs:
            self._addresses["$cbs"] = self.tokens

    def _number(self, connection: object) -> int:
        """Return which connection it is, counted in the order in which they came."""
        if connection not in self._connections:
            self._connections.append(connection)
        return self._connections.index(connection)

    def _on_attach(self, client: Client, driver: LinkDriver, frame: Attach) -> None:
        address = (frame.source if frame.role is Role.RECEIVER else frame.target) or ""
        address = address.partition("/ConsumerGroups/")[0]
        self.filters = frame.filters
        self.tokens.connection = connection = self._number(driver._host)
        open_to_all = frame.dynamic or address == "$cbs"
        if not open_to_all and self.tokens.holding.get((connection, address), -math.inf) <= trio.current_time():
            self.refused.append(address)
            driver.bind(refuse(driver, frame, Condition.UNAUTHORIZED_ACCESS.value, f"no token for {address}"))
            return
        super()._on_attach(client, driver, frame)
        link = driver.link
        if not open_to_all and link is not None:
            self._ends.append((connection, address, link._endpoint))  # type: ignore[arg-type]

    def end_expired(self) -> None:
        """End the links whose token has run out."""
        now = trio.current_time()
        for connection, address, end in list(self._ends):
            if self.tokens.holding[connection, address] <= now:
                self._ends.remove((connection, address, end))
                self.ended.append(address)
                assert isinstance(end, LinkSubscriber)
                end.leave(Detach(condition=Condition.UNAUTHORIZED_ACCESS.value, description="the token has expired"))

    @property
    def audiences(self) -> Iterator[str]:
        return (put.audience for put in self.tokens.puts)


@asynccontextmanager
async def authorized(
    source: TokenSource,
    node: TokenNode | None = None,
    **options: Any,  # noqa: ANN401 - those of `connect`
) -> AsyncIterator[tuple[TokenNode, Connection]]:
    """Connect to a node, by tokens that `source` makes."""
    async with node or TokenNode() as entered:
        entered.queue("work", capacity=1000)
        entered.queue("other", capacity=1000)
        listener = await entered.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url, cbs=source, idle_timeout_s=SILENT_S, **options) as connection:
            yield entered, connection


async def until(happened: Callable[[], object]) -> None:
    """Wait, in virtual time."""
    with trio.fail_after(100_000):
        while not happened():  # noqa: ASYNC110 - there is nothing that tells
            await trio.sleep(0.1)


async def cut(connection: Connection) -> None:
    """Break the connection as the network does."""
    lost = pump_of(connection)
    await trio.aclose_forcefully(lost._stream)
    await lost.ended.wait()
