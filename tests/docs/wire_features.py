"""Programs that use every feature which has a name of its own on the wire, for `test_wire`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress
from functools import partial
from typing import Any, Final

import trio

import rstreams
from rstreams import Connection, DeadLetters, Message, Node, Reconnect, Stream
from rstreams._codec.types import Described, Symbol
from rstreams.errors import RequestFailed, RStreamsError
from rstreams.net.dialects import DIALECTS, Dialect, Filters
from rstreams.net.dialects.azure import session_filter
from rstreams.net.end_of_stream import until_end_marker, with_end_marker
from rstreams.net.rabbitmq_management import rabbitmq_management
from tests.docs.wire_traffic import Frame, Tap

QUICKLY: Final = Reconnect(first_delay_s=0.0, max_delay_s=0.0)


def add_addresses(node: Node) -> None:
    """Add an address of each kind."""
    node.serve("numbers", Stream.range(20))
    node.serve("kept", Stream.interval(0.001), keep_s=60)
    node.serve("from", from_offset=lambda at: Stream.range(at, at + 5), incarnation="today")
    node.queue("letters")
    node.queue("orders", dead_letters="letters", max_deliveries=1)
    node.queue("answers")
    node.queue("replies")
    node.queue("shelf")
    node.multicast("news")
    node.log("events", partitions=2, retention_items=100)
    node.log("log", retention_items=100)
    node.respond("double", _doubled)
    node.respond("words", _words)
    node.respond("nothing", lambda _: Stream.empty())


def _doubled(number: object) -> int:
    if not isinstance(number, int):
        condition, text = "amqp:invalid-field", "a number is wanted"
        raise RequestFailed(condition, text)
    return 2 * number


async def _words(text: str) -> AsyncIterator[str]:
    for word in text.split():
        yield word


async def packs(connection: Connection) -> None:
    """Move packs both ways, and give back some items of one."""
    await connection.publish("orders", Stream.range(5).map(str))
    options: Any = {"settlement": "manual", "pack_items": 8, "window": 64}
    async with connection.stream("numbers", **options).open() as deliveries:
        for outcome in ("accept", "reject", "modify", "release"):
            getattr(await anext(deliveries), outcome)()


async def failures(connection: Connection) -> None:
    """Fail at items: their queue makes dead letters, then this client does."""

    def fail(_item: object) -> None:
        text = "no such customer"
        raise ValueError(text)

    strategies: dict[str, Any] = {"letters": "modify", "answers": DeadLetters("answers")}
    for letters, on_failure in strategies.items():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(connection.consume, "orders", fail, on_failure=on_failure))
            await connection.publish("orders", Stream.of("a"), pack_items=1)
            await connection.messages(letters).take(1).to_list()
            nursery.cancel_scope.cancel()


async def requests(connection: Connection) -> None:
    """Ask for one reply and for several; without a reply, and with a failure; and answer as a client."""
    async with connection.requester("double") as requester:
        assert await requester.request(21) == 42
        with suppress(RequestFailed):
            await requester.request("x")
    async with connection.requester("words") as requester:
        assert await requester.stream("a b").to_list() == ["a", "b"]
    for address, body, replies in (("words", "a b", 3), ("double", 21, 1)):  # the third is the mark behind the others
        asked = Message(body, id="1", reply_to="replies", properties={"rstreams-replies": "marked"})
        await connection.publish(address, Stream.of(asked))
        await connection.messages("replies").take(replies).to_list()
    async with connection.requester("nothing") as requester:
        with suppress(RequestFailed):
            await requester.request(1)


async def logs(connection: Connection) -> None:
    """Read a log from an offset and in a group; go on in another log than the offset is of."""
    message = Message(b"1", annotations={"x-opt-partition-key": "customer 7"})
    await connection.publish("events", Stream.of(message))
    await connection.publish("log", Stream.range(3))
    await connection.stream("log", start="first").take(2).to_list()
    await connection.stream("log", start=1, to_end=True).to_list()
    await connection.stream("events", group="readers", start="first").take(1).to_list()
    other = {"rstreams:incarnation": Described(Symbol("rstreams:incarnation"), "another")}
    with suppress(RStreamsError):
        await connection.stream("log", start=1, filters=other).take(1).to_list()


async def once(connection: Connection, tap: Tap) -> None:
    """Publish and consume effectively once, and go on after a loss."""
    await connection.publish("orders", Stream.of(1), settlement="effectively_once", producer_id="till-4")
    await connection.stream("orders", settlement="effectively_once").take(1).to_list()
    kept = connection.stream("kept", settlement="effectively_once")
    for stream in (kept, connection.stream("from", start="first")):
        async with stream.open(1) as items:
            await anext(items)
            tap.cut()
            await anext(items)


async def subscriptions(connection: Connection) -> None:
    """Have a named subscription, end it, and browse a queue."""
    async with connection.stream("news", subscription="mine").open() as news:
        await connection.publish("news", Stream.of(1))
        await anext(news)
    await connection.unsubscribe("news", "mine")
    await connection.publish("shelf", Stream.of(1))
    await connection.stream("shelf", browse=True).take(1).to_list()


async def management(connection: Connection) -> None:
    """Send each request of management."""
    async with connection.management() as node:
        await node.declare_queue("more", capacity=10)
        await node.declare_multicast("papers")
        await node.addresses()
        await node.queues()
        await node.queue("more")
        await node.purge("more")
        await node.move_dead_letters("letters")
        with suppress(RStreamsError):
            await node.forget_group("readings", "nobody")
        await node.named_subscriptions("papers")
        with suppress(RStreamsError):
            await node.unsubscribe("papers", "none", container="none")
        for link in await node.subscriptions("$management"):
            with suppress(RStreamsError):
                await node.end_subscription(link.number + 1_000)
        await node.delete("more")
    async with rabbitmq_management(connection) as broker:
        with suppress(RStreamsError):
            await broker.declare_queue("old", arguments={"x-max-length": 5, "x-delivery-limit": 3})
    await connection.stream("$statistics").take(1).to_list()


async def explain(connection: Connection) -> None:
    """Ask who keeps a queue waiting: the node asks this client, too."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(connection.publish, "shelf", Stream.range(10_000))
        async with connection.stream("shelf", window=1).open(window=1) as items:
            await anext(items)  # from here on nothing can move
            await connection.explain_across()
        nursery.cancel_scope.cancel()
    async with connection.management() as node:
        await node.purge("shelf")


async def markers(connection: Connection) -> None:
    """End streams by marks in a queue."""
    await connection.publish("orders", with_end_marker(Stream.of(1)))
    await until_end_marker(connection.messages("orders")).to_list()
    with suppress(ValueError):
        await connection.publish("orders", with_end_marker(Stream.fail(ValueError("no"))))
    with suppress(RStreamsError):
        await until_end_marker(connection.messages("orders")).to_list()


async def foreign(url: str) -> None:
    """Speak to the node as to other peers; it refuses the address."""
    artemis, rabbitmq, azure = (DIALECTS[name] for name in ("artemis", "rabbitmq4", "eventhubs"))
    wanted: tuple[tuple[Dialect, str, Filters], ...] = (
        (artemis, "queue://none", artemis.selector("a = 1")),
        (artemis, "topic://none", {}),
        (rabbitmq, "none", rabbitmq.selector("a = 1")),
        (rabbitmq, "none", rabbitmq.properties({"a": 1})),
        (azure, "none", session_filter("a")),
        (azure, "none", azure.offset(1)),
    )
    for dialect, address, filters in wanted:
        async with rstreams.connect(url, dialect=dialect) as connection:
            with suppress(RStreamsError):
                await connection.stream(address, filters=filters).take(1).to_list()
    for dialect in (artemis, rabbitmq):
        async with rstreams.connect(url, dialect=dialect) as connection:
            with suppress(RStreamsError):
                await connection.stream("none", priority=5).take(1).to_list()


async def record() -> list[Frame]:
    """Run everything over a tap; return the frames."""
    async with Node(pack_items=64) as node, trio.open_nursery() as nursery:
        add_addresses(node)
        listener = await node.listen("127.0.0.1:0")
        (tcp,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        tap = Tap(tcp, listener.port)
        nursery.start_soon(tap.run)
        url = f"amqp://127.0.0.1:{tap.port}"
        async with rstreams.connect(url, reconnect=QUICKLY, container_id="recorder") as connection:
            for program in (packs, failures, requests, logs, subscriptions, management, explain, markers):
                await program(connection)
            await once(connection, tap)
        await foreign(url)
        nursery.cancel_scope.cancel()
    return tap.frames
