"""A result that never reaches its caller was not processed: what was gathered for it comes back, over TCP."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio

import rstreams
from rstreams import Node, Stream
from rstreams.errors import ConfigError, StreamTimeout
from rstreams.node.queue import Queue
from tests.net.over_tcp import connected, until

Numbers = Stream[Any]
Run = Callable[[Numbers], Awaitable[object]]

GATHERS: dict[str, Run] = {
    "to_list": lambda numbers: numbers.take(10).to_list(),
    "all": lambda numbers: numbers.to_list(),
    "through runs": lambda numbers: numbers.map(abs).to_list(),
    "filtered": lambda numbers: numbers.filter(lambda _: True).to_list(),
    "reduce": lambda numbers: numbers.reduce(lambda total, x: total + x, 0).to_list(),
    "first of reduce": lambda numbers: numbers.reduce(lambda total, x: total + x, 0).first_or_none(),
    "collect": lambda numbers: numbers.collect().to_list(),
    "count": lambda numbers: numbers.count().first_or_none(),
    "to_dict": lambda numbers: numbers.to_dict(str).to_list(),
    "lists": lambda numbers: numbers.buffer_count(2).to_list(),
    "lists of lists": lambda numbers: numbers.buffer_count(2).buffer_count(2).to_list(),
    "lists until": lambda numbers: numbers.buffer_until(lambda x: x % 2).to_list(),
    "async": lambda numbers: numbers.map_async(same, concurrency=2).to_list(),
    "flat": lambda numbers: numbers.flat_map(Stream.of).collect().to_list(),
    "one after the other": lambda numbers: numbers.concat_map(Stream.of).collect().to_list(),
    "merged": lambda numbers: numbers.merge(Stream.never()).to_list(),
    "shared": lambda numbers: numbers.share().to_list(),
    "latest folded": lambda numbers: numbers.on_overflow_reduce(max).take(10).to_list(),
}


async def same(x: int) -> int:
    return x


def through(queue: Queue, number: int) -> bool:
    """Whether so many messages are there, and none is at a consumer."""
    now = queue.statistics()
    return (now.ready, now.unsettled) == (number, 0)


@pytest.mark.slow
@pytest.mark.parametrize("kind", GATHERS)
async def test_what_is_cancelled_gives_everything_back(kind: str) -> None:
    async with connected() as (node, connection):
        queue = node.queue("work")
        await connection.publish("work", Stream.range(5))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(GATHERS[kind], connection.stream("work"))
            await until(lambda: queue.statistics().unsettled == 5)
            for _ in range(20):
                await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()
        await until(lambda: through(queue, 5))
        assert (queue.statistics().accepted, queue.statistics().modified) == (0, 0)
        assert await connection.stream("work").take(5).to_list() == [0, 1, 2, 3, 4], "in their old places"


@pytest.mark.slow
async def test_what_ran_out_of_time_gives_everything_back() -> None:
    async with connected() as (node, connection):
        queue = node.queue("work")
        await connection.publish("work", Stream.range(5))
        with pytest.raises(StreamTimeout):
            await connection.stream("work").timeout(0.3).to_list()
        await until(lambda: through(queue, 5))
        assert queue.statistics().accepted == 0


@pytest.mark.parametrize(
    "kind", ["to_list", "through runs", "filtered", "reduce", "collect", "lists", "flat", "one after the other"]
)
async def test_where_a_function_raises_its_item_has_failed_and_the_others_come_back(kind: str) -> None:
    def refuse(x: int) -> int:
        if x == 2:
            raise ValueError(x)
        return x

    async with connected() as (node, connection):
        queue = node.queue("work")
        await connection.publish("work", Stream.range(5))
        with pytest.raises(ValueError, match="2"):
            await GATHERS[kind](connection.stream("work").map(refuse))
        await until(lambda: through(queue, 5))
        assert (queue.statistics().accepted, queue.statistics().modified) == (0, 1)
        messages = await connection.messages("work").take(5).to_list()
        assert [(each.body, each.delivery_count) for each in messages] == [(0, 0), (1, 0), (2, 1), (3, 0), (4, 0)]


async def test_a_result_that_cannot_be_processed_fails_all_that_it_was_made_of() -> None:
    async with connected() as (node, connection):
        queue = node.queue("work")
        await connection.publish("work", Stream.range(3))
        with pytest.raises(ZeroDivisionError):
            await connection.stream("work").take(3).count().map(lambda count: 1 // (count - 3)).to_list()
        await until(lambda: through(queue, 3))
        assert (queue.statistics().accepted, queue.statistics().modified) == (0, 3)


async def test_all_is_settled_before_the_connection_closes() -> None:
    async with Node() as node:
        queue = node.queue("work")
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url) as connection:
            await connection.publish("work", Stream.range(8))
            assert await connection.stream("work").take(5).to_list() == [0, 1, 2, 3, 4]
        await until(lambda: through(queue, 3))
        assert queue.statistics().accepted == 5
        async with rstreams.connect(listener.url) as connection:
            assert await connection.stream("work").first_or_none() == 5
        await until(lambda: through(queue, 2))
        async with rstreams.connect(listener.url) as connection:
            assert await connection.stream("work").take(2).reduce(max, 0).first_or_none() == 7
        await until(lambda: through(queue, 0))
        assert (queue.statistics().accepted, queue.statistics().released) == (8, 0)


@pytest.mark.parametrize("pack_items", [1, 4])
@pytest.mark.parametrize("window", [8, pytest.param(64, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", sorted(GATHERS.keys() - {"to_list", "latest folded", "shared", "merged"}))
async def test_more_than_the_window_holds_comes_all_the_same(kind: str, window: int, pack_items: int) -> None:
    """The oldest are settled where more comes, whatever gathers; so nothing waits for ever."""
    total = 400
    async with connected() as (node, connection):
        queue = node.queue("work")
        await connection.publish("work", Stream.range(total), pack_items=pack_items)
        numbers = connection.stream("work", window=window, pack_items=pack_items).take(total)
        with trio.fail_after(20):
            await GATHERS[kind](numbers)
        await until(lambda: queue.statistics().accepted == (10 if kind == "to_list" else total))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["all", "filtered", "reduce", "lists", "async", "flat"])
@pytest.mark.parametrize("window", [1, 2, 7, 20])
async def test_where_more_came_than_the_window_holds_only_the_oldest_are_settled(kind: str, window: int) -> None:
    if kind == "lists" and window == 1:
        return
    total = 30
    async with connected() as (node, connection):
        queue = node.queue("work")
        await connection.publish("work", Stream.range(total))
        seen: list[int] = []
        with trio.move_on_after(5):
            async with trio.open_nursery() as nursery:
                numbers = connection.stream("work", window=window).do_on_next(seen.append)
                nursery.start_soon(GATHERS[kind], numbers)
                await until(lambda: len(seen) == total)
                nursery.cancel_scope.cancel()
        await until(lambda: not queue.statistics().unsettled)
        accepted, ready = queue.statistics().accepted, queue.statistics().ready
        assert accepted + ready == total
        # A quarter of the window goes at a time, and one more while map_async has items that cannot go yet.
        assert ready >= (window // 4 if kind == "async" else window // 2)
        assert await connection.stream("work").take(ready).to_list() == list(range(accepted, total))


async def test_no_more_is_let_go_than_must_be() -> None:
    async with connected() as (node, connection):
        queue = node.queue("work")
        await connection.publish("work", Stream.range(5))
        seen: list[int] = []
        async with trio.open_nursery() as nursery:
            nursery.start_soon(connection.stream("work", window=5).do_on_next(seen.append).to_list)
            await until(lambda: queue.statistics().accepted)
            for _ in range(50):
                await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()
        await until(lambda: through(queue, 4))
        assert queue.statistics().accepted == 1


@pytest.mark.parametrize("window_bytes", [500, 3000])
async def test_a_bound_in_bytes_stops_nothing_either(window_bytes: int) -> None:
    async with connected() as (node, connection):
        queue = node.queue("work")
        await connection.publish("work", Stream.range(40).map(lambda x: b"%03d" % x * 100))
        with trio.fail_after(20):
            numbers = connection.stream("work", window_bytes=window_bytes)
            assert len(await numbers.take(40).to_list()) == 40
        await until(lambda: queue.statistics().accepted == 40)


async def test_two_links_that_are_gathered_together_stop_nothing() -> None:
    async with connected() as (node, connection):
        queues = [node.queue("work"), node.queue("more")]
        await connection.publish("work", Stream.range(100))
        await connection.publish("more", Stream.range(100))
        both = connection.stream("work", window=4).merge(connection.stream("more", window=6))
        with trio.fail_after(20):
            assert sorted(await both.take(200).to_list()) == sorted([*range(100)] * 2)
        await until(lambda: sum(queue.statistics().accepted for queue in queues) == 200)


INSISTS: dict[str, tuple[Run, str]] = {
    "to_list": (lambda numbers: numbers.to_list(ack="on_result"), "room for items without limit"),
    "ten": (lambda numbers: numbers.take(10).to_list(ack="on_result"), "10 items at once"),
    "ten mapped": (lambda numbers: numbers.take(10).map(abs).to_list(ack="on_result"), "10 items at once"),
    "collect": (lambda numbers: numbers.collect(ack="on_result").to_list(), "room for items without limit"),
    "ten reduced": (lambda numbers: numbers.take(10).reduce(max, 0, ack="on_result").to_list(), "10 items at once"),
}


@pytest.mark.parametrize("kind", INSISTS)
async def test_who_insists_on_more_than_the_window_holds_fails_at_once(kind: str) -> None:
    run, need = INSISTS[kind]
    async with connected() as (node, connection):
        queue = node.queue("work")
        await connection.publish("work", Stream.range(5))
        with pytest.raises(
            ConfigError, match=rf"\(ack='on_result'\) needs {need}, but of the link it reads only 5 can be"
        ):
            await run(connection.stream("work", window=5))
        await until(lambda: through(queue, 5))
        assert queue.statistics().delivered == 0


OF_SETTLED: dict[str, Run] = {
    **{kind: run for kind, (run, _) in INSISTS.items()},
    "overflow": lambda numbers: numbers.on_overflow_reduce(max, ack="on_result").to_list(),
}


@pytest.mark.parametrize("kind", OF_SETTLED)
async def test_who_insists_on_items_that_come_settled_fails_at_once(kind: str) -> None:
    async with connected() as (node, connection):
        queue = node.queue("work")
        await connection.publish("work", Stream.range(10))
        text = r"\(ack='on_result'\) .*settlement='at_most_once'.* cannot be given back"
        with pytest.raises(ConfigError, match=text), trio.fail_after(20):
            await OF_SETTLED[kind](connection.stream("work", settlement="at_most_once"))
        await until(lambda: through(queue, 10))
        assert queue.statistics().delivered == 0
        items = connection.stream("work", settlement="at_most_once").take(10)
        assert await items.to_list(ack="within_window") == [*range(10)]


async def test_who_insists_loses_nothing() -> None:
    async with connected() as (node, connection):
        queue = node.queue("work")
        await connection.publish("work", Stream.range(5))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: connection.stream("work", window=5).take(5).count(never).to_list())
            numbers = connection.stream("work", window=5).take(5).collect(ack="on_result").concat(Stream.never())
            nursery.cancel_scope.cancel()
            del numbers
        await until(lambda: through(queue, 5))
        async with trio.open_nursery() as nursery:
            held = connection.stream("work", window=6).take(6)
            nursery.start_soon(lambda: held.to_list(ack="on_result"))
            await until(lambda: queue.statistics().unsettled == 5)
            nursery.cancel_scope.cancel()
        await until(lambda: through(queue, 5))
        assert await connection.stream("work", window=5).take(5).to_list(ack="on_result") == [0, 1, 2, 3, 4]
        await until(lambda: queue.statistics().accepted == 5)


def never(_: object) -> bool:
    return False


async def test_on_receipt_an_item_is_done_when_it_is_in_the_list() -> None:
    async with connected() as (node, connection):
        queue = node.queue("work")
        await connection.publish("work", Stream.range(5))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: connection.stream("work").to_list(ack="on_receipt"))
            await until(lambda: queue.statistics().accepted == 5)
            nursery.cancel_scope.cancel()


async def test_what_is_for_each_is_done_when_the_function_has_returned() -> None:
    async with connected() as (node, connection):
        queue = node.queue("work")
        await connection.publish("work", Stream.range(5))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(connection.stream("work").for_each, abs_of)
            await until(lambda: queue.statistics().accepted == 5)
            nursery.cancel_scope.cancel()


def abs_of(x: int) -> None:
    del x


@pytest.mark.slow
@pytest.mark.parametrize("pack_items", [1, 4])
@pytest.mark.parametrize("consumers", [1, 3])
async def test_a_queue_whose_room_is_in_hands_has_the_oldest_settled(consumers: int, pack_items: int) -> None:
    """What is unsettled takes a queue's room: a queue smaller than the windows asks for it, or nobody would go on."""
    async with connected() as (node, connection):
        queue = node.queue("work", capacity=10)
        counts: list[int | None] = []

        async def count() -> None:
            numbers = connection.stream("work", pack_items=pack_items)
            counts.append(await numbers.take_until(enough).count().first_or_none())

        sent = trio.Event()
        enough = Stream.from_callable(sent.wait)
        with trio.fail_after(20):
            async with trio.open_nursery() as nursery:
                for _ in range(consumers):
                    nursery.start_soon(count)
                await connection.publish("work", Stream.range(300), pack_items=pack_items)
                sent.set()
        assert sum(filter(None, counts)) == 300
        await until(lambda: queue.statistics().accepted == 300)


async def test_a_producer_that_comes_later_finds_room() -> None:
    async with connected() as (node, connection):
        queue = node.queue("work", capacity=10)
        await connection.publish("work", Stream.range(10))
        async with trio.open_nursery() as nursery:
            seen: list[int] = []
            nursery.start_soon(connection.stream("work").do_on_next(seen.append).to_list)
            await until(lambda: queue.statistics().unsettled == 10)
            with trio.fail_after(20):
                await connection.publish("work", Stream.range(10, 20))
            await until(lambda: len(seen) == 20)
            nursery.cancel_scope.cancel()
        await until(lambda: not queue.statistics().unsettled)
        accepted, ready = queue.statistics().accepted, queue.statistics().ready
        assert await connection.stream("work").take(ready).to_list() == list(range(accepted, 20))


@pytest.mark.parametrize("kind", ["all", "filtered", "collect", "lists"])
async def test_a_message_that_does_not_fit_beside_what_is_held_comes_all_the_same(kind: str) -> None:
    """The session's window is closed behind it: the bytes of what is held must go before it can be read."""
    sizes = [300_000, 10, 1_100_000, 500_000, 900_000, 10, 700_000]
    async with connected() as (node, connection):
        node.serve("large", Stream.from_iterable([b"x" * size for size in sizes]))
        messages = connection.stream("large", window_bytes=1_200_000)
        seen: list[int] = []
        with trio.fail_after(20):
            await BYTES[kind](messages.do_on_next(lambda body: seen.append(len(body))))
        assert seen == sizes


BYTES: dict[str, Run] = {
    "all": lambda bodies: bodies.to_list(),
    "filtered": lambda bodies: bodies.filter(len).to_list(),
    "collect": lambda bodies: bodies.collect().to_list(),
    "lists": lambda bodies: bodies.buffer_count(1).to_list(),
}


@pytest.mark.parametrize("limits", [{"max_unsettled": 4}, {"max_unsettled_bytes": 4_000}])
async def test_a_node_that_keeps_no_more_unsettled_has_the_oldest_settled(limits: dict[str, Any]) -> None:
    async with Node(**limits) as node:
        queue = node.queue("work")
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url) as connection:
            await connection.publish("work", Stream.range(20).map(lambda number: bytes([number]) * 1_000))
            bodies = await connection.stream("work").take(20).to_list()
            assert [body[0] for body in bodies] == list(range(20))
            await until(lambda: queue.statistics().accepted == 20)
