"""Which subscriber of a multicast is slow: who it is, how long it was blocked, and how old its oldest item is."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

import rstreams
from rstreams import Node, Stream, _machine
from rstreams.node.multicast import MulticastAddress
from rstreams.node.statistics import SubscriberStatistics
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.net.over_tcp import until


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock) -> None:
    """Let the clock of the machine be the virtual one."""
    monkeypatch.setattr(_machine, "monotonic_clock", autojump_clock.current_time)


async def test_a_slow_subscriber_tells_how_long_and_a_quick_one_nothing() -> None:
    address = MulticastAddress("news", "drop_oldest", capacity=3)
    slow, quick, link = ProbeSubscriber[bytes](1), ProbeSubscriber[bytes](100), ManualPublisher[bytes]()
    address.subscribe(slow)
    address.subscribe(quick)
    link.subscribe(address.producer())
    for number in range(3):  # the first one goes straight through
        link.next(b"%d" % number)
        await trio.sleep(10)
    first, second = address.statistics().subscribers
    assert (first.oldest_s, first.blocked_s, first.pending) == (20, 20, 2)
    assert (second.oldest_s, second.blocked_s, second.pending) == (0, 0, 0)
    assert address.statistics().oldest_s == 20
    slow.request(1)
    assert address.statistics().oldest_s == 10
    for number in range(5):
        link.next(b"%d" % number)  # the oldest ones are dropped
    await trio.sleep(4)
    assert address.statistics().oldest_s == 4
    slow.request(100)
    [first, _] = address.statistics().subscribers
    assert (first.oldest_s, first.blocked_s) == (0, 24)


async def test_a_subscriber_is_named() -> None:
    async with Node(users={"ann": "sesame"}) as node:
        node.multicast("news")
        listener = await node.listen("127.0.0.1:0")
        url = listener.url.replace("amqp://", "amqp://ann:sesame@")
        async with (
            rstreams.connect(url, container_id="shop") as connection,
            connection.stream("news", window=2).open(),
        ):

            def subscribers() -> tuple[SubscriberStatistics, ...]:
                return node.statistics().multicasts["news"].subscribers

            await until(subscribers)
            [told] = subscribers()
            assert (told.container, told.user) == ("shop", "ann")
            assert told.link
            await connection.publish("news", Stream.of(1))
