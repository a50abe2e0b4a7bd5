"""Named subscriptions of a multicast: they keep their messages while the subscriber is away, until they are ended."""

from __future__ import annotations

import functools
import operator
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

import rstreams
from rstreams import Connection, Node, Reconnect, Stream
from rstreams._codec import Symbol, encode_value
from rstreams._codec.encode import encode_string, encode_uint
from rstreams.errors import ConfigError, LinkDetached
from rstreams.message import decode_body
from rstreams.net.management import ManagementRefused, NamedSubscriptionInfo
from rstreams.node import Permission
from rstreams.testing import FaultyNetwork, ProbeSubscriber
from tests.net.foreign import Foreign, foreign
from tests.net.over_tcp import pump_of, until
from tests.net.wire import (
    ACCEPT,
    SOURCE,
    Frame,
    Peer,
    attach_frame,
    condition_of,
    described,
    detach_frame,
    disposition_frame,
    error,
    scripted,
    transfer_frame,
)

NEVER = (encode_uint(2), encode_value(Symbol("never")), encode_uint(0))


@asynccontextmanager
async def sending(**options: Any) -> AsyncIterator[tuple[Node, str, Connection]]:  # noqa: ANN401 - of `multicast`
    """Yield a node with the multicast "prices", its url, and a connection for a publisher."""
    async with Node() as node:
        node.multicast("prices", **options)
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url) as connection:
            yield node, listener.url, connection


def named(node: Node, at: int = 0) -> NamedSubscriptionInfo:
    return node.statistics().multicasts["prices"].named[at]


async def begin(url: str, name: str = "billing", container: str = "shop") -> None:
    """Begin a subscription, and go away."""
    async with rstreams.connect(url, container_id=container) as connection:
        probe = ProbeSubscriber[Any](0)
        connection.stream("prices", subscription=name).subscribe(probe)
        await until(lambda: "on_subscribe" in probe.signals)


async def taken(url: str, most: int, name: str = "billing", container: str = "shop") -> list[Any]:
    """Return the next messages of a subscription."""
    async with rstreams.connect(url, container_id=container) as connection:
        with trio.fail_after(30):
            return await connection.stream("prices", subscription=name).take(most).to_list()


# away and back


async def test_messages_that_come_while_the_subscriber_is_away_are_kept() -> None:
    async with sending() as (node, url, publisher):
        await begin(url)
        await until(lambda: not named(node).attached)
        await publisher.publish("prices", Stream.range(5))
        assert named(node).waiting == 5
        assert await taken(url, 3) == [0, 1, 2]
        await until(lambda: not named(node).attached)
        await publisher.publish("prices", Stream.of(5))
        assert await taken(url, 3) == [3, 4, 5]
        now = node.statistics().multicasts["prices"]
        assert (now.unrouted, now.subscribers) == (0, ())
        assert "1 named subscription (1 away) with 0 items" in str(node.explain())


async def test_streams_of_one_connection_have_it_one_after_the_other() -> None:
    async with sending() as (_, url, publisher):
        await begin(url)
        await publisher.publish("prices", Stream.range(30))
        async with rstreams.connect(url, container_id="shop") as connection:
            got = [await connection.stream("prices", subscription="billing").take(3).to_list() for _ in range(10)]
        assert functools.reduce(operator.iadd, got, []) == list(range(30))


async def test_two_streams_of_one_connection_cannot_have_it_together() -> None:
    async with sending() as (_, url, _publisher), rstreams.connect(url, container_id="shop") as connection:
        first, second = ProbeSubscriber[Any](0), ProbeSubscriber[Any](0)
        connection.stream("prices", subscription="billing").subscribe(first)
        await until(lambda: "on_subscribe" in first.signals)
        connection.stream("prices", subscription="billing").subscribe(second)
        assert isinstance(second.error, ConfigError)
        with pytest.raises(ConfigError, match="another stream of this connection has it"):
            await connection.unsubscribe("prices", "billing")


async def test_of_streams_that_begin_together_one_has_it() -> None:
    async with sending() as (_, url, publisher), rstreams.connect(url, container_id="shop") as connection:
        probes = [ProbeSubscriber[Any](1) for _ in range(3)]
        for probe in probes:
            connection.stream("prices", subscription="billing").subscribe(probe)
        await until(lambda: all("on_subscribe" in probe.signals for probe in probes))
        assert [type(probe.error) for probe in probes] == [type(None), ConfigError, ConfigError]
        await publisher.publish("prices", Stream.of("tea"))
        await until(lambda: probes[0].items)


async def test_a_stream_that_waits_gets_the_subscription_when_the_first_one_is_refused() -> None:
    async with sending(max_subscriptions=1) as (_, url, publisher):
        await begin(url, "audit", "warehouse")
        async with rstreams.connect(url, container_id="shop") as connection:
            first, second, third = [ProbeSubscriber[Any](1) for _ in range(3)]
            connection.stream("prices", subscription="billing").subscribe(first)
            connection.stream("prices", subscription="billing").subscribe(second)
            await until(lambda: second.ended)
            for probe in (first, second):
                assert "has 1 named subscriptions" in str(probe.error)
            async with rstreams.connect(url, container_id="warehouse") as other:
                await other.unsubscribe("prices", "audit")
            connection.stream("prices", subscription="billing").subscribe(third)
            await until(lambda: "on_subscribe" in third.signals)
            await publisher.publish("prices", Stream.of("tea"))
            await until(lambda: third.items)


async def test_an_unsubscribe_that_is_cancelled_at_once_stops_no_stream() -> None:
    async with sending() as (_, url, publisher), rstreams.connect(url, container_id="shop") as connection:
        probe = ProbeSubscriber[Any](1)
        with trio.CancelScope() as scope:
            scope.cancel()
            await connection.unsubscribe("prices", "billing")
        connection.stream("prices", subscription="billing").subscribe(probe)
        await until(lambda: "on_subscribe" in probe.signals)
        await publisher.publish("prices", Stream.of("tea"))
        await until(lambda: probe.items)


async def test_a_connection_that_is_lost_ends_the_streams_that_wait() -> None:
    async with sending() as (_, url, _publisher), rstreams.connect(url, container_id="shop") as connection:
        probes = [ProbeSubscriber[Any](1) for _ in range(3)]
        for probe in probes:
            connection.stream("prices", subscription="billing").subscribe(probe)
        pump_of(connection).cut()
        await until(lambda: all(probe.ended for probe in probes))


@pytest.mark.parametrize("granted", [True, False])
@pytest.mark.usefixtures("autojump_clock")
async def test_the_link_is_attached_again_when_the_first_one_has_ended(*, granted: bool) -> None:
    """A link name is in use until both sides have detached it. The peer here is slow to answer the first attach."""

    async def peer(peer: Peer) -> None:
        await peer.opens()
        await peer.begins()
        first = await peer.expect("attach")
        await peer.is_silent(10)
        kept = described(SOURCE, encode_string("prices"), *NEVER)
        await peer.send(
            attach_frame(first["name"], "sender", source=kept if granted else None, initial_delivery_count=0)
        )
        if granted:
            assert not (await peer.expect("detach"))["closed"]
            await peer.is_silent(10)
            await peer.send(detach_frame(closed=False))
        else:
            await peer.send(detach_frame(why=error("amqp:resource-limit-exceeded")))
            await peer.expect("detach")
        channel = (await peer.begins()).channel
        assert (await peer.expect("attach"))["name"] == first["name"] == "billing"
        await peer.send(attach_frame("billing", "sender", source=kept, initial_delivery_count=0, channel=channel))
        assert (await peer.expect("flow"))["link-credit"] == 1
        await peer.send(transfer_frame(0, b"tea", channel=channel))
        await peer.closes()

    async with scripted(peer) as connection:
        stream = connection.stream("prices", subscription="billing")
        with trio.move_on_after(1):
            await stream.to_list()
        assert await stream.take(1).to_list() == [b"tea"]


async def test_unsettled_messages_come_again_first_and_in_order() -> None:
    async with sending() as (node, url, publisher):
        async with rstreams.connect(url, container_id="shop") as connection:
            probe = ProbeSubscriber[Any](200, hold=True)
            connection.stream("prices", subscription="billing").subscribe(probe)
            await until(lambda: "on_subscribe" in probe.signals)
            await publisher.publish("prices", Stream.range(300))
            await until(lambda: len(probe.items) == 200)
            probe.holds[0].done()
            probe.holds[2].done()
            await until(lambda: named(node).accepted == 2)
        assert await taken(url, 298) == [1, *range(3, 300)]


async def test_a_client_that_reconnects_goes_on() -> None:
    async with sending() as (node, url, publisher), FaultyNetwork(url) as network:
        at_once = Reconnect(first_delay_s=0.0, max_delay_s=0.0, jitter=0.0)
        async with rstreams.connect(network.url, container_id="shop", reconnect=at_once) as connection:
            probe = ProbeSubscriber[Any](10)
            connection.stream("prices", subscription="billing").subscribe(probe)
            await until(lambda: "on_subscribe" in probe.signals)
            await publisher.publish("prices", Stream.range(3))
            await until(lambda: named(node).accepted == 3)
            network.close().reset()
            await until(lambda: not named(node).attached)
            await publisher.publish("prices", Stream.range(3, 6))
            network.reopen()
            await until(lambda: len(probe.items) == 6)
        assert probe.items == list(range(6))


async def test_another_container_or_name_is_another_subscription() -> None:
    async with sending() as (node, url, publisher):
        for name, container in (("billing", "shop"), ("audit", "shop"), ("billing", "warehouse")):
            await begin(url, name, container)
        await publisher.publish("prices", Stream.of("tea"))
        assert [(each.container, each.name) for each in node.statistics().multicasts["prices"].named] == [
            ("shop", "billing"),
            ("shop", "audit"),
            ("warehouse", "billing"),
        ]
        assert await taken(url, 1, "audit") == await taken(url, 1, "billing", "warehouse") == ["tea"]


async def test_a_link_on_another_connection_takes_it_over() -> None:
    async with sending() as (node, url, publisher), rstreams.connect(url, container_id="shop") as before:
        first = ProbeSubscriber[Any](10, hold=True)
        before.stream("prices", subscription="billing").subscribe(first)
        await until(lambda: "on_subscribe" in first.signals)
        await publisher.publish("prices", Stream.range(3))
        await until(lambda: len(first.items) == 3)
        assert await taken(url, 3) == [0, 1, 2]
        await until(lambda: first.error is not None)
        assert isinstance(first.error, LinkDetached)
        assert first.error.condition == "amqp:link:stolen"
        await until(lambda: not named(node).attached)


# the end


async def test_unsubscribe_ends_it() -> None:
    async with sending() as (node, url, publisher), rstreams.connect(url, container_id="shop") as connection:
        await begin(url)
        await publisher.publish("prices", Stream.range(3))
        await connection.unsubscribe("prices", "billing")
        assert node.statistics().multicasts["prices"].named == ()
        with pytest.raises(LinkDetached, match="amqp:not-found"):
            await connection.unsubscribe("prices", "billing")
        assert (await publisher.publish("prices", Stream.empty())).accepted == 0


async def test_unsubscribe_looks_at_the_address() -> None:
    async with sending() as (node, url, _), rstreams.connect(url, container_id="shop") as connection:
        node.multicast("news")
        await begin(url)
        with pytest.raises(LinkDetached, match="subscription='billing': it is at 'prices', and not at 'news'"):
            await connection.unsubscribe("news", "billing")
        assert named(node).name == "billing"


async def test_a_name_is_for_one_address_of_a_container() -> None:
    async with sending() as (node, url, _), rstreams.connect(url, container_id="shop") as connection:
        node.multicast("news")
        await begin(url)
        with pytest.raises(LinkDetached, match="has a subscription 'billing' at 'prices': end that one first"):
            await connection.stream("news", subscription="billing").to_list()


async def test_an_ended_subscription_ends_its_link() -> None:
    async with sending() as (node, url, publisher), rstreams.connect(url, container_id="shop") as connection:
        probe = ProbeSubscriber[Any](10, hold=True)
        connection.stream("prices", subscription="billing").subscribe(probe)
        await until(lambda: "on_subscribe" in probe.signals)
        await publisher.publish("prices", Stream.range(3))
        await until(lambda: len(probe.items) == 3)
        async with publisher.management() as management:
            [found] = await management.named_subscriptions("prices")
            assert found == named(node)
            assert (found.container, found.name, found.attached, found.unsettled) == ("shop", "billing", True, 3)
            with pytest.raises(ManagementRefused, match="no subscription 'audit' of 'shop'"):
                await management.unsubscribe("prices", "audit", container="shop")
            await management.unsubscribe("prices", "billing", container="shop")
            assert await management.named_subscriptions("prices") == []
        await until(lambda: probe.error is not None)
        assert isinstance(probe.error, LinkDetached)
        assert probe.error.condition == "amqp:resource-deleted"


# full backlogs


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        ({"backlog": 4}, [6, 7, 8, 9]),
        ({"backlog": 4, "when_full": "drop_newest"}, [0, 1, 2, 3]),
        ({"backlog": None, "backlog_bytes": 20}, [6, 7, 8, 9]),
    ],
)
async def test_a_full_backlog_drops_while_the_subscriber_is_away(options: dict[str, Any], kept: list[int]) -> None:
    async with sending(**options) as (node, url, publisher):
        await begin(url)
        await until(lambda: not named(node).attached)
        result = await publisher.publish("prices", Stream.range(10))
        assert result.accepted == 10
        told = named(node)
        assert (told.arrived, told.waiting, told.dropped) == (10, 4, 6)
        assert await taken(url, 4) == kept


async def test_publishers_wait_for_an_attached_subscriber() -> None:
    async with sending(backlog=4) as (node, url, publisher), rstreams.connect(url, container_id="shop") as connection:
        probe = ProbeSubscriber[Any](0)
        connection.stream("prices", subscription="billing").subscribe(probe)
        await until(lambda: "on_subscribe" in probe.signals)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(publisher.publish, "prices", Stream.range(50))
            await until(lambda: named(node).waiting >= 4)
            assert named(node).dropped == 0
            assert node.statistics().multicasts["prices"].credit == 0
            asks = probe.subscription
            assert asks is not None
            asks.request(100)
        await until(lambda: len(probe.items) == 50)
        assert (probe.items, named(node).dropped) == (list(range(50)), 0)


async def test_a_multicast_that_drops_never_waits() -> None:
    options: dict[str, Any] = {"overflow": "drop_oldest", "backlog": 4}
    async with sending(**options) as (node, url, publisher), rstreams.connect(url, container_id="shop") as connection:
        probe = ProbeSubscriber[Any](0)
        connection.stream("prices", subscription="billing").subscribe(probe)
        await until(lambda: "on_subscribe" in probe.signals)
        await publisher.publish("prices", Stream.range(50))
        assert (named(node).waiting, named(node).dropped) == (4, 46)


async def test_publishers_go_on_when_a_slow_subscriber_leaves() -> None:
    async with sending(backlog=4) as (node, url, publisher):
        async with trio.open_nursery() as nursery, rstreams.connect(url, container_id="shop") as connection:
            probe = ProbeSubscriber[Any](0)
            connection.stream("prices", subscription="billing").subscribe(probe)
            await until(lambda: "on_subscribe" in probe.signals)
            nursery.start_soon(publisher.publish, "prices", Stream.range(50))
            await until(lambda: named(node).waiting >= 4)
        assert await taken(url, 4) == [46, 47, 48, 49]
        assert named(node).dropped == 46


# bounds and permissions


async def test_there_are_as_many_as_allowed() -> None:
    async with sending(max_subscriptions=8) as (node, url, publisher):
        for name in ("a", "b"):
            await begin(url, name)
        with pytest.raises(LinkDetached, match="container 'shop' has 2 named subscriptions, the most of one"):
            await taken(url, 1, "c")
        for container in "xyz":
            for name in ("a", "b"):
                await begin(url, name, container)
        with pytest.raises(LinkDetached, match="has 8 named subscriptions, the most it can have"):
            await taken(url, 1, "a", "w")
        await publisher.publish("prices", Stream.of(1))
        assert await taken(url, 1, "a") == [1], "those that are there go on"
        assert len(node.statistics().multicasts["prices"].named) == 8


async def test_no_user_gets_the_subscription_of_another() -> None:
    permissions = [Permission(["alice", "bob"], "prices", ["subscribe", "publish"])]
    async with Node(users={"alice": "a", "bob": "b", "eve": "e"}, permissions=permissions) as node:
        node.multicast("prices")
        listener = await node.listen("127.0.0.1:0")
        place = listener.url.removeprefix("amqp://")
        await begin(f"amqp://alice:a@{place}")
        async with rstreams.connect(f"amqp://bob:b@{place}", container_id="shop") as bob:
            with pytest.raises(LinkDetached, match="amqp:not-found"):
                await bob.unsubscribe("prices", "billing")
            await bob.publish("prices", Stream.of(1))
        async with rstreams.connect(f"amqp://eve:e@{place}", container_id="shop") as eve:
            with pytest.raises(LinkDetached, match="may not subscribe"):
                await eve.stream("prices", subscription="billing").to_list()
        assert [(each.user, each.waiting) for each in node.statistics().multicasts["prices"].named] == [("alice", 1)]
        assert await taken(f"amqp://alice:a@{place}", 1) == [1]


# refusals of this side


async def test_bad_options_are_refused_at_the_call() -> None:
    async with sending() as (_, url, connection):
        with pytest.raises(ConfigError, match="container_id"):
            connection.stream("prices", subscription="billing")
        with pytest.raises(ConfigError, match="container_id"):
            await connection.unsubscribe("prices", "billing")
        async with rstreams.connect(url, container_id="shop") as shop:
            options: list[dict[str, Any]] = [{"browse": True}, {"start": 0}, {"group": "g"}]
            for option in options:
                with pytest.raises(ConfigError, match="not allowed for a named subscription"):
                    shop.stream("prices", subscription="billing", **option)
            with pytest.raises(ConfigError, match="subscription=''"):
                shop.stream("prices", subscription="")


async def test_a_peer_that_does_not_keep_subscriptions_is_no_good() -> None:
    async with Node() as node:
        node.queue("work")
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url, container_id="shop") as connection:
            with pytest.raises(LinkDetached, match="the peer keeps no named subscription here"):
                await connection.stream("work", subscription="billing").to_list()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"when_full": "block"}, "when_full='block'"),
        ({"backlog": 0}, "backlog=0"),
        ({"backlog_bytes": 0}, "backlog_bytes=0"),
        ({"backlog": None}, "backlog=None: only a durable multicast may keep any number of items"),
        ({"max_subscriptions": 0}, "max_subscriptions=0"),
        ({"fsync": "never"}, "only a durable multicast is synced"),
        ({"durable": True}, "the node has no store"),
    ],
)
def test_options_of_a_multicast_are_checked(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        Node().multicast("prices", **options)


# the frames


async def body(client: Foreign) -> tuple[int, object]:
    """Return the next message, with its delivery id."""
    came = await client.due("transfer")
    return int(came["delivery-id"]), decode_body(came.payload)


async def detached(client: Foreign, *, closed: bool) -> Frame:
    """Detach the link, and return the node's answer."""
    await client.send(detach_frame(closed=closed))
    return await client.due("detach")


async def test_a_durable_subscriber_of_another_make_on_the_wire() -> None:
    async with sending() as (node, url, publisher):
        listener = node._listeners[0]
        async with foreign(listener) as client:
            answer = await client.attach("billing", "receiver", address="prices", kept=NEVER)
            source = answer["source"].value
            assert (source[0], source[2]) == ("prices", "never")
            await client.grant(1)
            await publisher.publish("prices", Stream.range(3))
            first, item = await body(client)
            assert item == 0
            await client.send(disposition_frame(first, first, ACCEPT))
            assert not (await detached(client, closed=False))["closed"]
        assert (named(node).waiting, named(node).accepted) == (2, 1)

        async with foreign(listener) as client:  # the link is looked up by its name
            answer = await client.attach("billing", "receiver", null_terminus=True)
            assert answer["source"].value[0] == "prices"
            await client.grant(1)
            assert (await body(client))[1] == 1
            assert (await detached(client, closed=True))["closed"]
        assert node.statistics().multicasts["prices"].named == ()

        async with foreign(listener) as client:
            answer = await client.attach("billing", "receiver", null_terminus=True)
            assert answer["source"] is None
            assert condition_of((await client.due("detach"))["error"])[0] == "amqp:not-found"
        await begin(url)


async def test_a_durable_multicast_says_that_it_is_durable(tmp_path: Any) -> None:  # noqa: ANN401 - a path
    async with Node(store=tmp_path / "s") as node:
        node.multicast("prices", durable=True)
        async with foreign(await node.listen("127.0.0.1:0")) as client:
            answer = await client.attach("billing", "receiver", address="prices", kept=NEVER)
            assert answer["source"].value[:3] == ["prices", 2, "never"]
            answer = await client.attach("plain", "receiver", address="prices", handle=1)
            assert answer["source"].value[:3] == ["prices", 0, None], "others are not kept"
