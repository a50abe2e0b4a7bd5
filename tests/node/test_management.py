"""Management over AMQP: this library's client, RabbitMQ's requests, and python-qpid-proton's own client."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from proton import Message as ProtonMessage
from proton.utils import BlockingConnection, SyncRequestResponse

import rstreams
import rstreams.blocking
from rstreams import Connection, Message, Node, Stream
from rstreams.errors import Condition, ConfigError, LinkDetached
from rstreams.message import decode_message
from rstreams.net.management import Management, ManagementRefused, MovedLetters
from rstreams.net.rabbitmq_management import rabbitmq_management
from rstreams.net.transport.accounts import Client
from rstreams.node import Permission
from rstreams.node.config import read_config
from rstreams.node.management import operations
from rstreams.node.management.address import ManagementAddress
from rstreams.push import Unicast
from tests.net.foreign import foreign
from tests.net.over_tcp import until
from tests.net.wire import condition_of
from tests.node.managed import managed, status_of

# addresses


async def test_addresses_are_listed_declared_and_deleted() -> None:
    async with Node() as node:
        node.queue("orders", capacity=7)
        node.multicast("news")
        node.serve("numbers", Stream.range(3))
        async with managed(node) as (connection, management):
            assert {each.name: each.kind for each in await management.addresses()} == {
                "orders": "queue",
                "news": "multicast",
                "numbers": "served stream",
            }
            assert [each.name for each in await management.queues()] == ["orders"]
            made = await management.declare_queue("later", capacity=5, dead_letters="orders", max_deliveries=2)
            assert made.options == {"capacity": 5, "dead_letters": "orders", "max_deliveries": 2}
            assert made.statistics["capacity"] == 5
            assert (await management.declare_multicast("prices", overflow="drop_oldest")).kind == "multicast"
            await connection.publish("later", Stream.of(1, 2, 3))
            assert (await management.queue("later")).statistics["ready"] == 3
            assert await management.delete("later") == 3
            assert await management.delete("prices", "multicasts") == 0
            assert {each.name for each in await management.addresses()} == {"orders", "news", "numbers"}


async def test_declaring_twice_is_declaring_once_and_another_form_is_a_conflict() -> None:
    async with Node() as node:
        node.queue("orders", capacity=7)
        async with managed(node) as (_, management):
            await management.declare_queue("orders")
            await management.declare_queue("orders", capacity=7)
            await management.declare_queue("later", max_deliveries=2)
            await management.declare_queue("later", max_deliveries=2)
            for call in (
                management.declare_queue("orders", capacity=8),
                management.declare_queue("orders", max_deliveries=2),
                management.declare_queue("later", max_deliveries=3),
                management.declare_multicast("orders"),
                management.declare_queue("$management"),
            ):
                assert await status_of(call) in {403, 409}


REFUSED: list[tuple[Callable[[Management], Awaitable[object]], int, str]] = [
    (lambda m: m.declare_queue("q", capacity=0), 400, "capacity must be 1 or more messages"),
    (lambda m: m.declare_queue("q", capacity="many"), 400, "capacity = 'many': it must be a whole number"),
    (lambda m: m.declare_queue("q", size=5), 400, "a queue has no option 'size'; there are capacity, dead_letters, "),
    (lambda m: m.declare_multicast("m", size=5), 400, "a multicast has no option 'size'; there are overflow, "),
    (lambda m: m.declare("logs", "l", size=5), 400, "a log has no option 'size'; there are partitions, key, "),
    (lambda m: m.declare("latest", "l", size=5), 400, "a latest has no option 'size'; there are key, "),
    (lambda m: m.declare_queue("q", **{"x-max-priority": 9}), 400, "a queue has no option 'x-max-priority'; there are"),
    (
        lambda m: m.declare_queue("q", **{"x-message-ttl": 9}),
        400,
        "x-queue-type (classic or quorum), x-max-length, x-d",
    ),
    (lambda m: m.declare_queue("q", **{"x-queue-type": "stream"}), 400, "a queue has no option 'x-queue-type'; there"),
    (
        lambda m: m.declare_queue("q", **{"x-delivery-limit": "many"}),
        400,
        "max_deliveries = 'many': it must be a whole",
    ),
    (lambda m: m.declare_queue("q", **{"x-delivery-limit": True}), 400, "max_deliveries = True: it must be a whole nu"),
    (lambda m: m.declare_queue("q", durable=True), 400, "durable=True"),
    (lambda m: m.declare_multicast("m", durable=True), 400, "durable=True"),
    (lambda m: m.declare_multicast("m", **{"x-queue-type": "classic"}), 400, "a multicast has no option 'x-queue-ty"),
    (lambda m: m.declare("logs", "l", **{"x-max-length": 5}), 400, "a log has no option 'x-max-length'; there are pa"),
    (lambda m: m.declare_queue("q", dead_letters="none"), 400, "it must be a queue made before this one"),
    (lambda m: m.declare("served", "s", publisher="os:path"), 405, "it cannot be declared by a client"),
    (lambda m: m.declare("responders", "r", handler="os:system"), 405, "it cannot be declared by a client"),
    (lambda m: m.declare("streams", "s"), 404, "there is nothing at PUT /streams/s; the kinds of address are queues,"),
    (lambda m: m.queue("none"), 404, "the node has no queue 'none'"),
    (lambda m: m.queue("news"), 404, "the node has no queue 'news'"),
    (lambda m: m.purge("none"), 404, "the node has no queue 'none'"),
    (lambda m: m.delete("none"), 404, "the node has no queue 'none'"),
    (lambda m: m.delete("dead"), 409, "it takes the dead letters of 'orders'"),
    (lambda m: m.delete("$statistics", "served"), 404, "the node has no served stream '$statistics'"),
    (lambda m: m.end_subscription(99), 404, "there is no subscription '99'"),
    (lambda m: m.move_dead_letters("dead", to="dead"), 400, "to='dead': it must be the name of another address"),
]


async def test_what_cannot_be_says_why_and_the_next_request_goes_on() -> None:
    async with Node() as node:
        node.queue("dead")
        node.queue("orders", dead_letters="dead")
        node.multicast("news")
        async with managed(node) as (_, management):
            for call, status, told in REFUSED:
                with pytest.raises(ManagementRefused) as caught:
                    await call(management)
                assert caught.value.status == status
                assert told in str(caught.value)
                assert "the node answered" in str(caught.value)
                assert len(await management.addresses()) == 3


async def test_arguments_that_cannot_be_are_not_sent() -> None:
    async with Node() as node, managed(node) as (_, management):
        for call in (
            management.queue(""),
            management.end_subscription(0),
            management.move_dead_letters("d", most=0),
            management.move_dead_letters("d", to=""),
        ):
            with pytest.raises(ConfigError):
                await call


async def test_names_of_any_kind() -> None:
    async with Node() as node, managed(node) as (_, management):
        for name in ("a/b", "ünï?&=#%", "/management2", "with space", ".."):
            await management.declare_queue(name)
            assert (await management.queue(name)).name == name
            assert await management.purge(name) == 0
            assert await management.subscriptions(name) == []
            await management.delete(name)


# messages


async def test_a_purge_deletes_what_waits_and_leaves_what_a_consumer_has() -> None:
    async with Node() as node:
        queue = node.queue("orders", capacity=2000)
        async with managed(node) as (connection, management):
            await connection.publish("orders", Stream.range(1500))
            async with connection.stream("orders", window=2, settlement="manual").open() as orders:
                first = await anext(orders)
                await until(lambda: queue.statistics().unsettled)
                taken = queue.statistics().unsettled
                assert await management.purge("orders") == 1500 - taken
                first.accept()
            await until(lambda: not queue.statistics().consumers)
            assert queue.statistics().ready == taken - 1
            assert await management.purge("orders") == taken - 1
            assert await management.purge("orders") == 0


# subscriptions


async def test_subscriptions_are_listed_and_ended() -> None:
    async with Node(users={"alice": "sesame"}) as node:
        queue = node.queue("orders")
        url = (await node.listen("127.0.0.1:0")).url.replace("//", "//alice:sesame@")
        source = Unicast[int]()
        async with managed(node, url) as (connection, management), trio.open_nursery() as nursery:
            await connection.publish("orders", Stream.of("kept"))
            async with connection.stream("orders", settlement="manual").open() as items:
                item = await anext(items)
                nursery.start_soon(_published, connection, source)
                await until(lambda: queue.statistics().producers)
                found = {each.does: each for each in await management.subscriptions("orders")}
                assert set(found) == {"subscribe", "publish"}
                mine = found["subscribe"]
                assert (mine.address, mine.user, mine.unsettled) == ("orders", "alice", 1)
                assert mine.peer.startswith("127.0.0.1:")
                assert mine.number in {each.number for each in await management.subscriptions()}
                await management.end_subscription(mine.number)
                with pytest.raises(LinkDetached, match="this link was ended by the management") as caught:
                    await anext(items)
                assert caught.value.condition == Condition.LINK_DETACH_FORCED
                assert await status_of(management.end_subscription(mine.number)) == 404
                assert queue.statistics().ready == 1, "it is there again, although the consumer has settled nothing"
                assert item.item == "kept"
            assert await status_of(management.end_subscription(mine.number)) == 404
            await management.end_subscription(found["publish"].number)
            await until(lambda: not queue.statistics().producers)
            assert await management.subscriptions("orders") == []


@pytest.mark.parametrize("reads", [True, False])
async def test_a_subscription_has_ended_when_its_messages_are_back(
    monkeypatch: pytest.MonkeyPatch, *, reads: bool
) -> None:
    monkeypatch.setattr(operations, "ANSWER_WITHIN_S", 30.0 if reads else 0.05)
    async with Node() as node:
        queue = node.queue("orders")
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url) as connection, connection.management() as management:
            await connection.publish("orders", Stream.of(bytes(2**19)).repeat(20))
            async with foreign(listener) as client, trio.open_nursery() as nursery:
                await client.attach("r", "receiver", address="orders")
                await client.grant(20)
                await until(lambda: queue.statistics().unsettled == 20)  # more than the network takes unread
                [subscription] = await management.subscriptions("orders")
                told: list[int] = []

                async def end() -> None:
                    try:
                        await management.end_subscription(subscription.number)
                    except ManagementRefused as error:
                        told.append(error.status)
                    else:
                        told.append(204)

                nursery.start_soon(end)
                if reads:
                    await trio.testing.wait_all_tasks_blocked()
                    assert (told, queue.statistics().ready) == ([], 0)
                    while (await client.frame()).name != "detach":
                        pass
                await until(lambda: told)
                assert (told, queue.statistics().ready) == (([204], 20) if reads else ([500], 0))


async def _published(connection: Connection, source: Unicast[int]) -> None:
    with pytest.raises(LinkDetached, match="this link was ended by the management"):
        await connection.publish("orders", Stream(source))


# permissions


async def test_a_user_sees_and_changes_what_it_may_manage() -> None:
    permissions = [
        Permission("alice", "shop.*", ["publish", "subscribe", "manage"]),
        Permission("bob", "*", ["publish", "subscribe"]),
    ]
    async with Node(users={"alice": "a", "bob": "b"}, permissions=permissions) as node:
        node.queue("shop.orders")
        node.queue("bank")
        node.log("history", retention_items=10)
        url = (await node.listen("127.0.0.1:0")).url
        async with rstreams.connect(url.replace("//", "//bob:b@")) as bob:
            with pytest.raises(LinkDetached, match="a permission to manage an address is needed") as caught:
                async with bob.management() as management:
                    await management.queues()
            assert caught.value.condition == Condition.UNAUTHORIZED_ACCESS
            alice = url.replace("//", "//alice:a@")
            async with bob.stream("bank").open(), managed(node, alice) as (_, management):
                assert [each.name for each in await management.addresses()] == ["shop.orders"]
                assert await management.subscriptions("bank") == []
                await management.declare_queue("shop.later")
                for call in (
                    management.declare_queue("elsewhere"),
                    management.queue("bank"),
                    management.purge("bank"),
                    management.delete("bank"),
                    management.move_dead_letters("bank"),
                    management.forget_group("history", "billing"),
                    management.queue("not even there"),
                ):
                    assert await status_of(call) == 403
                assert await management.move_dead_letters("shop.orders", to="bank") == MovedLetters(0)
        assert set(node.statistics().queues) == {"shop.orders", "shop.later", "bank"}


async def test_an_address_that_the_program_has_made_again_has_no_options_of_a_client() -> None:
    async with Node() as node, managed(node) as (_, management):
        await management.declare_queue("orders", capacity=5)
        node.remove("orders")
        node.queue("orders", capacity=9)
        assert (await management.queue("orders")).options == {}
        await management.declare_queue("orders", capacity=9)


FILE = """
[queues.dead]
[queues.orders]
capacity = 7
capacity_bytes = 1000
dead_letters = "dead"
[multicasts.news]
overflow = "drop_oldest"
[logs.events]
partitions = 2
retention_items = 5
[latest.rooms]
key = "room"
[served.numbers]
publisher = "numbers_of_a_file:numbers"
keep_s = 2.5
[responders.double]
handler = "numbers_of_a_file:double"
concurrency = 3
"""


async def test_the_options_of_addresses_of_a_config_file_are_shown_and_compared(tmp_path: Path) -> None:
    (tmp_path / "numbers_of_a_file.py").write_text(
        "from rstreams import Stream\nnumbers = Stream.range(3)\ndef double(number): return 2 * number\n"
    )
    (tmp_path / "node.toml").write_text(FILE)
    async with read_config(tmp_path / "node.toml").make(store=tmp_path / "s") as node, managed(node) as (_, management):
        assert {each.name: each.options for each in await management.addresses() if each.options} == {
            "orders": {"capacity": 7, "capacity_bytes": 1000, "dead_letters": "dead"},
            "news": {"overflow": "drop_oldest"},
            "events": {"partitions": 2, "retention_items": 5},
            "rooms": {"key": "room"},
            "numbers": {"keep_s": 2.5},
            "double": {"concurrency": 3},
        }
        assert (await management.queue("orders")).options["dead_letters"] == "dead"
        await management.declare_queue("orders", capacity=7, dead_letters="dead", fsync="always")
        await management.declare_queue("dead", capacity=1024)
        with pytest.raises(ManagementRefused, match="is there with fsync='always'"):
            await management.declare_queue("orders", fsync="never")


async def test_the_requests_of_a_user_that_is_gone_are_not_carried_out() -> None:
    async with Node(users={"alice": "a", "bob": "b"}) as node:
        node.queue("orders")
        management = node._addresses["$management"]
        assert isinstance(management, ManagementAddress)
        alice = Client("alice")
        assert (await management.carry_out(alice, "GET", "/queues/orders", None))[0] == 200
        await node.renew_access(users={"bob": "b"})
        # Such requests waited for others whose answers the client did not take.
        assert (await management.carry_out(alice, "DELETE", "/queues/orders", None))[0] == 403
        assert set(node.statistics().queues) == {"orders"}


# clients of other makes


async def test_rabbitmqs_client_manages_the_queues_of_a_node() -> None:
    async with Node() as node, managed(node) as (connection, _), rabbitmq_management(connection) as management:
        made = await management.declare_queue("work", arguments={"x-max-length": 7, "x-delivery-limit": 2})
        assert (made["name"], made["message_count"], made["consumer_count"]) == ("work", 0, 0)
        assert made["arguments"] == {"capacity": 7, "max_deliveries": 3}
        await management.declare_queue("work")
        await connection.publish("work", Stream.of(1, 2))
        assert (await management.queue("work"))["message_count"] == 2
        assert await management.purge_queue("work") == 2
        assert await management.delete_queue("work") == 0
        assert await status_of(management.queue("work")) == 404
        assert await status_of(management.declare_queue("w", type="stream")) == 400
        assert await status_of(management.declare_queue("w", auto_delete=True)) == 400
        assert await status_of(management.declare_queue("w", arguments={"x-overflow": "reject"})) == 400
        with pytest.raises(ManagementRefused, match="the node answered 404"):
            await management.bind("work", "exchange")


async def test_protons_own_client_asks_by_a_link_for_replies() -> None:
    def ask(url: str) -> list[Any]:
        connection = BlockingConnection(url, timeout=30, allowed_mechs="ANONYMOUS")
        try:
            client = SyncRequestResponse(connection, "$management")
            found = []
            for method, path, body in (
                ("PUT", "/queues/work", {"arguments": {"capacity": 9}}),
                ("GET", "/queues", None),
                ("GET", "/queues/none", None),
                ("BREW", "/coffee", None),
            ):
                reply = client.call(ProtonMessage(subject=method, address=path, body=body))
                found.append((reply.subject, reply.body))
            return found
        finally:
            connection.close()

    async with Node() as node:
        url = (await node.listen("127.0.0.1:0")).url
        made, listed, missing, unknown = await trio.to_thread.run_sync(ask, url)
        assert (made[0], made[1]["statistics"]["capacity"]) == ("201", 9)
        assert [each["name"] for each in listed[1]] == ["work"]
        assert missing == ("404", "the node has no queue 'none'")
        assert unknown == ("404", "there is nothing at BREW /coffee")


async def test_requests_that_are_no_requests_are_answered() -> None:
    async with (
        Node() as node,
        managed(node) as (connection, _),
        connection.requester("$management", decode=decode_message) as requester,
    ):
        reply = await requester.request(Message("nonsense"))
        assert (reply.subject, reply.body) == ("400", "a request needs a method (subject) and a path (to)")
        bodies: list[Any] = ["text", 5, {"arguments": "x"}, {1: 2}, {"arguments": {"capacity": [1]}}]
        for body in bodies:
            reply = await requester.request(Message(body, subject="PUT", address="/queues/q"))
            assert reply.subject in {"200", "201", "400"}
        for path in (
            "",
            "/",
            "queues",
            "//",
            "/queues/",
            "/queues/%ff",
            "/queues/q/messages/x",
            "http://[",
            "x" * 5000,
        ):
            reply = await requester.request(Message(None, subject="DELETE", address=path))
            assert reply.subject in {"400", "404"}, path


async def test_a_stranger_from_another_machine_may_not_manage(monkeypatch: pytest.MonkeyPatch) -> None:
    there = ("192.0.2.1:4000", "192.0.2.1", False)
    monkeypatch.setattr("rstreams.net.transport.listener.who_is", lambda _stream: there)
    async with Node() as node:
        node.queue("work")
        async with foreign(await node.listen("127.0.0.1:0")) as client:
            await client.attach("w", "sender", address="work")
            assert await client.credit()
            await client.attach("m", "sender", address="$management", handle=1)
            assert condition_of((await client.due("detach"))["error"])[0] == "amqp:unauthorized-access"


# threads and asyncio


async def test_management_for_threads() -> None:
    def work(url: str) -> None:
        with rstreams.blocking.connect(url) as connection, connection.management() as management:
            assert management.declare_queue("work", capacity=5).options == {"capacity": 5}
            assert management.declare("multicasts", "news").kind == "multicast"
            assert management.declare_multicast("news").kind == "multicast"
            connection.publish("work", Stream.of(1, 2))
            assert management.queue("work").statistics["ready"] == 2
            assert [each.name for each in management.queues()] == ["work"]
            assert len(management.addresses()) == 2
            assert management.purge("work") == 2
            assert management.move_dead_letters("work") == MovedLetters(0)
            with pytest.raises(ManagementRefused):
                management.forget_group("work", "billing")
            (mine, *_) = management.subscriptions("$management")
            assert mine.does == "publish"
            with pytest.raises(ManagementRefused):
                management.end_subscription(10_000)
            assert management.delete("work") == 0

    async with Node() as node:
        url = (await node.listen("127.0.0.1:0")).url
        await trio.to_thread.run_sync(work, url)


async def test_durable_queues_and_logs_are_managed_too(tmp_path: Path) -> None:
    async with Node(store=tmp_path) as node, managed(node) as (connection, management):
        await management.declare_queue("dead", durable=True)
        await management.declare_queue("orders", durable=True, capacity="none", dead_letters="dead")
        await connection.publish("orders", Stream.range(500))
        async with connection.stream("orders", settlement="manual", window=1).open() as orders:
            (await anext(orders)).reject()
        await until(lambda: node.statistics().queues["dead"].ready == 1)
        assert await management.move_dead_letters("dead") == MovedLetters(1)
        assert await management.purge("orders") == 500
        assert (await management.declare("logs", "events", partitions=2)).kind == "log"
        assert (await management.declare("latest", "rooms")).kind == "log"
        await management.delete("events", "logs")
        await management.delete("rooms", "latest")
        assert {each.name for each in await management.addresses()} == {"dead", "orders"}


async def test_a_group_is_forgotten_and_begins_anew(tmp_path: Path) -> None:
    async with Node(store=tmp_path) as node, managed(node) as (connection, management):
        log = node.log("orders 2")
        await connection.publish("orders 2", Stream.range(3))
        billing = connection.stream("orders 2", group="billing", to_end=True)
        async with billing.open() as orders:
            assert await anext(orders) == 0
            assert await anext(orders) == 1
            assert await anext(orders) == 2
            assert await status_of(management.forget_group("orders 2", "billing")) == 409
        assert await billing.to_list() == []
        await management.forget_group("orders 2", "billing")
        assert not log.statistics().groups
        assert await billing.to_list() == [0, 1, 2]
        for log_name, group in (("orders 2", "nobody"), ("nothing", "billing")):
            assert await status_of(management.forget_group(log_name, group)) == 404
    async with Node(store=tmp_path) as node, managed(node) as (_, management):
        log = node.log("orders 2")
        await management.forget_group("orders 2", "billing")
    async with Node(store=tmp_path) as node:
        assert not node.log("orders 2").statistics().groups


@pytest.mark.parametrize("options", [{}, {"durable": True}, {"durable": True, "capacity_in_memory": 4}])
async def test_what_a_purge_deletes_counts_as_purged_alone(options: dict[str, Any], tmp_path: Path) -> None:
    async with Node(store=tmp_path / "store") as node:
        node.queue("orders", **options)
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url) as connection, connection.management() as management:
            await connection.publish("orders", Stream.range(20))
            assert await connection.stream("orders").take(3).to_list() == [0, 1, 2]
            await until(lambda: node.statistics().queues["orders"].ready == 17)
            assert await management.purge("orders") == 17
        now = node.statistics().queues["orders"]
        assert (now.purged, now.accepted, now.enqueued, now.ready) == (17, 3, 20, 0)
        assert now.delivered == now.accepted + now.released
