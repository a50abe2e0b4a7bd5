"""explain over connections: the culprit of each kind, from either side, and peers that tell nothing or nonsense."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

import rstreams
from rstreams import Connection, Message, Node, Reconnect, Stream, Valve
from rstreams.abc import Hold, Subscription
from rstreams.culprits import KINDS, Culprit, WaitTree
from rstreams.errors import ConfigError, StoreError
from rstreams.net.transport.accounts import UserLimits
from rstreams.node import Permission
from rstreams.node.queue import Queue
from rstreams.testing import ProbeSubscriber
from tests.net.over_tcp import until
from tests.stalls.slow_network import slow_network

Ask = Callable[[], Awaitable[WaitTree]]


class Scene:
    """A node, its clients, and the tasks of all; everything ends with the scene."""

    def __init__(self, node: Node, url: str, stack: AsyncExitStack, nursery: trio.Nursery) -> None:
        self.node = node
        self.url = url
        self._stack = stack
        self._nursery = nursery

    async def client(self, name: str, user: str = "", url: str = "") -> Connection:
        url = (url or self.url).replace("//", f"//{user}:sesame@" if user else "//")
        return await self._stack.enter_async_context(rstreams.connect(url, container_id=name))

    async def enter(self, manager: Any) -> Any:  # noqa: ANN401 - any context manager
        return await self._stack.enter_async_context(manager)

    def start(self, function: Callable[..., Awaitable[object]], *arguments: Any, **options: Any) -> None:  # noqa: ANN401
        async def run() -> None:
            with trio.CancelScope() as scope:
                self._stack.callback(scope.cancel)
                await function(*arguments, **options)

        self._nursery.start_soon(run)


@asynccontextmanager
async def scene(**options: Any) -> AsyncIterator[Scene]:  # noqa: ANN401 - those of `Node`
    async with Node(container_id="node", **options) as node, trio.open_nursery() as nursery:
        listener = await node.listen("127.0.0.1:0")
        async with AsyncExitStack() as stack:
            yield Scene(node, listener.url, stack, nursery)
            nursery.cancel_scope.cancel()


async def culprit(ask: Ask, kind: str, name: str) -> Culprit:
    """Ask until the culprit is of the kind: the stall takes a moment to come about. It has the name."""
    tree = await ask()
    with trio.move_on_after(10):
        while (found := tree.culprit) is None or found.kind != kind:
            await trio.sleep(0.01)
            tree = await ask()
    found = tree.culprit
    assert found is not None, str(tree)
    assert found.kind == kind, str(tree)
    assert name in found.name, str(tree)
    assert name in found.sentence
    assert str(tree).endswith(f"-> {found}")
    assert WaitTree.from_dict(tree.as_dict()) == tree
    return found


async def from_all_sides(on: Scene, kind: str, name: str, *clients: Connection) -> None:
    asks: list[Ask] = [on.node.explain_across, *(client.explain_across for client in clients)]
    for ask in asks:
        await culprit(ask, kind, name)


async def wait_for_ever(_item: object) -> None:
    await trio.sleep_forever()


async def test_a_slow_handler() -> None:
    async with scene() as on:
        on.node.queue("orders", capacity=2)
        shop, worker = await on.client("shop"), await on.client("worker")
        on.start(shop.publish, "orders", Stream.range(100))
        on.start(worker.consume, "orders", wait_for_ever)
        await from_all_sides(on, "slow_handler", "worker", shop, worker)
        found = await culprit(shop.explain_across, "slow_handler", "worker")
        assert found.since is not None
        assert "slow handler of consumer 'worker'" in found.sentence
        (line,) = on.node.explain().culprits
        assert line.kind == "no_credit", "alone the node knows only that there is no credit"


async def test_a_loop_that_is_not_through_with_its_item() -> None:
    async with scene() as on:
        on.node.queue("orders", capacity=2)
        shop, worker = await on.client("shop"), await on.client("worker")
        on.start(shop.publish, "orders", Stream.range(100))
        orders = await on.enter(worker.stream("orders", window=1).open(window=1))
        await anext(orders)
        await from_all_sides(on, "slow_handler", "worker", shop, worker)


async def test_calls_of_map_async_that_are_under_way() -> None:
    async with scene() as on:
        on.node.queue("orders", capacity=2)
        shop, worker = await on.client("shop"), await on.client("worker")
        on.start(shop.publish, "orders", Stream.range(100))
        on.start(worker.stream("orders", window=2).map_async(wait_for_ever, concurrency=2).for_each, print)
        await from_all_sides(on, "slow_handler", "worker", shop, worker)


async def test_a_paused_consumer() -> None:
    async with scene() as on:
        on.node.queue("orders", capacity=2)
        shop, worker, valve = await on.client("shop"), await on.client("worker"), Valve()
        on.start(shop.publish, "orders", Stream.range(100))
        on.start(worker.stream("orders", window=2).pausable(valve).for_each, lambda _: valve.pause())
        await from_all_sides(on, "paused", "worker", shop, worker)


async def test_a_poison_message() -> None:
    async def fail(_item: object) -> None:
        await trio.sleep(0.005)
        raise ValueError

    async with scene() as on:
        on.node.queue("orders", capacity=2)
        shop, worker = await on.client("shop"), await on.client("worker")
        on.start(shop.publish, "orders", Stream.range(100))
        on.start(worker.consume, "orders", fail, window=1, on_failure="modify")
        await culprit(on.node.explain_across, "poison_message", "orders")
        found = await culprit(shop.explain_across, "poison_message", "orders")
        assert "attempts)" in found.sentence


async def test_a_message_that_waits_for_its_next_attempt() -> None:
    def fail(_item: object) -> None:
        raise ValueError

    async with scene() as on:
        on.node.queue("orders", redelivery_delay_s=0.01, redelivery_delay_factor=1000)
        shop, worker = await on.client("shop"), await on.client("worker")
        await shop.publish("orders", Stream.of(1))
        on.start(worker.consume, "orders", fail, on_failure="modify")
        await from_all_sides(on, "poison_message", "orders", worker)


async def test_full_dead_letters() -> None:
    def reject(_item: object) -> None:
        raise ValueError

    async with scene() as on:
        on.node.queue("dead", capacity=1)
        on.node.queue("orders", capacity=2, dead_letters="dead")
        shop, worker = await on.client("shop"), await on.client("worker")
        on.start(shop.publish, "orders", Stream.range(100))
        on.start(worker.consume, "orders", reject, on_failure="reject")
        await from_all_sides(on, "queue_full", "dead", shop, worker)


async def test_a_queue_that_nobody_takes_from() -> None:
    async with scene() as on:
        on.node.queue("orders", capacity=2)
        shop = await on.client("shop")
        on.start(shop.publish, "orders", Stream.range(100))
        await from_all_sides(on, "queue_full", "orders", shop)
        found = await culprit(shop.explain_across, "queue_full", "orders")
        assert "nobody takes from queue 'orders'" in found.sentence
        assert on.node.explain().culprit is not None


async def test_a_queue_that_is_not_full_and_has_no_consumer() -> None:
    async with scene() as on:
        on.node.queue("orders")
        shop = await on.client("shop")
        await shop.publish("orders", Stream.of(1))
        tree = await on.node.explain_across("orders")
        assert tree.culprit is None or tree.culprit.kind == "no_consumer"


async def test_an_idle_publisher() -> None:
    async with scene() as on:
        on.node.queue("orders")
        shop, worker = await on.client("shop"), await on.client("worker")
        on.start(shop.publish, "orders", Stream.never())
        on.start(worker.consume, "orders", print)
        await from_all_sides(on, "publisher_idle", "shop", shop, worker)


async def test_nobody_publishes() -> None:
    async with scene() as on:
        on.node.queue("orders")
        worker = await on.client("worker")
        on.start(worker.consume, "orders", print)
        await from_all_sides(on, "no_publisher", "orders", worker)


async def test_a_rate_limit() -> None:
    limits = {"shop": UserLimits(items_per_s=0.1)}
    async with scene(users={"shop": "sesame", "worker": "sesame"}, limits=limits) as on:
        on.node.queue("orders")
        shop, worker = await on.client("s", "shop"), await on.client("w", "worker")
        on.start(shop.publish, "orders", Stream.range(100))
        on.start(worker.consume, "orders", print)
        await from_all_sides(on, "rate_limit", "shop", shop, worker)


async def test_a_rate_limit_of_one_who_receives() -> None:
    limits = {"worker": UserLimits(received_items_per_s=0.1)}
    async with scene(users={"shop": "sesame", "worker": "sesame"}, limits=limits) as on:
        on.node.queue("orders", capacity=2)
        shop, worker = await on.client("s", "shop"), await on.client("w", "worker")
        on.start(shop.publish, "orders", Stream.range(100))
        on.start(worker.consume, "orders", lambda _: None)
        await from_all_sides(on, "rate_limit", "worker", shop, worker)


async def test_a_subscriber_of_ones_own_that_tells() -> None:
    class Batch:
        """Takes two items, and no more."""

        def on_subscribe(self, subscription: Subscription) -> None:
            self.held: list[Hold] = []
            self.subscription = subscription
            subscription.request(2)

        def on_next(self, item: object) -> None:  # noqa: ARG002 - all are held
            self.held.append(self.subscription.hold())

        def on_error(self, error: BaseException) -> None: ...

        def on_complete(self) -> None: ...

        def culprit(self) -> Culprit | None:
            return Culprit("slow_trigger", "the query of a worker is not through") if self.held else None

    async with scene() as on:
        on.node.queue("orders", capacity=2)
        shop, worker = await on.client("shop"), await on.client("worker")
        on.start(shop.publish, "orders", Stream.range(100))
        worker.stream("orders", window=2).subscribe(Batch())
        await from_all_sides(on, "slow_trigger", "worker", shop, worker)


async def test_a_small_window_on_a_long_network() -> None:
    async with scene() as on:
        on.node.queue("orders", capacity=2)
        url = await on.enter(slow_network(on.url, delay_s=0.05))
        shop, worker = await on.client("shop"), await on.client("worker", url=url)
        on.start(shop.publish, "orders", Stream.range(1000))
        on.start(worker.stream("orders", window=1).for_each, lambda _: None)
        asks: list[Ask] = [lambda: on.node.explain_across("orders"), shop.explain_across, worker.explain_across]
        for ask in asks:
            await culprit(ask, "small_window", "worker")


async def test_a_client_of_another_library_without_credit() -> None:
    """It does not say in `open` that it tells; nobody asks it."""
    async with scene() as on:
        on.node.queue("orders", capacity=2)
        shop, foreign = await on.client("shop"), await on.client("foreign")
        on.start(shop.publish, "orders", Stream.range(100))
        foreign.stream("orders").subscribe(ProbeSubscriber())
        await until(lambda: on.node.statistics().queues["orders"].consumers == 1)
        for _, link in on.node._links.attached:
            if link.container == "foreign":
                link.driver._host.peer_explains = False
        await from_all_sides(on, "no_credit", "foreign", shop)
        assert "the peer tells nothing more" in str(await shop.explain_across())


async def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with scene(store=tmp_path / "store") as on:
        on.node.queue("orders", durable=True)
        shop = await on.client("shop")
        await shop.publish("orders", Stream.of(1))
        queue = on.node._addresses["orders"]
        assert isinstance(queue, Queue)
        full = StoreError("store 'x' cannot be written: the disk is full")
        monkeypatch.setattr(type(queue.storage), "trouble", full)
        on.start(shop.publish, "orders", Stream.never())
        await culprit(lambda: on.node.explain_across("orders"), "disk_full", "store")
        async with shop.management() as management:
            await culprit(lambda: management.explain("orders"), "disk_full", "store")


async def test_a_node_that_is_gone() -> None:
    async with scene() as on:
        gone = await on.enter(Node(container_id="gone"))
        gone.queue("orders", capacity=2)
        listener = await gone.listen("127.0.0.1:0")
        shop = await on.enter(
            rstreams.connect(listener.url, container_id="shop", reconnect=Reconnect(first_delay_s=60, max_delay_s=60))
        )
        on.start(shop.publish, "orders", Stream.range(100))
        await until(lambda: "no credit" in str(shop.explain()))
        await gone.drain_and_close(timeout_s=0.01)
        await culprit(shop.explain_across, "away", shop.status.peer)


async def test_the_slowest_subscriber_of_a_multicast() -> None:
    async with scene() as on:
        on.node.multicast("prices", capacity=4)
        shop, quick, slow = [await on.client(name) for name in ("shop", "quick", "slow")]
        on.start(quick.consume, "prices", lambda _: None)
        on.start(slow.consume, "prices", wait_for_ever)
        await until(lambda: len(on.node.statistics().multicasts["prices"].subscribers) == 2)
        on.start(shop.publish, "prices", Stream.range(100))
        await from_all_sides(on, "slow_handler", "slow", shop, slow)


async def test_a_member_of_a_group_that_is_not_through() -> None:
    async with scene() as on:
        on.node.log("events", partitions=2, retention_items=1000)
        shop, quick, slow = [await on.client(name) for name in ("shop", "quick", "slow")]
        on.start(quick.consume, "events", lambda _: None, group="billing")
        on.start(slow.consume, "events", wait_for_ever, group="billing")
        await until(lambda: on.node.statistics().logs["events"].groups.get("billing", None) is not None)
        await until(lambda: on.node.statistics().logs["events"].groups["billing"].members == 2)
        keyed = (Message(number, annotations={"x-opt-partition-key": str(number)}) for number in range(50))
        await shop.publish("events", Stream.from_iterable(keyed))
        await culprit(lambda: on.node.explain_across("events"), "slow_handler", "slow")


async def test_through_a_client_that_passes_items_on_to_another_node() -> None:
    """Client, node, bridge, node, client: asked at the first one, the last one is the culprit; and back again."""
    async with scene() as on:
        second = await on.enter(Node(container_id="second"))
        listener = await second.listen("127.0.0.1:0")
        on.node.queue("orders", capacity=2)
        second.queue("bills", capacity=2)
        shop, worker = await on.client("shop"), await on.client("worker", url=listener.url)
        takes, gives = await on.client("bridge"), await on.client("bridge", url=listener.url)
        on.start(gives.publish, "bills", takes.stream("orders", window=2).map(str).name("bridged"))
        on.start(shop.publish, "orders", Stream.range(100))
        on.start(worker.consume, "bills", wait_for_ever)
        asks: list[Ask] = [shop.explain_across, on.node.explain_across, takes.explain_across, second.explain_across]
        for ask in asks:
            await culprit(ask, "slow_handler", "worker")
        tree = await shop.explain_across()
        names = [part.name for _, part in tree.parts()]
        for name in ("client 'shop'", "node 'node'", "client 'bridge'", "node 'second'", "client 'worker'"):
            assert name in names, str(tree)
        for name in ("link 1 of 'shop' to 'orders'", "link 1 of 'worker' from 'bills'"):
            assert names.count(name) == 2, "a link has the same name at both sides"
        near = await shop.explain_across(hops=1)
        assert near.culprit is not None
        assert near.culprit.where == "node"
        alone, known = (await shop.explain_across(hops=0)).culprit, shop.explain().culprit
        assert alone is not None
        assert known is not None
        assert (alone.kind, alone.name) == (known.kind, known.name) == ("no_credit", shop.status.peer)


async def test_upwards_through_a_bridge() -> None:
    async with scene() as on:
        second = await on.enter(Node(container_id="second"))
        listener = await second.listen("127.0.0.1:0")
        on.node.queue("orders")
        second.queue("bills")
        shop, worker = await on.client("shop"), await on.client("worker", url=listener.url)
        takes, gives = await on.client("bridge"), await on.client("bridge", url=listener.url)
        on.start(gives.publish, "bills", takes.stream("orders").map(str))
        on.start(shop.publish, "orders", Stream.never())
        on.start(worker.consume, "bills", print)
        await culprit(worker.explain_across, "publisher_idle", "shop")


async def test_a_circle_of_streams_ends() -> None:
    async with scene() as on:
        for name in ("left", "right"):
            on.node.queue(name, capacity=2)

        async def doubles(source: str, target: str) -> Connection:
            client = await on.client(f"from-{source}")
            items = client.stream(source, window=2).concat_map(lambda item: Stream.of(item, item))
            on.start(client.publish, target, items, pack_items=1)
            return client

        first, second = await doubles("left", "right"), await doubles("right", "left")
        await first.publish("left", Stream.of(1))
        await from_all_sides(on, "circle", "left", first)
        await culprit(second.explain_across, "circle", "right")


async def test_a_stream_with_its_runs() -> None:
    async with scene() as on:
        on.node.queue("orders", capacity=2)
        shop, worker = await on.client("shop"), await on.client("worker")
        stream = Stream.range(100).map(str)
        assert (await shop.explain_across(stream)).state == "it has no run"
        on.start(shop.publish, "orders", stream)
        on.start(worker.consume, "orders", wait_for_ever)
        await culprit(lambda: shop.explain_across(stream), "slow_handler", "worker")
        assert stream.explain().culprit is not None


@pytest.mark.parametrize("wrong", [{"within_s": 0}, {"within_s": "x"}, {"hops": -1}, {"hops": 9}])
async def test_options_that_are_not_allowed(wrong: dict[str, Any]) -> None:
    async with scene() as on:
        shop = await on.client("shop")
        for ask in (shop.explain_across, on.node.explain_across):
            with pytest.raises(ConfigError):
                await ask(**wrong)


async def test_only_who_may_see_the_statistics_is_told() -> None:
    permissions = [
        Permission("shop", "orders", "publish"),
        Permission("boss", "$statistics", "subscribe"),
        Permission("boss", "orders", "publish"),
    ]
    async with scene(users={"shop": "sesame", "boss": "sesame"}, permissions=permissions) as on:
        on.node.queue("orders", capacity=2)
        shop, boss = await on.client("s", "shop"), await on.client("b", "boss")
        on.start(shop.publish, "orders", Stream.range(100))
        on.start(boss.publish, "orders", Stream.range(100))
        await culprit(boss.explain_across, "queue_full", "orders")
        tree = await shop.explain_across()
        assert "amqp:unauthorized-access" in str(tree)
        assert tree.culprit is not None
        assert tree.culprit.kind == "no_credit"
        assert "queue" not in str(tree)


async def test_no_body_and_no_password_is_told() -> None:
    async with scene(users={"shop": "sesame", "worker": "sesame"}) as on:
        on.node.queue("orders", capacity=2)
        shop, worker = await on.client("s", "shop"), await on.client("w", "worker")
        on.start(shop.publish, "orders", Stream.of(*["the secret body"] * 9))
        on.start(worker.consume, "orders", wait_for_ever)
        await culprit(shop.explain_across, "slow_handler", "w")
        for ask in (shop.explain_across, worker.explain_across, on.node.explain_across):
            tree = await ask()
            for text in (str(tree), str(tree.as_dict())):
                assert "secret" not in text
                assert "sesame" not in text


def test_every_kind_is_known_and_told() -> None:
    for kind in KINDS:
        told = Culprit(kind, "a sentence", "a name", where="here")
        assert Culprit.from_dict(told.as_dict()) == told
