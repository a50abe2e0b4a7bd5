"""Permissions: patterns, what a node refuses by them, and what becomes of links when they change."""

from __future__ import annotations

from typing import Any

import pytest

import rstreams
from rstreams import Connection, Message, Node, Stream
from rstreams.errors import Condition, ConfigError, ConnectionClosed, LinkDetached
from rstreams.message import encode_item
from rstreams.net.transport.accounts import Client
from rstreams.node import STATISTICS, Permission
from rstreams.node.access import Access
from tests.net.foreign import foreign
from tests.net.over_tcp import until
from tests.net.wire import condition_of, flow_frame, transfer_frame

ALICE, BOB, STRANGER = Client("alice"), Client("bob"), Client()
USERS = {"alice": "a", "bob": "b"}


# patterns


@pytest.mark.parametrize(
    ("pattern", "name", "matches"),
    [
        ("orders", "orders", True),
        ("orders", "orders.eu", False),
        ("orders.*", "orders.eu", True),
        ("orders.*", "orders.", True),
        ("orders.*", "orders", False),
        ("*.eu", "orders.eu", True),
        ("*.eu", "orders.us", False),
        ("a*b*c", "abc", True),
        ("a*b*c", "axxbyyc", True),
        ("a*b*c", "acb", False),
        ("ab*ba", "aba", False),
        ("a**", "a", True),
        ("*", "anything\nat all", True),
        ("*", "", True),
        ("*", "$statistics", False),
        ("*statistics", "$statistics", False),
        ("$statistics", "$statistics", True),
        ("$*", "$statistics", True),
        ("order?", "orders", False),
        ("[a-z]*", "orders", False),
    ],
)
def test_patterns(pattern: str, name: str, matches: bool) -> None:  # noqa: FBT001 - a column of the table
    assert Permission("alice", pattern, "publish").allows("alice", "publish", name) is matches


def test_a_name_that_a_stranger_chose_does_not_take_for_ever() -> None:
    pattern = "*a" * 40
    permission = Permission("alice", pattern, "publish")
    # A pattern that is tried in all ways would not end before the time limit of the test.
    assert not permission.allows("alice", "publish", "a" * 4000 + "b")


def test_users_and_actions() -> None:
    access = Access(
        [Permission(["alice", "shop-*"], "orders", ["publish", "subscribe"]), Permission("*", "news", "subscribe")]
    )
    assert access.may(ALICE, "publish", "orders")
    assert not access.may(ALICE, "manage", "orders")
    assert access.may(Client("shop-1"), "publish", "orders")
    assert not access.may(BOB, "publish", "orders")
    for client in (ALICE, BOB, STRANGER):
        assert access.may(client, "subscribe", "news")
        assert not access.manages(client)
    assert not Access([Permission("shop-*", "orders", "publish")]).may(STRANGER, "publish", "orders")
    assert not Access([]).may(ALICE, "publish", "orders")


def test_without_permissions_all_may_publish_and_subscribe_and_not_all_may_manage() -> None:
    access = Access(None)
    for client in (ALICE, STRANGER, Client(is_local=True)):
        assert access.may(client, "publish", "orders")
    assert access.manages(ALICE)
    assert access.manages(Client(is_local=True))
    assert not access.manages(STRANGER)


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        (("", "a", "publish"), "users=''"),
        ((["alice", 5], "a", "publish"), "users="),
        (("alice", [], "publish"), "addresses=[]"),
        (("alice", "a", "read"), "allow='read'): allow must be one of publish, subscribe, manage"),
        (("alice", "a", ["publish", "read"]), "allow="),
        (("alice", 5, "publish"), "addresses=5"),
    ],
)
def test_a_permission_that_cannot_be(fields: tuple[Any, ...], told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Permission(*fields)
    assert told in str(caught.value)


def test_permissions_that_cannot_be() -> None:
    for permissions in ("alice", [("alice", "orders", "publish")], 5):
        with pytest.raises(ConfigError, match=r"it must be None or a list of rstreams\.node\.Permission"):
            Node(permissions=permissions)  # type: ignore[arg-type]


# at a node


async def refused(connection: Connection, what: str, address: str) -> LinkDetached:
    with pytest.raises(LinkDetached) as caught:
        if what == "publish":
            await connection.publish(address, Stream.of(1))
        else:
            await connection.stream(address).take(1).to_list()
    assert caught.value.condition == Condition.UNAUTHORIZED_ACCESS
    return caught.value


def url_of(node_url: str, user: str) -> str:
    return node_url.replace("//", f"//{user}:{USERS[user]}@")


async def test_what_is_not_permitted_is_refused_with_the_pattern_that_would_be_needed() -> None:
    permissions = [Permission("alice", "orders", ["publish", "subscribe"]), Permission("bob", "orders", "subscribe")]
    async with Node(users=USERS, permissions=permissions) as node:
        node.queue("orders")
        url = (await node.listen("127.0.0.1:0")).url
        async with rstreams.connect(url_of(url, "alice")) as alice, rstreams.connect(url_of(url, "bob")) as bob:
            await alice.publish("orders", Stream.of(1, 2))
            assert await bob.stream("orders").take(1).to_list() == [1]
            error = await refused(bob, "publish", "orders")
            assert (
                "user 'bob' may not publish to 'orders': a permission to publish whose addresses have 'orders' or "
                in (str(error))
            )
            there, not_there = await refused(bob, "subscribe", "$statistics"), await refused(bob, "subscribe", "none")
            assert str(there).replace("$statistics", "none") == str(not_there), "a stranger learns no names"
        assert node.statistics().queues["orders"].enqueued == 2


async def test_a_hostile_client_gets_no_credit_and_a_detach_with_the_condition() -> None:
    async with Node(permissions=[Permission("*", "news", "subscribe")]) as node:
        queue = node.queue("work")
        async with foreign(await node.listen("127.0.0.1:0")) as client:
            answer = await client.attach("s", "sender", address="work")
            assert answer["target"] is None, "2.6.3: a refusal"
            detach = await client.frame()
            assert detach.name == "detach", "no flow came before"
            assert condition_of(detach["error"])[0] == "amqp:unauthorized-access"
            await client.send(*(transfer_frame(n, b"item", settled=True) for n in range(100)))
            await client.send(flow_frame(credit=100, handle=0))
            answer = await client.attach("r", "receiver", address="news", handle=1)
            assert condition_of((await client.due("detach"))["error"])[0] == "amqp:not-found"
        assert queue.statistics().enqueued == 0


async def test_a_message_over_the_relay_needs_the_permission_too() -> None:
    async with Node(permissions=[Permission("*", "open", "publish")]) as node:
        opened, closed = node.queue("open"), node.queue("closed")
        async with foreign(await node.listen("127.0.0.1:0")) as client:
            await client.attach("s", "sender", address=None)
            await client.credit()
            for number, name in enumerate(("open", "closed", "none")):
                payload = encode_item(Message(b"x", address=name))
                await client.send(transfer_frame(number, b"", payload=payload))
            states: dict[int, Any] = {}
            while len(states) < 3:
                came = await client.due("disposition")
                for number in range(came["first"], (came["last"] or came["first"]) + 1):
                    states[number] = came["state"]
            assert states[0].descriptor == 0x24
            for number in (1, 2):
                assert condition_of(states[number].value[0])[0] == "amqp:unauthorized-access"
        assert (opened.statistics().enqueued, closed.statistics().enqueued) == (1, 0)


async def test_requests_get_replies_and_a_reply_goes_only_where_the_requester_may_send() -> None:
    async with Node(permissions=[Permission("*", "double", "publish")]) as node:
        node.respond("double", lambda number: 2 * number)
        queue = node.queue("others")
        async with rstreams.connect((await node.listen("127.0.0.1:0")).url) as connection:
            async with connection.requester("double") as requester:
                assert await requester.request(4) == 8
            await connection.publish("double", Stream.of(Message(4, reply_to="others")))
        assert queue.statistics().enqueued == 0


async def test_statistics_need_a_permission_of_their_own() -> None:
    async with Node(permissions=[Permission("*", "*", "subscribe")]) as node:
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url) as connection:
            await refused(connection, "subscribe", STATISTICS)
            await node.renew_access(permissions=[Permission("*", STATISTICS, "subscribe")])
            (snapshot,) = await connection.stream(STATISTICS).take(1).to_list()
            assert snapshot["connections"] == 1


# changes


async def test_links_that_are_not_permitted_any_more_are_ended_and_others_go_on() -> None:
    before = [Permission("*", ["orders", "news"], ["publish", "subscribe"])]
    after = [Permission("*", "news", ["publish", "subscribe"])]
    async with Node(users=USERS, permissions=before) as node:
        queue = node.queue("orders")
        node.queue("news")
        url = (await node.listen("127.0.0.1:0")).url
        async with (
            rstreams.connect(url_of(url, "alice")) as connection,
            connection.stream("orders").open() as orders,
            connection.stream("news").open() as news,
        ):
            await until(lambda: queue.statistics().consumers)
            with pytest.raises(LinkDetached, match="may not publish to 'orders'"):
                async with connection.sender("orders") as sender:
                    await sender.send(1)
                    assert await anext(orders) == 1
                    await node.renew_access(users=USERS, permissions=after)
                    with pytest.raises(LinkDetached, match="may not subscribe to 'orders'"):
                        await anext(orders)
                    await sender.send(2)
            await connection.publish("news", Stream.of("still here"))
            assert await anext(news) == "still here"


async def test_the_connections_of_users_that_are_gone_are_closed() -> None:
    async with Node(users=USERS) as node:
        node.queue("orders")
        url = (await node.listen("127.0.0.1:0")).url
        async with rstreams.connect(url_of(url, "alice")) as alice, rstreams.connect(url_of(url, "bob")) as bob:
            async with bob.stream("orders").open() as orders:
                await until(lambda: node.statistics().queues["orders"].consumers)
                await node.renew_access(users={"alice": "another password"})
                with pytest.raises(ConnectionClosed) as caught:
                    await anext(orders)
                assert caught.value.condition == Condition.UNAUTHORIZED_ACCESS
            await alice.publish("orders", Stream.of(1))


async def test_a_link_that_comes_after_its_user_has_gone_is_refused() -> None:
    async with Node(users=USERS) as node:
        node.queue("orders")
        url = (await node.listen("127.0.0.1:0")).url
        async with rstreams.connect(url_of(url, "bob")) as bob:
            node._options.admission.renew({"alice": "a"}, None)  # its connection is not closed yet
            with pytest.raises(LinkDetached, match="may not publish to 'orders': the node does not let it in any more"):
                await bob.publish("orders", Stream.of(1))


async def test_a_change_that_cannot_be_changes_nothing() -> None:
    async with Node(users=USERS) as node:
        node.queue("orders")
        url = (await node.listen("127.0.0.1:0")).url
        changes: list[dict[str, Any]] = [{"users": {"": "x"}}, {"permissions": 5}, {"limits": {"alice": 5}}]
        for wrong in changes:
            with pytest.raises(ConfigError):
                await node.renew_access(**wrong)
        async with rstreams.connect(url_of(url, "alice")) as alice:
            await alice.publish("orders", Stream.of(1))


# addresses that are removed


async def test_the_links_of_an_address_that_is_removed_end() -> None:
    async with Node() as node:
        queue = node.queue("orders")
        async with rstreams.connect((await node.listen("127.0.0.1:0")).url) as connection:
            with pytest.raises(LinkDetached, match="the address 'orders' has been removed"):
                async with connection.stream("orders").open() as orders, connection.sender("orders") as sender:
                    await until(lambda: queue.statistics().consumers and queue.statistics().producers)
                    node.remove("orders")
                    with pytest.raises(LinkDetached, match="the address 'orders' has been removed"):
                        await anext(orders)
                    await sender.send(1)
            with pytest.raises(LinkDetached, match="no address 'orders' here"):
                await connection.publish("orders", Stream.of(1))
            node.queue("orders")
            await connection.publish("orders", Stream.of(1))


async def test_what_cannot_be_removed() -> None:
    async with Node() as node:
        node.queue("dead")
        node.queue("orders", dead_letters="dead")
        for name in ("none", STATISTICS, "$management", "/management", "", 5):
            with pytest.raises(ConfigError, match="the node has no such address, or it is one of the node itself"):
                node.remove(name)  # type: ignore[arg-type]
        with pytest.raises(ConfigError, match="it takes the dead letters of 'orders'"):
            node.remove("dead")
        node.remove("orders")
        node.remove("dead")
        assert node.statistics().queues == {}
