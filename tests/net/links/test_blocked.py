"""Each kind of end of a link counts how long it was blocked, or its window full; both sides, in virtual time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trio

import rstreams
from rstreams import Connection, Node, Reconnect, Stream
from rstreams._core import spell
from rstreams.net.links import link_info
from rstreams.net.links.link_info import LinkInfo
from rstreams.testing import FaultyNetwork
from tests.net.over_tcp import until

pytestmark = pytest.mark.usefixtures("autojump_clock")


@pytest.fixture(autouse=True)
def clock_of_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the clock of spells be the virtual one."""
    virtual = SimpleNamespace(monotonic=trio.current_time, today=trio.current_time)
    monkeypatch.setattr(spell, "_machine", virtual)
    monkeypatch.setattr(link_info, "_machine", virtual)


@asynccontextmanager
async def both(tmp_path: Path, **options: Any) -> AsyncIterator[tuple[Node, Connection]]:  # noqa: ANN401 - of `Node`
    """Return a node with an address of each kind, and a client."""
    async with Node(store=tmp_path / "store", **options) as node:
        node.queue("work", capacity=1)
        node.queue("kept", capacity=1, durable=True)
        node.queue("long", capacity=1000)
        node.queue("kept long", durable=True)
        node.multicast("news", capacity=4)
        node.multicast("fast", capacity=4, overflow="drop_oldest")
        node.multicast("kept news", durable=True)
        node.log("history", retention_items=100)
        node.log("kept history")
        node.serve("prices", Stream.range(0, 1000))
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url, container_id="shop") as connection:
            yield node, connection


@asynccontextmanager
async def awake() -> AsyncIterator[None]:
    """Let the clock not jump while threads work: the one of a store."""

    async def run() -> None:
        while True:
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        yield
        nursery.cancel_scope.cancel()


def one(links: list[LinkInfo], address: str, does: str, role: str) -> LinkInfo:
    (found,) = (each for each in links if (each.address, each.does, each.role) == (address, does, role))
    return found


def at_both(node: Node, connection: Connection, address: str, does: str) -> tuple[LinkInfo, LinkInfo]:
    """Return the sending and the receiving end of a link."""
    of_client, of_node = ("sender", "receiver") if does == "publish" else ("receiver", "sender")
    ours = one(connection.links(), address, does, of_client)
    theirs = one(node.links(address), address, does, of_node)
    assert ours.name == theirs.name
    return (ours, theirs) if does == "publish" else (theirs, ours)


def seconds(*links: LinkInfo) -> list[int]:
    return [round(each.blocked_s) for each in links]


# senders: of a client


async def send_each(connection: Connection, address: str | None, count: int) -> None:
    async with connection.sender(address) as sender:
        for number in range(count):
            item = number if address else rstreams.Message(number, address="work")
            await sender.submit(item)
        await trio.sleep_forever()


async def publish_each(connection: Connection, address: str | None, count: int) -> None:
    await connection.publish(address or "", Stream.range(0, count).concat(Stream.never()))


async def once(connection: Connection, address: str | None, count: int) -> None:
    stream = Stream.range(0, count).concat(Stream.never())
    await connection.publish(address or "", stream, settlement="effectively_once", producer_id="me")


async def settled(connection: Connection, address: str | None, count: int) -> None:
    await connection.publish(address or "", Stream.range(0, count).concat(Stream.never()), settlement="at_most_once")


SENDERS: dict[str, Callable[[Connection, str | None, int], Any]] = {
    "sender": send_each,
    "publish": publish_each,
    "effectively once": once,
    "at most once": settled,
}


@pytest.mark.parametrize("address", ["work", "kept"])
@pytest.mark.parametrize("kind", SENDERS)
async def test_a_sender_is_blocked_while_a_queue_is_full(kind: str, address: str, tmp_path: Path) -> None:
    async with both(tmp_path) as (node, connection), trio.open_nursery() as nursery:
        async with awake():
            nursery.start_soon(SENDERS[kind], connection, address, 3)
            await until(lambda: node.statistics().queues[address].ready == 1)
        assert seconds(*at_both(node, connection, address, "publish")) == [0, 0]
        await trio.sleep(10)
        sending, receiving = at_both(node, connection, address, "publish")
        assert seconds(sending, receiving) == [10, 10]
        assert (round(sending.blocked_for_s), sending.blocked_by) == (10, "credit")
        assert (round(receiving.blocked_for_s), receiving.blocked_by) == (10, "no room behind it")
        assert round(sending.blocked_since) == round(trio.current_time() - 10)
        async with awake(), connection.stream(address).open() as items:
            assert [await anext(items) for _ in range(3)] == [0, 1, 2]
        await trio.sleep(5)
        sending, receiving = at_both(node, connection, address, "publish")
        assert (seconds(sending), sending.blocked_for_s, sending.blocked_by) == ([10], 0, "")
        assert (sending.items, sending.accepted, receiving.items, receiving.accepted) == (3, 3, 3, 3)
        nursery.cancel_scope.cancel()


async def test_a_relay_keeps_what_a_full_queue_does_not_take_and_blocks_nobody(tmp_path: Path) -> None:
    async with both(tmp_path) as (node, connection), trio.open_nursery() as nursery:
        nursery.start_soon(send_each, connection, None, 3)
        await until(lambda: node.links("") and node.links("")[0].unsettled == 2)
        await trio.sleep(10)
        sending, receiving = at_both(node, connection, "", "publish")
        assert seconds(sending, receiving) == [0, 0]
        assert (sending.unsettled, round(sending.oldest_s)) == (2, 10)
        nursery.cancel_scope.cancel()


async def test_a_requester_is_blocked_while_its_responder_is_busy(tmp_path: Path) -> None:
    async def answer(item: int) -> int:
        await trio.sleep(10)
        return item

    async with both(tmp_path) as (node, connection), trio.open_nursery() as nursery:
        node.respond("asked", answer, concurrency=1)
        requester = await enter(nursery, connection.requester("asked"))
        await trio.sleep(7)
        assert seconds(*at_both(node, connection, "asked", "publish")) == [0, 0]
        for number in range(2):
            nursery.start_soon(requester.request, number)
        await trio.sleep(5)
        assert seconds(*at_both(node, connection, "asked", "publish")) == [5, 5]
        await trio.sleep(20)
        assert seconds(one(connection.links(), "asked", "publish", "sender")) == [10]
        nursery.cancel_scope.cancel()


async def enter(nursery: trio.Nursery, context: Any) -> Any:  # noqa: ANN401 - of any kind
    """Enter a context for the length of a nursery."""
    entered = trio.Event()
    found: list[Any] = []

    async def hold() -> None:
        async with context as value:
            found.append(value)
            entered.set()
            await trio.sleep_forever()

    nursery.start_soon(hold)
    await entered.wait()
    return found[0]


# senders: of a node


async def into(connection: Connection, address: str, count: int) -> None:
    await connection.publish(address, Stream.range(0, count))


RECEIVERS: dict[str, tuple[str, dict[str, Any]]] = {
    "queue": ("long", {}),
    "durable queue": ("kept long", {}),
    "browser": ("long", {"browse": True}),
    "browser of a durable queue": ("kept long", {"browse": True}),
    "multicast": ("news", {}),
    "multicast that drops": ("fast", {}),
    "named subscription": ("news", {"subscription": "mine"}),
    "durable named subscription": ("kept news", {"subscription": "mine"}),
    "log": ("history", {"start": "first"}),
    "durable log": ("kept history", {"start": "first"}),
    "group": ("history", {"group": "readers", "start": "first"}),
    "group of a durable log": ("kept history", {"group": "readers", "start": "first"}),
}


@pytest.mark.parametrize("kind", RECEIVERS)
async def test_a_node_is_blocked_while_a_receiver_has_its_window_full(kind: str, tmp_path: Path) -> None:
    address, options = RECEIVERS[kind]
    async with both(tmp_path) as (node, connection), trio.open_nursery() as nursery:
        stream = connection.stream(address, settlement="manual", window=1, **options)
        deliveries = await enter(nursery, stream.open())
        await until(lambda: node.links(address) and node.links(address)[0].credit)
        await trio.sleep(7)
        assert seconds(*at_both(node, connection, address, "subscribe")) == [0, 0]
        async with awake():
            nursery.start_soon(into, connection, address, 3)
            first = await anext(deliveries)
            await until(lambda: at_both(node, connection, address, "subscribe")[0].blocked_by)
        await trio.sleep(10)
        sending, receiving = at_both(node, connection, address, "subscribe")
        assert seconds(sending, receiving) == [10, 10]
        assert (sending.blocked_by, receiving.blocked_by) == ("credit", "items in hand")
        assert (sending.items, receiving.items, receiving.unsettled) == (1, 1, 1)
        assert sending.unsettled in {0, 1}  # a copy is settled when it is sent
        async with awake():
            first.accept()
            for _ in range(2):
                (await anext(deliveries)).accept()
            await until(lambda: not one(connection.links(), address, "subscribe", "receiver").unsettled)
        await trio.sleep(5)
        sending, receiving = at_both(node, connection, address, "subscribe")
        assert seconds(sending, receiving) == [10, 10]
        assert (sending.blocked_by, receiving.blocked_by) == ("", "")
        assert receiving.accepted == 3
        nursery.cancel_scope.cancel()


async def test_a_node_is_blocked_while_a_subscriber_of_a_served_stream_asks_for_none(tmp_path: Path) -> None:
    async with both(tmp_path) as (node, connection), trio.open_nursery() as nursery:
        items = await enter(nursery, connection.stream("prices", settlement="manual", window=1).open())
        first = await anext(items)
        await trio.sleep(10)
        assert seconds(*at_both(node, connection, "prices", "subscribe")) == [10, 10]
        first.accept()
        await anext(items)
        await trio.sleep(1)
        assert seconds(*at_both(node, connection, "prices", "subscribe")) == [11, 11]
        nursery.cancel_scope.cancel()


async def test_a_node_is_blocked_while_too_many_items_are_unsettled(tmp_path: Path) -> None:
    async with both(tmp_path, max_unsettled=1) as (node, connection), trio.open_nursery() as nursery:
        deliveries = await enter(nursery, connection.stream("long", settlement="manual", window=10).open())
        nursery.start_soon(into, connection, "long", 3)
        first = await anext(deliveries)
        await trio.sleep(10)
        sending, receiving = at_both(node, connection, "long", "subscribe")
        assert (seconds(sending, receiving), sending.blocked_by) == ([10, 0], "settlement")
        assert round(sending.oldest_s) == 10
        first.accept()
        await trio.sleep(2)
        sending = one(node.links(), "long", "subscribe", "sender")
        assert (seconds(sending), round(sending.oldest_s)) == ([12], 2)
        nursery.cancel_scope.cancel()


async def test_a_queue_without_messages_blocks_no_link(tmp_path: Path) -> None:
    async with both(tmp_path) as (node, connection), trio.open_nursery() as nursery:
        deliveries = await enter(nursery, connection.stream("long", settlement="manual", window=1).open())
        await into(connection, "long", 1)
        await anext(deliveries)
        await trio.sleep(10)
        sending, receiving = at_both(node, connection, "long", "subscribe")
        assert seconds(sending, receiving) == [0, 10]
        await into(connection, "long", 1)  # only now there is one that it could send
        await trio.sleep(3)
        sending, _ = at_both(node, connection, "long", "subscribe")
        assert (seconds(sending), round(sending.blocked_for_s)) == ([3], 3)
        nursery.cancel_scope.cancel()


async def test_who_asks_now_and_then_blocks_nobody(tmp_path: Path) -> None:
    async with both(tmp_path) as (node, connection), connection.management() as management:
        await management.queues()
        await trio.sleep(10)
        await management.queues()
        await trio.sleep(10)
        assert not any(each.blocked_s for each in (*node.links(), *connection.links()))


# totals and losses


async def test_totals_outlive_a_lost_connection(tmp_path: Path) -> None:
    async with Node() as node, AsyncExitStack() as stack:
        node.queue("work", capacity=1)
        listener = await node.listen("127.0.0.1:0")
        network = await stack.enter_async_context(FaultyNetwork(listener.url))
        policy = Reconnect(first_delay_s=5, jitter=0)
        connection = await stack.enter_async_context(rstreams.connect(network.url, reconnect=policy))
        nursery = await stack.enter_async_context(trio.open_nursery())
        nursery.start_soon(publish_each, connection, "work", 3)
        await until(lambda: node.statistics().queues["work"].ready == 1)
        await trio.sleep(10)
        network.reset()
        await until(lambda: connection.status.state == "lost")
        (ours,) = connection.links()
        assert (ours.state, seconds(ours), ours.blocked_by) == ("away", [10], "")
        await until_s(lambda: connection.status.state == "connected")
        (ours,) = connection.links()
        assert seconds(ours) == [10]
        await trio.sleep(10)
        assert seconds(*connection.links()) == [20]
        nursery.cancel_scope.cancel()


async def until_s(happened: Callable[[], object]) -> None:
    """Wait until something has happened, for some seconds of virtual time."""
    with trio.fail_after(100):
        while not happened():  # noqa: ASYNC110 - many things may make it happen
            await trio.sleep(0.01)


async def test_rates_are_those_since_the_last_look(tmp_path: Path) -> None:
    async with both(tmp_path) as (node, connection), trio.open_nursery() as nursery:
        sender = await enter(nursery, connection.sender("long"))
        await until(lambda: node.links("long"))
        assert one(node.links(), "long", "publish", "receiver").items_per_s == 0
        await trio.sleep(1)
        for number in range(20):
            await sender.send(number)
        await trio.sleep(1)
        assert one(node.links(), "long", "publish", "receiver").items_per_s == pytest.approx(10, rel=0.1)
        await trio.sleep(1)
        assert one(node.links(), "long", "publish", "receiver").items_per_s == 0
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("outcome", ["accept", "reject", "release", "modify"])
async def test_outcomes_are_counted_at_both_sides(outcome: str, tmp_path: Path) -> None:
    async with both(tmp_path) as (node, connection), trio.open_nursery() as nursery:
        deliveries = await enter(nursery, connection.stream("long", settlement="manual", window=1).open())
        await into(connection, "long", 1)
        delivery = await anext(deliveries)
        getattr(delivery, outcome)()
        await trio.sleep(1)
        name = {"accept": "accepted", "reject": "rejected", "release": "released", "modify": "modified"}[outcome]
        for each in at_both(node, connection, "long", "subscribe"):
            assert getattr(each, name) >= 1
            assert each.accepted + each.rejected + each.released + each.modified + each.unsettled == each.items
        nursery.cancel_scope.cancel()
