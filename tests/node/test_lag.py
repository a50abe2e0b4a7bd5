"""How far a consumer group is behind, in seconds, who has its partitions, and what these wait for."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import rstreams
from rstreams import Connection, Node, Stream, _machine
from rstreams.node.lag import Trend
from rstreams.node.statistics import GroupStatistics
from tests.net.over_tcp import until
from tests.node.test_log_group import Played


class Calendar:
    """The seconds since 1970, as a test sets them."""

    def __init__(self) -> None:
        self.now = 1e9

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def calendar(monkeypatch: pytest.MonkeyPatch) -> Calendar:
    """Return the calendar of the machine."""
    found = Calendar()
    monkeypatch.setattr(_machine, "calendar", found)
    return found


@asynccontextmanager
async def logging_node(store: Path | None, partitions: int = 1) -> AsyncIterator[tuple[Node, Connection]]:
    async with Node(store=store) as node:
        node.log("log", partitions=partitions, retention_items=10_000)
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url, container_id="shop") as connection:
            yield node, connection


def group(node: Node) -> GroupStatistics:
    return node.statistics().logs["log"].groups["g"]


@pytest.mark.parametrize("durable", [False, True])
async def test_the_lag_is_the_age_of_the_first_message_that_is_not_settled(
    calendar: Calendar, tmp_path: Path, *, durable: bool
) -> None:
    async with logging_node(tmp_path / "store" if durable else None) as (node, connection):
        async with connection.stream("log", group="g", start="first", settlement="manual", window=2).open() as items:
            for number in range(4):
                await connection.publish("log", Stream.of(number))
                calendar.now += 10
            for settled, age in enumerate((40, 30, 20, 10)):
                assert group(node).lag_s == group(node).partitions[0].lag_s == age
                (await anext(items)).accept()
                await until(lambda settled=settled: group(node).committed == (settled + 1,))  # type: ignore[misc]
        assert (group(node).lag, group(node).lag_s) == (0, 0)
        calendar.now -= 1000  # it may be set back
        await connection.publish("log", Stream.of(4))
        assert group(node).lag_s == 0


async def test_the_age_of_messages_from_before_the_start_is_in_the_store(calendar: Calendar, tmp_path: Path) -> None:
    async with logging_node(tmp_path / "store") as (node, connection):
        for number in range(2):
            await connection.publish("log", Stream.of(number))
            calendar.now += 100
        async with connection.stream("log", group="g", start="first", settlement="manual", window=1).open() as items:
            await anext(items)
    async with logging_node(tmp_path / "store") as (node, connection):
        assert group(node).lag_s == 100, "at least as old as the newest one from before"
        await until(lambda: group(node).lag_s == 200)
        async with connection.stream("log", group="g", settlement="manual", window=1).open() as items:
            (await anext(items)).accept()
            await until(lambda: group(node).committed == (1,))
            await until(lambda: group(node).lag_s == 100)


async def test_each_partition_tells_its_owner_and_what_it_waits_for() -> None:
    async with logging_node(None, partitions=2) as (node, connection):
        await connection.publish("log", Stream.of(*range(40)))
        reading = connection.stream("log", group="g", start="first", settlement="manual", window=4)
        async with reading.open() as items:
            first = await anext(items)
            await until(lambda: sum(each.unsettled for each in group(node).partitions) == 4)
            both = group(node).partitions
            assert {(each.container, each.user, each.gone) for each in both} == {("shop", "", False)}
            assert len({each.link for each in both}) == 1
            assert {each.waits_for for each in both} == {"demand"}, "its window is full"
            assert (group(node).lag, sum(each.lag for each in both)) == (40, 40)
            async with reading.open():
                await until(lambda: "outcomes" in {each.waits_for for each in group(node).partitions})
        first.accept()
        await until(lambda: not any(each.container for each in group(node).partitions))
        assert {each.waits_for for each in group(node).partitions} == {"member"}


def test_a_member_that_has_left_and_not_settled_all_is_told() -> None:
    played = Played()
    played.append(2)
    member, probe = played.join("first", 2)
    assert played.group is not None
    member.cancel()
    [part] = played.group.statistics().partitions
    assert (part.gone, part.waits_for, part.unsettled) == (True, "outcomes", 2)
    for hold in probe.holds:
        hold.done()
    [part] = played.group.statistics().partitions
    assert (part.gone, part.waits_for, part.unsettled) == (False, "", 0)


async def test_a_pause_after_a_failure_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rstreams.node.group_partition.FIRST_PAUSE_S", 1e6)
    monkeypatch.setattr("rstreams.node.group_partition.MOST_PAUSE_S", 1e6)
    async with logging_node(None) as (node, connection):
        await connection.publish("log", Stream.of(1))
        async with connection.stream("log", group="g", start="first", settlement="manual").open() as items:
            (await anext(items)).modify(delivery_failed=True)
            await until(lambda: group(node).partitions[0].waits_for == "pause")


@pytest.mark.parametrize(
    ("lags", "told"),
    [
        ([5], ""),
        ([500] * 5, "steady"),
        ([500, 495, 505], "steady"),
        ([100 * second for second in range(10)], "growing"),
        ([900, 700, 500], "shrinking"),
        ([100 * second for second in range(10)] + [900] * 70, "steady"),
    ],
)
def test_the_trend_is_that_of_a_minute(monkeypatch: pytest.MonkeyPatch, lags: list[int], told: str) -> None:
    trend, last, clock = Trend(), "", Calendar()
    monkeypatch.setattr(_machine, "monotonic_clock", clock)
    for each in lags:
        for _ in range(3):  # looks within a second count once
            last = trend.look(each)
        clock.now += 1
    assert last == told
    assert len(trend._looks) == min(len(lags), 61)
