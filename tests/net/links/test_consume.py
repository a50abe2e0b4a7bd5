"""Handlers over TCP: what their return and their failure say of a message, and how many are in hand."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator

import pytest
import trio

import rstreams
from rstreams import Connection, Node, Stream
from rstreams.errors import ConfigError, ConnectionLost, LinkDetached
from tests.loops import Loop, over_both_loops
from tests.net.over_tcp import pump_of, refuse_odd, until


@pytest.mark.parametrize("asynchronous", [True, False])
@over_both_loops
async def test_a_handlers_return_accepts_and_its_failure_is_as_told(on: Loop, asynchronous: bool) -> None:  # noqa: FBT001
    async def refuse_odd_later(item: int) -> None:
        await on.checkpoint()
        refuse_odd(item)

    async with on.connected() as (node, connection), on.open_nursery() as nursery:
        queue = node.queue("work")
        await connection.publish("work", on.Stream.range(10))
        handler = refuse_odd_later if asynchronous else refuse_odd

        async def consume() -> None:
            await connection.consume("work", handler, concurrency=3, on_failure="reject")

        nursery.start_soon(consume)
        await on.until(lambda: queue.statistics().rejected == 5 and queue.statistics().accepted == 5)
        nursery.cancel_scope.cancel()


@over_both_loops
async def test_a_failure_ends_the_call_unless_it_is_told_otherwise(on: Loop) -> None:
    async with on.connected() as (node, connection):
        queue = node.queue("work")
        await connection.publish("work", on.Stream.range(4))
        with pytest.raises(ValueError, match="1"):
            await connection.consume("work", refuse_odd)
        await on.until(lambda: queue.statistics().ready == 3)
        assert (queue.statistics().accepted, queue.statistics().modified) == (1, 1)


@over_both_loops
async def test_each_failure_of_a_handler_is_told(on: Loop, caplog: pytest.LogCaptureFixture) -> None:
    async def divide(number: int) -> None:
        await on.sleep(number / 4)
        1 // 0  # noqa: B018 - it fails

    text = "the handler of '{}' failed ({} so far); on_failure='reject'"
    async with on.connected() as (node, connection):
        node.serve("numbers", on.Stream.range(3))
        await connection.consume("numbers", lambda n: 1 // n, on_failure="reject")
        node.serve("zeros", on.Stream.range(7).map(lambda _: 1))
        await connection.consume("zeros", divide, on_failure="reject")
        await on.sleep(2)
    told = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
    assert told[:2] == [text.format("numbers", 1), text.format("zeros", 1)]
    counts = [re.match(r"(\d+) more of this kind about zeros, the last: the handler", each) for each in told[2:]]
    assert sum(int(each[1]) for each in counts if each) == 6
    assert len(counts) <= 3, "one line a second"
    assert told[-1].endswith(text.format("zeros", 7) + " (ZeroDivisionError: integer division or modulo by zero)")
    assert caplog.records[0].exc_info is not None


@over_both_loops
async def test_never_more_items_are_asked_for_than_can_be_handled(on: Loop) -> None:
    async with on.connected() as (node, connection), on.open_nursery() as nursery:
        queue = node.queue("work")
        await connection.publish("work", on.Stream.range(10))
        inside = 0

        async def handle(_item: int) -> None:
            nonlocal inside
            inside += 1
            await on.sleep_forever()

        async def consume() -> None:
            await connection.consume("work", handle, concurrency=2)

        nursery.start_soon(consume)
        await on.until(lambda: inside == 2)
        assert queue.statistics().unsettled == 2
        nursery.cancel_scope.cancel()
    assert (queue.statistics().ready, queue.statistics().modified) == (10, 2), "given back as failed by the cancel"


@over_both_loops
async def test_the_window_of_a_consumer_lets_as_many_be_in_hand_as_it_may_handle(on: Loop) -> None:
    async with on.connected() as (node, connection), on.open_nursery() as nursery:
        queue = node.queue("work")
        await connection.publish("work", on.Stream.range(400))
        with pytest.raises(ConfigError) as raised:
            await connection.consume("work", print, concurrency=9, window=8)
        assert str(raised.value) == "consume(concurrency=9): window=8 allows only 8 items in progress"
        inside = 0

        async def handle(_item: int) -> None:
            nonlocal inside
            inside += 1
            await on.sleep_forever()

        async def consume() -> None:
            await connection.consume("work", handle, concurrency=300)

        nursery.start_soon(consume)
        await on.until(lambda: inside == 300)
        assert queue.statistics().unsettled == 300
        nursery.cancel_scope.cancel()


@over_both_loops
async def test_a_handler_of_a_stream_that_ends_returns(on: Loop) -> None:
    async with on.connected() as (node, connection):
        node.serve("numbers", on.Stream.range(5))
        got: list[int] = []
        await connection.consume("numbers", got.append)
        assert got == [0, 1, 2, 3, 4]
        with pytest.raises(ConfigError, match="concurrency=0"):
            await connection.consume("numbers", print, concurrency=0)


@pytest.mark.parametrize("concurrency", [1, 3])
@over_both_loops
async def test_the_error_of_a_stream_comes_behind_the_items_before_it(on: Loop, concurrency: int) -> None:
    """A handler at work is not cut, and an item that has come is not given back."""
    async with on.connected() as (node, connection), on.open_nursery() as nursery:
        node.serve("numbers", on.Stream.range(concurrency).concat(on.Stream.fail(ValueError("no"))))
        at_work, go_on = on.Event(), on.Event()
        handled: list[int] = []
        raised: list[BaseException] = []

        async def handle(item: int) -> None:
            at_work.set()
            await go_on.wait()
            handled.append(item)

        async def consume() -> None:
            with pytest.raises(LinkDetached) as error:
                await connection.consume("numbers", handle, concurrency=concurrency, window=8)
            raised.append(error.value)

        nursery.start_soon(consume)
        await at_work.wait()
        await on.until(lambda: not node.statistics().served["numbers"].subscribers)
        await on.settled()
        assert not raised
        go_on.set()
        await on.until(lambda: raised)
        assert sorted(handled) == list(range(concurrency))


@over_both_loops
async def test_a_generator_as_a_handler_accepts_nothing(on: Loop) -> None:
    def handle(item: int) -> Iterator[int]:
        yield item

    async def handle_later(item: int) -> AsyncIterator[int]:
        yield item

    async with on.connected() as (node, connection):
        queue = node.queue("work")
        await connection.publish("work", on.Stream.of(1))
        for generator in (handle, handle_later):
            with pytest.raises(TypeError, match=r"^consume\(handler\): handler must not be a generator function"):
                await connection.consume("work", generator)
            assert queue.statistics().delivered == 0
        for handler in (lambda item: handle(item), lambda item: handle_later(item)):  # noqa: PLW0108 - not seen through
            with pytest.raises(TypeError, match=r"^consume\(handler\): handler returned a generator that nobody would"):
                await connection.consume("work", handler)
        await on.until(lambda: (queue.statistics().accepted, queue.statistics().modified) == (0, 2))
        with pytest.raises(TypeError, match=r"^consume\(handler\): handler must be a function, not None$"):
            await connection.consume("work", None)


async def test_an_item_that_waits_is_not_begun_when_the_connection_is_lost() -> None:
    """It comes again to somebody, and its outcome could not be told."""
    handled: list[int] = []
    go_on = trio.Event()

    async def handle(item: int) -> None:
        if item >= 300:  # until then it is quick: items are asked for ahead
            await go_on.wait()
        handled.append(item)

    async with Node() as node:
        work = node.queue("work")
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url) as connection:
            await connection.publish("work", Stream.range(400))

        async def consume(connection: Connection) -> None:
            with pytest.raises(ConnectionLost):
                await connection.consume("work", handle, concurrency=2, window=64)

        async with rstreams.connect(listener.url) as connection, trio.open_nursery() as nursery:
            nursery.start_soon(consume, connection)
            await until(lambda: len(handled) == 300 and work.statistics().unsettled > 10)
            await trio.aclose_forcefully(pump_of(connection)._stream)
            await until(lambda: work.statistics().unsettled == 0)
            go_on.set()
    assert 300 <= len(handled) <= 302, "and those in hand have ended"
