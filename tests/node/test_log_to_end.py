"""A log that is read to the end: the stream completes behind what was there when it began."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import trio

import rstreams
import rstreams.blocking
from rstreams import Message, Node, Stream
from rstreams.errors import MADE_ANEW, ConfigError, LinkDetached
from rstreams.net.dialects import Offset
from rstreams.testing import ProbeSubscriber
from tests.loops import Loop, over_both_loops
from tests.net.over_tcp import until
from tests.node.cut_log import cut_behind_the_first, cut_log

STARTS: list[tuple[Offset | None, list[int]]] = [
    (None, [0, 1, 2, 3, 4]),
    ("first", [0, 1, 2, 3, 4]),
    ("last", [4]),
    ("next", []),
    (2, [2, 3, 4]),
    (5, []),
]


@pytest.mark.parametrize(("start", "expected"), STARTS)
@over_both_loops
async def test_a_stream_completes_behind_what_was_there_while_the_log_is_written(
    on: Loop,
    start: Offset | None,
    expected: list[int],
) -> None:
    async with on.connected() as (node, connection):
        node.log("events", retention_items=100)
        await connection.publish("events", on.Stream.range(5))
        got: list[int] = []
        async with connection.stream("events", start=start, to_end=True, window=1).open() as events:
            async for event in events:
                await connection.publish("events", on.Stream.of(100 + event))
                got.append(event)
        assert got == expected
        assert len(await connection.stream("events", to_end=True).to_list()) == 5 + len(got)


@over_both_loops
async def test_a_log_without_messages_and_the_last_values_of_keys(on: Loop) -> None:
    async with on.connected() as (node, connection):
        node.log("empty", retention_items=100)
        node.latest("rooms")
        assert await connection.stream("empty", to_end=True).to_list() == []
        for value in range(3):
            for key in ("a", "b"):
                message = Message(f"{key}{value}", annotations={"x-opt-partition-key": key})
                await connection.publish("rooms", on.Stream.of(message))
        read = await connection.stream("rooms", to_end=True).to_list()
        assert read[-2:] == ["a2", "b2"]


@pytest.mark.parametrize("in_store", [False, True])
async def test_partitions_retention_and_compaction(tmp_path: Path, in_store: bool) -> None:  # noqa: FBT001
    async with Node(store=tmp_path / "s" if in_store else None) as node:
        node.log("parts", partitions=3, retention_items=100)
        node.log("short", retention_items=4)
        node.log("keys", compact=True, retention_items=1000)
        url = (await node.listen("127.0.0.1:0")).url
        async with rstreams.connect(url) as connection:
            await connection.publish("parts", Stream.range(30))
            for number in range(30):  # one run each
                await connection.publish("short", Stream.of(number))
            await connection.publish(
                "keys", Stream.range(30).map(lambda n: Message(n, annotations={"x-opt-partition-key": str(n % 2)}))
            )
            parts = [await connection.stream(f"parts-{n}", to_end=True).to_list() for n in range(3)]
            assert sorted(chain(*parts)) == list(range(30))
            short = await connection.stream("short", to_end=True).to_list()
            assert short == list(range(30))[-len(short) :]
            assert 0 < len(short) < 30
            assert (await connection.stream("keys", to_end=True).to_list())[-2:] == [28, 29]
            with pytest.raises(LinkDetached, match="read 'parts-0' to 'parts-2', or join a group"):
                await connection.stream("parts", to_end=True).to_list()


@pytest.mark.parametrize("members", [1, 2, 4])
@over_both_loops
async def test_members_of_a_group_complete_when_all_was_handed_out(on: Loop, members: int) -> None:
    async with on.connected() as (node, connection):
        log = node.log("events", partitions=3, retention_items=1000)
        await connection.publish("events", on.Stream.range(300))
        got: list[list[int]] = [[] for _ in range(members)]

        def member(number: int) -> Callable[[], Any]:
            async def read() -> None:
                events = connection.stream("events", group="billing", start="first", to_end=True)
                got[number] = [*chain(*await events.buffer_count(7).to_list())]
                await connection.publish("events", on.Stream.of(1000 + number))

            return read

        await on.together(*map(member, range(members)))
        assert sorted(number for each in got for number in each if number < 1000) == list(range(300))
        await on.until(lambda: not log.statistics().groups["billing"].members)
        rest = await connection.stream("events", group="billing", to_end=True).to_list()
        assert len(rest) + sum(number >= 1000 for each in got for number in each) == members, "all others are settled"
        await on.until(lambda: log.statistics().groups["billing"].lag == 0)


async def test_a_reader_that_reconnects_completes_where_it_would_have() -> None:
    async with cut_log() as log:
        await log.connection.publish("events", Stream.range(10))
        got: list[int] = []
        async with log.connection.stream("events", to_end=True, window=1).open() as events:
            async for event in events:
                got.append(event)
                if event in {0, 4, 8}:
                    await log.connection.publish("events", Stream.of(100))
                    log.cut()
        assert got == list(range(10))


async def test_a_reader_that_reconnects_behind_deleted_messages_hears_of_them() -> None:
    async with cut_log() as log:
        probe = await cut_behind_the_first(log)
        for first in range(0, 2000, 500):
            await log.direct.publish("events", Stream.range(first, first + 500))
        log.network.reopen()
        probe.request(100)
        await until(lambda: probe.signals[-1] == "on_error")
        assert isinstance(probe.error, LinkDetached)
        assert probe.error.condition == "amqp:not-found"


@pytest.mark.parametrize("loss", ["cut", "given back"])
@pytest.mark.parametrize("others_stay", [False, True])
async def test_what_a_completed_member_has_not_settled_goes_to_the_next_one(loss: str, *, others_stay: bool) -> None:
    options: dict[str, Any] = {"group": "billing", "start": "first"}
    async with cut_log(partitions=2) as log:
        await log.direct.publish("events", Stream.range(20))
        one = ProbeSubscriber[int](1000, hold=True)
        log.connection.stream("events", **options, to_end=True).subscribe(one)
        await until(lambda: one.signals[-1:] == ["on_complete"])
        assert sorted(one.items) == list(range(20))
        for hold in one.holds[:5]:
            hold.done()
        await until(lambda: log.node.statistics().logs["events"].groups["billing"].unsettled == 15)
        other = ProbeSubscriber[int](1000)
        if others_stay:
            log.direct.stream("events", **options).subscribe(other)
            await log.direct.publish("events", Stream.range(20, 22))
        if loss == "cut":
            log.cut()
        for hold in one.holds[5:]:
            hold.release()
        if not others_stay:
            await until(lambda: log.node.statistics().logs["events"].groups["billing"].unsettled == 0)
            rest = log.direct.stream("events", **options, to_end=True)
            other.items += await rest.to_list()
        await until(lambda: log.node.statistics().logs["events"].groups["billing"].lag == 0)
        assert sorted(other.items) == sorted(one.items[5:]) + [20, 21] * others_stay
        await until(lambda: log.node.statistics().logs["events"].groups["billing"].members == others_stay)


async def test_a_reader_does_not_go_on_in_a_log_that_was_made_anew() -> None:
    async with cut_log() as log:
        probe = await cut_behind_the_first(log)
        async with log.direct.management() as management:
            await management.delete("events", kind="logs")
        log.node.log("events", retention_items=1000)
        await log.direct.publish("events", Stream.range(10))
        log.network.reopen()
        probe.request(100)
        await until(lambda: probe.signals[-1] == "on_error")
        assert isinstance(probe.error, LinkDetached)
        assert probe.error.condition == MADE_ANEW
        assert probe.items == [0]


def test_threads_read_to_the_end() -> None:
    async def main() -> None:
        async with Node() as node:
            node.log("events", retention_items=100)
            url = (await node.listen("127.0.0.1:0")).url

            def work() -> list[int]:
                with rstreams.blocking.connect(url) as connection:
                    connection.publish("events", Stream.range(5))
                    return list(connection.stream("events", to_end=True))

            assert await trio.to_thread.run_sync(work) == [0, 1, 2, 3, 4]

    trio.run(main)


@pytest.mark.parametrize("make", ["queue", "multicast", "serve"])
async def test_what_is_no_log_refuses(make: str) -> None:
    async with Node() as node:
        node.queue("queue")
        node.multicast("multicast")
        node.serve("serve", Stream.range(3))
        async with rstreams.connect((await node.listen("127.0.0.1:0")).url) as connection:
            with pytest.raises(LinkDetached, match=r"(to_end=True|start='first'): only for a log"):
                await connection.stream(make, to_end=True).to_list()
            with pytest.raises(ConfigError, match=r"=(True|'first'): a log cannot be browsed"):
                connection.stream(make, to_end=True, browse=True)
