"""What a client does while its network fails: publish, send, consume, subscribe; each counts its messages."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Final

import trio

from rstreams import Connection, Node, Stream
from rstreams.abc import Hold, Subscriber
from rstreams.errors import DeliveryFailed, RStreamsError
from rstreams.message import decode_body, encode_item
from rstreams.net.links.effectively_once import Stamper
from rstreams.node.address import LinkRequest
from rstreams.node.queue import Queue
from rstreams.protocol import frames as wire
from rstreams.protocol.frames import Attach
from rstreams.testing import ProbeSubscriber
from rstreams.testing.faults import OneWay

ITEMS: Final = 20
WINDOW: Final = 8


class CountedSource:
    """A publisher of the numbers from 0, which counts what became of each."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.sent: list[int] = []
        self.accepted: list[int] = []
        self.unknown: list[int] = []
        self.released: list[int] = []
        self._demand = 0
        self._emitting = False
        self._ended = False
        self._subscriber: Subscriber[int] | None = None

    def subscribe(self, subscriber: Subscriber[int]) -> None:
        assert self._subscriber is None, "the link subscribes once, however often it is attached"
        self._subscriber = subscriber
        subscriber.on_subscribe(self)

    def request(self, n: int) -> None:
        self._demand += n
        if self._emitting:
            return
        self._emitting = True
        assert self._subscriber is not None
        while self._demand and len(self.sent) < self.count and not self._ended:
            self._demand -= 1
            self.sent.append(len(self.sent))
            self._subscriber.on_next(self.sent[-1])
        self._emitting = False
        if len(self.sent) == self.count and not self._ended:
            self._ended = True
            self._subscriber.on_complete()

    def cancel(self) -> None:
        self._ended = True

    def hold(self) -> Hold:
        return _Counted(self, self.sent[-1])


class _Counted:
    def __init__(self, source: CountedSource, number: int) -> None:
        self._source = source
        self._number = number

    def done(self) -> None:
        self._source.accepted.append(self._number)

    def fail(self, error: BaseException) -> None:  # noqa: ARG002 - a hold's
        self._source.unknown.append(self._number)

    def release(self) -> None:
        self._source.released.append(self._number)


class Role(ABC):
    """What a client does with a node; one object for one case.

    Attributes:
        items: In which direction the link's items go.
        once: Whether nothing may be doubled.
    """

    items: OneWay
    once = False
    packed = False
    container_id: str | None = None

    def __init__(self, node: Node) -> None:
        self.node = node

    @abstractmethod
    async def run(self, connection: Connection) -> None:
        """Do it all."""

    @abstractmethod
    async def check(self, error: BaseException | None, *, in_order: bool) -> None:
        """Count every message, when nobody is connected any more."""


class Publishing(Role):
    items = "to_peer"

    def __init__(self, node: Node) -> None:
        super().__init__(node)
        self.queue = node.queue("work", capacity=200)
        self.source = CountedSource(ITEMS)
        self.result: int | None = None

    async def run(self, connection: Connection) -> None:
        pack = 4 if self.packed else 1
        if self.once:
            result = await connection.publish("work", self.source, settlement="effectively_once", pack_items=pack)
        else:
            result = await connection.publish("work", self.source, pack_items=pack)
        self.result = result.accepted

    async def check(self, error: BaseException | None, *, in_order: bool) -> None:
        source = self.source
        stored = contents(self.queue)
        check_stored(stored, source.accepted, once=self.once, in_order=in_order)
        assert sorted(source.accepted + source.unknown + source.released) == source.sent, "each has one outcome"
        assert set(stored) <= set(source.accepted) | set(source.unknown), "what was never sent is not there"
        if self.result is not None:
            assert self.result == ITEMS == len(source.accepted)
        else:
            assert error is not None
            assert getattr(error, "outcome_unknown", 0) == len(source.unknown)


class PublishingOnce(Publishing):
    once = True


class PublishingPacks(Publishing):
    packed = True


class PublishingPacksOnce(Publishing):
    packed = True
    once = True


class Sending(Role):
    items = "to_peer"

    def __init__(self, node: Node) -> None:
        super().__init__(node)
        self.queue = node.queue("work", capacity=200)
        self.sent: list[int] = []
        self.accepted: list[int] = []
        self.unknown = 0

    async def run(self, connection: Connection) -> None:
        receipts: dict[int, Any] = {}

        async def send(first: int) -> None:
            for number in range(first, ITEMS, 2):
                self.sent.append(number)  # before it waits: messages leave in the order in which tasks come with them
                try:
                    receipts[number] = await sender.submit(number)
                except RStreamsError:
                    self.sent.remove(number)
                    return  # the block says so, too

        settlement: Any = "effectively_once" if self.once else "at_least_once"
        try:
            async with connection.sender("work", settlement=settlement) as sender, trio.open_nursery() as nursery:
                nursery.start_soon(send, 0)
                nursery.start_soon(send, 1)
        finally:
            for number, receipt in receipts.items():
                assert receipt.settled, "every receipt has an outcome when the link has ended"
                if receipt.error is None:
                    self.accepted.append(number)
                elif not isinstance(receipt.error, DeliveryFailed):  # which would be: given back before it was sent
                    self.unknown += 1

    async def check(self, error: BaseException | None, *, in_order: bool) -> None:
        stored = contents(self.queue)
        check_stored(stored, self.accepted, once=self.once, in_order=False)
        if in_order:
            firsts = list(dict.fromkeys(stored))
            assert firsts == [number for number in self.sent if number in set(firsts)], (firsts, self.sent)
        assert set(stored) <= set(self.sent)
        if error is None:
            assert sorted(self.accepted) == list(range(ITEMS))
        else:
            assert getattr(error, "outcome_unknown", 0) == self.unknown


class SendingOnce(Sending):
    once = True


class Consuming(Role):
    items = "to_client"

    def __init__(self, node: Node) -> None:
        super().__init__(node)
        self.queue = node.queue("work", capacity=200)
        stamp = Stamper("before").stamp
        Stream.range(ITEMS).map(lambda number: stamp(encode_item(number))).subscribe(self.queue.producer())
        self.got: list[int] = []

    async def run(self, connection: Connection) -> None:
        settlement: Any = "effectively_once" if self.once else "at_least_once"
        pack = 4 if self.packed else 1
        stream = connection.stream("work", window=WINDOW, settlement=settlement, pack_items=pack)
        async with stream.open() as items:
            async for item in items:
                self.got.append(item)
                if len(set(self.got)) == ITEMS:
                    break

    async def check(self, error: BaseException | None, *, in_order: bool) -> None:
        accepted = self.queue.statistics().accepted
        left = contents(self.queue)
        assert accepted + len(left) == ITEMS, "what was not accepted is there again"
        assert set(self.got) | set(left) == set(range(ITEMS)), "nothing is lost"
        assert accepted <= len(set(self.got))
        if in_order:
            firsts = list(dict.fromkeys(self.got))
            assert firsts == list(range(len(firsts)))
        if self.once or error is not None:
            assert len(self.got) == len(set(self.got)), "nothing is doubled"
        if error is None:
            assert set(self.got) == set(range(ITEMS))


class ConsumingOnce(Consuming):
    once = True


class ConsumingPacks(Consuming):
    packed = True


class ConsumingPacksOnce(Consuming):
    packed = True
    once = True


class Subscribing(Role):
    """Served streams begin anew for every link: what comes is whole, and may come twice."""

    items = "to_client"

    def __init__(self, node: Node) -> None:
        super().__init__(node)
        node.serve("numbers", Stream.range(ITEMS))
        self.got: list[int] = []

    async def run(self, connection: Connection) -> None:
        async with connection.stream("numbers", window=WINDOW).open() as items:
            async for item in items:
                self.got.append(item)

    async def check(self, error: BaseException | None, *, in_order: bool) -> None:
        firsts = list(dict.fromkeys(self.got))
        assert firsts == list(range(len(firsts))) or not in_order
        if error is None:
            assert len(firsts) == ITEMS
        else:
            assert self.got == firsts


class ConsumingNamed(Consuming):
    """A named subscription, whose messages came while its subscriber was away."""

    container_id = "reader"

    def __init__(self, node: Node) -> None:
        Role.__init__(self, node)
        multicast = node.multicast("prices", overflow="drop_oldest")
        attach = Attach("mine", wire.Role.RECEIVER, "prices", "", durable=True, expiry="never")
        multicast.supply(LinkRequest(attach, "reader"))
        Stream.range(ITEMS).map(encode_item).subscribe(multicast.producer())
        self.queue = multicast.named.all[0].backlog
        self.got: list[int] = []

    async def run(self, connection: Connection) -> None:
        async with connection.stream("prices", subscription="mine", window=WINDOW).open() as items:
            async for item in items:
                self.got.append(item)
                if len(set(self.got)) == ITEMS:
                    break


class SubscribingKept(Role):
    """A served subscription that is kept: what comes is whole, and nothing comes twice."""

    items = "to_client"

    def __init__(self, node: Node) -> None:
        super().__init__(node)
        self.offer()
        self.got: list[int] = []

    def offer(self) -> None:
        self.node.serve("numbers", Stream.range(ITEMS), keep_s=200)

    def stream(self, connection: Connection) -> Stream[int]:
        return connection.stream("numbers", window=WINDOW, settlement="effectively_once")

    async def run(self, connection: Connection) -> None:
        await self.stream(connection).for_each(self.got.append)

    async def check(self, error: BaseException | None, *, in_order: bool) -> None:  # noqa: ARG002 - it always is
        assert self.got == list(range(len(self.got)))
        if error is None:
            assert len(self.got) == ITEMS


class ReadingLog(SubscribingKept):
    """A reader of a log, which goes on behind the last message that it had."""

    def offer(self) -> None:
        log = self.node.log("numbers", retention_items=1000)
        Stream.range(ITEMS).map(encode_item).subscribe(log.producer())

    def stream(self, connection: Connection) -> Stream[int]:
        return connection.stream("numbers", window=WINDOW, start="first").take(ITEMS)


KEPT_ROLES: Final[list[type[Role]]] = [ConsumingNamed, SubscribingKept, ReadingLog]
MAIN_ROLES: Final[list[type[Role]]] = [Publishing, Sending, Consuming, Subscribing]
MORE_ROLES: Final[list[type[Role]]] = [
    PublishingOnce,
    PublishingPacks,
    PublishingPacksOnce,
    SendingOnce,
    ConsumingOnce,
    ConsumingPacks,
    ConsumingPacksOnce,
]


def contents(queue: Queue) -> list[int]:
    """Take out what a queue holds."""
    probe = ProbeSubscriber[bytes](10**6)
    queue.subscribe(probe)
    probe.cancel()
    return [decode_body(payload) for payload in probe.items]


def check_stored(stored: list[int], accepted: list[int], *, once: bool, in_order: bool) -> None:
    """Check that a queue has what was accepted, and in order but for what came twice."""
    assert set(accepted) <= set(stored), "accepted is what the queue has got"
    assert len(set(accepted)) == len(accepted), "accepted once"
    if once:
        assert len(stored) == len(set(stored)), "nothing is doubled"
    if in_order:
        firsts = list(dict.fromkeys(stored))
        assert firsts == list(range(len(firsts)))
