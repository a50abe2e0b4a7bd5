"""Messages in the memory of a node are bounded in bytes: in each address, and in all addresses together."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest
import trio

import rstreams
from rstreams import Node, Stream
from rstreams.errors import DeliveryFailed, LinkDetached
from rstreams.message import encode_item
from rstreams.net.links.effectively_once import Stamper
from rstreams.net.options.limits import DEFAULT_TOTAL_STORED_BYTES
from rstreams.node.address import LinkRequest, NodeServices
from rstreams.node.memory_room import DEFAULT_CAPACITY_BYTES
from rstreams.node.memory_storage import MemoryStorage
from rstreams.node.multicast import MulticastAddress
from rstreams.node.queue import Queue
from rstreams.node.stored_bytes import GUARANTEED_BYTES, StoredBytes
from rstreams.protocol.frames import Attach, Role
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.net.over_tcp import connected, until

KIB = 1024


def services(total: StoredBytes) -> NodeServices:
    return NodeServices(
        now=lambda: 0.0,
        wake_at=lambda _: None,
        start_soon=lambda function, *arguments: None,  # noqa: ARG005 - starts nothing
        find=lambda _: None,
        stored=total,
    )


MADE: dict[str, Callable[[], Any]] = {
    "block": lambda: Queue("q", MemoryStorage(1024, 1000 * KIB)),
    "reject": lambda: Queue("q", MemoryStorage(1024, 1000 * KIB), "reject"),
    "drop_oldest": lambda: Queue("q", MemoryStorage(1024, 1000 * KIB), "drop_oldest"),
    "drop_newest": lambda: Queue("q", MemoryStorage(1024, 1000 * KIB), "drop_newest"),
    "multicast, block": lambda: MulticastAddress("m", "block", capacity_bytes=1000 * KIB),
    "multicast, drop_oldest": lambda: MulticastAddress("m", "drop_oldest", capacity_bytes=1000 * KIB),
}


def send(link: ManualPublisher[bytes], most: int, size: Callable[[], int]) -> int:
    """Send as long as there is credit; return how many were sent."""
    sent = 0
    while link.outstanding and sent < most:
        link.next(encode_item(bytes(size())))
        sent += 1
    return sent


def settle(taker: ProbeSubscriber[bytes]) -> None:
    holds, taker.holds = taker.holds, []
    for hold in holds:
        hold.done()


@pytest.mark.parametrize("kind", MADE)
def test_no_kind_keeps_more_than_its_bytes(kind: str) -> None:
    """Half as many bytes more: the promise of a window, counted with the size of the messages before."""
    address, total = MADE[kind](), StoredBytes()
    address.begin(services(total))
    slow = ProbeSubscriber[bytes](0, hold=True)
    address.subscribe(slow)
    link = ManualPublisher[bytes]()
    link.subscribe(address.producer())
    sent = send(link, 300, lambda: 50 * KIB)
    assert 0 < total.size <= 1050 * KIB or kind == "multicast, block"
    assert (sent < 300) is (kind in {"block", "multicast, block"})
    while slow.subscription is not None and (address.left or total.size):
        slow.request(10)
        settle(slow)
        total.count()
    assert total.size == 0


@pytest.mark.parametrize("kind", MADE)
def test_what_is_counted_is_what_is_there(kind: str) -> None:
    chance = random.Random(kind)  # noqa: S311 - a choice
    address, total = MADE[kind](), StoredBytes()
    address.begin(services(total))
    takers = [ProbeSubscriber[bytes](0, hold=True) for _ in range(2)]
    for taker in takers:
        address.subscribe(taker)
    link = ManualPublisher[bytes]()
    link.subscribe(address.producer())
    for _ in range(300):
        send(link, chance.randint(1, 20), lambda: chance.choice((10, 5000, 60_000)))
        taker = chance.choice(takers)
        taker.request(chance.randint(1, 10))
        if chance.random() < 0.7:
            settle(taker)
        total.count()
        if isinstance(address, Queue):
            assert total.size == address.statistics().size_bytes
        else:
            assert total.size == max(sum(map(len, each.pending)) for each in address._copying.subscribers)
    address.forget()
    assert total.size == 0


def test_a_small_message_before_large_ones_does_not_lift_the_bound_of_a_node() -> None:
    total = StoredBytes(4000 * KIB)
    queue = Queue("q", MemoryStorage(1024))
    queue.begin(services(total))
    link = ManualPublisher[bytes]()
    link.subscribe(queue.producer())
    send(link, 500, lambda: 10)
    assert link.outstanding > 100
    sent = send(link, 500, lambda: 500 * KIB)
    assert total.size <= total.most
    assert sent > 100
    refused = [error for error in link.errors if isinstance(error, DeliveryFailed)]
    assert len(refused) == sent - 7
    assert "total_stored_bytes" in str(refused[0])
    assert not link.outstanding


@pytest.mark.parametrize(
    "make", [lambda: Queue("q"), lambda: MulticastAddress("m", "drop_oldest", 1024)], ids=["queue", "multicast"]
)
def test_a_numbered_message_that_found_no_memory_may_come_again(make: Callable[[], Any]) -> None:
    total = StoredBytes(1000 * KIB)
    address = make()
    address.begin(services(total))
    address.subscribe(ProbeSubscriber[bytes](0))
    link = ManualPublisher[bytes]()
    link.subscribe(address.producer(once=True))
    stamp = Stamper("p").stamp
    link.next(stamp(encode_item(bytes(600 * KIB))))
    large = stamp(encode_item(bytes(900 * KIB)))
    link.next(large)
    behind = stamp(encode_item(b"behind it"))
    link.next(behind)
    assert link.outcomes == ["done", "failed", "failed"]
    assert address.statistics().refused == 2
    total.most = 10**9
    total.add(0)
    link.next(large, behind)
    assert link.outcomes[3:] == ["done", "done"]
    told = address.statistics()
    assert (told.enqueued, told.duplicates) == (3, 0)


@pytest.mark.parametrize("kind", MADE)
def test_a_message_that_comes_again_is_accepted_also_without_memory(kind: str) -> None:
    total = StoredBytes(1000 * KIB)
    address = MADE[kind]()
    address.begin(services(total))
    address.subscribe(ProbeSubscriber[bytes](5 if kind == "multicast, block" else 0, hold=True))
    message = Stamper("p").stamp(encode_item(bytes(800 * KIB)))
    links = [ManualPublisher[bytes]() for _ in range(2)]
    for link in links:
        link.subscribe(address.producer(once=True))
    for link in links:
        link.next(message)
        assert link.outcomes == ["done"]
        total.add(400 * KIB)  # of another address, which has more than it was promised
    told = address.statistics()
    assert (told.enqueued, told.duplicates, told.refused) == (1, 1, 0)


def test_what_a_named_subscription_has_settled_is_room_for_others() -> None:
    total = StoredBytes(1000 * KIB)
    queue, multicast = Queue("q", MemoryStorage(1024)), MulticastAddress("m", "drop_oldest")
    queue.begin(services(total))
    multicast.begin(services(total))
    taker = ProbeSubscriber[bytes](1000, hold=True)
    request = LinkRequest(Attach("billing", Role.RECEIVER, "m", None, expiry="never"), "shop")
    multicast.supply(request).publisher.subscribe(taker)
    links = [ManualPublisher[bytes]() for _ in range(2)]
    links[0].subscribe(multicast.producer())
    links[1].subscribe(queue.producer())
    assert send(links[0], 90, lambda: 10 * KIB) == 90
    some = send(links[1], 200, lambda: 5 * KIB)
    assert some < 50, "it waits for room"
    settle(taker)
    assert send(links[1], 200, lambda: 5 * KIB) > some


def test_an_address_that_is_full_leaves_something_for_the_next() -> None:
    total = StoredBytes(4000 * KIB)
    sizes = []
    for number in range(4):
        queue = Queue(f"q{number}")
        queue.begin(services(total))
        link = ManualPublisher[bytes]()
        link.subscribe(queue.producer())
        send(link, 10_000, lambda: 10 * KIB)
        sizes.append(queue.statistics().size_bytes)
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] <= 2100 * KIB
    assert sizes[-1] >= GUARANTEED_BYTES
    assert total.size <= total.most


@pytest.mark.parametrize("freed_by", ["a queue", "a multicast", "the removal of a queue"])
def test_who_waits_for_the_memory_of_others_goes_on_when_it_is_free(freed_by: str) -> None:
    total = StoredBytes(1000 * KIB)
    other: Any = Queue("other") if "queue" in freed_by else MulticastAddress("other", "drop_oldest", 10_000)
    waiting = Queue("waiting")
    taker = ProbeSubscriber[bytes](0)
    for each in (other, waiting):
        each.begin(services(total))
    other.subscribe(taker)
    link, late = ManualPublisher[bytes](), ManualPublisher[bytes]()
    link.subscribe(other.producer())
    send(link, 1000, lambda: KIB)
    assert total.size > 400 * KIB
    late.subscribe(waiting.producer())
    sent = send(late, 10_000, lambda: 20 * KIB)
    assert not late.outstanding
    if freed_by == "the removal of a queue":
        other.forget()
    else:
        taker.request(10_000)
    assert sent > 0
    assert send(late, 10_000, lambda: 20 * KIB) > 0


async def test_a_producer_of_large_messages_waits_and_loses_nothing() -> None:
    messages = [bytes([number]) * 200_000 for number in range(60)]
    async with connected(total_stored_bytes=6_000_000) as (node, connection):
        queue = node.queue("work", capacity_bytes=2_000_000)
        received: list[bytes] = []
        async with trio.open_nursery() as nursery:

            async def publish() -> None:
                result = await connection.publish("work", Stream.from_iterable(messages))
                assert result.accepted == 60

            nursery.start_soon(publish)
            await until(lambda: queue.statistics().ready and not queue.statistics().credit)
            assert queue.statistics().size_bytes <= 2_400_000
            assert node.statistics().stored_bytes == queue.statistics().size_bytes
            received += await connection.stream("work").take(60).to_list()
        assert received == messages
        await until(lambda: not node.statistics().stored_bytes)


def test_the_defaults_are_bounded() -> None:
    node = Node()
    queue, multicast = node.queue("q"), node.multicast("m")
    room: Any = queue._room
    assert room.most == multicast._copying.bytes.most == DEFAULT_CAPACITY_BYTES
    assert multicast.named._options.size == DEFAULT_CAPACITY_BYTES
    assert room.total is multicast._copying.bytes.total is node._services.stored
    assert room.total.most == DEFAULT_TOTAL_STORED_BYTES


async def test_the_links_of_all_connections_have_a_bound(autojump_clock: object) -> None:
    del autojump_clock
    async with Node(total_links=5) as node:
        node.queue("work")
        url = (await node.listen("127.0.0.1:0")).url
        async with rstreams.connect(url) as one, rstreams.connect(url) as other:
            async with AsyncExitStack() as links:
                for number in range(5):
                    await links.enter_async_context((one, other)[number % 2].stream("work").open())
                await until(lambda: node.statistics().queues["work"].consumers == 5)
                for connection in (one, other):
                    with pytest.raises(LinkDetached, match="the node has its total_links=5"):
                        await connection.publish("work", Stream.of(1))
            await trio.sleep(1)  # of the node's clock
            result = await other.publish("work", Stream.of(1))
            assert result.accepted == 1


@pytest.mark.parametrize(
    ("most", "total", "told"),
    [
        (300 * KIB, 10**9, "(300255 bytes, capacity_bytes=307200)"),
        (10**9, 600 * KIB, "bytes, total_stored_bytes=614400 of the node)"),
    ],
)
def test_a_queue_that_is_full_in_bytes_says_so(most: int, total: int, told: str) -> None:
    queue = Queue("q", MemoryStorage(1024, most))
    queue.begin(services(StoredBytes(total)))
    link = ManualPublisher[bytes]()
    link.subscribe(queue.producer())
    link.next(encode_item(bytes(10)))
    assert "is full" not in queue.explain()
    send(link, 300, lambda: 10 * 1000)
    line = queue.explain()
    assert line.startswith("queue 'q' is full: "), line
    assert told in line
    assert line.endswith("; 1 producer waits")


def test_a_queue_that_lacks_places_does_not_wait_for_bytes() -> None:
    """Who waits for bytes has each freed message counted, which costs."""
    queue, total = Queue("q", MemoryStorage(4)), StoredBytes()
    queue.begin(services(total))
    slow = ProbeSubscriber[bytes](2, hold=True)
    queue.subscribe(slow)
    links = [ManualPublisher[bytes]() for _ in range(2)]
    for link in links:
        link.subscribe(queue.producer())
    while sum(send(link, 1, lambda: 1) for link in links):
        pass
    settle(slow)  # its places are promised at once, and a producer still waits
    assert not total.is_waited_for
