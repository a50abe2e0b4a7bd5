"""Messages that leave a queue without having been accepted: rejected, exhausted, expired; and what is noted on them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

from rstreams import Delivery, Message, Node, Stream
from rstreams.errors import ConfigError, DeliveryFailed
from rstreams.message import decode_message, encode_item, with_delivery_count
from rstreams.node.lifetime import QueueClock, dead_letter
from rstreams.node.memory_storage import MemoryStorage
from rstreams.node.queue import Queue
from rstreams.node.redelivery import Attempts
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.net.over_tcp import connected, until

MODIFIED: dict[str, Any] = {"delivery_failed": False}
TODAY = datetime(2026, 1, 1, tzinfo=UTC)


class Time:
    """A clock set by hand."""

    def __init__(self) -> None:
        self.now = 100.0
        self.clock = QueueClock(lambda: self.now, lambda: TODAY + timedelta(seconds=self.now - 100.0))
        self.due: list[float] = []

    def queue(self, name: str = "q", capacity: int = 16, **options: Any) -> Queue:  # noqa: ANN401 - those of `Queue`
        clock = replace(self.clock, wake_at=self.due.append)
        return Queue(name, MemoryStorage(capacity), clock=clock, **options)


def fill(queue: Queue, *items: object) -> ManualPublisher[bytes]:
    link = ManualPublisher[bytes]()
    link.subscribe(queue.producer())
    for item in items:
        link.next(encode_item(item))
    return link


def consumer(queue: Queue, request: int) -> ProbeSubscriber[bytes]:
    probe = ProbeSubscriber[bytes](request, hold=True)
    queue.subscribe(probe)
    return probe


def bodies(probe: ProbeSubscriber[bytes]) -> list[Any]:
    return [decode_message(item).body for item in probe.items]


def check_laws(queue: Queue) -> None:
    now = queue.statistics()
    here = now.ready + now.delayed + now.unsettled
    assert now.enqueued == here + now.accepted + now.rejected + now.exhausted + now.expired
    assert now.delivered == now.unsettled + now.accepted + now.rejected + now.released + now.modified
    assert here + now.leaving + now.credit <= now.capacity
    assert min(now.ready, now.delayed, now.unsettled, now.leaving, now.credit) >= 0
    assert queue.tally().missing == 0
    assert now.dead_lettered == sum(now.dead_lettered_by.values())


# dead letters


def test_what_is_rejected_goes_to_the_dead_letters_and_says_why() -> None:
    dead = Queue("dead")
    queue = Queue("q", dead_letters=dead)
    fill(queue, Message("a", subject="s", annotations={"x-opt-mine": 1}, ttl_s=60, properties={"p": 1}), "b")
    probe, buried = consumer(queue, 2), consumer(dead, 2)
    probe.holds[0].fail(DeliveryFailed("rejected", "shop:closed", "come back"))
    probe.holds[1].done()
    [letter] = [decode_message(item) for item in buried.items]
    assert (letter.body, letter.subject, letter.properties, letter.ttl_s) == ("a", "s", {"p": 1}, None)
    assert letter.annotations == {
        "x-opt-mine": 1,
        "x-opt-rstreams-failure": "rejected: shop:closed: come back",
        "x-opt-rstreams-failed-at": "q",
        "x-opt-rstreams-delivery-count": 0,
        "x-opt-rstreams-error-condition": "shop:closed",
        "x-opt-rstreams-error-description": "come back",
        "x-opt-rstreams-attempt-times": letter.annotations["x-opt-rstreams-attempt-times"],
    }
    now = queue.statistics()
    assert (now.rejected, now.dead_lettered, now.leaving, now.ready) == (1, 1, 0, 0)
    assert (dead.statistics().enqueued, dead.statistics().producers, dead.statistics().credit) == (1, 0, 0)
    check_laws(queue)


def test_what_fails_too_often_stops_circulating() -> None:
    dead = Queue("dead")
    queue = Queue("q", dead_letters=dead, attempts=Attempts(max_deliveries=3))
    fill(queue, "poison", "good")
    probe, buried = consumer(queue, 6), consumer(dead, 1)
    assert bodies(probe) == ["poison", "good"]
    for index in (0, 2, 3):
        probe.holds[index].fail(ValueError())
    assert bodies(probe) == ["poison", "good", "poison", "poison"]
    probe.holds[1].release()  # untouched: it counts for nothing
    probe.holds[4].release()
    letter = decode_message(buried.items[0])
    assert letter.annotations["x-opt-rstreams-failure"] == (
        "exhausted: 3 attempts to deliver it have failed; the last error: ValueError"
    )
    assert (letter.annotations["x-opt-rstreams-delivery-count"], letter.delivery_count) == (3, 0)
    assert bodies(probe)[4:] == ["good", "good"]
    assert (queue.statistics().exhausted, queue.statistics().dead_lettered) == (1, 1)
    check_laws(queue)


def test_without_dead_letters_they_are_dropped_and_counted() -> None:
    queue = Queue("q", attempts=Attempts(max_deliveries=1))
    fill(queue, "a", "b")
    probe = consumer(queue, 2)
    probe.holds[0].fail(DeliveryFailed("rejected"))
    probe.holds[1].fail(ValueError())
    now = queue.statistics()
    assert (now.rejected, now.exhausted, now.dead_lettered, now.ready) == (1, 1, 0, 0)
    check_laws(queue)


def test_dead_letters_that_have_no_room_keep_their_place() -> None:
    dead = Queue("dead", MemoryStorage(1))
    queue = Queue("q", MemoryStorage(4), dead_letters=dead)
    link = fill(queue, *"abc")
    probe = consumer(queue, 3)
    for hold in probe.holds:
        hold.fail(DeliveryFailed("rejected"))
    now = queue.statistics()
    assert (now.leaving, now.dead_lettered, now.unsettled, dead.statistics().ready) == (2, 1, 0, 1)
    assert now.leaving + link.outstanding <= 4
    check_laws(queue)
    buried = consumer(dead, 3)
    for index in range(3):
        assert bodies(buried) == list("abc"[: index + 1])
        buried.holds[index].done()
    now = queue.statistics()
    assert (now.leaving, now.dead_lettered) == (0, 3)
    check_laws(queue)
    check_laws(dead)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"dead_letters": "none"}, "dead_letters='none'.*made before"),
        ({"dead_letters": "work"}, "dead_letters='work'.*itself"),
        ({"dead_letters": "news"}, "dead_letters='news'.*must be a queue"),
        ({"dead_letters": 5}, "dead_letters=5"),
        ({"max_deliveries": 0}, "max_deliveries=0"),
        ({"max_deliveries": True}, "max_deliveries=True"),
        ({"dedup_producers": 0}, "dedup_producers=0"),
    ],
)
def test_bad_options_are_named(options: dict[str, Any], words: str) -> None:
    node = Node()
    node.multicast("news")
    with pytest.raises(ConfigError, match=words):
        node.queue("work", **options)
    node.queue("work")


# modified


def test_what_is_undeliverable_at_one_consumer_waits_for_another() -> None:
    queue = Queue("q")
    fill(queue, "a", "b")
    first = consumer(queue, 5)
    first.holds[0].fail(DeliveryFailed("modified", undeliverable_here=True, **MODIFIED))
    assert bodies(first) == ["a", "b"]
    assert queue.statistics().ready == 1
    fill(queue, "c")
    assert bodies(first) == ["a", "b", "c"], "what comes later is not held up"
    second = consumer(queue, 1)
    assert bodies(second) == ["a"]
    assert decode_message(second.items[0]).delivery_count == 0
    second.holds[0].fail(DeliveryFailed("modified", undeliverable_here=True))
    third = consumer(queue, 1)
    assert bodies(third) == ["a"]
    assert decode_message(third.items[0]).delivery_count == 1
    check_laws(queue)


def test_a_consumer_that_has_gone_keeps_nothing_from_others() -> None:
    queue = Queue("q")
    fill(queue, "a")
    for _ in range(3):
        probe = consumer(queue, 1)
        assert bodies(probe) == ["a"]
        probe.holds[0].fail(DeliveryFailed("modified", undeliverable_here=True))
        probe.cancel()
    assert bodies(consumer(queue, 1)) == ["a"]


def test_the_annotations_of_an_outcome_stay_on_the_message() -> None:
    queue = Queue("q")
    fill(queue, Message("a", annotations={"x-opt-a": 1, "x-opt-b": 2}, durable=True))
    probe = consumer(queue, 1)
    probe.holds[0].fail(DeliveryFailed("modified", annotations={"x-opt-b": [3], "x-opt-c": "new"}))
    probe.request(1)
    message = decode_message(probe.items[1])
    assert message.annotations == {"x-opt-a": 1, "x-opt-b": [3], "x-opt-c": "new"}
    assert (message.durable, message.delivery_count) == (True, 1)


# too old


def test_what_is_too_old_is_never_delivered() -> None:
    time = Time()
    queue = time.queue()
    fill(queue, Message("a", ttl_s=5), "b", Message("c", ttl_s=50), Message("d", expiry_time=TODAY))
    time.now += 10
    probe = consumer(queue, 5)
    assert bodies(probe) == ["b", "c"]
    now = queue.statistics()
    assert (now.expired, now.ready, now.unsettled) == (2, 0, 2)
    check_laws(queue)
    time.now += 50
    queue.expire()
    assert queue.statistics().expired == 2, "it is at a consumer"
    probe.holds[1].release()
    assert (bodies(probe), queue.statistics().expired) == (["b", "c"], 3)
    check_laws(queue)


def test_the_place_of_what_is_too_old_is_free_without_a_consumer() -> None:
    time = Time()
    dead = Queue("dead")
    queue = time.queue(capacity=2, dead_letters=dead)
    link = fill(queue, Message("a", ttl_s=5), Message("b", ttl_s=3, expiry_time=TODAY + timedelta(seconds=2)))
    assert time.due == [105.0, 102.0]
    assert (link.outstanding, queue.next_deadline) == (0, 102.0)
    time.now = 103.0
    queue.expire()
    assert (link.outstanding, queue.next_deadline, queue.statistics().ready) == (1, 105.0, 1)
    letter = decode_message(consumer(dead, 1).items[0])
    assert (letter.body, letter.ttl_s, letter.expiry_time) == ("b", None, None)
    assert letter.annotations["x-opt-rstreams-failure"] == "expired"
    check_laws(queue)


def test_what_has_gone_is_not_remembered_for_its_deadline() -> None:
    time = Time()
    queue = time.queue(capacity=10)
    link, probe = fill(queue), consumer(queue, 10**6)
    for _ in range(1000):
        link.next(encode_item(Message(b"x" * 10, ttl_s=3600)))
        probe.holds[-1].done()
    assert len(queue.storage.deadlines) <= 65
    other = time.queue(capacity=10)
    link = fill(other, "stays")
    for _ in range(500):
        link.next(encode_item(Message("goes", ttl_s=1)))
        time.now += 2
        other.expire()
    assert len(other.storage.backlog.fresh) <= 131
    assert bodies(consumer(other, 10)) == ["stays"]
    check_laws(other)


@settings(max_examples=40)
@given(st.lists(st.tuples(st.sampled_from(["send", "wait", "take", "give", "fail", "accept"]), st.integers(1, 9))))
def test_whatever_happens_the_laws_hold(actions: list[tuple[str, int]]) -> None:
    time = Time()
    dead = Queue("dead", MemoryStorage(2))
    queue = time.queue(capacity=6, dead_letters=dead, attempts=Attempts(max_deliveries=2))
    link, probe, sent, settled = fill(queue), consumer(queue, 0), 0, 0
    for action, number in actions:
        if action == "send" and link.outstanding:
            sent += 1
            link.next(encode_item(Message(sent, ttl_s=number) if number % 2 else sent))
        elif action == "wait":
            time.now += number
            queue.expire()
        elif action == "take":
            probe.request(number)
        elif settled < len(probe.holds):
            hold, settled = probe.holds[settled], settled + 1
            if action == "accept":
                hold.done()
            elif action == "give":
                hold.release()
            else:
                hold.fail(ValueError() if number % 2 else DeliveryFailed("rejected"))
        check_laws(queue)
        check_laws(dead)
        now = queue.statistics()
        assert now.dead_lettered == dead.statistics().enqueued
        assert now.dead_lettered + now.leaving == now.rejected + now.exhausted + now.expired


@settings(max_examples=40)
@given(st.binary(max_size=60))
def test_what_is_no_message_is_stored_and_buried_as_it_is(data: bytes) -> None:
    time = Time()
    dead = Queue("dead")
    queue = time.queue(dead_letters=dead)
    link = ManualPublisher[bytes]()
    link.subscribe(queue.producer())
    link.next(data)
    probe = consumer(queue, 1)
    probe.holds[0].fail(DeliveryFailed("modified", annotations={"x-opt-a": 1}, **MODIFIED))
    probe.request(1)
    probe.holds[1].fail(DeliveryFailed("rejected"))
    assert dead.statistics().enqueued == 1
    check_laws(queue)


MESSAGES = st.builds(
    Message,
    st.one_of(st.binary(max_size=9), st.integers(0, 9), st.just([1, 2])),
    durable=st.booleans(),
    ttl_s=st.none() | st.integers(0, 9),
    id=st.none() | st.text(max_size=3),
    group_id=st.none() | st.text(max_size=3),
    expiry_time=st.none() | st.just(TODAY),
    annotations=st.dictionaries(st.sampled_from(["x-opt-a", "x-opt-b"]), st.integers(0, 9)),
    properties=st.dictionaries(st.text(max_size=3), st.integers(0, 9)),
)


@settings(max_examples=40)
@given(MESSAGES, st.integers(0, 3))
def test_a_dead_letter_is_the_message_but_for_its_lifetime(message: Message, failures: int) -> None:
    encoded = encode_item(message)
    letter = decode_message(dead_letter(with_delivery_count(encoded, failures), "why", "q", failures))
    for field in ("body", "durable", "id", "group_id", "properties", "priority"):
        assert getattr(letter, field) == getattr(message, field)
    assert (letter.ttl_s, letter.expiry_time, letter.delivery_count) == (None, None, 0)
    added: dict[str | int, Any] = {
        "x-opt-rstreams-failure": "why",
        "x-opt-rstreams-failed-at": "q",
        "x-opt-rstreams-delivery-count": failures,
    }
    assert letter.annotations == {**message.annotations, **added}


# over TCP


async def test_over_tcp_rejected_modified_and_expired() -> None:
    async with connected() as (node, connection):
        dead = node.queue("dead")
        queue = node.queue("work", dead_letters="dead", max_deliveries=2)
        await connection.publish("work", Stream.of("reject", "fail", Message("old", ttl_s=0.0)))
        words: dict[str, Callable[[Delivery[Any]], None]] = {
            "reject": lambda delivery: delivery.reject("shop:closed", "come back"),
            "fail": lambda delivery: delivery.modify(annotations={"x-opt-note": "seen"}),
        }
        async with connection.stream("work", settlement="manual").take(3).open() as deliveries:
            async for delivery in deliveries:
                words[delivery.item](delivery)
        await until(lambda: dead.statistics().enqueued == 3)
        letters = await connection.messages("dead").take(3).to_list()
        reasons = {letter.body: letter.annotations["x-opt-rstreams-failure"] for letter in letters}
        assert reasons == {
            "reject": "rejected: shop:closed: come back",
            "fail": "exhausted: 2 attempts to deliver it have failed; the last error: modified, delivery-failed",
            "old": "expired",
        }
        assert [letter.annotations.get("x-opt-note") for letter in letters if letter.body == "fail"] == ["seen"]
        assert queue.statistics().dead_lettered == 3


async def test_a_node_lets_go_of_what_is_too_old_by_itself(autojump_clock: trio.testing.MockClock) -> None:
    del autojump_clock
    async with Node() as node:
        queue = node.queue("work", capacity=4)
        link = fill(queue, Message("a", ttl_s=100), Message("b", ttl_s=10))
        await trio.sleep(11)
        assert (queue.statistics().expired, queue.statistics().ready) == (1, 1)
        link.next(encode_item(Message("c", ttl_s=5)))
        await trio.sleep(6)
        assert queue.statistics().expired == 2
        await trio.sleep(100)
        assert (queue.statistics().expired, queue.statistics().ready) == (3, 0)
