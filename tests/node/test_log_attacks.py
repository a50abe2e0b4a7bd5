"""Logs and groups where it is easy to lose a message: late answers of the disk, many groups, late outcomes."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import rstreams
from rstreams import Message, Node, Stream
from rstreams._codec import Described, Symbol
from rstreams.abc import Subscription
from rstreams.errors import ConfigError, LinkDetached
from rstreams.message import decode_body, encode_item
from rstreams.net.links.offsets import read_offset
from rstreams.node import group_partition, log_partition
from rstreams.node import log as log_module
from rstreams.node.log_group import Group, GroupMember
from rstreams.node.log_keys import Compaction, Keys
from rstreams.node.log_partition import LogCursor
from rstreams.node.log_reader import LogReader
from rstreams.node.memory_partition import MemoryPartition
from rstreams.testing import ProbeSubscriber
from tests.net.over_tcp import until
from tests.node.slow_partition import append, slow_log

KEY = "x-opt-partition-key"


class Looking(ProbeSubscriber[bytes]):
    """Notes how often it was told to look whether more comes."""

    def __init__(self, demand: int = 0) -> None:
        super().__init__(demand, hold=True)
        self.looks = 0

    def look_again(self) -> None:
        self.looks += 1

    @property
    def numbers(self) -> list[int]:
        return [decode_body(item) for item in self.items]


def join(group: Group, demand: int = 0) -> tuple[GroupMember, Looking]:
    probe = Looking()
    member = GroupMember("log", group, probe)
    probe.on_subscribe(member)
    group.join(member)
    member.request(demand) if demand else None
    return member, probe


# answers of the disk that come late


def test_an_answer_for_the_owner_before_is_not_handed_out_in_place_of_what_it_had_not_settled() -> None:
    partition, kept = slow_log()
    append(partition, range(5))
    append(partition, range(5, 10))
    group = Group("g", [partition], "first")
    first, before = join(group, 8)
    kept.answer()
    assert before.numbers == [0, 1, 2, 3, 4]
    assert kept.waiting, "the next ones are being read"
    first.cancel()
    _, after = join(group, 100)
    for hold in before.holds:
        assert not after.numbers, "the one before may still settle them"
        hold.release()
    kept.answer_all()
    assert after.numbers == list(range(10))


def test_an_answer_for_a_group_without_members_is_not_kept() -> None:
    partition, kept = slow_log()
    append(partition, range(5))
    group = Group("g", [partition], "first")
    member, _ = join(group, 1)
    member.cancel()
    kept.answer_all()
    (part,) = group._parts
    assert not part.cursor._messages


def test_a_member_that_loses_a_partition_while_it_is_read_looks_whether_more_comes() -> None:
    partitions = [slow_log() for _ in range(2)]
    for partition, _ in partitions:
        append(partition, range(5))
    group = Group("g", [partition for partition, _ in partitions], "first")
    member, probe = join(group, 100)
    partitions[0][1].answer_all()
    assert member.comes_later
    for hold in probe.holds:
        hold.done()
    looks = probe.looks
    join(group)
    if not member.comes_later:
        assert probe.looks > looks, "its drain is answered"
        return
    partitions[1][1].answer_all()
    assert probe.looks > looks


def test_a_member_whose_partition_goes_to_its_heir_looks_whether_more_comes() -> None:
    partition, kept = slow_log()
    append(partition, range(5))
    append(partition, range(5, 10))
    other, other_kept = slow_log()
    group = Group("g", [other, partition], "first")
    member, probe = join(group, 100)
    kept.answer()
    append(other, range(1))
    other_kept.answer_all()
    join(group)
    assert group.statistics().waiting_to_move + group.statistics().unsettled
    looks = probe.looks
    for hold in probe.holds:
        hold.done()
    kept.answer_all()
    assert not member.comes_later
    assert probe.looks > looks


def test_many_slow_readers_keep_no_more_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_partition, "READ_AHEAD_BYTES", 50_000)
    partition, kept = slow_log()
    partition.append([b"x" * 1000 for _ in range(10)], lambda _: None, {})
    partition.remove(())
    probes = [Looking() for _ in range(100)]
    for probe in probes:
        probe.on_subscribe(LogReader(partition, probe, "first", lambda _: None))
        probe.request(1)
    for expected in range(1, 11):
        kept.answer_all()
        assert [len(probe.items) for probe in probes] == [expected] * 100
        assert partition.read_ahead <= 60_000
        for probe in probes:
            probe.request(1)
    kept.answer_all()
    assert [read_offset(item) for item in probes[-1].items] == list(range(10))
    for probe in probes:
        probe.cancel()
    assert partition.read_ahead == 0


@pytest.mark.parametrize("crowded", [False, True])
def test_chunks_grow_while_there_is_room(monkeypatch: pytest.MonkeyPatch, *, crowded: bool) -> None:
    monkeypatch.setattr(log_partition, "READ_AHEAD_BYTES", 8)
    partition, kept = slow_log()
    for begin in range(0, 24, 4):
        append(partition, range(begin, begin + 4))
    if crowded:
        other = LogCursor(partition, 0, lambda: None, lambda: None)
        other.take(1)
        kept.answer_all()
        other.take(1)
        kept.asked.clear()
    cursor = LogCursor(partition, 0, lambda: None, lambda: None)
    while len(kept.asked) < 5:
        cursor.take(4)
        kept.answer_all()
    first = 256 * 1024
    assert kept.asked == ([first] * 5 if crowded else [first, 2 * first, 4 * first, 4 * first, 4 * first])
    cursor.go_back(0)
    cursor.take(1)
    assert kept.asked[-1] == first


@pytest.mark.parametrize("back", [False, True])
def test_the_next_chunk_is_read_when_half_of_one_has_been_taken(*, back: bool) -> None:
    partition, kept = slow_log()
    for begin in (0, 4, 8):
        append(partition, range(begin, begin + 4))
    cursor = LogCursor(partition, 0, lambda: None, lambda: None)
    assert not cursor.take(1)[1]
    kept.answer()
    assert (list(cursor.take(1)[0]), kept.waiting) == ([0], [])
    assert (list(cursor.take(1)[0]), len(kept.waiting)) == ([1], 1)
    if back:
        cursor.go_back(1)
        for _ in range(2):  # the answer that was on its way, and then the right one
            assert not cursor.take(1)[1]
            kept.answer()
    begin = 1 if back else 2
    assert list(cursor.take(4)[0]) == list(range(begin, 4))
    kept.answer()
    assert list(cursor.take(4)[0]) == [4, 5, 6, 7]
    assert cursor.comes_later is False
    cursor.close()
    kept.answer_all()
    assert partition.read_ahead == 0


# what is settled


def test_messages_that_were_settled_before_a_lower_one_are_settled_with_it() -> None:
    partition, _ = slow_log()
    append(partition, range(10), in_memory=True)
    group = Group("g", [partition], "first")
    member, probe = join(group, 10)
    probe.holds[2].release()
    for hold in (*probe.holds[:2], *probe.holds[3:]):
        hold.done()
    member.request(1)
    assert probe.numbers[10:] == [2]
    probe.holds[10].done()
    member.request(10)
    now = group.statistics()
    assert (now.lag, now.committed) == (0, (10,)), "after a restart none of them comes again"


def test_a_group_of_a_compacted_log_has_no_lag_behind_deleted_messages() -> None:
    partition, kept = slow_log(has_gaps=True)
    append(partition, range(10))
    partition.remove(range(5, 10))
    group = Group("g", [partition], "first")
    member, probe = join(group, 5)
    kept.answer_all()
    for hold in probe.holds:
        hold.done()
    member.request(5)
    kept.answer_all()
    assert (probe.numbers, group.statistics().lag) == ([0, 1, 2, 3, 4], 0)


def test_one_message_that_is_never_settled_does_not_let_the_memory_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_partition, "MOST_AHEAD", 20)
    partition, _ = slow_log()
    append(partition, range(100), in_memory=True)
    group = Group("g", [partition], "first")
    member, probe = join(group)
    while True:
        before = len(probe.items)
        member.request(5)
        if len(probe.items) == before:
            break
        for hold in probe.holds[max(before, 1) :]:
            hold.done()
    assert probe.numbers == list(range(20))
    probe.holds[0].done()
    assert len(probe.items) == 25, "it goes on"
    assert group.statistics().committed == (20,)


def test_a_position_is_written_once_at_a_time() -> None:
    partition, kept = slow_log()
    waiting: list[Callable[[Any], None]] = []

    def put(key: str, value: bytes | None, done: Any = None, *, sync_s: float = 0.0) -> None:  # noqa: ANN401
        kept.records[key] = value or b""
        waiting.append(done)

    kept.put = put  # type: ignore[method-assign]
    append(partition, range(100), in_memory=True)
    group = Group("g", [partition], "first")
    _, probe = join(group, 100)
    for hold in probe.holds:
        hold.done()
    assert len(waiting) == 1
    waiting.pop()(None)
    assert len(waiting) == 1
    waiting.pop()(None)
    assert not waiting
    assert kept.records["group/g"] == (100).to_bytes(8, "little")


async def test_all_that_was_settled_is_in_the_store_when_a_node_ends(tmp_path: Path) -> None:
    for first in range(0, 300, 100):
        async with Node(store=tmp_path / "store") as node:
            node.log("events")
            listener = await node.listen("127.0.0.1:0")
            async with rstreams.connect(listener.url) as connection:
                await connection.publish("events", Stream.range(first, first + 100))
                assert await connection.stream("events", group="g").take(100).to_list() == list(
                    range(first, first + 100)
                )
                await until(lambda: node.statistics().logs["events"].groups["g"].lag == 0)


# members


def test_a_member_that_cancels_while_it_subscribes_is_no_member() -> None:
    class Cancels(ProbeSubscriber[bytes]):
        def on_subscribe(self, subscription: Subscription) -> None:
            subscription.cancel()

    node = Node()
    log = node.log("events", retention_items=10)
    log._join_group("g", None, Cancels())
    assert log.statistics().groups["g"].members == 0


# groups


async def test_a_group_begins_at_a_time(tmp_path: Path) -> None:
    for store in (None, tmp_path / "store"):
        async with Node(store=store) as node:
            log = node.log("events", retention_items=100)
            listener = await node.listen("127.0.0.1:0")
            async with rstreams.connect(listener.url) as connection:
                await connection.publish("events", Stream.range(5))
                begin = time.time()
                await until(lambda: time.time() > begin + 0.02)  # noqa: B023
                middle = datetime.now(UTC)
                await until(lambda: time.time() > begin + 0.04)  # noqa: B023
                await connection.publish("events", Stream.range(5, 10))
                assert await connection.stream("events", group="g", start=middle).take(5).to_list() == [5, 6, 7, 8, 9]
                await until(lambda: log.statistics().groups["g"].lag == 0)  # noqa: B023


async def test_an_offset_for_a_group_that_is_not_there_refuses_it_and_leaves_nothing() -> None:
    async with Node() as node:
        log = node.log("events", partitions=2, retention_items=100)
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url) as connection:
            await connection.publish("events-0", Stream.range(5))
            with pytest.raises(LinkDetached, match=r"'events-1' has no offset 3") as told:
                await connection.stream("events", group="g", start=3).take(1).to_list()
            assert told.value.condition == "amqp:not-found"
            assert not log.statistics().groups
            assert not any(part._cursors or part.kept.records for part in log.partitions)


@pytest.mark.slow
async def test_ten_thousand_names_of_groups_leave_those_that_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_module, "MAX_GROUPS", 10)
    async with Node() as node:
        log = node.log("events", retention_items=100)
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url) as connection:
            await connection.publish("events", Stream.range(5))
            assert await connection.stream("events", group="billing").take(2).to_list() == [0, 1]
            await until(lambda: log.statistics().groups["billing"].committed == (2,))
            for number in range(50):
                async with rstreams.connect(listener.url) as another:
                    await another.stream("events", group=f"name {number}", on_failure="release").take(0).to_list()
                    probe = ProbeSubscriber[int](1, hold=True)
                    another.stream("events", group=f"name {number}").subscribe(probe)
                    await until(lambda: probe.items)  # noqa: B023
                await until(lambda: node.statistics().connections == 1)
            assert len(log.statistics().groups) <= 10
            (part,) = log.partitions
            assert len(part._cursors) <= 10
            assert len(part.kept.records) <= 10
            assert await connection.stream("events", group="billing").take(3).to_list() == [2, 3, 4]


async def test_a_group_too_many_is_refused_and_a_group_can_be_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_module, "MAX_GROUPS", 2)
    async with Node() as node:
        log = node.log("events", retention_items=100)
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url) as connection:
            await connection.publish("events", Stream.range(5))
            for name in ("a", "b"):
                assert await connection.stream("events", group=name).take(1).to_list() == [0]
            await until(lambda: [each.committed for each in log.statistics().groups.values()] == [(1,), (1,)])
            await until(lambda: not any(each.members for each in log.statistics().groups.values()))
            with pytest.raises(LinkDetached, match="has 2 consumer groups") as told:
                await connection.stream("events", group="c").take(1).to_list()
            assert told.value.condition == "amqp:resource-limit-exceeded"
            assert log.forget_group("a")
            assert not log.forget_group("a")
            assert await connection.stream("events", group="c").take(1).to_list() == [0]


async def test_a_group_with_members_is_not_forgotten() -> None:
    async with Node() as node:
        log = node.log("events", retention_items=100)
        log._join_group("g", None, ProbeSubscriber[bytes](0))
        with pytest.raises(ConfigError, match=r"log 'events': group 'g' has 1 member"):
            log.forget_group("g")


async def test_a_member_that_settles_when_its_log_has_been_removed_leaves_nothing(tmp_path: Path) -> None:
    async with Node(store=tmp_path / "store") as node:
        log = node.log("events")
        member = ProbeSubscriber[bytes](1, hold=True)
        log._join_group("g", None, member)
        async with rstreams.connect((await node.listen("127.0.0.1:0")).url) as connection:
            await connection.publish("events", Stream.of(1))
            await until(lambda: member.items)
        (partition,) = log.partitions
        node.remove("events")
        member.holds[0].done()
        assert dict(partition.kept.records) == {}


async def test_messages_of_any_form_are_read_from_the_disk_with_their_offsets(tmp_path: Path) -> None:
    messages = [
        Message(b"plain"),
        Message("with a header", durable=True),
        Message(b"annotated", annotations={"x-opt-kind": "own"}),
    ]
    async with Node(store=tmp_path) as node:
        node.log("events", retention_items=100)
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url) as connection:
            await connection.publish("events", Stream.from_iterable(messages))
    async with Node(store=tmp_path) as node:  # they are not in memory any more
        node.log("events", retention_items=100)
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url) as connection:
            found = await connection.messages("events", start="first").take(3).to_list()
    assert [message.body for message in found] == [message.body for message in messages]
    offsets = [message.annotations["x-stream-offset"] for message in found]
    assert (offsets, found[2].annotations["x-opt-kind"]) == ([0, 1, 2], "own")


async def test_a_node_that_starts_again_shows_its_groups(tmp_path: Path) -> None:
    async with Node(store=tmp_path / "store") as node:
        log = node.log("events", partitions=2)
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url) as connection:
            await connection.publish("events", Stream.range(10))
            assert len(await connection.stream("events", group="g").take(4).to_list()) == 4
            await until(lambda: sum(log.statistics().groups["g"].committed) == 4)
    async with Node(store=tmp_path / "store") as node:
        log = node.log("events", partitions=2)
        assert log.statistics().groups["g"].lag == 6


@pytest.mark.parametrize("value", [2**64 - 1, -1, 1.5, ["first"], {"a": 1}, b"first", True, "FIRST"])
@pytest.mark.parametrize("group", [None, "g"])
async def test_places_that_cannot_be_are_refused(value: Any, group: str | None) -> None:  # noqa: ANN401
    async with Node() as node:
        node.log("events", retention_items=100)
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url) as connection:
            name = "rabbitmq:stream-offset-spec"
            with pytest.raises(LinkDetached, match="it must be 'first', 'last', 'next'") as told:
                filters = {name: Described(Symbol(name), value)}
                await connection.stream("events", group=group, filters=filters).take(1).to_list()
            assert told.value.condition == "amqp:invalid-field"


# what is kept


def test_a_compacted_partition_in_memory_holds_no_deleted_messages() -> None:
    kept = MemoryPartition()
    for first in range(0, 1000, 100):
        kept.append([b"x" * 1000] * 100)
        kept.delete(range(first, first + 99))
    assert (kept.count, kept.first) == (10, 99)
    assert sum(len(message) for run in kept._runs for message in run.messages) == 10_000 == kept.size


async def test_tombstones_from_before_a_restart_go_without_a_further_message(tmp_path: Path) -> None:
    options: dict[str, Any] = {"key": KEY, "tombstones_s": 0.01}
    async with Node(store=tmp_path / "store") as node:
        node.latest("events", **{**options, "tombstones_s": 3600})
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url) as connection:
            await connection.publish("events", Stream.of(Message(b"", annotations={KEY: "a"})))
    async with Node(store=tmp_path / "store") as node:
        log = node.latest("events", **options)
        assert log.statistics().partitions[0].messages == 1
        await until(lambda: log.statistics().partitions[0].messages == 0)


def test_a_tombstone_does_not_go_before_the_earlier_messages_are_known() -> None:
    def message(body: object) -> bytes:
        return encode_item(Message(body, annotations={KEY: "a"}))

    partition, kept = slow_log(has_gaps=True)
    partition.append([message("old")], lambda _: None, {})
    now = 0.0
    compaction = Compaction(partition, Keys(KEY, 1), 1.0, lambda: now)
    compaction.begin()
    partition.append([message(b"")], lambda _: None, {})
    compaction.come([1], [message(b"")])
    now = 5.0
    compaction.expire()
    kept.answer_all()
    now = 10.0
    compaction.expire()
    assert kept.count == 0, "the old message does not come back"


def test_a_log_with_a_time_is_made_before_the_node_runs() -> None:
    log = Node().log("events", retention_s=5, retention_items=10)
    assert log.next_deadline < 0


async def test_fewer_partitions_than_there_are_in_the_store_are_refused(tmp_path: Path) -> None:
    async with Node(store=tmp_path / "store") as node:
        node.log("events", partitions=3)
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url) as connection:
            await connection.publish("events", Stream.range(3))
    async with Node(store=tmp_path / "store") as node:
        with pytest.raises(
            ConfigError,
            match=r"log 'events': partitions=2: the log in the store has 3 partitions, and cannot get fewer",
        ):
            node.log("events", partitions=2)
        node.log("events", partitions=4)
