"""Dead letters that the management moves back, or to another address."""

from __future__ import annotations

from functools import partial

from rstreams import Connection, Message, Node, Stream
from rstreams.net.management import MovedLetters
from rstreams.node import Permission
from rstreams.node.queue import Queue
from tests.net.over_tcp import until
from tests.node.managed import managed, status_of

FAILED_AT = "x-opt-rstreams-failed-at"


async def dead_letters_of(node: Node, connection: Connection, **orders: int) -> None:
    """Have queues with a number of messages each, which all go to the queue "dead"."""
    node.queue("dead")
    for name, count in orders.items():
        queue = node.queue(name, dead_letters="dead", max_deliveries=1)
        await connection.publish(
            name, Stream.range(count).map(lambda number: Message(number, properties={"n": number}))
        )
        async with connection.stream(name, settlement="manual", window=max(count, 1)).open() as items:
            for _ in range(count):
                (await anext(items)).reject("amqp:not-allowed", "no")
        await until(partial(_has_buried, queue, count))


def _has_buried(queue: Queue, count: int) -> bool:
    return queue.statistics().dead_lettered == count


async def test_dead_letters_go_back_where_they_came_from_without_the_marks_of_their_failure() -> None:
    async with Node() as node, managed(node) as (connection, management):
        await dead_letters_of(node, connection, orders=3, bills=2)
        assert await management.move_dead_letters("dead") == MovedLetters(5)
        statistics = node.statistics().queues
        assert (statistics["dead"].ready, statistics["orders"].ready, statistics["bills"].ready) == (0, 3, 2)
        letters = await connection.messages("orders").take(3).to_list()
        assert [letter.body for letter in letters] == [0, 1, 2]
        assert [letter.properties for letter in letters] == [{"n": 0}, {"n": 1}, {"n": 2}]
        assert not [name for letter in letters for name in letter.annotations if str(name).startswith("x-opt-rstreams")]


async def test_dead_letters_that_cannot_go_back_stay() -> None:
    async with Node() as node, managed(node) as (connection, management):
        await dead_letters_of(node, connection, orders=4, bills=2)
        node.remove("bills")
        node.remove("orders")
        small = node.queue("orders", capacity=2)
        assert await management.move_dead_letters("dead") == MovedLetters(2, {"orders": 2}, {"bills": 2})
        assert (small.statistics().ready, node.statistics().queues["dead"].ready) == (2, 4)
        rest = await connection.messages("dead").take(4).to_list()
        assert [letter.annotations[FAILED_AT] for letter in rest] == ["orders", "orders", "bills", "bills"]
        assert [letter.delivery_count for letter in rest] == [0] * 4


async def test_dead_letters_go_to_another_address_and_as_many_as_asked_for() -> None:
    async with Node() as node, managed(node) as (connection, management):
        await dead_letters_of(node, connection, orders=4)
        node.queue("again")
        assert await management.move_dead_letters("dead", to="again", most=3) == MovedLetters(3)
        assert await management.move_dead_letters("dead", to="none") == MovedLetters(0, {}, {"none": 1})
        statistics = node.statistics().queues
        assert (statistics["dead"].ready, statistics["again"].ready, statistics["orders"].ready) == (1, 3, 0)


async def test_messages_that_are_no_dead_letters_stay() -> None:
    async with Node() as node, managed(node) as (connection, management):
        node.queue("dead")
        await connection.publish("dead", Stream.of(1))
        assert await management.move_dead_letters("dead") == MovedLetters(0, {}, {"": 1})


async def test_dead_letters_go_back_only_to_addresses_that_the_user_may_manage() -> None:
    async with Node() as node, managed(node) as (connection, _):
        await dead_letters_of(node, connection, orders=2)
        await node.renew_access(permissions=[Permission("*", "dead", "manage")])
        async with connection.management() as management:
            assert await management.move_dead_letters("dead") == MovedLetters(0, {}, {"orders": 2})


async def test_a_queue_sends_its_dead_letters_only_where_the_user_may_manage() -> None:
    async with Node(permissions=[Permission("*", "shop.*", "manage")]) as node:
        node.queue("bank")
        node.queue("shop.dead")
        async with managed(node) as (_, management):
            for target in ("bank", "not even there"):
                assert await status_of(management.declare_queue("shop.orders", dead_letters=target)) == 403
            await management.declare_queue("shop.orders", dead_letters="shop.dead")
        assert set(node.statistics().queues) == {"bank", "shop.dead", "shop.orders"}
