"""Durable queues: what is safe, what comes back after a crash, and what stays on disk."""

from __future__ import annotations

import shutil
import sqlite3
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import pytest

from rstreams.errors import DeliveryFailed, ProtocolError, StoreError
from rstreams.message import Message, decode_message, encode_item
from rstreams.net.links.effectively_once import Stamper
from rstreams.node.lifetime import QueueClock
from rstreams.node.limits import WhenFull
from rstreams.node.queue import Queue
from rstreams.node.redelivery import Attempts
from rstreams.store import Chunk, Partition, skip
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.node.durable import Bench, bench, bodies, check_laws, consumer, send
from tests.store.stores import make_full


@pytest.fixture
def first(tmp_path: Path) -> Iterator[Bench]:
    with bench(tmp_path / "first") as made:
        yield made


def test_a_message_is_accepted_and_handed_over_when_it_is_safe(first: Bench) -> None:
    queue = first.queue()
    probe = consumer(queue, 10)
    go_on = threading.Event()
    commit = first.store._tables.commit

    def held_up(*arguments: object, **options: object) -> object:
        assert go_on.wait(30)
        return commit(*arguments, **options)  # type: ignore[arg-type]

    first.store._tables.commit = held_up  # type: ignore[method-assign, assignment]
    link = send(queue, "a", "b")
    first.store.finish()
    assert (link.outcomes, probe.items, queue.statistics().unsafe) == ([None, None], [], 2)
    check_laws(queue)
    go_on.set()
    first.run()
    assert (link.outcomes, bodies(probe), queue.statistics().unsafe) == (["done", "done"], ["a", "b"], 0)
    check_laws(queue)


def test_after_a_crash_everything_comes_back_that_was_not_settled(first: Bench, tmp_path: Path) -> None:
    queue = first.queue()
    send(queue, *range(10))
    first.run()
    probe = consumer(queue, 6)
    for at in (0, 1, 4):
        probe.holds[at].done()
    first.run()
    again = first.killed(tmp_path / "again")
    queue = again.queue()
    check_laws(queue)
    probe = consumer(queue, 10)
    again.run()
    assert bodies(probe) == [2, 3, 5, 6, 7, 8, 9], "in their order, those at a consumer too"
    assert not any(decode_message(item).first_acquirer for item in probe.items)
    for hold in probe.holds:
        hold.done()
    again.run()
    check_laws(queue)
    assert again.store.partition("queue/q").count == 0
    again.close()


def test_failed_attempts_come_back(first: Bench, tmp_path: Path) -> None:
    queue = first.queue(attempts=Attempts(max_deliveries=3))
    send(queue, "poison", "fine")
    first.run()
    probe = consumer(queue, 1)
    annotated = DeliveryFailed("modified", delivery_failed=True, annotations={"x-opt-why": "no"})
    probe.holds[0].fail(annotated)
    probe.request(1)
    probe.holds[1].fail(ValueError("again"))
    first.run()
    again = first.killed(tmp_path / "again")
    dead = again.queue("dead")
    queue = again.queue(attempts=Attempts(max_deliveries=3), dead_letters=dead)
    probe = consumer(queue, 1)
    again.run()
    message = decode_message(probe.items[0])
    assert (message.body, message.delivery_count, message.annotations["x-opt-why"]) == ("poison", 2, "no")
    probe.holds[0].fail(KeyError("last"))
    again.run()
    letters = consumer(dead, 1)
    letter = decode_message(letters.items[0])
    assert letter.annotations["x-opt-rstreams-delivery-count"] == 3
    assert len(letter.annotations["x-opt-rstreams-attempt-times"]) == 3
    assert (queue.statistics().exhausted, queue.statistics().dead_lettered, queue.statistics().ready) == (1, 1, 1)
    again.close()


def test_a_message_on_its_way_to_the_dead_letters_does_not_come_back_to_a_consumer(
    first: Bench, tmp_path: Path
) -> None:
    dead = first.queue("dead", capacity=1)
    send(dead, "in the way")
    queue = first.queue(dead_letters=dead)
    send(queue, "bad", "good")
    first.run()
    consumer(queue, 1).holds[0].fail(DeliveryFailed("rejected", "amqp:not-allowed", "no"))
    first.run()
    assert (queue.statistics().leaving, queue.statistics().unsettled) == (1, 0)
    again = first.killed(tmp_path / "again")
    dead = again.queue("dead", capacity=10)
    queue = again.queue(dead_letters=dead)
    probe = consumer(queue, 10)
    queue.storage.read_on()
    again.run()
    assert bodies(probe) == ["good"]
    letters = consumer(dead, 10)
    again.run()
    assert bodies(letters) == ["in the way", "bad"]
    assert "no" in decode_message(letters.items[1]).annotations["x-opt-rstreams-failure"]
    probe.holds[0].done()
    again.run()
    told = queue.statistics()
    assert (told.enqueued, told.accepted, told.rejected, told.delivered) == (2, 1, 1, 2)
    assert again.store.partition("queue/q").count == 0
    again.close()


def test_what_is_known_of_numbered_producers_comes_back(first: Bench, tmp_path: Path) -> None:
    def sent(queue: object, stamper: Stamper, *items: object) -> ManualPublisher[bytes]:
        link = ManualPublisher[bytes]()
        link.subscribe(queue.producer(once=True))  # type: ignore[attr-defined]
        link.next(*(stamper.stamp(encode_item(item)) for item in items))
        return link

    queue = first.queue()
    assert sent(queue, Stamper("p"), "a", "b").outcomes == [None, None]
    repeated = sent(queue, Stamper("p"), "a", "b", "c")
    assert repeated.outcomes == [None, None, None], "not accepted before those that came first are safe"
    first.run()
    assert repeated.outcomes == ["done", "done", "done"]
    assert (queue.statistics().duplicates, queue.statistics().ready) == (2, 3)
    again = first.killed(tmp_path / "again")
    queue = again.queue()
    repeated = sent(queue, Stamper("p", 1), "b", "c", "d")
    probe = consumer(queue, 10)
    again.run()
    assert repeated.outcomes == ["done", "done", "done"]
    assert bodies(probe) == ["a", "b", "c", "d"]
    check_laws(queue)
    again.close()


def test_only_some_messages_wait_in_memory(first: Bench) -> None:
    queue = first.queue(capacity=None, in_memory=10)
    link = ManualPublisher[bytes]()
    link.subscribe(queue.producer())
    for at in range(200):
        if not link.outstanding:
            first.run()
        link.next(encode_item(at))
    first.run()
    assert queue.statistics().ready == 200
    assert len(queue.storage.backlog.fresh) <= 10
    probe = consumer(queue, 0)
    for at in range(200):
        probe.request(1)
        first.run()
        assert len(queue.storage.backlog.fresh) <= 10
        check_laws(queue)
        if at % 3:
            probe.holds[at].done()
    assert bodies(probe) == list(range(200))
    assert queue.statistics().on_disk == 0


def test_large_messages_count_by_their_bytes_in_memory(first: Bench) -> None:
    queue = first.queue(capacity=None)
    for _ in range(40):
        send(queue, bytes(1_000_000))
        first.run()
    assert sum(each.size for each in vars(queue.storage)["_present"].values()) < 20_000_000
    assert queue.statistics().ready == 40


def test_a_limit_in_bytes_holds_the_producers_back(first: Bench) -> None:
    queue = first.queue(capacity=None, capacity_bytes=100_000)
    link = ManualPublisher[bytes]()
    link.subscribe(queue.producer())
    sent = 0
    while link.outstanding:
        link.next(encode_item(bytes(1000)))
        sent += 1
        first.run()
    assert 90 <= sent <= 140
    assert "is full" in queue.explain()
    probe = consumer(queue, 100)
    for hold in probe.holds:
        hold.done()
    assert link.outstanding


def test_a_browser_sees_what_is_on_disk_and_what_waits_but_not_what_is_at_a_consumer(first: Bench) -> None:
    queue = first.queue(in_memory=4)
    for at in range(12):
        send(queue, at)
        first.run()
    probe = consumer(queue, 2)
    browser = ProbeSubscriber[bytes](5)
    queue.browse(browser)
    first.run()
    assert bodies(browser) == [2, 3, 4, 5, 6]
    browser.request(100)
    first.run()
    assert bodies(browser) == list(range(2, 12))
    send(queue, "new")
    first.run()
    assert bodies(browser)[-1] == "new"
    probe.holds[0].fail(ValueError())
    second = ProbeSubscriber[bytes](100)
    queue.browse(second)
    first.run()
    assert bodies(second)[:2] == [0, 2]
    assert decode_message(second.items[0]).delivery_count == 1
    second.cancel()
    assert queue.statistics().browsers == 1


class OneByOne(ProbeSubscriber[bytes]):
    """Asks for the next message when it has one."""

    def on_next(self, item: bytes) -> None:
        super().on_next(item)
        self.request(1)


def test_a_browser_that_asks_for_the_next_message_in_on_next_gets_each_one_once(first: Bench) -> None:
    queue = first.queue()
    send(queue, *range(10))
    first.run()
    browser = OneByOne(1)
    queue.browse(browser)
    first.run()
    assert bodies(browser) == list(range(10))


def test_time_to_live_goes_on_while_the_node_is_down(first: Bench, tmp_path: Path) -> None:
    queue = first.queue()
    send(queue, Message("short", ttl_s=60.0), Message("long", ttl_s=600.0), "for ever")
    first.run()
    again = first.killed(tmp_path / "again")
    later = QueueClock(lambda: 5.0, lambda: datetime.now(UTC) + timedelta(seconds=120))
    queue = again.queue(clock=later)
    probe = consumer(queue, 10)
    again.run()
    assert bodies(probe) == ["long", "for ever"]
    assert queue.statistics().expired == 1
    again.close()


# a full queue


@pytest.mark.parametrize(
    ("when_full", "outcomes", "left"),
    [
        ("reject", ["done", "done", "done", "failed", "failed"], [0, 1, 2]),
        ("drop_newest", ["done"] * 5, [0, 1, 2]),
        ("drop_oldest", ["done"] * 5, [2, 3, 4]),
    ],
)
def test_what_becomes_of_messages_that_come_to_a_full_queue(
    first: Bench, tmp_path: Path, when_full: WhenFull, outcomes: list[str], left: list[int]
) -> None:
    queue = first.queue(capacity=3, when_full=when_full)
    sent: list[str | None] = []
    for at in range(5):
        link = send(queue, at)
        first.run()
        sent += link.outcomes
        if link.errors[0] is not None:
            assert isinstance(link.errors[0], DeliveryFailed)
            assert link.errors[0].condition == "amqp:resource-limit-exceeded"
    assert sent == outcomes
    first.run()  # what is dropped leaves the store in the next commit
    again = first.killed(tmp_path / "again")
    for each in (first, again):
        probe = consumer(queue if each is first else each.queue(), 10)
        each.run()
        assert bodies(probe) == left
    numbers = queue.statistics()
    assert numbers.refused + numbers.dropped == 2
    again.close()


# the store


def test_a_full_disk_refuses_messages_and_the_queue_goes_on_afterwards(first: Bench, tmp_path: Path) -> None:
    queue = first.queue(capacity=None)
    send(queue, "before")
    first.run()
    make_full(first.store, 0)
    link = ManualPublisher[bytes]()
    link.subscribe(queue.producer(once=True))
    stamper = Stamper("p")
    large = stamper.stamp(encode_item(bytes(1_000_000)))
    link.next(large)
    first.run()
    assert link.outcomes == ["failed"]
    assert isinstance(link.errors[0], DeliveryFailed)
    assert (link.errors[0].outcome, link.errors[0].condition) == ("rejected", "amqp:resource-limit-exceeded")
    check_laws(queue)
    make_full(first.store, None)
    link.next(large)
    first.run()
    assert link.outcomes == ["failed", "done"], "it does not count as sent before"
    again = first.killed(tmp_path / "again")
    probe = consumer(again.queue(), 10)
    again.run()
    assert [len(each) if isinstance(each, bytes) else each for each in bodies(probe)] == ["before", 1_000_000]
    again.close()


def test_a_damaged_store_stops_the_queue_and_says_so(first: Bench, caplog: pytest.LogCaptureFixture) -> None:
    queue = first.queue(in_memory=1)
    send(queue, "a")
    first.run()
    send(queue, "b")
    first.run()
    first.store._tables.connection.execute("UPDATE bodies SET data = zeroblob(length(data)) WHERE number > 1")
    probe = consumer(queue, 10)
    first.run()
    assert bodies(probe) == ["a"]
    assert "is damaged: the messages 1 to 1 of 'queue/q' are not readable" in queue.explain()
    assert "is damaged" in caplog.text
    with pytest.raises(ProtocolError, match="has failed"):
        queue.producer()
    error = probe.error
    assert str(error) == "the store of queue 'q' has failed (amqp:internal-error)", "consumers hear of it"


def test_a_damaged_queue_whose_oldest_messages_cannot_be_dropped_drops_the_newest(first: Bench) -> None:
    queue = first.queue(in_memory=1, capacity=2, when_full="drop_oldest")
    for at in range(2):
        send(queue, at)
        first.run()
    link = ManualPublisher[bytes]()
    link.subscribe(queue.producer())
    first.store._tables.connection.execute("UPDATE bodies SET data = zeroblob(length(data)) WHERE number > 1")
    probe = consumer(queue, 10)
    first.run()
    assert probe.error is not None
    for at in range(2, 6):
        link.next(encode_item(at))
        first.run()
    assert link.outcomes == ["done"] * 4
    assert (queue.statistics().dropped, first.store.partition("queue/q").count) == (4, 2)


def on_disk(first: Bench) -> Queue:
    """Return a queue with two messages, of which the second one is on disk only."""
    queue = first.queue(in_memory=1)
    for at in range(2):
        send(queue, at)
        first.run()
    return queue


def test_consumers_hear_of_a_disk_that_cannot_be_read_for_long_and_the_next_one_has_it_read_again(
    first: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    read = partial(first.store.partition("queue/q").read, retries_s=0.0)
    monkeypatch.setattr(Partition, "read", lambda _, *arguments: read(*arguments))
    monkeypatch.setattr("rstreams.store.store.RETRY_S", 0.001)
    queue = on_disk(first)
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = sqlite3.SQLITE_IOERR_READ

    def fails(*_: object) -> NoReturn:
        raise error

    monkeypatch.setattr(first.store._tables, "read", fails)
    probe = consumer(queue, 10)
    while probe.error is None:
        first.run()
    assert bodies(probe) == [0]
    assert str(probe.error) == "the store of queue 'q' cannot be read now (amqp:internal-error)"
    assert caplog.text.count("cannot be read") == 1, "one line a state"
    monkeypatch.undo()
    probe.holds[0].done()
    later = consumer(queue, 10)
    first.run()
    assert bodies(later) == [1]
    check_laws(queue)


def test_a_read_that_fails_is_tried_again(first: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rstreams.store.store.RETRY_S", 0.001)
    queue, read, left = on_disk(first), first.store._tables.read, [1, 2, 3]

    def fails_first(*arguments: Any) -> Chunk:  # noqa: ANN401 - those of `read`
        if left:
            left.pop()
            raise OSError(5, "Input/output error")
        return read(*arguments)

    monkeypatch.setattr(first.store._tables, "read", fails_first)
    probe = consumer(queue, 10)
    first.run()
    assert (bodies(probe), probe.error, left) == ([0, 1], None, [])


def test_everybody_hears_of_a_store_that_cannot_go_on(first: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    idle = first.queue("idle")
    probe = consumer(idle, 10)
    monkeypatch.setattr(first.store._tables, "commit", lambda *_, **__: 1 / 0)
    link = send(first.queue("busy"), "a")
    while probe.error is None:
        first.run()
    assert link.outcomes == ["failed"]
    for queue in first.queues:
        with pytest.raises(ProtocolError, match="has failed"):
            queue.producer()


def test_what_is_settled_while_the_disk_is_full_is_written_by_the_clock(
    first: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rstreams.store.writer.RETRY_S", 0.001)
    queue = first.queue(attempts=Attempts(max_deliveries=5))
    send(queue, "a", "b", "c")
    first.run()
    probe = consumer(queue, 2)
    commit, go_on = first.store._tables.commit, threading.Event()

    def full(*arguments: Any, **options: Any) -> Any:  # noqa: ANN401 - those of `commit`
        if go_on.is_set():
            return commit(*arguments, **options)
        error = sqlite3.OperationalError("database or disk is full")
        error.sqlite_errorcode = sqlite3.SQLITE_FULL
        raise error

    monkeypatch.setattr(first.store._tables, "commit", full)
    probe.holds[0].done()
    probe.holds[1].fail(ValueError("it fails"))
    link = send(queue, "d")
    first.run()
    assert (link.outcomes, queue.statistics().refused) == (["failed"], 1)
    assert "cannot be written: the disk is full" in queue.explain()
    check_laws(queue)
    go_on.set()
    while first.store.trouble is not None:
        first.store.flush()
    assert "cannot be written" not in queue.explain()
    again = first.killed(tmp_path / "again")
    probe = consumer(again.queue(), 10)
    again.run()
    assert [(each.body, each.delivery_count) for each in map(decode_message, probe.items)] == [("b", 1), ("c", 0)]
    again.close()


def test_a_queue_goes_on_behind_damage_that_is_skipped(first: Bench, tmp_path: Path) -> None:
    queue = first.queue()
    for at in range(4):
        send(queue, at)
        first.run()
    first.store._tables.connection.execute("UPDATE bodies SET data = zeroblob(length(data)) WHERE number = 2")
    again = tmp_path / "again"
    shutil.copytree(first.path, again)
    with pytest.raises(StoreError, match="is damaged"):
        Bench(again)
    assert [str(each) for each in skip(again)] == ["'queue/q': the messages 1 to 1 are not readable"]
    with bench(again) as whole:
        probe = consumer(whole.queue(), 10)
        link = send(whole.queues[0], "new")
        whole.run()
        assert bodies(probe) == [0, 2, 3, "new"]
        assert link.outcomes == ["done"]
