"""What a node that is drained means to clients that reconnect: no more than its loss, and nothing in hand is cut."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
import trio

import rstreams
from rstreams import Connection, Delivery, Message, Node, Reconnect, Stream
from rstreams.errors import LinkDetached
from rstreams.net.connection import PublishResult
from rstreams.net.links.connection_links import Links
from rstreams.net.links.draining import Drained
from tests.net.over_tcp import pump_of, until

SOON = Reconnect(first_delay_s=0.01, max_delay_s=0.01)


@asynccontextmanager
async def two_nodes(**options: Any) -> AsyncIterator[tuple[Node, Node, Connection]]:  # noqa: ANN401 - `connect`'s
    """Two nodes, and a client that is connected to the first one and goes on at the second one."""
    async with Node() as first, Node() as second:
        one, two = await first.listen("127.0.0.1:0"), await second.listen("127.0.0.1:0")
        async with rstreams.connect([one.url, two.url], reconnect=SOON, **options) as connection:
            yield first, second, connection


def waiting(connection: Connection) -> list[Any]:
    """The links that the peer has ended, and that are to be attached again."""
    return [end for end, _ in pump_of(connection).waiting if end.wants_link]


@asynccontextmanager
async def draining(node: Node) -> AsyncIterator[list[Drained]]:
    """A node that is being drained during the block, because of a message that is in somebody's hand."""
    node.queue("kept")
    [listener] = node._listeners
    kept: list[Delivery[int]] = []
    drained: list[Drained] = []

    async def drain() -> None:
        drained.append(await node.drain_and_close())

    async with rstreams.connect(listener.url, reconnect=SOON) as other, trio.open_nursery() as nursery:
        await other.publish("kept", Stream.of(1))
        nursery.start_soon(other.stream("kept", settlement="manual").for_each, kept.append)
        await until(lambda: kept)
        nursery.start_soon(drain)
        await until(lambda: node._links.closing)
        yield drained
        assert not drained
        kept[0].accept()
        await until(lambda: drained)
        nursery.cancel_scope.cancel()


async def test_streams_go_on_at_another_node_and_nothing_in_hand_is_cut() -> None:
    packed: list[int] = []
    at_most_once: list[int] = []
    effectively_once: list[int] = []
    messages: list[Message] = []
    streamed: list[Message] = []
    handled: list[int] = []
    drained: list[Drained] = []
    in_hand, go_on = 0, trio.Event()

    async def handle(item: int) -> None:
        nonlocal in_hand
        in_hand += 1
        await go_on.wait()
        handled.append(item)

    async with two_nodes() as (first, second, connection):
        first.serve("numbers", Stream.range(10**9))
        second.serve("numbers", Stream.range(-40, 0))

        async def drain() -> None:
            drained.append(await first.drain_and_close())

        async with trio.open_nursery() as nursery:
            stream = partial(connection.stream, "numbers")
            nursery.start_soon(stream().for_each, packed.append)
            nursery.start_soon(stream(settlement="at_most_once").for_each, at_most_once.append)
            nursery.start_soon(stream(settlement="effectively_once").for_each, effectively_once.append)
            nursery.start_soon(connection.messages("numbers", window=4).for_each, messages.append)
            nursery.start_soon(connection.streamed_messages("numbers").for_each, streamed.append)
            nursery.start_soon(partial(connection.consume, "numbers", handle, concurrency=3, window=4))
            loops: list[list[Any]] = [packed, at_most_once, effectively_once, messages, streamed]
            await until(lambda: in_hand == 3 and all(len(got) > 4 for got in loops))
            nursery.start_soon(drain)
            await until(lambda: not first.statistics().served["numbers"].subscribers)
            assert not drained, "three are in hand"
            go_on.set()
        delivered = first.statistics().served["numbers"].delivered

    assert drained == [Drained()]
    received = 0
    bodies = ([message.body for message in got] for got in (messages, streamed))
    for got in packed, at_most_once, effectively_once, *bodies, sorted(handled):
        of_first, of_second = [number for number in got if number >= 0], [number for number in got if number < 0]
        assert of_first == list(range(len(of_first))), "each in its order, and once"
        assert of_second == list(range(-40, 0))
        received += len(of_first)
    assert received == delivered, "to the last one"


async def test_what_begins_while_it_drains_waits_for_another_node() -> None:
    async with two_nodes() as (first, second, connection), trio.open_nursery() as nursery:
        queue = second.queue("work")
        second.serve("numbers", Stream.range(5))
        second.respond("double", lambda number: 2 * number)
        done: dict[str, object] = {}

        async def publish() -> None:
            done["publish"] = await connection.publish("work", Stream.range(3))

        async def send() -> None:
            async with connection.sender("work") as sender:
                await sender.send(3)
            done["send"] = True

        async def take() -> None:
            done["take"] = await connection.stream("numbers").to_list()

        async def ask() -> None:
            async with connection.requester("double") as requester:
                done["ask"] = await requester.request(21)

        async with draining(first):
            for task in publish, send, take, ask:
                nursery.start_soon(task)
            await until(lambda: len(waiting(connection)) == 5)
            assert not done
        await until(lambda: len(done) == 4)
        assert done == {"publish": PublishResult(3), "send": True, "take": [0, 1, 2, 3, 4], "ask": 42}
        assert queue.statistics().enqueued == 4


async def test_a_request_in_hand_is_answered_and_the_next_one_goes_to_another_node() -> None:
    async with two_nodes() as (first, second, connection), trio.open_nursery() as nursery:
        begun, go_on = trio.Event(), trio.Event()

        async def slow(item: str) -> str:
            begun.set()
            await go_on.wait()
            return f"{item}: first"

        first.respond("who", slow)
        second.respond("who", lambda item: f"{item}: second")
        replies: list[str] = []
        drained: list[Drained] = []

        async def ask() -> None:
            replies.append(await requester.request("one"))

        async def drain() -> None:
            drained.append(await first.drain_and_close())

        async with connection.requester("who") as requester:
            nursery.start_soon(ask)
            await begun.wait()
            nursery.start_soon(drain)
            await until(lambda: first._links.closing and all(each.at_rest for each in first._links.producers))
            assert not first._is_through(), "no more requests come, but one is in hand"
            go_on.set()
            await until(lambda: drained)
            assert (replies, drained) == (["one: first"], [Drained()])
            assert await requester.request("two") == "two: second"


@pytest.mark.parametrize("before", [0, 1])
async def test_a_request_in_the_hand_of_a_client_is_answered_too(before: int) -> None:
    async with two_nodes() as (first, second, connection), trio.open_nursery() as nursery:
        first.queue("who")
        second.respond("who", lambda item: f"{item}: second")
        begun, go_on = trio.Event(), trio.Event()
        replies: list[str] = []
        drained: list[Drained] = []

        async def answer(item: int) -> str:
            if item == before:  # the first one opens the link for replies
                begun.set()
                await go_on.wait()
            return f"{item}: first"

        async def respond() -> None:
            async with rstreams.connect(first._listeners[0].url, reconnect=SOON) as other:
                await other.respond("who", answer)

        async def ask() -> None:
            replies.extend([await requester.request(number) for number in range(before + 1)])

        async def drain() -> None:
            drained.append(await first.drain_and_close())

        nursery.start_soon(respond)
        async with connection.requester("who") as requester:
            nursery.start_soon(ask)
            await begun.wait()
            nursery.start_soon(drain)
            await until(lambda: first._links.closing and all(each.at_rest for each in first._links.producers))
            go_on.set()
            await until(lambda: drained)
            assert drained == [Drained()]
            assert replies == [f"{number}: first" for number in range(before + 1)]
            assert await requester.request("next") == "next: second"
        nursery.cancel_scope.cancel()


async def test_a_request_that_is_not_answered_in_time_is_told() -> None:
    async with two_nodes() as (first, _, connection), trio.open_nursery() as nursery:
        begun = trio.Event()

        async def never(_item: object) -> None:
            begun.set()
            await trio.sleep_forever()

        first.respond("who", never)
        async with connection.requester("who") as requester:

            async def ask() -> None:
                with pytest.raises(rstreams.RStreamsError, match="closing"):
                    await requester.request("one")

            nursery.start_soon(ask)
            await begun.wait()
            assert await first.drain_and_close(timeout_s=0.02) == Drained(given_back=1)


async def test_an_item_in_hand_that_is_not_settled_in_time_is_told() -> None:
    async with two_nodes() as (first, second, connection), trio.open_nursery() as nursery:
        first.serve("numbers", Stream.range(10**9))
        second.serve("numbers", Stream.of(-1))
        kept: list[Delivery[int]] = []
        deliveries = connection.stream("numbers", settlement="manual", window=4)
        nursery.start_soon(deliveries.for_each, kept.append)
        await until(lambda: len(kept) == 4)
        assert await first.drain_and_close(timeout_s=0.02) == Drained(outcome_unknown=4)
        kept[0].accept()  # too late, and there is room for another one
        await until(lambda: len(kept) == 5)
        assert [each.item for each in kept] == [0, 1, 2, 3, -1]
        for each in kept[1:]:
            each.accept()


@pytest.mark.slow
async def test_a_stream_that_is_left_or_drained_while_it_waits_ends() -> None:
    async with two_nodes() as (first, _, connection), trio.open_nursery() as nursery:
        first.serve("numbers", Stream.range(10**9))
        got: list[int] = []
        ended: list[str] = []

        async def take(name: str, scope: trio.CancelScope) -> None:
            with scope:
                await connection.stream("numbers").for_each(got.append)
            ended.append(name)

        left = trio.CancelScope()
        nursery.start_soon(take, "left", left)
        nursery.start_soon(take, "completed", trio.CancelScope())
        await until(lambda: len(got) > 20)
        async with draining(first):
            await until(lambda: len(waiting(connection)) == 2)
            left.cancel()
            await until(lambda: ended == ["left"])
            assert (await connection.drain_and_close()).complete
            await until(lambda: ended == ["left", "completed"])


@pytest.mark.slow
async def test_one_connection_alone_attaches_nothing_again() -> None:
    async with two_nodes() as (first, _, connection), draining(first):
        alone = Connection(Links(pump_of(connection), "alone"))  # as for tokens, which are each connection's own
        with pytest.raises(LinkDetached, match="closing"):
            await alone.stream("numbers").to_list()


async def test_without_a_policy_the_reason_is_told_at_once() -> None:
    async with Node() as node, trio.open_nursery() as nursery:
        listener = await node.listen("127.0.0.1:0")
        node.serve("numbers", Stream.range(10**9))
        errors: list[LinkDetached] = []
        got: list[int] = []

        async def take() -> None:
            with pytest.raises(LinkDetached, match="closing") as raised:
                await connection.stream("numbers").for_each(got.append)
            errors.append(raised.value)

        async with rstreams.connect(listener.url) as connection:
            nursery.start_soon(take)
            await until(lambda: got)
            async with draining(node) as drained:
                await until(lambda: errors)
                assert not drained
        assert errors[0].condition == "amqp:connection:forced"
