"""Connections and nodes over TCP, over trio and over asyncio: streams, publishing, senders, consumers, requests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextvars import ContextVar
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from rstreams import ByteStream, Message, Reconnect
from rstreams.errors import ConfigError, ConnectFailed, ConnectionLost, DeliveryFailed, LinkDetached, RequestFailed
from rstreams.node.queue import Queue
from rstreams.testing import ProbeSubscriber
from tests.loops import Loop, over_both_loops

VARIABLE: ContextVar[str] = ContextVar("variable", default="unset")


def slowly(on: Loop) -> Callable[[int], Awaitable[int]]:
    async def slow(number: int) -> int:
        await on.sleep(0.01)
        return number

    return slow


def kept(queue: Queue) -> int:
    numbers = queue.statistics()
    return numbers.ready + numbers.delayed + numbers.unsettled


@over_both_loops
async def test_items_of_a_served_stream_come_in_order(on: Loop) -> None:
    async with on.connected() as (node, connection):
        node.serve("numbers", on.Stream.range(5000))
        assert await connection.stream("numbers").to_list() == list(range(5000))
        seen = []
        async with connection.stream("numbers").open(window=16) as items:
            async for item in items:
                seen.append(item)
                if item == 999:
                    break
        assert seen == list(range(1000))
        assert await connection.stream("numbers").first_or_none() == 0
        assert repr(connection).startswith("<rstreams connection to ")
        assert str(connection.explain()).endswith("connected")


@pytest.mark.parametrize("options", [{"subscription": "billing"}, {"group": "billing"}, {}])
@over_both_loops
async def test_a_stream_that_was_cancelled_at_once_is_opened_again_at_once(on: Loop, options: dict[str, str]) -> None:
    async with on.Node() as node:
        if "subscription" in options:
            node.multicast("prices")
        elif "group" in options:
            node.log("prices", retention_items=100)
        else:
            node.serve("prices", on.Stream.range(5), keep_s=30)
        url = (await node.listen("127.0.0.1:0")).url
        async with on.connect(url, container_id="shop") as connection, on.connect(url) as publisher:
            stream = connection.stream("prices", **options)
            for _ in range(4):
                async with stream.open():
                    pass
            got: list[int] = []
            task = on.start(lambda: stream.take(5).for_each(got.append))
            if options:
                await on.until(lambda: "has credit for" in str(connection.explain()))
                await publisher.publish("prices", on.Stream.range(5))
            assert await task.ended() is None
            assert got == list(range(5))


@over_both_loops
async def test_a_durable_queue_outlives_its_node(on: Loop) -> None:
    with TemporaryDirectory() as folder:
        for ready in (2, 3):
            async with on.connected(store=f"{folder}/store") as (node, connection):
                queue = node.queue("q", durable=True)
                await connection.publish("q", on.Stream.of("a", "b"))
                assert kept(queue) == ready
                assert len(await connection.stream("q").take(1).to_list()) == 1


@over_both_loops
async def test_async_functions_of_both_ends_run_in_the_loop(on: Loop) -> None:
    async with on.connected() as (node, connection):
        node.serve("slow", on.Stream.range(20).map_async(slowly(on), concurrency=4))
        received = connection.stream("slow").map_async(slowly(on), concurrency=4)
        assert await received.to_list() == list(range(20))


@over_both_loops
async def test_an_error_of_a_served_stream_arrives(on: Loop) -> None:
    async def fail(number: int) -> int:
        await on.checkpoint()
        raise ValueError(number)

    async with on.connected(expose_errors=True) as (node, connection):
        node.serve("broken", on.Stream.of(7).map_async(fail))
        with pytest.raises(Exception, match="7"):
            await connection.stream("broken").to_list()


@over_both_loops
async def test_publishing_waits_for_the_outcomes(on: Loop) -> None:
    async with on.connected() as (node, connection):
        queue = node.queue("jobs")
        result = await connection.publish("jobs", on.Stream.range(100).map_async(slowly(on), concurrency=10))
        assert (result.accepted, result.complete) == (100, True)
        assert kept(queue) == 100
        with pytest.raises(LinkDetached):
            await connection.publish("nowhere", on.Stream.of(1))
        with pytest.raises(ZeroDivisionError):
            await connection.publish("jobs", on.Stream.of(1).map(lambda one: one // 0))
        with pytest.raises(ConfigError, match="items must be a Stream"):
            await connection.publish("jobs", [1])


@over_both_loops
async def test_a_cancelled_publish_ends_its_link_and_its_tasks(on: Loop) -> None:
    ended = []

    async def work(number: int) -> int:
        try:
            await on.sleep(1000)
        finally:
            ended.append(number)
        return number

    async with on.connected() as (node, connection):
        queue = node.queue("jobs")
        task = on.start(lambda: connection.publish("jobs", on.Stream.of(1).map_async(work)))
        await on.until(lambda: queue.statistics().producers)
        await on.settled()
        task.cancel()
        assert isinstance(await task.ended(), on.Cancelled)
        await on.until(lambda: ended)
        await on.until(lambda: not queue.statistics().producers)


@over_both_loops
async def test_a_sender_tells_the_outcome_of_each_message(on: Loop) -> None:
    async with on.connected() as (node, connection):
        node.queue("jobs", capacity=3)
        told = []
        async with connection.sender("jobs") as sender:
            await sender.send("first")
            receipt = await sender.submit(Message("second"))
            receipt.when_settled(lambda one: told.append(one.error))
            await receipt.wait()
            assert (receipt.settled, receipt.error, told) == (True, None, [None])
            await sender.send("third")
            task = on.start(lambda: sender.send("fourth"))  # there is no room for it
            await on.settled()
            task.cancel()
            assert isinstance(await task.ended(), on.Cancelled)
            with pytest.raises(ConfigError, match="a message to 'jobs'"):
                await sender.send(object())
            assert sender.address == "jobs"
        got = await connection.stream("jobs").take(3).to_list()
        assert got == ["first", "second", "third"]


@over_both_loops
async def test_a_sender_hears_what_is_refused(on: Loop) -> None:
    async with on.connected(max_message_bytes=1000) as (node, connection):
        node.queue("jobs")
        with pytest.raises((DeliveryFailed, LinkDetached)):
            async with connection.sender("jobs") as sender:
                await sender.send(b"x" * 2000)


@over_both_loops
async def test_a_handler_settles_by_its_end(on: Loop) -> None:
    handled: list[int] = []

    async def handle(number: int) -> None:
        await on.sleep(0.01)
        if number == 2 and number not in handled:
            handled.append(number)
            raise ValueError(number)
        handled.append(number)

    async with on.connected() as (node, connection):
        queue = node.queue("jobs")
        await connection.publish("jobs", on.Stream.range(5))
        task = on.start(lambda: connection.consume("jobs", handle, concurrency=2, on_failure="modify"))
        await on.until(lambda: len(handled) == 6)
        await on.until(lambda: kept(queue) == 0)
        task.cancel()
        assert isinstance(await task.ended(), on.Cancelled)
    assert sorted(handled) == [0, 1, 2, 2, 3, 4]


@over_both_loops
async def test_a_failing_handler_ends_the_call_and_gives_back(on: Loop) -> None:
    def handle(number: int) -> None:
        raise LookupError(number)

    async with on.connected() as (node, connection):
        queue = node.queue("jobs")
        await connection.publish("jobs", on.Stream.range(3))
        with pytest.raises(LookupError):
            await connection.consume("jobs", handle)
        await on.until(lambda: kept(queue) == 3)
        with pytest.raises(ConfigError, match="concurrency"):
            await connection.consume("jobs", handle, concurrency=0)


@over_both_loops
async def test_a_cancelled_consumer_gives_back_what_is_in_hand(on: Loop) -> None:
    begun = []

    async def handle(number: int) -> None:
        begun.append(number)
        await on.sleep(1000)

    async with on.connected() as (node, connection):
        node.queue("jobs")
        await connection.publish("jobs", on.Stream.range(3))
        task = on.start(lambda: connection.consume("jobs", handle, concurrency=2))
        await on.until(lambda: len(begun) == 2)
        task.cancel()
        assert isinstance(await task.ended(), on.Cancelled)
        counts = await connection.messages("jobs").take(3).map(lambda message: message.delivery_count).to_list()
        assert sorted(counts) == [0, 1, 1]


@over_both_loops
async def test_cancelling_a_task_that_iterates_ends_its_link_and_is_raised_once(on: Loop) -> None:
    seen: list[object] = []
    note = seen.append

    async def loop(connection: Any) -> None:  # noqa: ANN401 - of either loop
        try:
            async with connection.stream("jobs").open() as items:
                async for item in items:
                    note(item)
        except on.Cancelled as error:
            seen.append(type(error))
            await still_runs()
            raise

    async def still_runs() -> None:
        if on.name == "asyncio":  # under trio each wait of a cancelled task raises again
            await on.sleep(0.01)
        seen.append("ended")

    async with on.connected() as (node, connection):
        queue = node.queue("jobs")
        await connection.publish("jobs", on.Stream.range(2))
        task = on.start(lambda: loop(connection))
        await on.until(lambda: len(seen) == 2)
        await on.settled()
        task.cancel()
        assert isinstance(await task.ended(), on.Cancelled)
        assert seen == [0, 1, on.Cancelled, "ended"]
        await on.until(lambda: not queue.statistics().consumers)
        assert kept(queue) == 0  # when the next one was asked for, both were done
        await connection.publish("jobs", on.Stream.of(2))
        assert await connection.stream("jobs").first_or_none() == 2


@over_both_loops
async def test_deliveries_settled_by_hand(on: Loop) -> None:
    async with on.connected() as (node, connection):
        queue = node.queue("jobs", dead_letters=node.queue("dead").name)
        await connection.publish("jobs", on.Stream.of("good", "bad"))
        async with connection.stream("jobs", settlement="manual").open() as deliveries:
            first = await anext(deliveries)
            second = await anext(deliveries)
            second.reject("bad")
            first.accept()
        await on.until(lambda: kept(queue) == 0)
        assert await connection.stream("dead").first_or_none() == "bad"


@over_both_loops
async def test_requests_are_answered_by_async_handlers(on: Loop) -> None:
    async def double(number: int) -> object:
        await on.sleep(0.01)
        if number < 0:
            text = "negative"
            raise ValueError(text)
        return number * 2

    async def count(number: int) -> AsyncIterator[int]:
        for each in range(number):
            await on.sleep(0.01)
            yield each

    def counted(number: int) -> object:
        return on.Stream.range(number).map_async(slowly(on))

    async with on.connected(expose_errors=True) as (node, connection):
        node.respond("double", double)
        node.respond("count", count)
        node.respond("counted", counted)
        async with connection.requester("double", timeout_s=5) as requester:
            assert await requester.request(21) == 42
            assert requester.late == 0
            with pytest.raises(RequestFailed, match="negative"):
                await requester.request(-1)
        for address in ("count", "counted"):
            async with connection.requester(address) as requester:
                assert await requester.stream(3).to_list() == [0, 1, 2]


@over_both_loops
async def test_requests_through_a_queue_and_a_cancelled_responder(on: Loop) -> None:
    begun = []

    async def answer(number: int) -> int:
        begun.append(number)
        await on.sleep(0.01 if number else 1000)
        return number + 1

    async with on.connected() as (node, connection):
        node.queue("requests")
        responder = on.start(lambda: connection.respond("requests", answer, concurrency=4))
        async with connection.requester("requests") as requester:
            assert await requester.request(1) == 2
            asking = on.start(lambda: requester.request(0))
            await on.until(lambda: 0 in begun)
            responder.cancel()
            assert isinstance(await responder.ended(), on.Cancelled)
            asking.cancel()
            assert isinstance(await asking.ended(), on.Cancelled)


@over_both_loops
async def test_bodies_that_are_sent_and_read_while_they_come(on: Loop) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(10):
            await on.sleep(0.01)
            yield b"x" * 1000

    async with on.connected() as (node, connection):
        node.queue("files")
        await connection.publish("files", on.Stream.of(Message(ByteStream(chunks()))))
        async with connection.streamed_messages("files").open() as messages:
            message = await anext(messages)
            assert isinstance(message.body, ByteStream)
            assert await message.body.read() == b"x" * 10_000


@over_both_loops
async def test_a_multicast_and_a_drained_connection(on: Loop) -> None:
    async with on.connected() as (node, connection):
        prices = node.multicast("prices")
        got: list[int] = []

        async def follow() -> None:
            await connection.stream("prices").for_each(got.append)

        task = on.start(follow)
        await on.until(lambda: prices.statistics().subscribers)
        await connection.publish("prices", on.Stream.range(3))
        await on.until(lambda: len(got) == 3)
        drained = await connection.drain_and_close(timeout_s=5)
        assert drained.complete
        assert await task.ended() is None
        assert connection.status.state == "closed"


@over_both_loops
async def test_a_lost_connection_returns(on: Loop) -> None:
    async with on.Node() as first:
        first.serve("numbers", on.Stream.never())
        listener = await first.listen("127.0.0.1:0")
        with pytest.raises(ConnectionLost):
            async with on.connect(listener.url) as connection:
                task = on.start(connection.stream("numbers").to_list)
                await on.settled()
                await first.drain_and_close(timeout_s=1)
                error = await task.ended()
                assert error is not None
                raise ConnectionLost(str(error))
    with pytest.raises(ConnectFailed):
        async with on.connect(listener.url):
            pass
    with pytest.raises(ConnectFailed):
        async with on.connect(listener.url, reconnect=Reconnect(max_attempts=2)):
            pass


@over_both_loops
async def test_what_a_block_raises_leaves_it_as_itself(on: Loop) -> None:
    error = ValueError("mine")
    with pytest.raises(ValueError, match="mine") as raised:
        async with on.connected() as (_, connection), connection.sender("nowhere"):
            raise error
    assert raised.value is error


@over_both_loops
async def test_async_functions_see_the_context_of_their_caller(on: Loop) -> None:
    seen: list[str] = []

    async def look(number: int) -> int:
        seen.append(VARIABLE.get())
        return number

    async with on.connected() as (node, connection):
        node.queue("jobs")
        if on.name == "trio":
            VARIABLE.set("publish")  # tasks of a published stream live in the connection's scope there
            await connection.publish("jobs", on.Stream.of(1).map_async(look))
            return
        VARIABLE.set("publish")
        await connection.publish("jobs", on.Stream.of(1).map_async(look))
        VARIABLE.set("stream")
        await connection.stream("jobs").take(1).map_async(look).to_list()
        VARIABLE.set("consume")
        await connection.publish("jobs", on.Stream.of(1))
        task = on.start(lambda: connection.consume("jobs", look_and_forget(look)))
        await on.until(lambda: len(seen) == 3)
        task.cancel()
        await task.ended()
    assert seen == ["publish", "stream", "consume"]


def look_and_forget(look: Callable[[int], Awaitable[int]]) -> Callable[[int], Awaitable[None]]:
    async def handle(number: int) -> None:
        await look(number)

    return handle


@over_both_loops
async def test_calls_outside_of_the_block(on: Loop) -> None:
    node = on.Node()
    node.respond("late", lambda _: 1)
    with pytest.raises(RuntimeError, match="a Node listens inside its block"):
        await node.listen("127.0.0.1:0")
    with pytest.raises(RuntimeError, match="a Node is drained inside its block"):
        await node.drain_and_close()
    async with node:
        pass
    with pytest.raises(RuntimeError, match="entered before"):
        async with node:
            pass
    async with on.connected() as (_, connection):
        stream = connection.stream("nowhere")
    probe = ProbeSubscriber[Any](1)
    async with on.Scope():
        stream.subscribe(probe)
    assert probe.error is not None


@pytest.mark.parametrize("kind", ["consume", "respond", "respond of a node"])
@over_both_loops
async def test_a_handler_that_would_wait_for_itself_is_told_so(on: Loop, kind: str) -> None:
    errors: list[Exception] = []
    async with on.connected() as (node, connection):
        node.queue("jobs")
        owner = node if kind == "respond of a node" else connection

        async def handle(_: object) -> None:
            await on.checkpoint()
            try:
                await owner.drain_and_close()
            except Exception as error:
                errors.append(error)

        if kind == "respond of a node":
            node.respond("shutdown", handle)
            address, handling = "shutdown", on.start(on.sleep_forever)
        else:
            address, handling = "jobs", on.start(lambda: getattr(connection, kind)("jobs", handle))
        for _ in range(2):
            await connection.publish(address, on.Stream.of("now"))
        await on.until(lambda: len(errors) == 2)
        assert {type(error) for error in errors} == {RuntimeError}
        assert "would wait for itself" in str(errors[0])
        handling.cancel()
        await handling.ended()
        drained = await owner.drain_and_close(timeout_s=5)
        assert drained.complete


@over_both_loops
async def test_who_waits_for_whom_is_told_over_connections(on: Loop) -> None:
    async with on.Node(container_id="node") as node:
        node.queue("orders", capacity=2)
        url = (await node.listen("127.0.0.1:0")).url
        async with on.connect(url, container_id="shop") as shop, on.connect(url, container_id="worker") as worker:
            stream = on.Stream.range(9)
            task = on.start(lambda: shop.publish("orders", stream))
            async with worker.stream("orders", window=1).open(window=1) as orders, shop.management() as management:
                await anext(orders)
                await on.until(lambda: node.statistics().queues["orders"].full_s > 0)
                for ask in (
                    shop.explain_across,
                    lambda: shop.explain_across(stream),
                    worker.explain_across,
                    lambda: node.explain_across("orders", within_s=2, hops=1),
                    lambda: management.explain("orders"),
                ):
                    tree = await ask()
                    assert (tree.culprit.kind, tree.culprit.name) == ("slow_handler", "worker"), str(tree)
                assert shop.explain().culprit.kind == "no_credit"
            assert await worker.stream("orders").take(8).to_list() == list(range(1, 9))
            await task.ended()
