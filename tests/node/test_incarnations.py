"""A log that is made anew at the address of an earlier one: a reader that goes on is told of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import trio

import rstreams
from rstreams import Node, Reconnect, Stream
from rstreams._codec import Described, Symbol
from rstreams.errors import MADE_ANEW, ConfigError, LinkDetached, StoreError
from rstreams.net.connection import SettlementName
from rstreams.net.links.offsets import INCARNATION
from rstreams.node.incarnations import Incarnation
from rstreams.store import Done, Partition
from rstreams.testing import ProbeSubscriber
from tests.net.over_tcp import connected, until

AT_ONCE = Reconnect(first_delay_s=0.0, max_delay_s=0.0, jitter=0.0)
OLD = 10


def memory(node: Node) -> None:
    node.log("events", retention_items=1000)


def partitioned(node: Node) -> None:
    node.log("events", partitions=2, retention_items=1000)


def latest(node: Node) -> None:
    node.latest("events", key=lambda message: str(message.body))


LOGS: dict[str, tuple[Callable[[Node], object], str]] = {
    "a log": (memory, "events"),
    "a partition": (partitioned, "events-1"),
    "latest values": (latest, "events"),
}


@asynccontextmanager
async def filled(make: Callable[[Node], object], address: str, items: int, **options: Any) -> AsyncIterator[Node]:  # noqa: ANN401 - of `Node`
    """Have a node with a log, and so many items in it."""
    async with Node(**options) as node:
        make(node)
        if items:
            listener = await node.listen("127.0.0.1:0")
            async with rstreams.connect(listener.url) as connection:
                await connection.publish(address, Stream.range(items))
        yield node


async def receive(place: str, address: str, probe: ProbeSubscriber[int], **options: Any) -> None:  # noqa: ANN401 - of `stream`
    """Read an address over a connection that is opened again."""
    async with rstreams.connect(f"amqp://{place}", reconnect=AT_ONCE) as connection:
        connection.stream(address, **{"start": "first", **options}).subscribe(probe)
        await until(lambda: probe.ended)


async def go_on(
    make: Callable[[Node], object],
    address: str,
    new: int,
    *,
    settlement: SettlementName = "at_least_once",
    gets: int = 0,
    stream: Mapping[str, Any] = {},
    **options: Any,  # noqa: ANN401 - of `Node`
) -> ProbeSubscriber[int]:
    """Read `OLD` items, let another node take the place with `new` more; return the reader, with an error or `gets`."""
    probe = ProbeSubscriber[int](1000)
    async with trio.open_nursery() as nursery:
        async with filled(make, address, OLD, **options) as node:
            place = (await node.listen("127.0.0.1:0")).url.removeprefix("amqp://")
            nursery.start_soon(partial(receive, place, address, probe, settlement=settlement, **stream))
            await until(lambda: len(probe.items) == OLD)
        async with filled(make, address, new, **options) as node:
            await node.listen(place)
            await until(lambda: probe.ended or len(probe.items) == gets)
            assert probe.ended != bool(gets)
            nursery.cancel_scope.cancel()
    return probe


@pytest.mark.parametrize(
    ("kind", "settlement", "new"),
    [
        *(("a log", "at_least_once", new) for new in (0, OLD // 2, OLD, 2 * OLD)),
        *((kind, "at_most_once", new) for kind in LOGS for new in (OLD, 2 * OLD)),
    ],
)
async def test_a_reader_that_goes_on_in_another_log_is_told(kind: str, settlement: SettlementName, new: int) -> None:
    make, address = LOGS[kind]
    probe = await go_on(make, address, new, settlement=settlement)
    assert isinstance(probe.error, LinkDetached)
    assert probe.error.condition == MADE_ANEW
    assert f"{address}' was made anew: the position that the link goes on from is of incarnation" in str(probe.error)
    assert probe.items == list(range(OLD)), "no item of the new one came before"


@pytest.mark.parametrize("start", [None, "first", 0, datetime(2020, 1, 1, tzinfo=UTC)], ids=str)
@pytest.mark.parametrize("make", [memory, partitioned])
async def test_a_member_of_a_group_gets_all_of_the_new_log_or_is_told(
    make: Callable[[Node], object], start: object
) -> None:
    """A new group begins at its start, and the log may have got messages before that."""
    new = 2 * OLD
    stream = {"group": "billing", "start": start}
    if start in (None, "first"):
        probe = await go_on(make, "events", new, gets=OLD + new, stream=stream)
        assert sorted(probe.items) == sorted([*range(OLD), *range(new)])
    else:
        probe = await go_on(make, "events", new, stream=stream)
        assert isinstance(probe.error, LinkDetached)
        assert probe.error.condition == MADE_ANEW


async def test_a_group_of_a_log_in_a_store_goes_on(tmp_path: Path) -> None:
    stream = {"group": "billing", "start": 0}
    probe = await go_on(lambda node: node.log("events"), "events", 5, gets=OLD + 5, stream=stream, store=tmp_path)
    assert probe.items == [*range(OLD), *range(5)]


async def test_a_log_in_a_store_stays_the_same(tmp_path: Path) -> None:
    probe = await go_on(lambda node: node.log("events"), "events", 5, gets=OLD + 5, store=tmp_path)
    assert probe.items == [*range(OLD), *range(5)]


@pytest.mark.parametrize("second", ["one", "two", None])
async def test_a_served_stream_has_the_id_that_it_is_given(second: str | None) -> None:
    """It has none of its own: a function makes the same stream at the next node."""
    given: list[str | None] = ["one" if second else None, second]

    def make(node: Node) -> None:
        node.serve("numbers", from_offset=lambda at: Stream.range(at, 2 * OLD), incarnation=given.pop(0))

    probe = ProbeSubscriber[int](OLD)
    async with trio.open_nursery() as nursery:
        async with filled(make, "numbers", 0) as node:
            place = (await node.listen("127.0.0.1:0")).url.removeprefix("amqp://")
            nursery.start_soon(partial(receive, place, "numbers", probe, window=4))
            await until(lambda: len(probe.items) == OLD)
            assert node.statistics().served["numbers"].incarnation == ("one" if second else "")
        assert probe.subscription is not None
        probe.request(OLD)
        async with filled(make, "numbers", 0) as node:
            await node.listen(place)
            await until(lambda: probe.ended)
    if second == "two":
        assert isinstance(probe.error, LinkDetached)
        assert probe.error.condition == MADE_ANEW
        assert probe.items == list(range(OLD))
    else:
        assert probe.items == list(range(2 * OLD))


async def test_a_log_that_is_removed_and_declared_again_is_another_one(tmp_path: Path) -> None:
    ids = []
    async with Node(store=tmp_path) as node:
        for _ in range(2):
            node.log("events")
            ids.append(node.statistics().logs["events"].partitions[0].incarnation)
            node.remove("events")
    async with Node(store=tmp_path) as node:
        node.log("events", partitions=2)
        ids += [each.incarnation for each in node.statistics().logs["events"].partitions]
    async with Node(store=tmp_path) as node:
        node.log("events", partitions=3)
        again = [each.incarnation for each in node.statistics().logs["events"].partitions]
    assert len(set(ids)) == 4
    assert again[:2] == ids[2:]
    assert again[2] not in ids


async def test_an_offset_that_is_kept_has_its_log_beside_it() -> None:
    """The statistics tell the id, and a filter has the node compare it."""
    async with connected() as (node, connection):
        memory(node)
        node.queue("orders")
        await connection.publish("events", Stream.range(OLD))
        statistics: Any = await connection.stream("$statistics").first_or_none()
        told = statistics["logs"]["events"]["partitions"][0]["incarnation"]

        async def read(address: str, incarnation: object) -> list[int]:
            filters = {INCARNATION: incarnation}
            return await connection.stream(address, start=7, filters=filters).take(3).to_list()

        assert await read("events", told) == [7, 8, 9]
        assert await read("events", Described(Symbol(INCARNATION), told)) == [7, 8, 9]
        for address, incarnation, condition in [
            ("events", "another", MADE_ANEW),
            ("events", 5, "amqp:invalid-field"),
            ("events", "", "amqp:invalid-field"),
            ("events", "x" * 200, "amqp:invalid-field"),
            ("orders", told, "amqp:not-allowed"),
        ]:
            with pytest.raises(LinkDetached) as caught:
                await read(address, incarnation)
            assert caught.value.condition == condition


@pytest.mark.parametrize("incarnation", ["", "x" * 129, "a\0b"])
async def test_an_id_that_cannot_be_one_is_refused(incarnation: str) -> None:
    async with Node() as node:
        with pytest.raises(ConfigError, match=r"^served stream 'numbers'.*incarnation="):
            node.serve("numbers", from_offset=Stream.range, incarnation=incarnation)
        with pytest.raises(ConfigError, match=r"incarnation='x': allowed only with from_offset"):
            node.serve("numbers", Stream.range(3), incarnation="x")


class Written(NamedTuple):
    key: str
    value: bytes | None
    done: Done | None
    sync_s: float


class PlayedPartition(Partition):
    """A partition of a store whose records the test writes down."""

    __slots__ = ("written",)

    def __init__(self) -> None:
        self.records: dict[str, bytes] = {}
        self.written: list[Written] = []

    def put(self, key: str, value: bytes | None, done: Done | None = None, *, sync_s: float = 0.0) -> None:
        self.written.append(Written(key, value, done, sync_s))


def test_an_id_that_could_not_be_written_goes_with_the_next_messages() -> None:
    kept = PlayedPartition()
    incarnation = Incarnation(kept, 2.0)
    (written,) = kept.written
    assert written.value == incarnation.id.encode()
    assert written.sync_s == 2.0
    assert written.done is not None
    written.done(StoreError("the disk is full"))
    assert incarnation.unsaved == {written.key: written.value}
    written.done(None)
    assert incarnation.unsaved == {}
