"""Durable queues of a node, over TCP: safe, drained, in use, refused."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path
from typing import Any

import pytest
import trio

import rstreams
from rstreams import Message, Node, Stream
from rstreams.errors import ConfigError, DeliveryFailed, StoreError
from tests.net.over_tcp import connected, until


@pytest.mark.slow
async def test_what_is_in_a_durable_queue_outlives_the_node(tmp_path: Path) -> None:
    async with connected(store=tmp_path / "s") as (node, connection):
        node.queue("orders", durable=True, capacity=None)
        await connection.publish("orders", Stream.range(3000))
        assert await connection.stream("orders").take(10).to_list() == list(range(10))
        store = node._store.store
        assert store is not None
        await until(lambda: store.partition("queue/orders").count == 2990)
        shutil.copytree(tmp_path / "s", tmp_path / "killed")
    for path in (tmp_path / "killed", tmp_path / "s"):
        async with connected(store=path) as (node, connection):
            queue = node.queue("orders", durable=True, capacity=None)
            assert (queue.statistics().ready, queue.statistics().durable) == (2990, True)
            got = await connection.stream("orders").take(2990).to_list()
            assert [int(each) for each in got] == list(range(10, 3000))


@pytest.mark.parametrize("kind", ["queue", "log"])
async def test_an_address_that_was_removed_leaves_nothing_in_the_store(tmp_path: Path, kind: str) -> None:
    begin: dict[str, Any] = {"start": "first"} if kind == "log" else {"settlement": "manual"}
    sender: dict[str, Any] = {"settlement": "effectively_once", "producer_id": "p"}

    def make(node: Node) -> None:
        if kind == "log":
            node.log("orders")
        else:
            node.queue("orders", durable=True)

    async def first(connection: rstreams.Connection) -> object:
        async with connection.messages("orders", window=1, **begin).open() as items:
            async for item in items:  # a queue gets it back
                return item.item.body if isinstance(item, rstreams.Delivery) else item.body
        return None

    async with connected(store=tmp_path / "s") as (node, connection):
        make(node)
        await connection.publish("orders", Stream.range(5), **sender)
        assert await first(connection) == 0
        node.remove("orders")
        make(node)
        await connection.publish("orders", Stream.of("new"), **sender)
        assert await first(connection) == "new"
    async with connected(store=tmp_path / "s") as (node, connection):
        make(node)
        assert await first(connection) == "new"


async def test_failed_attempts_outlive_the_node(tmp_path: Path) -> None:
    async with connected(store=tmp_path / "s") as (node, connection):
        queue = node.queue("orders", durable=True)
        await connection.publish("orders", Stream.of("a", "b"))
        async with connection.stream("orders", settlement="manual").take(1).open() as deliveries:
            async for delivery in deliveries:
                delivery.modify()
        await until(lambda: queue.statistics().modified == 1)
    async with connected(store=tmp_path / "s") as (node, connection):
        node.queue("orders", durable=True)
        messages = await connection.messages("orders").take(2).to_list()
        assert [(each.body, each.delivery_count) for each in messages] == [("a", 1), ("b", 0)]


async def test_an_effectively_once_publisher_goes_on_after_the_node_was_killed(tmp_path: Path) -> None:
    async with connected(store=tmp_path / "s") as (node, connection):
        node.queue("orders", durable=True)
        sender = {"settlement": "effectively_once", "producer_id": "p"}
        await connection.publish("orders", Stream.of("a", "b"), **sender)  # type: ignore[arg-type]
        shutil.copytree(tmp_path / "s", tmp_path / "killed")
    async with connected(store=tmp_path / "killed") as (node, connection):
        queue = node.queue("orders", durable=True)
        await connection.publish("orders", Stream.of("a", "b", "c"), **sender)  # type: ignore[arg-type]
        assert queue.statistics().duplicates == 2
        assert await connection.stream("orders").take(3).to_list() == ["a", "b", "c"]


@pytest.mark.slow
async def test_a_drain_gets_the_messages_that_are_on_disk(tmp_path: Path) -> None:
    async with connected(store=tmp_path / "s") as (node, connection):
        queue = node.queue("orders", durable=True, capacity=None, capacity_in_memory=10)
        await connection.publish("orders", Stream.range(500))
        assert queue.statistics().on_disk >= 480
        got: list[Any] = []
        drained = trio.Event()

        class Draining:
            def on_subscribe(self, subscription: Any) -> None:  # noqa: ANN401
                subscription.request(1000)
                subscription.drain(drained.set)

            def on_next(self, item: Any) -> None:  # noqa: ANN401
                got.append(item)

            def on_error(self, error: BaseException) -> None:
                raise error

            def on_complete(self) -> None: ...

        async with rstreams.Scope():
            connection.stream("orders", window=1000).subscribe(Draining())
            with trio.fail_after(10):
                await drained.wait()
        assert got == list(range(500)), "the answer to a drain says that there are no more"


@pytest.mark.slow
async def test_heartbeats_and_other_queues_go_on_while_the_disk_is_slow(tmp_path: Path) -> None:
    async with connected(store=tmp_path / "s") as (node, connection):
        node.queue("slow", durable=True)
        node.queue("quick")
        store = node._store.store
        assert store is not None
        commit, go_on = store._tables.commit, threading.Event()

        def held_up(*arguments: Any, **options: Any) -> Any:  # noqa: ANN401
            assert go_on.wait(30)
            return commit(*arguments, **options)

        store._tables.commit = held_up  # type: ignore[method-assign]
        accepted = trio.Event()

        async def publish() -> None:
            await connection.publish("slow", Stream.of("safe"))
            accepted.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(publish)
            for at in range(100):
                await connection.publish("quick", Stream.of(at))
            assert len(await connection.stream("quick").take(100).to_list()) == 100
            assert not accepted.is_set()
            go_on.set()
            with trio.fail_after(10):
                await accepted.wait()


@pytest.mark.parametrize("durable", [False, True])
async def test_a_full_queue_rejects_over_tcp(tmp_path: Path, *, durable: bool) -> None:
    async with connected(store=tmp_path / "s") as (node, connection):
        queue = node.queue("q", durable=durable, capacity=10, when_full="reject")
        with pytest.raises(DeliveryFailed, match="is full") as refused:
            await connection.publish("q", Stream.range(20))
        assert (refused.value.outcome, refused.value.condition) == ("rejected", "amqp:resource-limit-exceeded")
        assert await connection.stream("q").take(10).to_list() == list(range(10))
        assert queue.statistics().refused >= 1


@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize(("when_full", "left"), [("drop_newest", [*range(10)]), ("drop_oldest", [*range(90, 100)])])
async def test_a_full_queue_drops_over_tcp(tmp_path: Path, when_full: Any, left: list[int], *, durable: bool) -> None:  # noqa: ANN401
    async with connected(store=tmp_path / "s") as (node, connection):
        queue = node.queue("q", durable=durable, capacity=10, when_full=when_full)
        await connection.publish("q", Stream.range(100))
        assert (queue.statistics().ready, queue.statistics().dropped) == (10, 90)
        assert await connection.stream("q").take(10).to_list() == left


async def test_a_rejected_numbered_message_may_be_sent_again() -> None:
    async with connected() as (node, connection):
        queue = node.queue("q", capacity=2, when_full="reject")
        for _ in range(2):
            with pytest.raises(DeliveryFailed, match="is full"):
                await connection.publish("q", Stream.of("a", "b", "c"), settlement="effectively_once", producer_id="p")
        assert await connection.stream("q").take(1).to_list() == ["a"]
        await connection.publish("q", Stream.of("a", "b", "c"), settlement="effectively_once", producer_id="p")
        assert await connection.stream("q").take(2).to_list() == ["b", "c"]
        assert queue.statistics().duplicates == 4


async def test_dead_letters_of_a_durable_queue_are_durable(tmp_path: Path) -> None:
    async with connected(store=tmp_path / "s") as (node, connection):
        dead = node.queue("dead", durable=True)
        node.queue("jobs", durable=True, dead_letters="dead")
        await connection.publish("jobs", Stream.of(Message("stale", ttl_s=0.0), "fine"))
        assert await connection.stream("jobs").take(1).to_list() == ["fine"]
        await until(lambda: dead.statistics().ready == 1)
        shutil.copytree(tmp_path / "s", tmp_path / "killed")
    async with connected(store=tmp_path / "killed") as (node, connection):
        node.queue("dead", durable=True)
        node.queue("jobs", durable=True, dead_letters="dead")
        [letter] = await connection.messages("dead").take(1).to_list()
        assert (letter.body, letter.annotations["x-opt-rstreams-failure"]) == ("stale", "expired")


async def test_a_node_that_is_drained_does_not_lose_durable_messages(tmp_path: Path) -> None:
    async with connected(store=tmp_path / "s") as (node, connection):
        node.queue("kept", durable=True)
        node.queue("lost")
        for name in ("kept", "lost"):
            await connection.publish(name, Stream.range(5))
        assert (await node.drain_and_close()).left == 5


async def test_what_is_under_way_when_the_node_ends_is_carried_out(tmp_path: Path) -> None:
    for at in range(5):
        async with connected(store=tmp_path / "s") as (node, connection):
            dead = node.queue("dead", durable=True)
            jobs = node.queue("jobs", durable=True, dead_letters="dead")
            assert (dead.statistics().ready, jobs.statistics().ready) == (at, 0)
            await connection.publish("jobs", Stream.of(Message(at, ttl_s=0.0)))


# options


def test_a_store_in_use_is_refused(tmp_path: Path) -> None:
    node = Node(store=tmp_path / "s")
    with pytest.raises(StoreError, match="is in use by the process"):
        Node(store=tmp_path / "s")
    store = node._store.store
    assert store is not None
    store.close()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"durable": True}, "durable=True: the node has no store: use Node(store=PATH)"),
        ({"capacity": None}, "capacity=None: only a durable queue may have any number of messages"),
        ({"capacity_bytes": 0}, "capacity_bytes=0"),
        ({"fsync": "never"}, "fsync='never': only a durable queue is synced"),
        ({"fsync": "often"}, "fsync='often'"),
        ({"fsync_interval_s": 0}, "fsync_interval_s=0"),
        ({"when_full": "explode"}, "when_full='explode'"),
        ({"durable": 1}, "durable=1"),
        (
            {"capacity_in_memory": 10},
            "capacity_in_memory=10: all messages of a queue that is not durable are in memory",
        ),
    ],
)
def test_a_bad_option_is_named(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match="queue 'q'") as refused:
        Node().queue("q", **options)
    assert text in str(refused.value)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"capacity": 0}, "capacity=0"),
        ({"capacity_bytes": 0}, "capacity_bytes=0"),
        ({"capacity_in_memory": 0}, "capacity_in_memory=0"),
        ({"capacity": None, "when_full": "reject"}, "when_full='reject': the queue is never full without a capacity"),
    ],
)
def test_a_bad_option_of_a_durable_queue_is_named(tmp_path: Path, options: dict[str, Any], text: str) -> None:
    node = Node(store=tmp_path / "s")
    with pytest.raises(ConfigError, match="queue 'q'") as refused:
        node.queue("q", durable=True, **options)
    assert text in str(refused.value)
    store = node._store.store
    assert store is not None
    store.close()


@pytest.mark.parametrize("store", ["", 5, b"x"])
def test_a_bad_path_of_a_store_is_named(store: Any) -> None:  # noqa: ANN401
    with pytest.raises(ConfigError, match="store="):
        Node(store=store)


@pytest.mark.parametrize("capacity", [None, 8])
async def test_at_each_commit_a_message_that_becomes_a_dead_letter_is_in_one_place(
    tmp_path: Path, capacity: int | None
) -> None:
    async with connected(store=tmp_path / "s") as (node, connection):
        dead = node.queue("dead", durable=True, capacity=capacity)
        jobs = node.queue("jobs", durable=True, dead_letters="dead")
        await connection.publish("jobs", Stream.range(40))
        store, found = node._store.store, list[tuple[int, int]]()
        assert store is not None
        commit = store._tables.commit

        def count(*arguments: Any, **options: Any) -> Any:  # noqa: ANN401
            answer = commit(*arguments, **options)
            ledgers = store._tables.ledgers
            found.append((ledgers["queue/jobs"].live, ledgers["queue/dead"].live if "queue/dead" in ledgers else 0))
            return answer

        store.flush()
        store._tables.commit = count  # type: ignore[method-assign]
        async with connection.messages("jobs", settlement="manual").take(40).open() as deliveries:
            async for delivery in deliveries:
                delivery.reject()
        await until(lambda: dead.statistics().ready == (capacity or 40))
        await until(lambda: jobs.statistics().leaving == 40 - (capacity or 40))
        assert {sum(each) for each in found} == {40}, "a kill behind any of the commits neither loses nor doubles"
