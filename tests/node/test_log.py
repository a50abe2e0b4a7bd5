"""Logs over TCP: offsets, partitions, groups, limits, compaction, and what comes back from a store."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

import pytest
import trio

import rstreams
from rstreams import Message, Node, Stream
from rstreams._codec import Described, Symbol, encode_value
from rstreams.errors import ConfigError, LinkDetached
from rstreams.message import decode_message
from rstreams.net.connection import Connection
from rstreams.node import log_partition
from rstreams.node.log import LogPartitionAddress
from rstreams.testing import ProbeSubscriber
from tests.net.foreign import foreign
from tests.net.over_tcp import until
from tests.node.cut_log import cut_log

KEY = "x-opt-partition-key"


@asynccontextmanager
async def logged(store: Path | None = None, **options: Any) -> AsyncIterator[tuple[Node, Connection]]:  # noqa: ANN401
    """A node with the log "events", and a connection to it."""
    async with Node(store=store) as node:
        node.log("events", **({"retention_items": 10_000} | options))
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url) as connection:
            yield node, connection


def keyed(items: range, keys: int) -> Stream[Message]:
    return Stream.from_iterable(items).map(lambda item: Message(item, annotations={KEY: f"key {item % keys}"}))


@pytest.fixture(params=["memory", "store"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    return tmp_path / "store" if request.param == "store" else None


# reading


async def test_a_log_is_read_from_any_offset_as_often_as_wanted(place: Path | None) -> None:
    async with logged(place) as (_, connection):
        assert (await connection.publish("events", Stream.range(300))).accepted == 300
        starts: list[tuple[Any, int]] = [(0, 0), ("first", 0), (120, 120), ("last", 299), (299, 299)]
        for start, expected in starts:
            items = connection.stream("events", start=start).take(min(5, 300 - expected))
            assert await items.to_list() == list(range(expected, min(expected + 5, 300)))
        messages = await connection.messages("events", start=7).take(2).to_list()
        assert [(message.body, message.annotations["x-stream-offset"]) for message in messages] == [(7, 7), (8, 8)]


async def test_next_is_what_comes_from_now_on_and_the_default(place: Path | None) -> None:
    async with logged(place) as (node, connection):
        await connection.publish("events", Stream.range(5))
        probes = [ProbeSubscriber[int](10) for _ in range(2)]
        connection.stream("events").subscribe(probes[0])
        connection.stream("events", start="next").subscribe(probes[1])
        await until(lambda: node.statistics().logs["events"].readers == 2)
        await connection.publish("events", Stream.range(5, 8))
        await until(lambda: all(len(probe.items) == 3 for probe in probes))
        assert [probe.items for probe in probes] == [[5, 6, 7]] * 2


async def test_a_time_is_where_the_messages_of_that_time_begin(place: Path | None) -> None:
    async with logged(place) as (_, connection):
        await connection.publish("events", Stream.range(3))
        await trio.sleep(0.02)
        middle = datetime.now(UTC)
        await trio.sleep(0.02)
        await connection.publish("events", Stream.range(3, 6))
        assert await connection.stream("events", start=middle).take(3).to_list() == [3, 4, 5]
        long_ago = middle - timedelta(days=1)
        assert await connection.stream("events", start=long_ago).take(6).to_list() == list(range(6))


async def test_demand_is_exact_and_a_slow_reader_holds_up_no_one() -> None:
    async with logged() as (_, connection):
        slow, quick = ProbeSubscriber[int](3, hold=True), ProbeSubscriber[int](1000, hold=True)
        for probe in (slow, quick):
            connection.stream("events", start="first", window=2000).subscribe(probe)
        await connection.publish("events", Stream.range(1000))
        await until(lambda: len(quick.items) == 1000)
        assert slow.items == [0, 1, 2]
        slow.request(2)
        await until(lambda: len(slow.items) == 5)
        assert quick.items == list(range(1000)), "nobody settled anything"


@pytest.mark.parametrize("offset", [5, 40])
async def test_an_offset_that_is_gone_or_not_there_names_the_range(offset: int) -> None:
    async with logged(retention_items=10) as (_, connection):
        for first in range(0, 30, 10):
            await connection.publish("events", Stream.range(first, first + 10))
        with pytest.raises(LinkDetached, match=r"the offsets that are there: 20 to 29; next: 30") as told:
            await connection.stream("events", start=offset).take(1).to_list()
        assert told.value.condition == "amqp:not-found"


async def test_a_reader_whose_next_message_is_deleted_hears_of_it() -> None:
    async with logged(retention_items=10) as (_, connection):
        probe = ProbeSubscriber[int](1)
        await connection.publish("events", Stream.range(5))
        connection.stream("events", start="first", window=1).subscribe(probe)
        await until(lambda: probe.items == [0])
        for first in range(5, 50, 5):
            await connection.publish("events", Stream.range(first, first + 5))
        probe.request(10)
        await until(lambda: probe.signals[-1] == "on_error")
        assert "has no offset 1" in str(probe.error)


@pytest.mark.slow
@pytest.mark.parametrize("performative", ["attach", "flow", "transfer"])
@pytest.mark.parametrize("settlement", ["at_most_once", "at_least_once", "effectively_once"])
async def test_a_reader_that_is_cut_goes_on_behind_its_last_message(performative: Any, settlement: Any) -> None:  # noqa: ANN401
    async with cut_log() as log:
        await log.connection.publish("events", Stream.range(200))
        log.network.when(performative, at="after", times=4).reset()
        items = log.connection.stream("events", start=0, settlement=settlement, window=7).take(200)
        assert await items.to_list() == list(range(200))
        assert log.network.faults["reset"]


@pytest.mark.parametrize(("start", "expected"), [("next", [5, 6, 7]), ("last", [4, 5, 6, 7])])
async def test_a_reader_that_is_cut_before_its_first_message_goes_on_where_it_began(
    start: Literal["next", "last"], expected: list[int]
) -> None:
    async with cut_log() as log:
        await log.direct.publish("events", Stream.range(5))
        probe = ProbeSubscriber[int]()
        log.connection.stream("events", start=start).subscribe(probe)
        await until(lambda: probe.subscription is not None)
        log.network.close()
        log.cut()
        await until(lambda: log.node.statistics().logs["events"].readers == 0)
        await log.direct.publish("events", Stream.range(5, 8))
        probe.request(10)
        log.network.reopen()
        await until(lambda: len(probe.items) == len(expected))
        assert probe.items == expected


@pytest.mark.parametrize("described", [True, False])
async def test_a_client_of_another_make_reads_with_rabbitmqs_words(*, described: bool) -> None:
    async with Node() as node:
        log = node.log("events", retention_items=100)
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url) as connection:
            await connection.publish("events", Stream.range(10))
        name = Symbol("rabbitmq:stream-offset-spec")
        async with foreign(listener) as client:
            filters = encode_value({name: Described(name, 7) if described else 7})
            answer = await client.attach("mine", "receiver", address="events", filters=filters)
            assert name in answer["source"].value[7], "the filter is in force"
            await client.grant(5)
            came = [decode_message((await client.due("transfer")).payload) for _ in range(3)]
            assert [(each.body, each.annotations["x-stream-offset"]) for each in came] == [(7, 7), (8, 8), (9, 9)]
            assert log.statistics().readers == 1


async def test_a_filter_that_cannot_be_is_refused() -> None:
    async with logged() as (_, connection):
        filters = {"rabbitmq:stream-offset-spec": Described(Symbol("rabbitmq:stream-offset-spec"), "yesterday")}
        with pytest.raises(LinkDetached, match=r"'yesterday': it must be 'first', 'last', 'next'") as told:
            await connection.stream("events", filters=filters).take(1).to_list()
        assert told.value.condition == "amqp:invalid-field"


@pytest.mark.parametrize(
    ("address", "kind"),
    [("jobs", "queue"), ("news", "multicast"), ("primes", "served stream"), ("readings-0", "partition of a log")],
)
async def test_options_of_a_log_are_refused_elsewhere_before_a_message_is_lost(address: str, kind: str) -> None:
    async with Node() as node:
        jobs = node.queue("jobs")
        node.multicast("news")
        node.serve("primes", Stream.of(2, 3))
        node.log("readings", partitions=2, retention_items=10)
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url) as connection:
            await connection.publish("jobs", Stream.of(1, 2))
            with pytest.raises(LinkDetached, match=f"group='billing': only for a log, and '{address}' is a {kind}"):
                await connection.stream(address, group="billing").to_list()
            if address != "readings-0":
                with pytest.raises(LinkDetached, match=f"start=1: only for a log .*, and '{address}' is a {kind}"):
                    await connection.stream(address, start=1).to_list()
            assert jobs.statistics().ready == 2


# partitions


async def test_messages_of_one_key_are_in_one_partition_in_order(place: Path | None) -> None:
    async with logged(place, partitions=4) as (node, connection):
        await connection.publish("events", keyed(range(200), 20))
        by_key: dict[int, list[int]] = {}
        counts = [each.messages for each in node.statistics().logs["events"].partitions]
        for number, count in enumerate(counts):
            items = await connection.stream(f"events-{number}", start="first").take(count).to_list()
            assert not by_key.keys() & {item % 20 for item in items}, "no key is in two partitions"
            for item in items:
                by_key.setdefault(item % 20, []).append(item)
        assert by_key == {key: list(range(key, 200, 20)) for key in range(20)}


async def test_messages_without_a_key_take_turns_and_a_partition_takes_its_own() -> None:
    async with logged(partitions=3) as (node, connection):
        await connection.publish("events", Stream.range(30))
        await connection.publish("events-1", Stream.range(5))
        assert [each.messages for each in node.statistics().logs["events"].partitions] == [10, 15, 10]
        with pytest.raises(LinkDetached, match=r"has 3 partitions: read 'events-0' to 'events-2', or join a group"):
            await connection.stream("events", start="first").take(1).to_list()


@pytest.mark.parametrize("partitions", [1, 3])
async def test_numbered_messages_that_come_again_are_appended_once(place: Path | None, partitions: int) -> None:
    async with logged(place, partitions=partitions) as (node, connection):
        for _ in range(3):
            await connection.publish("events", Stream.range(50), settlement="effectively_once", producer_id="p")
        now = node.statistics().logs["events"]
        assert (now.appended, now.duplicates) == (50, 100)
    if place is not None:
        async with logged(place, partitions=partitions) as (node, connection):
            await connection.publish("events", Stream.range(60), settlement="effectively_once", producer_id="p")
            assert sum(each.messages for each in node.statistics().logs["events"].partitions) == 60


# groups


def everything_settled(node: Node) -> bool:
    return node.statistics().logs["events"].groups["billing"].lag == 0


async def test_members_share_the_partitions_and_what_they_settle_is_settled_for_all() -> None:
    async with logged(partitions=4) as (node, connection):
        await connection.publish("events", keyed(range(400), 40))
        got: dict[str, list[int]] = {"a": [], "b": []}

        async def member(name: str) -> None:
            async with connection.stream("events", group="billing").open() as items:
                async for item in items:
                    got[name].append(item)
                    await trio.lowlevel.checkpoint()

        async with trio.open_nursery() as nursery:
            for name in got:
                nursery.start_soon(member, name)
            await until(lambda: node.statistics().logs["events"].groups.get("billing") and everything_settled(node))
            nursery.cancel_scope.cancel()
        assert sorted(got["a"] + got["b"]) == list(range(400))
        assert got["a"]
        assert got["b"]
        for items in got.values():
            for key in range(40):
                of_key = [item for item in items if item % 40 == key]
                assert of_key == sorted(of_key)


async def test_what_a_member_had_not_settled_goes_to_the_next_owner_in_order() -> None:
    async with logged() as (node, connection):
        await connection.publish("events", Stream.range(20))
        first, second = ProbeSubscriber[int](10, hold=True), ProbeSubscriber[int](100)
        async with rstreams.connect(node._listeners[0].url) as another:
            another.stream("events", group="g").subscribe(first)
            await until(lambda: len(first.items) == 10)
            for number in (0, 1, 5):
                first.holds[number].done()
            await until(lambda: node.statistics().logs["events"].groups["g"].unsettled == 7)
            assert node.statistics().logs["events"].groups["g"].committed == (2,)
            connection.stream("events", group="g").subscribe(second)
            await until(lambda: node.statistics().logs["events"].groups["g"].members == 2)
        await until(lambda: len(second.items) == 17)
        assert second.items == [2, 3, 4, *range(6, 20)]


async def test_a_partition_moves_when_its_messages_are_settled() -> None:
    async with logged(partitions=2) as (node, connection):
        await connection.publish("events", Stream.range(20))  # even ones in the first partition
        first, second = ProbeSubscriber[int](20, hold=True), ProbeSubscriber[int](100)
        connection.stream("events", group="g").subscribe(first)
        await until(lambda: len(first.items) == 20)
        connection.stream("events", group="g").subscribe(second)
        await until(lambda: node.statistics().logs["events"].groups["g"].waiting_to_move == 1)
        await connection.publish("events", Stream.range(20, 40))
        for hold in first.holds[:19]:
            hold.done()
        assert second.items == []
        first.holds[19].done()
        await until(lambda: len(second.items) == 10)
        first.request(100)
        await until(lambda: len(first.items) == 30)
        assert {item % 2 for item in second.items} != {item % 2 for item in first.items[20:]}
        assert sorted(first.items + second.items) == list(range(40))


async def test_a_message_that_is_given_back_comes_again_and_accepted_ones_do_not() -> None:
    async with logged() as (_, connection):
        await connection.publish("events", Stream.range(10))
        probe = ProbeSubscriber[int](30, hold=True)
        connection.stream("events", group="g", window=5).subscribe(probe)
        await until(lambda: len(probe.items) == 5)
        probe.holds[2].release()
        for number in (0, 1, 3, 4):
            probe.holds[number].done()
        await until(lambda: len(probe.items) >= 6)
        for hold in probe.holds[5:]:
            hold.done()
        await until(lambda: probe.items[-1] == 9)
        assert probe.items == [0, 1, 2, 3, 4, 2, 5, 6, 7, 8, 9]


async def test_a_group_goes_on_where_it_was_when_the_node_starts_again(tmp_path: Path) -> None:
    store = tmp_path / "store"
    async with logged(store) as (node, connection):
        await connection.publish("events", Stream.range(50))
        assert await connection.stream("events", group="g").take(20).to_list() == list(range(20))
        await until(lambda: node.statistics().logs["events"].groups["g"].committed == (20,))
    async with logged(store) as (_, connection):
        assert await connection.stream("events", group="g").take(5).to_list() == list(range(20, 25))
        assert await connection.stream("events", start="first").take(50).to_list() == list(range(50))


# what is kept


async def test_old_messages_go_by_number_and_by_bytes() -> None:
    async with logged(retention_items=None, retention_bytes=2000) as (node, connection):
        for _ in range(20):
            await connection.publish("events", Stream.of(*[b"x" * 95] * 5))
        (kept,) = node.statistics().logs["events"].partitions
        assert 2000 <= kept.bytes <= 2600
        assert (kept.first, kept.next) == (100 - kept.messages, 100)


async def test_old_messages_go_by_time(monkeypatch: pytest.MonkeyPatch) -> None:
    today = 1e9
    monkeypatch.setattr("rstreams._machine.calendar", lambda: today)
    async with logged(retention_s=10.0) as (node, connection):
        log = node._addresses["events"]
        log.partitions[0].kept._today = lambda: today  # type: ignore[attr-defined]
        await connection.publish("events", Stream.range(5))
        today += 20
        await connection.publish("events", Stream.range(5, 10))
        log.expire()
        (kept,) = node.statistics().logs["events"].partitions
        assert (kept.first, kept.messages) == (5, 5)


async def test_a_compacted_log_keeps_the_last_message_of_each_key(place: Path | None) -> None:
    def changes(items: range) -> Stream[Message]:
        return Stream.from_iterable(items).map(lambda item: Message(item, annotations={"city": item % 3}))

    options: dict[str, Any] = {"compact": True, "key": "city", "retention_items": None}
    async with logged(place, **options) as (node, connection):
        await connection.publish("events", changes(range(100)))
        assert await connection.stream("events", start="first").take(3).to_list() == [97, 98, 99]
        await connection.publish("events", Stream.of(Message(b"", annotations={"city": 1})))
        assert await connection.stream("events", start="first").take(3).to_list() == [98, 99, b""]
        (kept,) = node.statistics().logs["events"].partitions
        assert kept.messages == 3
    if place is not None:
        async with logged(place, **options) as (_, connection):
            await connection.publish("events", Stream.of(Message("new", annotations={"city": 2})))
            assert await connection.stream("events", start="first").take(3).to_list() == [99, b"", "new"]


@pytest.mark.slow
@pytest.mark.parametrize("restarted", [False, True])
async def test_a_compacted_log_needs_the_room_of_its_last_messages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, restarted: bool
) -> None:
    def change(item: int) -> Message:
        return Message(bytes(500), annotations={KEY: item if item % 10 == 0 else -1 - item % 3})

    def is_small(node: Node) -> bool:
        (kept,) = node.statistics().logs["events"].partitions
        return kept.messages == 203 and kept.bytes < 2 * 203 * 560

    options: dict[str, Any] = {"compact": True, "retention_items": None}
    if restarted:
        monkeypatch.setattr(log_partition, "_LEAST_REMOVED", 2**30)
        monkeypatch.setattr(log_partition, "_MOST_REMOVED", 2**30)
    async with logged(tmp_path / "store", **options) as (node, connection):
        await connection.publish("events", Stream.range(2000).map(change))
        if not restarted:
            await until(lambda: is_small(node))
        else:
            await until(lambda: node.statistics().logs["events"].partitions[0].messages == 203)
            assert not is_small(node)
    async with logged(tmp_path / "store", **options) as (node, connection):
        await until(lambda: is_small(node))
        found = await connection.messages("events", start="first").take(203).to_list()
        offsets = [message.annotations["x-stream-offset"] for message in found]
        assert offsets == [*range(0, 2000, 10), 1997, 1998, 1999]


async def test_tombstones_go_after_their_time() -> None:
    async with logged(compact=True, tombstones_s=0.01) as (node, connection):
        await connection.publish("events", Stream.of(Message(b"", annotations={KEY: "a"}), Message(1)))
        await until(lambda: node.statistics().logs["events"].partitions[0].messages == 1)
        assert await connection.stream("events", start="first").take(1).to_list() == [1]


async def test_latest_gives_the_last_value_of_each_key_and_then_the_changes() -> None:
    async with Node() as node:
        node.latest("prices", key=lambda message: message.subject)
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url) as connection:
            await connection.publish(
                "prices", Stream.of(*[Message(n, subject=["tea", "milk"][n % 2]) for n in range(10)])
            )
            probe = ProbeSubscriber[int](10)
            connection.stream("prices").subscribe(probe)
            await until(lambda: probe.items == [8, 9])
            await connection.publish("prices", Stream.of(Message(10, subject="tea")))
            await until(lambda: probe.items == [8, 9, 10])


# bad input


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"partitions": 0}, r"log 'a'.*partitions=0"),
        ({"retention_s": -1}, r"log 'a'.*retention_s=-1"),
        ({"retention_bytes": 0}, r"log 'a'.*retention_bytes=0"),
        ({"retention_items": 1.5}, r"log 'a'.*retention_items=1.5"),
        ({"retention_items": None}, r"log 'a': without a store the log is in memory"),
        ({"key": 3}, r"key=3: it must be the name of a message annotation, or a function"),
        ({"fsync": "often"}, r"log 'a'.*fsync='often'"),
        ({"compact": "yes"}, r"log 'a'.*compact='yes'"),
    ],
)
def test_options_that_cannot_be(options: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        Node().log("a", **({"retention_items": 10} | options))


def test_the_names_of_the_partitions_are_taken() -> None:
    node = Node()
    node.queue("a-1")
    with pytest.raises(ConfigError, match="'a-1'"):
        node.log("a", partitions=2, retention_items=10)
    node.queue("a-0")


async def test_starts_and_groups_that_cannot_be() -> None:
    async with logged() as (_, connection):
        wrong: list[dict[str, Any]] = [
            {"start": "begin"},
            {"start": -1},
            {"start": datetime(2020, 1, 1)},  # noqa: DTZ001
            {"group": ""},
        ]
        for options in wrong:
            with pytest.raises(ConfigError, match=rf"^{next(iter(options))}="):
                connection.stream("events", **options)
        with pytest.raises(ConfigError, match="a log cannot be browsed"):
            connection.stream("events", start="first", browse=True)


async def test_a_log_is_not_read_by_an_address_that_is_none() -> None:
    async with logged(partitions=2) as (node, _):
        address = node._addresses["events-1"]
        assert isinstance(address, LogPartitionAddress)
        assert address.explain() == ""
        assert "log 'events': 0 messages in 2 partitions, 0 readers" in str(node.explain())
