"""Links as publishers and processors: both ends in this program, or with a node and a TCP connection between them."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import trio

import rstreams
from rstreams import Node
from rstreams._checks.publishers import require_subscriber
from rstreams.abc import Publisher, Subscriber
from rstreams.message import decode_body, encode_item
from rstreams.net.connection import Connection
from rstreams.protocol.frames import Attach, Role, Settlement
from rstreams.protocol.options import ReceivingOptions, SendingOptions
from rstreams.protocol.receiver import LinkSubscription
from rstreams.protocol.sender import LinkSubscriber
from rstreams.testing.local_driver import LocalDriver


class LocalLink:
    """A publisher at the other end of a link over the local driver: each subscriber gets a link of its own."""

    def __init__(self, source: Publisher[Any], settlement: Settlement, window: int = 8) -> None:
        self._source = source
        self._settlement = settlement
        self._window = window

    def subscribe(self, subscriber: Subscriber[Any]) -> None:
        require_subscriber(subscriber)
        receiver = LinkSubscription(subscriber, ReceivingOptions(decode=decode_body, window=self._window), _log)
        sender = LinkSubscriber(
            self._source, SendingOptions(encode=encode_item, settlement=self._settlement, expose_errors=True), _nothing
        )
        receiving, sending = LocalDriver.pair()
        receiving_link = receiver.bind("local", receiving)
        sending_link = sender.bind("local", sending)
        receiving.bind(receiving_link)
        sending.bind(sending_link)
        receiving_link.send(Attach("local", Role.RECEIVER, "a", "", self._settlement))
        sending_link.send(Attach("local", Role.SENDER, "a", "", self._settlement))
        sender.start()


def _log(error: BaseException) -> None:
    raise AssertionError(error)


def _nothing(_: BaseException | None) -> None: ...


class Loopback:
    """A node and a client of it, over TCP."""

    def __init__(self, node: Node, connection: Connection, nursery: trio.Nursery) -> None:
        self.connection = connection
        self.failures: list[Exception] = []
        self._node = node
        self._nursery = nursery
        self._numbers = itertools.count(1)

    def served(self, source: Publisher[Any], **options: Any) -> Publisher[Any]:  # noqa: ANN401 - those of `stream`
        """Return `source` as a client of the node sees it."""
        address = f"served-{next(self._numbers)}"
        self._node.serve(address, source)
        return self.connection.stream(address, window=8, **options)

    def published(self, source: Publisher[Any]) -> str:
        """Have the client publish `source` into a queue of the node, and return the queue's name."""
        name = f"queue-{next(self._numbers)}"
        self._node.queue(name)
        self._nursery.start_soon(self._publish, name, source)
        return name

    async def _publish(self, name: str, source: Publisher[Any]) -> None:
        try:
            await self.connection.publish(name, source, expose_errors=True)
        except Exception as error:
            self.failures.append(error)


@asynccontextmanager
async def loopback() -> AsyncIterator[Loopback]:
    async with Node(expose_errors=True) as node:
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url) as connection, trio.open_nursery() as nursery:
            yield Loopback(node, connection, nursery)
            nursery.cancel_scope.cancel()


LOCAL: dict[str, Callable[[Publisher[Any]], Publisher[Any]]] = {
    "a link over the local driver": lambda source: LocalLink(source, Settlement.AT_LEAST_ONCE),
    "a link over the local driver (at most once)": lambda source: LocalLink(source, Settlement.AT_MOST_ONCE),
    "a link over the local driver (window=1)": lambda source: LocalLink(source, Settlement.AT_LEAST_ONCE, 1),
}
