"""A multicast that blocks, and whose last subscriber leaves with credit still out: nobody's items wait for the next."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio

import rstreams
from rstreams import Node, Stream
from rstreams.errors import RStreamsError
from rstreams.node.multicast import MulticastAddress
from rstreams.push import Unicast
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.net.over_tcp import until

ITEMS = 30
WAYS = ("cancels", "closes the connection", "unsubscribes")


async def read_until(url: str, way: str, leaves: trio.Event) -> None:
    """Ask for items without getting one, and leave."""
    async with rstreams.connect(url, container_id="shop") as connection:
        probe = ProbeSubscriber[Any](100)
        connection.stream("news", subscription="billing" if way == "unsubscribes" else None).subscribe(probe)
        await leaves.wait()
        await until(lambda: probe.subscription is not None)
        if way == "closes the connection":
            return
        assert probe.subscription is not None
        probe.subscription.cancel()
        if way == "unsubscribes":
            await until(lambda: connection.explain().lines == ())
            await connection.unsubscribe("news", "billing")
        await trio.sleep_forever()


CASES = [
    *((way, "at_least_once", durable) for way in WAYS for durable in (False, True)),
    ("cancels", "at_most_once", False),
    ("cancels", "effectively_once", False),
    ("cancels", "effectively_once", True),
]


@pytest.mark.parametrize(("way", "settlement", "durable"), CASES)
async def test_every_item_is_got_by_somebody(tmp_path: Path, way: str, settlement: Any, *, durable: bool) -> None:  # noqa: ANN401
    items, leaves, results = Unicast[int](capacity=ITEMS), trio.Event(), list[int]()
    async with Node(store=tmp_path) as node:
        news = node.multicast("news", durable=durable)
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url) as connection, trio.open_nursery() as nursery:

            async def publish() -> None:
                results.append((await connection.publish("news", Stream(items), settlement=settlement)).accepted)

            nursery.start_soon(read_until, listener.url, way, leaves)
            nursery.start_soon(publish)
            await until(lambda: news.statistics().credit >= ITEMS)
            leaves.set()
            await until(lambda: not news.statistics().subscribers and not news.named.all)
            for number in range(ITEMS):
                await items.send(number)
            items.complete()
            await until(lambda: news.statistics().held == ITEMS)
            assert settlement == "at_most_once" or not results, "none of them is accepted"
            assert await connection.stream("news").take(ITEMS).to_list() == list(range(ITEMS))
            await until(lambda: results == [ITEMS])
            nursery.cancel_scope.cancel()
        numbers = news.statistics()
        assert (numbers.unrouted, numbers.held, numbers.dropped) == (0, 0, 0)


@pytest.mark.parametrize("durable", [False, True])
async def test_a_node_that_is_drained_gives_them_back_at_once(tmp_path: Path, *, durable: bool) -> None:
    items = Unicast[int](capacity=ITEMS)
    async with Node(store=tmp_path) as node:
        news = node.multicast("news", durable=durable)
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url) as publisher, trio.open_nursery() as nursery:
            probe = ProbeSubscriber[Any](10)
            publisher.stream("news").subscribe(probe)
            told: list[BaseException] = []

            async def publish() -> None:
                try:
                    await publisher.publish("news", Stream(items))
                except RStreamsError as error:
                    told.append(error)

            nursery.start_soon(publish)
            await until(lambda: news.statistics().credit >= 10)
            assert probe.subscription is not None
            probe.subscription.cancel()
            await until(lambda: not news.statistics().subscribers)
            for number in range(5):
                await items.send(number)
            await until(lambda: news.statistics().held == 5)
            with trio.fail_after(5):
                await node.drain_and_close(timeout_s=60)
            await until(lambda: bool(told))
            assert news.statistics().held == 0


def leave(probe: ProbeSubscriber[bytes]) -> None:
    """Cancel a subscription."""
    assert probe.subscription is not None
    probe.subscription.cancel()


@pytest.mark.parametrize("later", [0, 1, 2])
@pytest.mark.parametrize("first_leaves_last", [True, False])
def test_who_came_later_and_got_nothing_takes_nothing_along(later: int, *, first_leaves_last: bool) -> None:
    """An item waits for one subscriber that does not ask, others come behind it, and all leave."""
    news = MulticastAddress("news", "block", 4)
    link = ManualPublisher[bytes]()
    link.subscribe(news.producer())
    before = ProbeSubscriber[bytes](2)
    news.subscribe(before)
    link.next(b"1")
    leave(before)
    link.next(b"2")
    first = ProbeSubscriber[bytes](0)
    news.subscribe(first)
    others = [ProbeSubscriber[bytes](0) for _ in range(later)]
    for each in others:
        news.subscribe(each)
    for each in [*others, first] if first_leaves_last else [first, *others]:
        leave(each)

    kept = first_leaves_last or not later
    assert (news.statistics().held, news.statistics().abandoned) == (int(kept), 1)
    last = ProbeSubscriber[bytes](9)
    news.subscribe(last)
    assert last.items == [b"2"] * kept
