"""python-qpid-proton's own client at every kind of address, with its options for filters and durable subscriptions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
from proton import Described, Message, symbol, ulong
from proton.reactor import AtLeastOnce, DurableSubscription, Filter, ReceiverOption
from proton.utils import BlockingConnection, LinkDetached

from rstreams import Node, Stream
from tests.net.over_tcp import until
from tests.node.test_named_subscriptions import named

OFFSET = "rabbitmq:stream-offset-spec"


def offset(value: Any) -> Filter:  # noqa: ANN401 - any value of AMQP
    return Filter({symbol(OFFSET): Described(symbol(OFFSET), value)})


def sends(url: str, address: str, messages: list[Message]) -> None:
    """Send messages; each one is accepted."""
    connection = BlockingConnection(url, timeout=20)
    sender = connection.create_sender(address)
    for message in messages:
        sender.send(message)
    connection.close()


def receives(
    url: str,
    address: str,
    most: int,
    *,
    options: ReceiverOption | None = None,
    container: str = "",
    name: str = "",
    end: str = "",
) -> list[Any]:
    """Receive messages and accept them; then detach the link, close it, or only close the connection."""
    connection = BlockingConnection(url, timeout=20, container_id=container or None)
    receiver = connection.create_receiver(address, credit=most, name=name or None, options=options)
    bodies = []
    for _ in range(most):
        bodies.append(receiver.receive(timeout=20).body)
        receiver.accept()
    if end:
        getattr(receiver.link, end)()
        connection.wait(lambda: receiver.link.state & receiver.link.REMOTE_CLOSED or end == "detach")
    connection.close()
    return bodies


async def ran(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:  # noqa: ANN401 - as the function
    with trio.fail_after(60):
        return await trio.to_thread.run_sync(partial(function, *arguments, **options))


def numbers(count: int) -> list[Message]:
    return [
        Message(body=number, annotations={symbol("x-opt-partition-key"): str(number % 2)}) for number in range(count)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("durable", [False, True])
async def test_a_queue(tmp_path: Path, *, durable: bool) -> None:
    async with Node(store=tmp_path / "s") as node:
        queue = node.queue("work", durable=durable)
        url = (await node.listen("127.0.0.1:0")).url
        await ran(sends, url, "work", numbers(5))
        assert await ran(receives, url, "work", 5, options=AtLeastOnce()) == list(range(5))
        await until(lambda: queue.statistics().accepted == 5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("start", "expected"), [(symbol("first"), [0, 1, 2]), (symbol("last"), [4]), (ulong(2), [2, 3]), ("first", [0])]
)
async def test_a_log_from_an_offset(tmp_path: Path, start: object, expected: list[int]) -> None:
    async with Node(store=tmp_path / "s") as node:
        node.log("events")
        url = (await node.listen("127.0.0.1:0")).url
        await ran(sends, url, "events", numbers(5))
        assert await ran(receives, url, "events", len(expected), options=offset(start)) == expected


@pytest.mark.slow
async def test_an_offset_that_is_not_there() -> None:
    async with Node() as node:
        node.log("events", retention_items=10)
        url = (await node.listen("127.0.0.1:0")).url
        with pytest.raises(LinkDetached, match="amqp:not-found"):
            await ran(receives, url, "events", 1, options=offset(ulong(7)))


@pytest.mark.slow
async def test_the_last_values() -> None:
    async with Node() as node:
        node.latest("rooms")
        url = (await node.listen("127.0.0.1:0")).url
        await ran(sends, url, "rooms", numbers(5))
        assert await ran(receives, url, "rooms", 2) == [3, 4]


@pytest.mark.parametrize("keep_s", [0.0, 30.0])
async def test_a_served_stream(keep_s: float) -> None:
    async with Node() as node:
        node.serve("numbers", Stream.range(100), keep_s=keep_s)
        url = (await node.listen("127.0.0.1:0")).url
        assert await ran(receives, url, "numbers", 5) == list(range(5))


@pytest.mark.slow
async def test_a_kept_subscription_goes_on() -> None:
    async with Node() as node:
        node.serve("numbers", Stream.range(100), keep_s=30)
        url = (await node.listen("127.0.0.1:0")).url
        same = {"container": "reader", "name": "mine"}
        assert await ran(receives, url, "numbers", 3, **same) == [0, 1, 2]
        await until(lambda: node.statistics().served["numbers"].away == 1)
        assert await ran(receives, url, "numbers", 3, **same, end="close") == [3, 4, 5]
        await until(lambda: node.statistics().served["numbers"].subscribers == 0)


@pytest.mark.slow
async def test_a_multicast() -> None:
    async with Node() as node, trio.open_nursery() as nursery:
        node.multicast("prices")
        url = (await node.listen("127.0.0.1:0")).url
        got: list[Any] = []

        async def receive() -> None:
            got.extend(await ran(receives, url, "prices", 3))

        nursery.start_soon(receive)
        await until(lambda: node.statistics().multicasts["prices"].subscribers)
        await ran(sends, url, "prices", numbers(3))
        await until(lambda: len(got) == 3)
        assert got == [0, 1, 2]


@pytest.mark.slow
@pytest.mark.parametrize("durable", [False, True])
async def test_a_durable_subscription(tmp_path: Path, *, durable: bool) -> None:
    same: dict[str, Any] = {"container": "shop", "name": "billing", "options": DurableSubscription()}
    path = tmp_path / "s"
    async with Node(store=path) as node:
        node.multicast("prices", durable=durable)
        url = (await node.listen("127.0.0.1:0")).url
        assert await ran(receives, url, "prices", 0, **same) == []
        await until(lambda: not named(node).attached)
        await ran(sends, url, "prices", numbers(7))
        assert await ran(receives, url, "prices", 2, **same, end="detach") == [0, 1]
        await until(lambda: not named(node).attached)
        assert await ran(receives, url, "prices", 2, **same) == [2, 3]
        await until(lambda: not named(node).attached)
        if not durable:
            assert await ran(receives, url, "prices", 3, **same, end="close") == [4, 5, 6]
            await until(lambda: not node.statistics().multicasts["prices"].named)
            return
    async with Node(store=path) as node:
        node.multicast("prices", durable=True)
        url = (await node.listen("127.0.0.1:0")).url
        assert await ran(receives, url, "prices", 3, **same, end="close") == [4, 5, 6]
        await until(lambda: not node.statistics().multicasts["prices"].named)
