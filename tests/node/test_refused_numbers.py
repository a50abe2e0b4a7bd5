"""Numbered messages that were refused: none with a higher number is stored before they are, and none is lost."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from rstreams.abc import Subscriber
from rstreams.errors import DeliveryFailed
from rstreams.message import decode_message, encode_item
from rstreams.net.links.effectively_once import Stamper
from rstreams.node.address import NodeServices, SubscriptionOwner
from rstreams.node.log import LogAddress
from rstreams.node.log_keys import DEFAULT_KEY
from rstreams.node.log_partition import Retention
from rstreams.node.log_reader import LogReader
from rstreams.node.memory_storage import MemoryStorage
from rstreams.node.multicast import MulticastAddress
from rstreams.node.named_subscriptions import BacklogOptions
from rstreams.node.queue import Queue
from rstreams.node.written import Begun
from rstreams.store import Chunk
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.node.durable import Bench, bench, bodies, consumer
from tests.node.queues import RunsLink

FULL = "amqp:resource-limit-exceeded"


@pytest.fixture
def first(tmp_path: Path) -> Iterator[Bench]:
    with bench(tmp_path / "first") as made:
        yield made


class OfQueue:
    """A durable queue."""

    def __init__(self, place: Bench) -> None:
        self.place = place
        self.address = place.queue(capacity=None)
        self._probe = consumer(self.address, 1000)

    def stored(self) -> list[Any]:
        self.place.run()
        return bodies(self._probe)


class OfLog:
    """A log; its partitions are read one after the other."""

    partitions = 1

    def __init__(self, place: Bench) -> None:
        self.place = place
        self._kept = [place.store.partition(f"log/{number}") for number in range(self.partitions)]
        self.address = LogAddress(
            "events",
            self._kept,
            key=DEFAULT_KEY,
            retention=Retention(),
            compact=False,
            tombstones_s=60.0,
            start="first",
            sync_s=0.0,
        )

    def stored(self) -> list[Any]:
        chunks: list[Any] = []
        for partition in self._kept:
            partition.read(0, chunks.append)
        self.place.store.flush()
        self.place.store.finish()
        assert all(isinstance(chunk, Chunk) for chunk in chunks)
        numbers = [[decode_message(message).body for _, message in chunk] for chunk in chunks]
        assert all(part == sorted(part) for part in numbers)
        return sorted(chain.from_iterable(numbers))


class OfPartitions(OfLog):
    """A log with two partitions; a message without a key goes where its number says."""

    partitions = 2


class OfMulticast:
    """A multicast with a named subscription, whose subscriber is away."""

    def __init__(self, place: Bench) -> None:
        self.place = place
        self._partition = place.store.partition("multicast")
        self.address = MulticastAddress("prices", "block", 1024, BacklogOptions(items=None, store=place.store))
        services = NodeServices(lambda: 0.0, self._wake_at, lambda function, *_: None, lambda _: None)  # noqa: ARG005
        self.address.begin(services)
        self.address.named._begin(SubscriptionOwner("shop", "billing", None), self._partition, Begun())

    def _wake_at(self, _: float) -> None:
        """Have `expire` be called when the store has done what it has now."""
        self._partition.delete((), lambda _: self.address.expire())

    def stored(self) -> list[Any]:
        chunks: list[Any] = []
        self._partition.read(0, chunks.append)
        self.place.store.flush()
        self.place.store.finish()
        return [decode_message(message).body for _, message in chunks[0]]


ADDRESSES = [OfQueue, OfLog, OfPartitions, OfMulticast]
Kind = Callable[[Bench], Any]


def attached(address: Any) -> ManualPublisher[bytes]:  # noqa: ANN401 - any address
    link = ManualPublisher[bytes]()
    end: Subscriber[bytes] = address.producer(once=True)
    link.subscribe(end)
    return link


def numbered(begin: int, end: int) -> list[bytes]:
    stamp = Stamper("p", begin).stamp
    return [stamp(encode_item(number)) for number in range(begin, end)]


def fail_once(place: Bench) -> None:
    """Have the next commit find that the disk is full, also when it is tried again."""
    commit = place.store._tables.commit
    tried: list[None] = []

    def full(*_: object, **__: object) -> None:
        tried.append(None)
        if len(tried) == 2:
            place.store._tables.commit = commit  # type: ignore[method-assign]
        error = sqlite3.OperationalError("database or disk is full")
        error.sqlite_errorcode = sqlite3.SQLITE_FULL
        raise error

    place.store._tables.commit = full  # type: ignore[method-assign, assignment]


def refused_then(place: Bench, address: Any, *later: range) -> ManualPublisher[bytes]:  # noqa: ANN401
    """Send 0 to 4, which the disk refuses; send later runs before the node has heard of it."""
    link = attached(address)
    fail_once(place)
    link.next(*numbered(0, 5))
    place.store.flush()
    for run in later:
        link.next(*numbered(run.start, run.stop))
        place.store.flush()
    return link


@pytest.mark.parametrize("kind", ADDRESSES)
def test_after_a_full_disk_no_later_number_is_stored_first(first: Bench, kind: Kind) -> None:
    played = kind(first)
    link = refused_then(first, played.address, range(5, 8), range(8, 10))
    first.run()
    assert link.outcomes == ["failed"] * 10
    link.next(*numbered(10, 12))  # they were on their way
    first.run()
    assert link.outcomes == ["failed"] * 12
    assert played.address.statistics().refused == 12
    assert all(isinstance(each, DeliveryFailed) and each.condition == FULL for each in link.errors)
    assert played.stored() == []
    link.next(*numbered(0, 14))
    first.run()
    assert link.outcomes[12:] == ["done"] * 14
    assert played.stored() == list(range(14))


@pytest.mark.parametrize("kind", ADDRESSES)
@pytest.mark.parametrize("heard", [False, True])
def test_a_node_that_is_killed_behind_a_full_disk_stores_what_comes_again(
    first: Bench, tmp_path: Path, kind: Kind, *, heard: bool
) -> None:
    link = refused_then(first, kind(first).address, range(5, 8))
    if heard:
        first.run()
        link.next(*numbered(8, 10))
        first.run()
    again = first.killed(tmp_path / "again")
    played = kind(again)
    link = attached(played.address)
    link.next(*numbered(0, 10))
    again.run()
    assert link.outcomes == ["done"] * 10
    assert played.stored() == list(range(10))
    again.close()


@pytest.mark.parametrize("kind", ADDRESSES)
def test_a_message_that_comes_again_is_not_accepted_for_one_that_was_refused(first: Bench, kind: Kind) -> None:
    played = kind(first)
    refused_then(first, played.address, range(5, 8))
    again = attached(played.address)
    again.next(*numbered(0, 8))  # on a new link, before the node has heard that the disk was full
    first.run()
    assert again.outcomes == ["failed"] * 8
    assert played.address.statistics().refused == 16, "each one that was rejected"
    again.next(*numbered(0, 8))
    first.run()
    assert again.outcomes[8:] == ["done"] * 8
    assert played.stored() == list(range(8))


@pytest.mark.parametrize("kind", ADDRESSES)
def test_a_link_that_is_attached_anew_may_leave_out_what_was_refused(first: Bench, kind: Kind) -> None:
    played = kind(first)
    refused_then(first, played.address, range(5, 8))
    first.run()
    link = attached(played.address)
    link.next(*numbered(5, 8))
    first.run()
    assert link.outcomes == ["done"] * 3
    assert played.stored() == [5, 6, 7]


def full_queues(place: Bench) -> Iterator[Queue]:
    yield place.queue(capacity=3, when_full="reject")
    yield Queue("memory", MemoryStorage(3), "reject")


LINKS = [attached, RunsLink]


@pytest.mark.parametrize("at", [0, 1], ids=["durable", "memory"])
@pytest.mark.parametrize("attach", LINKS)
def test_what_a_full_queue_has_rejected_is_stored_when_it_comes_again(
    first: Bench, at: int, attach: Callable[[Queue], Any]
) -> None:
    queue = list(full_queues(first))[at]
    link = attach(queue)
    link.next(*numbered(0, 5))
    first.run()
    assert link.outcomes == ["done"] * 3 + ["failed"] * 2
    probe = ProbeSubscriber[bytes](1000)
    queue.subscribe(probe)
    first.run()
    assert bodies(probe) == [0, 1, 2], "there is room again"
    link.next(*numbered(5, 7))
    first.run()
    assert link.outcomes[5:] == ["failed"] * 2, "3 and 4 come first"
    assert queue.statistics().refused == 4
    again = attach(queue)
    again.next(*numbered(3, 5))
    first.run()
    again.next(*numbered(5, 7))
    first.run()
    assert again.outcomes == ["done"] * 4
    assert bodies(probe) == list(range(7))


@pytest.mark.parametrize("at", [0, 1], ids=["durable", "memory"])
@pytest.mark.parametrize("attach", LINKS)
def test_a_message_without_a_number_among_numbered_ones_moves_no_number_to_another(
    first: Bench, at: int, attach: Callable[[Queue], Any]
) -> None:
    queue = list(full_queues(first))[at]
    link = attach(queue)
    run = [encode_item("none"), *numbered(0, 2), encode_item("none"), *numbered(2, 4)]
    link.next(*run)
    first.run()
    assert link.outcomes == ["done"] * 3 + ["failed"] * 3
    probe = ProbeSubscriber[bytes](1000)
    queue.subscribe(probe)
    first.run()
    again = attach(queue)
    again.next(*run[3:])
    first.run()
    assert again.outcomes == ["done"] * 3
    assert bodies(probe) == ["none", 0, 1, "none", 2, 3]


@pytest.mark.parametrize("at", [0, 1], ids=["durable", "memory"])
@pytest.mark.parametrize("attach", LINKS)
def test_a_message_that_comes_again_has_its_own_outcome_behind_one_that_is_refused(
    first: Bench, at: int, attach: Callable[[Queue], Any]
) -> None:
    queue = list(full_queues(first))[at]
    link, other = attach(queue), Stamper("other").stamp(encode_item("other"))
    link.next(other)
    first.run()
    link.next(*numbered(0, 3), other)
    first.run()
    assert link.outcomes == ["done", "done", "done", "failed", "done"]
    probe = ProbeSubscriber[bytes](1000)
    queue.subscribe(probe)
    first.run()
    again = attach(queue)
    again.next(*numbered(2, 3))
    first.run()
    assert again.outcomes == ["done"]
    assert bodies(probe) == ["other", 0, 1, 2]
    assert (queue.statistics().duplicates, queue.statistics().refused) == (1, 1)


def test_messages_that_a_full_disk_has_refused_leave_no_gap_in_the_offsets(first: Bench) -> None:
    played = OfLog(first)
    probe = ProbeSubscriber[bytes](1000)
    probe_reader = LogReader(played.address.partitions[0], probe, "first", lambda _: None)
    probe.on_subscribe(probe_reader)
    link = attached(played.address)
    link.next(*numbered(0, 3))
    first.run()
    fail_once(first)
    link.next(*numbered(3, 5))
    first.run()
    link.next(*numbered(3, 7))
    first.run()
    assert bodies(probe) == list(range(7))
    offsets = [decode_message(item).annotations["x-stream-offset"] for item in probe.items]
    assert offsets == list(range(7))
