"""A group whose next messages were deleted before they were settled: it is told, and chooses as a reader does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import rstreams
from rstreams import Node, Stream
from rstreams.errors import DeliveryFailed, LinkDetached, ProtocolError
from rstreams.message import decode_body, encode_item
from rstreams.node.log_group import Group, GroupMember
from rstreams.node.log_partition import LogPartition, Retention
from rstreams.node.memory_partition import MemoryPartition
from rstreams.testing import ProbeSubscriber
from tests.crash.node import limit_pages

KEPT = 3


class Played:
    """A group of a log that keeps three messages."""

    def __init__(self) -> None:
        self.partition = LogPartition("log", MemoryPartition(), Retention(items=KEPT), 0.0, has_gaps=False)
        self.group: Group | None = None
        self.appended = 0

    def append(self, messages: int) -> None:
        for _ in range(messages):
            self.partition.append([encode_item(self.appended)], lambda _: None, {})
            self.appended += 1

    def join(self, start: Any, demand: int = 0) -> tuple[GroupMember, ProbeSubscriber[bytes]]:  # noqa: ANN401
        if self.group is None:
            self.group = Group("billing", [self.partition], start or "first")
        probe = ProbeSubscriber[bytes](0, hold=True)
        member = GroupMember("log", self.group, probe, goes_on=start == "first")
        probe.on_subscribe(member)
        self.group.join(member)
        if demand:
            member.request(demand)
        return member, probe


def away(played: Played, start: Any) -> ProbeSubscriber[bytes]:  # noqa: ANN401
    played.append(2)
    member, probe = played.join(None, 2)
    for hold in probe.holds:
        hold.done()
    member.cancel()
    played.append(10)
    return played.join(start, 100)[1]


def slow(played: Played, start: Any) -> ProbeSubscriber[bytes]:  # noqa: ANN401
    played.append(2)
    member, probe = played.join(start, 2)
    for hold in probe.holds:
        hold.done()
    probe.items.clear()
    played.append(10)
    member.request(100)
    return probe


def gives_back(played: Played, start: Any) -> ProbeSubscriber[bytes]:  # noqa: ANN401
    played.append(3)
    _, probe = played.join(start, 100)
    played.append(9)
    for hold in probe.holds[:2]:
        hold.done()
    probe.items.clear()
    for hold in probe.holds[2:]:
        hold.release()
    return probe


def never_had_one(played: Played, start: Any) -> ProbeSubscriber[bytes]:  # noqa: ANN401
    played.append(2)
    played.join("next")[0].cancel()
    played.append(10)
    return played.join(start, 100)[1]


WAYS: list[Callable[[Played, Any], ProbeSubscriber[bytes]]] = [away, slow, gives_back, never_had_one]


@pytest.mark.parametrize("start", [None, "next", 5])
@pytest.mark.parametrize("way", WAYS)
def test_a_group_is_told_what_was_deleted_before_it_was_settled(
    way: Callable[[Played, Any], ProbeSubscriber[bytes]],
    start: Any,  # noqa: ANN401
) -> None:
    if start is not None and way in (slow, gives_back):
        start = None  # it would begin there
    played = Played()
    probes = [way(played, start), played.join(start, 100)[1]]  # the next member hears of it, too
    for probe in probes:
        assert isinstance(probe.error, ProtocolError)
        assert probe.error.condition == "amqp:not-found"
        assert "group 'billing' of log 'log': the messages from offset 2 to 8 were deleted" in probe.error.description
        assert 'start="first" goes on' in probe.error.description
        assert probe.items == []
    assert played.group is not None
    assert played.group.statistics().committed == (2,), "it stays where it is"


@pytest.mark.parametrize("way", WAYS)
def test_a_member_that_chooses_the_first_message_goes_on_and_the_loss_is_counted(
    way: Callable[[Played, Any], ProbeSubscriber[bytes]],
) -> None:
    played = Played()
    probe = way(played, "first")
    assert probe.error is None
    assert [decode_body(item) for item in probe.items] == [9, 10, 11]
    assert played.group is not None
    numbers = played.group.statistics()
    assert (numbers.lost, numbers.lag, numbers.unsettled) == (7, 3, 3)


def test_a_group_that_has_not_begun_loses_nothing() -> None:
    played = Played()
    played.append(5)
    member, probe = played.join(None)
    played.append(5)
    member.request(100)
    assert probe.error is None
    assert [decode_body(item) for item in probe.items] == [7, 8, 9]
    assert played.group is not None
    assert played.group.statistics().lost == 0


async def test_a_group_is_told_after_a_restart_and_chooses_over_tcp(tmp_path: Path) -> None:
    for life in range(2):
        async with Node(store=tmp_path) as node:
            log = node.log("events", retention_items=KEPT)
            listener = await node.listen("127.0.0.1:0")
            async with rstreams.connect(listener.url) as connection:
                if not life:
                    await connection.publish("events", Stream.range(2))
                    assert await connection.stream("events", group="billing").take(2).to_list() == [0, 1]
                    for at in range(2, 12):
                        await connection.publish("events", Stream.of(at))
                    continue
                for _ in range(2):
                    with pytest.raises(LinkDetached, match="offset 2 to 8 were deleted before") as told:
                        await connection.stream("events", group="billing").take(3).to_list()
                    assert told.value.condition == "amqp:not-found"
                items = connection.stream("events", group="billing", start="first")
                assert await items.take(3).to_list() == [9, 10, 11]
                assert log.statistics().groups["billing"].lost == 7
                await connection.publish("events", Stream.of(12))
                assert await connection.stream("events", group="billing").take(1).to_list() == [12]


async def test_the_lag_counts_no_messages_that_were_refused(tmp_path: Path) -> None:
    async with Node(store=tmp_path) as node:
        log = node.log("events")
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url) as connection:
            await connection.publish("events", Stream.range(10))
            await connection.stream("events", group="billing").take(4).to_list()
            limit_pages(node, 0)
            for _ in range(3):
                with pytest.raises(DeliveryFailed):
                    await connection.publish("events", Stream.of(bytes(1_000_000)))
            limit_pages(node, 100_000)
            await connection.publish("events", Stream.range(5))
            assert log.statistics().groups["billing"].lag == 11
            assert log.statistics().partitions[0].next == 15
