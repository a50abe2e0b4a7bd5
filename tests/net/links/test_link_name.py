"""Each kind of link that a client attaches has the same name at both of its sides."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

import pytest
import trio

import rstreams
from rstreams import Connection, Node, Stream
from rstreams.net.links.link_name import LinkName
from tests.net.over_tcp import until

USERS = {"ann": "secret"}


async def sender(connection: Connection, stack: AsyncExitStack) -> None:
    await stack.enter_async_context(connection.sender("work"))


async def sender_to_any(connection: Connection, stack: AsyncExitStack) -> None:
    await stack.enter_async_context(connection.sender(None))


async def publish(connection: Connection, stack: AsyncExitStack) -> None:
    nursery = await stack.enter_async_context(trio.open_nursery())
    stack.callback(nursery.cancel_scope.cancel)
    nursery.start_soon(connection.publish, "work", Stream.never())


def stream(address: str, **options: Any) -> Callable[[Connection, AsyncExitStack], Any]:  # noqa: ANN401 - those of `Connection.stream`
    async def attach(connection: Connection, stack: AsyncExitStack) -> None:
        await stack.enter_async_context(connection.stream(address, **options).open())

    return attach


async def named(connection: Connection, stack: AsyncExitStack) -> None:
    await stack.enter_async_context(connection.stream("news", subscription="mine").open())


async def requester(connection: Connection, stack: AsyncExitStack) -> None:
    await stack.enter_async_context(connection.requester("asked"))


async def management(connection: Connection, stack: AsyncExitStack) -> None:
    await stack.enter_async_context(connection.management())


CASES = {
    "sender": sender,
    "sender to any address": sender_to_any,
    "publish": publish,
    "queue": stream("work"),
    "multicast": stream("news"),
    "log": stream("history", start="first"),
    "group": stream("history", group="readers"),
    "served": stream("prices"),
    "statistics": stream("$statistics"),
    "named subscription": named,
    "requester": requester,
    "management": management,
}


NAMED_ONLY = ("named subscription", None)
"""A named subscription needs a container id of its own."""


def names_at_client(connection: Connection) -> list[LinkName]:
    return [name for name, _ in connection._links.named()]


def names_at_node(node: Node) -> list[LinkName]:
    return [link.shown for _, link in node._links.attached]


BOTH = [(case, container_id) for case in CASES for container_id in (None, "shop") if (case, container_id) != NAMED_ONLY]


@pytest.mark.parametrize(("case", "container_id"), BOTH)
async def test_both_sides_give_a_link_the_same_name(case: str, container_id: str | None) -> None:
    async with Node(users=USERS) as node, AsyncExitStack() as stack:
        node.queue("work")
        node.multicast("news")
        node.log("history", retention_items=10)
        node.serve("prices", Stream.never())
        node.respond("asked", lambda item: item)
        listener = await node.listen("127.0.0.1:0")
        url = listener.url.replace("//", "//ann:secret@")
        connection = await stack.enter_async_context(rstreams.connect(url, container_id=container_id))
        await CASES[case](connection, stack)
        await until(lambda: names_at_node(node) and len(names_at_node(node)) == len(names_at_client(connection)))
        for ours, theirs in zip(names_at_client(connection), names_at_node(node), strict=True):
            assert ours in {theirs, replace(theirs, address="")}
            assert ours.address == theirs.address or theirs.address.startswith("temporary/")
            assert ours.user == "ann"
        numbers = [name.number for name in names_at_client(connection)]
        if case != "named subscription":
            assert all(number.isdigit() for number in numbers)


def test_a_name_tells_the_number_or_what_its_client_has_called_it() -> None:
    name = LinkName("shop", "orders", "publish", "ann", "shop/7")
    assert (name.number, str(name)) == ("7", "link 7 of 'shop' to 'orders', user 'ann'")
    other = LinkName("shop", "", "subscribe", "", "mine")
    assert (other.number, str(other)) == ("mine", "link mine of 'shop' from no address of its own")
    assert len(str(LinkName("c" * 9999, "a" * 9999, "publish", "u" * 9999, "l" * 9999))) < 400
