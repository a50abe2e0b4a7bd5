"""The orderly end of a connection and of a node over TCP: nothing in hand is cut, and nothing accepted is lost."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest
import trio

import rstreams
from rstreams import Delivery, Node, Reconnect, Stream
from rstreams.errors import ConfigError, ConnectionClosed, ConnectionLost, LinkDetached, RStreamsError
from rstreams.net.connection import PublishResult
from rstreams.net.links.draining import Drained
from rstreams.testing import FaultyNetwork
from tests.loops import Loop, over_both_loops
from tests.net.over_tcp import connected, until


@over_both_loops
async def test_a_loop_ends_when_what_came_has_been_handed_over(on: Loop) -> None:
    async with on.connected() as (node, connection), on.open_nursery() as nursery:
        queue = node.queue("work", capacity=2000)
        await connection.publish("work", on.Stream.range(1000))
        got: list[int] = []
        ended = on.Event()

        async def loop() -> None:
            async with connection.stream("work", window=16).open() as items:
                async for item in items:
                    await on.checkpoint()
                    got.append(item)
            ended.set()

        nursery.start_soon(loop)
        await on.until(lambda: len(got) > 100)
        assert await connection.drain_and_close() == Drained()
        await ended.wait()
        assert got == list(range(len(got)))
        assert len(got) < 1000
        now = queue.statistics()
        assert (now.accepted, now.ready, now.unsettled, now.modified) == (len(got), 1000 - len(got), 0, 0)
        assert connection.status.state == "closed"


@over_both_loops
async def test_handlers_finish_what_they_have_and_may_send_meanwhile(on: Loop) -> None:
    async with on.connected() as (node, connection), on.open_nursery() as nursery:
        queue, answers = node.queue("work"), node.queue("answers")
        await connection.publish("work", on.Stream.range(100))
        inside, go_on = 0, on.Event()
        returned = on.Event()

        async def consume() -> None:
            async with connection.sender("answers") as sender:

                async def handle(item: int) -> None:
                    nonlocal inside
                    inside += 1
                    await go_on.wait()
                    await sender.send(item)

                await connection.consume("work", handle, concurrency=5)
            returned.set()

        nursery.start_soon(consume)
        await on.until(lambda: inside == 5)
        drained: list[Drained] = []

        async def close() -> None:
            drained.append(await connection.drain_and_close())

        nursery.start_soon(close)
        await on.until(lambda: queue.statistics().demand == 0)
        go_on.set()
        await returned.wait()
        await on.until(lambda: drained)
        assert drained == [Drained()]
        assert answers.statistics().enqueued == queue.statistics().accepted == inside
        assert (queue.statistics().modified, queue.statistics().released) == (0, 0)


async def by_sender_before(connection: Any, item: int, sender: Any, _requester: Any) -> None:  # noqa: ANN401 - of any loop
    assert connection is not None
    await sender.send(item)


async def by_sender(connection: Any, item: int, _sender: Any, _requester: Any) -> None:  # noqa: ANN401 - likewise
    async with connection.sender("answers") as sender:
        await sender.send(item)


async def by_publish(connection: Any, item: int, _sender: Any, _requester: Any) -> None:  # noqa: ANN401 - likewise
    assert (await connection.publish("answers", Stream.of(item))).complete


async def by_request_before(connection: Any, item: int, _sender: Any, requester: Any) -> None:  # noqa: ANN401 - likewise
    assert connection is not None
    await requester.request(item)


async def by_request(connection: Any, item: int, _sender: Any, _requester: Any) -> None:  # noqa: ANN401 - likewise
    async with connection.requester("double") as requester:
        await requester.request(item)


SENDS = [by_sender_before, by_sender, by_publish, by_request_before, by_request]


@pytest.mark.parametrize("same", [True, False], ids=["over this connection", "over another one"])
@pytest.mark.parametrize("receives", ["consume", "loop"])
@pytest.mark.parametrize("send", SENDS)
@over_both_loops
async def test_a_handler_may_send_until_it_has_ended(
    on: Loop,
    send: Callable[[Any, int, Any, Any], Awaitable[None]],
    receives: str,
    same: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    """It takes most of the time; another connection through which it sends is drained at the same time."""
    handled: list[int] = []
    drained: list[Drained] = []
    begun = on.Event()
    async with on.Node() as node:
        queue, answers = node.queue("work"), node.queue("answers")

        def double(item: int) -> int:
            return 2 * item

        node.respond("double", double)
        listener = await node.listen("127.0.0.1:0")
        async with on.connect(listener.url) as first, on.connect(listener.url) as second, on.open_nursery() as nursery:
            sends = first if same else second
            await first.publish("work", on.Stream.range(5))

            async def receive() -> None:
                async with sends.sender("answers") as sender, sends.requester("double") as requester:

                    async def handle(item: int) -> None:
                        begun.set()
                        await on.sleep(8)
                        await send(sends, item, sender, requester)
                        handled.append(item)

                    if receives == "consume":
                        await first.consume("work", handle)
                    else:
                        async with first.stream("work", window=1).open() as items:
                            async for item in items:
                                await handle(item)

            async def close(connection: Any) -> None:  # noqa: ANN401 - of any loop
                drained.append(await connection.drain_and_close(timeout_s=10))

            nursery.start_soon(receive)
            await begun.wait()
            for connection in [second, first]:
                nursery.start_soon(partial(close, connection))
            await on.until(lambda: len(drained) == 2)
        assert drained == [Drained(), Drained()]
        assert handled == [0]
        assert queue.statistics().accepted == 1
        assert answers.statistics().enqueued == (0 if "request" in send.__name__ else 1)


@pytest.mark.parametrize("send", SENDS[:3])
@over_both_loops
async def test_a_handler_that_sends_when_the_time_is_over_hears_of_the_drain(
    on: Loop, send: Callable[[Any, int, Any, Any], Awaitable[None]]
) -> None:
    async with on.connected() as (node, connection), on.open_nursery() as nursery:
        queue = node.queue("work")
        node.queue("answers")
        await connection.publish("work", on.Stream.of(1))
        errors: list[BaseException] = []
        begun = on.Event()

        async def consume() -> None:
            async with connection.sender("answers") as sender:

                async def handle(item: int) -> None:
                    begun.set()
                    await on.sleep(9.5)
                    try:
                        await send(connection, item, sender, None)
                    except ConnectionLost as error:
                        errors.append(error)
                        raise

                await connection.consume("work", handle, on_failure="modify")

        async def close() -> None:
            await connection.drain_and_close(timeout_s=10)

        nursery.start_soon(consume)
        await begun.wait()
        nursery.start_soon(close)
        await on.until(lambda: errors)
        [error] = errors
        assert re.search("the connection to .* is drained and closed from this side", str(error))
        await on.until(lambda: queue.statistics().modified)
        await on.until(lambda: connection.status.state == "closed")


@over_both_loops
async def test_publish_returns_what_was_accepted_and_says_that_it_is_not_all(on: Loop) -> None:
    async with on.connected() as (node, connection), on.open_nursery() as nursery:
        queue = node.queue("work", capacity=10)
        results: list[PublishResult] = []
        taken: list[int] = []

        async def publish() -> None:
            numbers = on.Stream.range(10**9).do_on_next(taken.append)
            results.append(await connection.publish("work", numbers))

        nursery.start_soon(publish)
        await on.until(lambda: queue.statistics().ready == 10)
        assert (await connection.drain_and_close()).complete
        await on.until(lambda: results)
        assert results == [PublishResult(10, complete=False)]
        assert queue.statistics().enqueued == len(taken) == 10


@over_both_loops
async def test_a_relay_ends_with_its_source_and_completes(on: Loop) -> None:
    async with on.connected() as (node, connection), on.open_nursery() as nursery:
        source, target = node.queue("a"), node.queue("b")
        await connection.publish("a", on.Stream.range(200))
        results: list[PublishResult] = []

        async def relay() -> None:
            results.append(await connection.publish("b", connection.stream("a", window=8)))

        nursery.start_soon(relay)
        await on.until(lambda: target.statistics().enqueued > 20)
        assert (await connection.drain_and_close()).complete
        await on.until(lambda: results)
        assert results == [PublishResult(target.statistics().enqueued)]
        assert source.statistics().accepted == target.statistics().enqueued
        assert source.statistics().unsettled == 0


@over_both_loops
async def test_what_is_not_through_in_time_is_told_and_given_back(on: Loop) -> None:
    async with on.connected() as (node, connection), on.open_nursery() as nursery:
        queue = node.queue("work")
        await connection.publish("work", on.Stream.range(10))
        kept: list[Delivery[int]] = []

        async def take() -> None:
            deliveries = connection.stream("work", settlement="manual", window=4)
            await deliveries.for_each(kept.append)

        nursery.start_soon(take)
        await on.until(lambda: len(kept) == 4)
        drained = await connection.drain_and_close(timeout_s=0.05)
        assert (drained.given_back, drained.complete) == (4, False)
        await on.until(lambda: queue.statistics().ready == 10)
        kept[0].accept()  # too late, and no error


@over_both_loops
async def test_a_loop_whose_peer_does_not_answer_in_time_fails(on: Loop) -> None:
    async with on.Node() as node, on.open_nursery() as nursery:
        node.queue("work")
        listener = await node.listen("127.0.0.1:0")
        async with FaultyNetwork(listener.url) as network, on.connect(network.url) as connection:
            await connection.publish("work", on.Stream.range(3))
            got: list[int] = []
            failed = on.Event()

            async def loop() -> None:
                with pytest.raises(ConnectionLost, match="drained"):
                    await connection.stream("work").for_each(got.append)
                failed.set()

            nursery.start_soon(loop)
            await on.until(lambda: len(got) == 3)
            network.blackhole()
            drained: list[Drained] = []

            async def close() -> None:
                drained.append(await connection.drain_and_close(timeout_s=0.05))

            nursery.start_soon(close)
            await failed.wait()
            network.reset()
            await on.until(lambda: drained)
            assert drained == [Drained()], "all that came was settled"


@over_both_loops
async def test_what_begins_after_that_fails_at_once(on: Loop) -> None:
    async with on.connected() as (node, connection):
        node.queue("work")
        assert (await connection.drain_and_close()).complete
        with pytest.raises(ConnectionLost, match="drained"):
            await connection.stream("work").to_list()
        with pytest.raises(ConnectionLost, match="drained"):
            await connection.publish("work", on.Stream.of(1))
        with pytest.raises(ConnectionLost, match="drained"):
            async with connection.sender("work"):
                pass
        assert (await connection.drain_and_close()).complete
        for bad in (0, -1, "1", True):
            with pytest.raises(ConfigError, match="timeout_s"):
                await connection.drain_and_close(timeout_s=bad)
            with pytest.raises(ConfigError, match="timeout_s"):
                await node.drain_and_close(timeout_s=bad)


@over_both_loops
async def test_a_sender_takes_no_more(on: Loop) -> None:
    async with on.connected() as (node, connection):
        node.queue("work", capacity=1)
        async with connection.sender("work") as sender:
            await sender.send(1)
            assert (await connection.drain_and_close()).complete
            with pytest.raises(RStreamsError, match="closed"):
                await sender.send(2)


# the node


async def test_a_node_sees_through_what_its_queues_hold() -> None:
    async with Node() as node, trio.open_nursery() as nursery:
        listener = await node.listen("127.0.0.1:0")
        queue = node.queue("work", capacity=500)
        got: list[int] = []
        sent: list[int] = []
        failures: list[BaseException] = []

        async def consume() -> None:
            async def handle(item: int) -> None:
                await trio.lowlevel.checkpoint()
                got.append(item)

            with pytest.raises(ConnectionClosed, match="closing"):
                async with rstreams.connect(listener.url) as connection:
                    await connection.consume("work", handle, concurrency=3)

        async def publish() -> None:
            try:
                async with rstreams.connect(listener.url) as connection, connection.sender("work") as sender:
                    for number in range(10**9):
                        await sender.send(number)
                        sent.append(number)
            except RStreamsError as error:
                failures.append(error)

        nursery.start_soon(publish)
        await until(lambda: len(sent) > 200)
        nursery.start_soon(consume)
        await until(lambda: len(got) > 10)
        assert await node.drain_and_close() == Drained()
        await until(lambda: failures)
        assert sorted(got) == list(range(len(got)))
        assert set(sent) <= set(got), "what was accepted has been handled"
        now = queue.statistics()
        assert (now.accepted, now.ready, now.unsettled) == (now.enqueued, 0, 0)


@over_both_loops
async def test_what_nobody_takes_is_told(on: Loop) -> None:
    async with on.connected() as (node, connection):
        node.queue("work")
        await connection.publish("work", on.Stream.range(7))
        assert await node.drain_and_close() == Drained(left=7)


@over_both_loops
async def test_a_consumer_that_does_not_settle_is_not_waited_for_longer_than_that(on: Loop) -> None:
    async with on.connected() as (node, connection), on.open_nursery() as nursery:
        node.queue("work")
        await connection.publish("work", on.Stream.range(3))
        kept: list[Delivery[int]] = []

        async def take() -> None:
            with pytest.raises(ConnectionClosed):
                await connection.stream("work", settlement="manual").for_each(kept.append)

        nursery.start_soon(take)
        await on.until(lambda: len(kept) == 3)
        drained = await node.drain_and_close(timeout_s=0.05)
        assert drained == Drained(outcome_unknown=3, left=3)


async def test_a_served_stream_ends_with_the_reason_after_what_it_has_sent() -> None:
    async with connected() as (node, connection), trio.open_nursery() as nursery:
        cancelled: list[bool] = []
        numbers = Stream.range(10**9).do_on_cancel(lambda: cancelled.append(True))
        node.serve("numbers", numbers)
        got: list[int] = []

        async def take() -> None:
            with pytest.raises(LinkDetached, match="closing"):
                await connection.stream("numbers").for_each(got.append)

        nursery.start_soon(take)
        await until(lambda: len(got) > 100)
        assert await node.drain_and_close() == Drained()
        assert cancelled == [True]
        await until(lambda: connection.status.state == "closed")
        assert got == list(range(len(got)))


async def test_new_links_and_clients_are_refused_while_it_drains() -> None:
    async with connected() as (node, connection), trio.open_nursery() as nursery:
        queue = node.queue("work")
        [listener] = node._listeners
        await connection.publish("work", Stream.of(1))
        kept: list[Delivery[int]] = []

        async def take() -> None:
            with pytest.raises(ConnectionClosed):
                await connection.stream("work", settlement="manual").for_each(kept.append)

        nursery.start_soon(take)
        await until(lambda: kept)
        drained: list[Drained] = []

        async def close() -> None:
            drained.append(await node.drain_and_close())

        nursery.start_soon(close)
        await until(lambda: node._links.closing)
        with pytest.raises(LinkDetached, match="closing") as refused:
            await connection.publish("work", Stream.of(2))
        assert refused.value.condition == "amqp:connection:forced"
        with pytest.raises(rstreams.RStreamsError):
            async with rstreams.connect(listener.url):
                pass
        kept[0].accept()
        await until(lambda: drained)
        assert drained == [Drained()]
        assert queue.statistics().accepted == 1


@over_both_loops
async def test_clients_with_a_policy_go_on_at_another_node(on: Loop) -> None:
    policy = Reconnect(first_delay_s=0.0, max_delay_s=0.0)
    async with on.Node() as first, on.Node() as second:
        one, two = await first.listen("127.0.0.1:0"), await second.listen("127.0.0.1:0")
        queues = first.queue("work", capacity=50), second.queue("work", capacity=1000)
        got: list[int] = []
        results: list[PublishResult] = []
        async with on.connect([one.url, two.url], reconnect=policy) as connection, on.open_nursery() as nursery:

            async def publish() -> None:
                results.append(await connection.publish("work", on.Stream.range(500), settlement="effectively_once"))

            async def consume() -> None:
                options: Any = {"settlement": "effectively_once"}
                await connection.consume("work", got.append, **options)

            nursery.start_soon(consume)
            nursery.start_soon(publish)
            await on.until(lambda: len(got) > 100)
            assert (await first.drain_and_close()).left == 0
            await on.until(lambda: results and len(got) >= 500)
            nursery.cancel_scope.cancel()
        assert results == [PublishResult(500)]
        assert got == list(range(500))
        assert queues[0].statistics().enqueued + queues[1].statistics().enqueued == 500
