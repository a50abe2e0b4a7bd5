"""Limits of users: rates in virtual time, connections and links."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from typing import Any

import pytest
import trio

import rstreams
from rstreams import Node, Stream
from rstreams._core.spell import Spell
from rstreams.errors import Condition, ConfigError, ConnectionClosed, DemandError, LinkDetached
from rstreams.message import decode_body
from rstreams.net.transport.accounts import Account
from rstreams.node import UserLimits
from rstreams.node.rates import PART, Metered, Rate
from rstreams.push import Unicast
from rstreams.testing import ManualPublisher, ProbeSubscriber
from rstreams.web.metrics import metrics_text
from tests.net.foreign import foreign
from tests.net.over_tcp import until


class Clock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = 0.0
        self._calls: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()

    def call_later(self, delay_s: float, call: Callable[[], None]) -> None:
        assert delay_s > 0
        heapq.heappush(self._calls, (self.now + delay_s, next(self._numbers), call))

    def go_to(self, time: float, each: Callable[[], None] = lambda: None) -> None:
        while self._calls and self._calls[0][0] <= time:
            self.now, _, call = heapq.heappop(self._calls)
            call()
            each()
        self.now = time

    @property
    def waits(self) -> int:
        return len(self._calls)


class Sender:
    """A link of a user: sends all that it is asked for, or nothing."""

    def __init__(self, rate: Rate, *, size: int = 10) -> None:
        self.size = size
        self.source = ManualPublisher[bytes]()
        self.address = ProbeSubscriber[bytes]()
        self.metered = Metered(self.address, rate)
        self.source.subscribe(self.metered)
        self.sent = 0

    def send(self) -> None:
        while self.sent < self.source.requested:
            self.sent += 1
            self.source.next(b"x" * self.size)


def limited(clock: Clock, **limits: Any) -> Rate:  # noqa: ANN401 - those of UserLimits
    return Rate(Account(UserLimits(**limits)), lambda: clock.now, clock.call_later, Spell())


def test_one_seconds_worth_at_once_and_then_as_many_as_the_rate_allows() -> None:
    clock = Clock()
    sender = Sender(limited(clock, items_per_s=100))
    sender.address.request(10_000)
    sender.send()
    assert sender.sent == 100
    for second in range(1, 11):
        clock.go_to(second, sender.send)
        assert sender.sent == pytest.approx(100 + 100 * second, abs=100 * PART)
    assert sender.address.items == [b"x" * 10] * sender.sent


def test_no_more_than_a_part_is_granted_and_unused() -> None:
    clock = Clock()
    sender = Sender(limited(clock, items_per_s=100))
    sender.address.request(10_000)
    assert sender.source.requested == 100 * PART
    clock.go_to(1000)
    assert sender.source.requested == 100 * PART


def test_the_demand_of_the_address_is_never_exceeded() -> None:
    sender = Sender(limited(Clock(), items_per_s=1000))
    sender.address.request(3)
    assert sender.source.requested == 3
    sender.send()
    sender.address.request(2)
    assert sender.source.requested == 5


def test_a_slow_rate_grants_single_items() -> None:
    clock = Clock()
    sender = Sender(limited(clock, items_per_s=0.5))
    sender.address.request(100)
    for time, sent in ((0, 1), (1.9, 1), (2.1, 2), (4.1, 3), (20.1, 11)):
        sender.send()
        clock.go_to(time, sender.send)
        assert sender.sent == sent


def test_bytes_are_counted_when_they_have_come() -> None:
    clock = Clock()
    sender = Sender(limited(clock, bytes_per_s=100_000), size=1000)
    sender.address.request(100_000)
    sender.send()
    for second in range(1, 21):
        clock.go_to(second, sender.send)
        assert 1000 * sender.sent == pytest.approx(100_000 * (1 + second), abs=100_000 * 2 * PART + 1000)


def test_one_message_may_be_larger_than_a_seconds_worth_and_then_the_link_waits_for_as_long() -> None:
    clock = Clock()
    sender = Sender(limited(clock, bytes_per_s=1000), size=10_000)
    sender.address.request(100)
    sender.send()
    assert sender.sent == 1
    clock.go_to(8.9, sender.send)
    assert sender.sent == 1
    clock.go_to(100, sender.send)
    assert sender.sent == pytest.approx(11, abs=1)


def test_links_of_a_user_share_the_rate_and_those_that_send_nothing_keep_little_of_it() -> None:
    clock = Clock()
    rate = limited(clock, items_per_s=100)
    idle = [Sender(rate) for _ in range(3)]
    busy = [Sender(rate) for _ in range(2)]
    for sender in (*idle, *busy):
        sender.address.request(10_000)

    def send() -> None:
        for sender in busy:
            sender.send()

    send()
    clock.go_to(20, send)
    one, other = (sender.sent for sender in busy)
    assert one + other == pytest.approx(100 + 2000 - 30, abs=20)
    assert abs(one - other) <= 100 + 2 * 100 * PART  # the first one had the first second's worth


def test_a_link_that_ends_gives_back_what_it_did_not_use() -> None:
    clock = Clock()
    rate = limited(clock, items_per_s=1)
    gone, waiting = Sender(rate), Sender(rate)
    gone.address.request(10)
    waiting.address.request(10)
    assert (gone.source.requested, waiting.source.requested) == (1, 0)
    gone.source.complete()
    assert gone.address.completed
    assert waiting.source.requested == 1


@pytest.mark.parametrize("end", ["complete", "fail", "cancel"])
def test_nothing_waits_for_the_clock_when_the_links_are_gone(end: str) -> None:
    clock = Clock()
    sender = Sender(limited(clock, items_per_s=1))
    sender.address.request(10)
    sender.send()
    assert clock.waits == 1
    if end == "cancel":
        sender.address.cancel()
        assert sender.source.cancelled
    elif end == "fail":
        sender.source.error(ValueError("x"))
        assert isinstance(sender.address.error, ValueError)
    else:
        sender.source.complete()
    clock.go_to(100)
    assert clock.waits == 0
    assert sender.source.requested == 1


def test_holds_bad_requests_and_second_subscriptions_are_the_links() -> None:
    address, source = ProbeSubscriber[bytes](hold=True), ManualPublisher[bytes]()
    metered = Metered(address, limited(Clock(), items_per_s=10))
    source.subscribe(metered)
    address.request(1)
    source.next(b"x")
    assert source.outcomes == [None]
    address.holds[0].done()
    assert source.outcomes == ["done"]
    second = ManualPublisher[bytes]()
    second.subscribe(metered)
    assert second.cancelled, "2.5"
    address.request(0)
    assert isinstance(address.error, DemandError)


def test_new_limits_hold_at_once() -> None:
    clock, account = Clock(), Account(UserLimits(items_per_s=1))
    sender = Sender(Rate(account, lambda: clock.now, clock.call_later, Spell()))
    sender.address.request(10_000)
    sender.send()
    clock.go_to(10, sender.send)
    assert sender.sent == 11
    account.limits = UserLimits(items_per_s=100)
    clock.go_to(20, sender.send)
    assert sender.sent == pytest.approx(11 + 1000, abs=100)
    account.limits = UserLimits()
    clock.go_to(21, sender.send)
    assert sender.sent == 10_000


@pytest.mark.parametrize(
    "limits",
    [{"connections": 0}, {"links": 1.5}, {"items_per_s": 0}, {"bytes_per_s": -1}, {"items_per_s": float("inf")}],
)
def test_limits_that_cannot_be(limits: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(limits))):
        UserLimits(**limits)


# over a network


@pytest.mark.slow
async def test_a_publisher_beyond_its_rate_waits_and_loses_nothing(autojump_clock: trio.testing.MockClock) -> None:
    async with Node(limits=UserLimits(items_per_s=50)) as node:
        queue = node.queue("work", capacity=10_000)
        async with rstreams.connect((await node.listen("127.0.0.1:0")).url, idle_timeout_s=1e6) as connection:
            began = trio.current_time()
            result = await connection.publish("work", Stream.range(500))
            assert result.accepted == 500
            assert trio.current_time() - began >= (500 - 50) / 50 - 0.2
        assert queue.statistics().enqueued == 500


async def test_a_user_beyond_its_rate_does_not_slow_down_another_one() -> None:
    users = {"alice": "a", "bob": "b"}
    async with Node(users=users, limits={"alice": UserLimits(items_per_s=0.001)}) as node:
        queue = node.queue("work")
        url = (await node.listen("127.0.0.1:0")).url
        slow = Unicast[int]()
        async with (
            rstreams.connect(url.replace("//", "//alice:a@")) as alice,
            rstreams.connect(url.replace("//", "//bob:b@")) as bob,
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(alice.publish, "work", Stream(slow))
            for item in range(3):
                slow.emit(item)
            await until(lambda: queue.statistics().enqueued == 1)
            await bob.publish("work", Stream.range(700))
            assert queue.statistics().enqueued == 701
            held_s = node.statistics().held_s
            assert list(held_s) == ["alice"], "bob has no limits"
            assert held_s["alice"] > 0
            assert 'rstreams_user_limited_seconds_total{user="alice"}' in metrics_text(node.statistics().as_dict())
            nursery.cancel_scope.cancel()
        assert node.statistics().held_s["alice"] >= held_s["alice"], "it does not fall when a connection closes"


@pytest.mark.slow
@pytest.mark.parametrize("limits", [{"received_items_per_s": 50}, {"received_bytes_per_s": 50 * 1009}])
@pytest.mark.parametrize("kind", ["queue", "served", "multicast"])
async def test_a_receiver_beyond_its_rate_waits_and_loses_nothing(
    autojump_clock: trio.testing.MockClock, limits: dict[str, Any], kind: str
) -> None:
    items = Stream.range(300).map(lambda number: number.to_bytes(4, "big") * 250)
    async with Node(limits=UserLimits(**limits)) as node, trio.open_nursery() as nursery:
        url = (await node.listen("127.0.0.1:0")).url
        if kind == "served":
            node.serve("items", items)
        else:
            getattr(node, kind)("items")
        async with rstreams.connect(url, idle_timeout_s=1e6) as connection:
            if kind != "served":
                nursery.start_soon(connection.publish, "items", items)
            began = trio.current_time()
            got = await connection.stream("items").take(300).to_list()
            assert [int.from_bytes(item[:4], "big") for item in got] == list(range(300))
            assert trio.current_time() - began >= (300 - 50) / 50 - 0.5


async def test_a_drain_is_answered_when_the_address_has_no_more(autojump_clock: trio.testing.MockClock) -> None:
    async with Node(limits=UserLimits(received_items_per_s=10)) as node:
        node.queue("work")
        async with foreign(await node.listen("127.0.0.1:0")) as client:
            async with rstreams.connect(node._listeners[0].url, idle_timeout_s=1e6) as connection:
                await connection.publish("work", Stream.range(15))
            await client.attach("mine", "receiver", address="work")
            await client.grant(20, drain=True)
            for number in range(15):
                came = await client.due("transfer")
                assert decode_body(came.payload) == number, "all of them, although the rate holds them back"
            answer = await client.due("flow")
            assert (answer["link-credit"], answer["drain"]) == (0, True)


async def test_a_link_beyond_the_limit_is_refused_until_another_one_has_ended() -> None:
    async with Node(limits={"*": UserLimits(links=2)}) as node:
        queue = node.queue("work")
        async with rstreams.connect((await node.listen("127.0.0.1:0")).url) as connection:
            async with connection.stream("work").open(), connection.stream("work").open():
                await until(lambda: queue.statistics().consumers == 2)
                with pytest.raises(LinkDetached, match="this user has its limit of 2 links") as caught:
                    await connection.publish("work", Stream.of(1))
                assert caught.value.condition == Condition.RESOURCE_LIMIT_EXCEEDED
            await until(lambda: queue.statistics().consumers == 0)
            await connection.publish("work", Stream.of(1))


async def test_a_connection_beyond_the_limit_is_closed_and_other_users_come_in() -> None:
    users = {"alice": "a", "bob": "b"}
    async with Node(users=users, limits={"alice": UserLimits(connections=1)}) as node:
        url = (await node.listen("127.0.0.1:0")).url
        alice = url.replace("//", "//alice:a@")
        async with rstreams.connect(alice):
            with pytest.raises(ConnectionClosed, match="this user has its limit of 1 connections") as caught:
                async with rstreams.connect(alice) as second:
                    await second.stream("none").to_list()
            assert caught.value.condition == Condition.RESOURCE_LIMIT_EXCEEDED
            async with rstreams.connect(url.replace("//", "//bob:b@")):
                pass
        await until(lambda: node.statistics().connections == 0)
        async with rstreams.connect(alice):
            pass
