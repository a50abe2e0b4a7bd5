"""What an address has seen, against a model: resends in order, losses at any point, producers in any number."""

from __future__ import annotations

from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rstreams._codec import Described, Symbol, encode_value
from rstreams._codec.encode import encode_fields
from rstreams._codec.sections import PROPERTIES, START
from rstreams._core.claims import NOTHING
from rstreams._core.run import Run
from rstreams.abc import NO_HOLD, Hold
from rstreams.errors import ConfigError
from rstreams.message import Message, decode_message, encode_item, with_delivery_count
from rstreams.net.links.effectively_once import PRODUCER, SEQUENCE, Stamper, read_message_id, read_stamp
from rstreams.node.memory_storage import MemoryStorage
from rstreams.node.queue import Queue
from rstreams.node.seen_messages import Seen
from rstreams.testing import ManualPublisher, ProbeSubscriber

# how many are sent before a loss, and how many of those sent were stored and heard of
RUNS = st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8), st.integers(0, 8)), max_size=12)


@settings(max_examples=40)
@given(st.lists(RUNS, min_size=1, max_size=4), st.data())
def test_whatever_is_lost_each_is_stored_once_and_in_order(producers: list[Any], data: st.DataObject) -> None:
    seen = Seen()
    stored: dict[str, list[int]] = {}
    heard: dict[str, int] = {}
    rounds = [(f"p{index}", run) for index, runs in enumerate(producers) for run in runs]
    for producer, (sent, arrived, told) in data.draw(st.permutations(rounds)):
        first = heard.get(producer, 0)
        for sequence in range(first, first + min(sent, arrived)):
            if not seen.has((producer, sequence)):
                seen.note((producer, sequence))
                stored.setdefault(producer, []).append(sequence)
        heard[producer] = first + min(sent, arrived, told)
    for numbers in stored.values():
        assert numbers == list(range(len(numbers)))


def test_the_producer_not_heard_of_for_longest_is_forgotten() -> None:
    seen = Seen(2)
    for producer in ("a", "b", "a", "c"):
        seen.note((producer, 5))
    assert len(seen) == 2
    assert (seen.has(("a", 5)), seen.has(("b", 5)), seen.has(("c", 5))) == (True, False, True)
    seen.note(("a", 3))
    assert seen.has(("a", 5))


@pytest.mark.parametrize("bad", [0, -1, True, 1.5, "many"])
def test_a_bad_number_of_producers_is_named(bad: Any) -> None:  # noqa: ANN401
    with pytest.raises(ConfigError, match="dedup_producers="):
        Seen(bad)


MESSAGES = st.one_of(
    st.binary(max_size=300),
    st.integers(-5, 5),
    st.builds(
        Message,
        st.binary(max_size=5),
        id=st.none() | st.text(max_size=3),
        durable=st.booleans(),
        annotations=st.dictionaries(st.sampled_from(["x-opt-a", "x-opt-b", SEQUENCE, PRODUCER]), st.integers(0, 300)),
    ),
)


@settings(max_examples=40)
@given(MESSAGES, st.text("abcdé", min_size=1, max_size=60), st.integers(0, 2**63 - 1))
def test_a_stamp_is_read_as_it_was_written_and_nothing_else_changes(item: Any, producer: str, number: int) -> None:  # noqa: ANN401
    stamper = Stamper(producer, number)
    encoded = stamper.stamp(encode_item(item))
    assert read_stamp(encoded) == (producer, number)
    assert stamper.sequence == number + 1
    again = with_delivery_count(encoded, 3)
    assert read_stamp(again) == (producer, number)
    before, after = decode_message(encode_item(item)), decode_message(encoded)
    kept = {key: value for key, value in before.annotations.items() if key not in (PRODUCER, SEQUENCE)}
    assert {**kept, PRODUCER: producer, SEQUENCE: number} == after.annotations
    assert (before.body, before.id, before.durable) == (after.body, after.id, after.durable)
    assert read_message_id(encoded) == before.id


@pytest.mark.parametrize("value", [Described(Symbol("x"), [1]), [1], {"a": 1}, 1.5])
def test_an_id_that_is_none_is_not_known_again(value: Any) -> None:  # noqa: ANN401 - whatever a peer sends
    assert read_message_id(START[PROPERTIES] + encode_fields([encode_value(value)])) is None


@settings(max_examples=40)
@given(st.binary(max_size=100))
def test_what_is_no_message_has_no_stamp_and_no_id(data: bytes) -> None:
    assert read_stamp(data) is None
    start = Stamper("p").stamp(b"")
    for cut in range(len(start)):
        assert read_stamp(start[:cut]) is None
    read_message_id(data)


@pytest.mark.parametrize(
    "annotations",
    [
        {SEQUENCE: 1},
        {PRODUCER: 1, SEQUENCE: 1},
        {PRODUCER: "", SEQUENCE: 1},
        {PRODUCER: "p" * 1000, SEQUENCE: 1},
        {PRODUCER: "p", SEQUENCE: "1"},
        {PRODUCER: "p", SEQUENCE: -1},
        {PRODUCER: "p", SEQUENCE: True},
    ],
)
def test_what_is_no_stamp_is_stored_each_time(annotations: Any) -> None:  # noqa: ANN401
    queue = Queue("q")
    link = ManualPublisher[bytes]()
    link.subscribe(queue.producer(once=True))
    for _ in range(2):
        link.next(encode_item(Message(b"", annotations=annotations)))
    assert queue.statistics().enqueued == 2


class Played:
    """The subscription of a link that sends what it likes."""

    cancelled = False

    def __init__(self) -> None:
        self.requests: list[int] = []

    def request(self, n: int) -> None:
        self.requests.append(n)

    def cancel(self) -> None:
        self.cancelled = True

    def hold(self) -> Hold:
        return NO_HOLD


def test_only_what_was_stored_counts_as_seen() -> None:
    queue = Queue("q", MemoryStorage(1))
    stamper = Stamper("p")
    first, second = stamper.stamp(encode_item(b"a")), stamper.stamp(encode_item(b"b"))
    link, producer = Played(), queue.producer(once=True)
    producer.on_subscribe(link)
    producer.on_next(first)
    producer.on_next(second)  # without credit: it is not stored, and the link ends
    producer.on_next(second)
    assert link.cancelled
    assert queue.statistics().enqueued == 1
    another = ManualPublisher[bytes]()
    another.subscribe(queue.producer(once=True))
    probe = ProbeSubscriber[bytes](2)
    queue.subscribe(probe)
    another.next(first)
    assert another.outcomes == ["done"]
    another.next(second)
    assert [decode_message(item).body for item in probe.items] == [b"a", b"b"]
    assert queue.statistics().duplicates == 1


def test_a_duplicate_gives_its_credit_back() -> None:
    queue = Queue("q", MemoryStorage(10))
    stamper = Stamper("p")
    messages = [stamper.stamp(encode_item(b"a")) for _ in range(3)]
    link = ManualPublisher[bytes]()
    link.subscribe(queue.producer(once=True))
    link.next(messages[0])
    before = link.outstanding
    for _ in range(20):
        link.next(messages[0])
        assert link.outstanding == before
    assert queue.statistics().credit == link.outstanding


def test_a_producer_that_sends_over_another_link_ends_the_older_one() -> None:
    queue = Queue("work")
    older, newer = ManualPublisher[bytes](), ManualPublisher[bytes]()
    for source in (older, newer):
        source.subscribe(queue.producer(once=True))
    stamp = Stamper("p").stamp
    older.next(stamp(b"\x00Su\xa0\x000"))
    assert not older.cancelled
    newer.next(stamp(b"\x00Su\xa0\x000"))
    assert older.cancelled
    assert not newer.cancelled
    assert queue.statistics().producers == 1


def test_a_link_that_sends_as_one_producer_after_another_is_remembered_as_the_last() -> None:
    queue = Queue("work", MemoryStorage(1000))
    source, other = ManualPublisher[bytes](), ManualPublisher[bytes]()
    for each in (source, other):
        each.subscribe(queue.producer(once=True))
    for number in range(100):
        source.next(Stamper(f"p{number}").stamp(b"\x00Su\xa0\x000"))
    assert len(queue.storage.seen._links) == 1
    other.next(Stamper("p98").stamp(b"\x00Su\xa0\x000"))
    assert not source.cancelled
    other.next(Stamper("p99").stamp(b"\x00Su\xa0\x000"))
    assert source.cancelled


@pytest.mark.parametrize("runs", [False, True])
def test_messages_that_come_again_in_a_run_are_dropped_and_asked_for_anew(*, runs: bool) -> None:
    queue = Queue("q", MemoryStorage(4000))
    link, producer = Played(), cast("Any", queue.producer(once=True))
    producer.on_subscribe(link)

    def send(*numbers: int) -> None:
        messages = [Stamper("p", number).stamp(encode_item(number)) for number in numbers]
        if runs:
            producer.on_run(Run(NOTHING, 0, range(len(messages)), iter(messages)))
        else:
            for message in messages:
                producer.on_next(message)

    send(0, 1, 2, 3)
    send(2, 3, 4, 4, 5)
    send()
    probe = ProbeSubscriber[bytes](100)
    queue.subscribe(probe)
    assert [decode_message(item).body for item in probe.items] == [0, 1, 2, 3, 4, 5]
    assert queue.statistics().duplicates == 3
    assert queue.statistics().credit == sum(link.requests) - 9
    producer.on_complete()
    send(6)
    assert queue.statistics().enqueued == 6
