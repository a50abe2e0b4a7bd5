"""Consumers that take messages of a queue in runs: they get the same messages as consumers that take one at a time."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any, Literal

import pytest

from rstreams import Message
from rstreams._core.claims import DONE, NO_HOLD, NOTHING, Claims, claims_on
from rstreams._core.run import Run
from rstreams.abc import Hold, Subscription, Suspendable
from rstreams.errors import DeliveryFailed
from rstreams.message import decode_message, encode_item
from rstreams.node.lifetime import QueueClock
from rstreams.node.memory_storage import MemoryStorage
from rstreams.node.queue import Queue
from rstreams.node.redelivery import Attempts, RedeliveryDelay
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.node.queues import bodies, encoded, filled

Kind = Literal["keeps", "at once", "single"]


class Single:
    """A consumer that takes one message at a time."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.got: list[tuple[Any, int]] = []
        self.runs: list[int] = []
        self.held: list[Claims] = []
        self.subscription: Any = None

    def on_subscribe(self, subscription: Subscription) -> None:
        assert isinstance(subscription, Suspendable)
        self.subscription = subscription

    def on_next(self, item: bytes) -> None:
        self._note(item)
        if self.kind != "at once":
            self.held.append(claims_on(self.subscription.hold()))

    def _note(self, item: bytes) -> None:
        message = decode_message(item)
        self.got.append((message.body, message.delivery_count))

    def on_error(self, error: BaseException) -> None:
        raise AssertionError(error)

    def on_complete(self) -> None:
        raise AssertionError

    def accept(self, count: int) -> None:
        while count and self.held:
            count -= self.held[0].end_some(count, DONE)
            if not len(self.held[0]):
                del self.held[0]

    def take(self, at: int) -> Hold:
        for index, run in enumerate(self.held):
            if at < len(run):
                before, taken = run.cut(at), run.cut(1)
                self.held[index : index + 1] = [each for each in (before, run) if len(each)]
                return taken
            at -= len(run)
        raise IndexError

    @property
    def unsettled(self) -> int:
        return sum(map(len, self.held))


class Taking(Single):
    """A consumer that takes runs, and accepts in runs."""

    def on_run(self, run: Run[bytes]) -> None:
        self.runs.append(run.size)
        for item in run.items():
            self._note(item)
        if self.kind != "at once":
            self.held.append(run.keep(run.size))


def run_of(*messages: bytes) -> Run[bytes]:
    return Run(NOTHING, 0, range(len(messages)), iter(messages))


class Link:
    """A link of a producer, which hands over its messages one by one or in runs."""

    def __init__(self, queue: Any) -> None:  # noqa: ANN401 - an address with producers
        self.outstanding = 0
        self.producer: Any = queue.producer()
        self.producer.on_subscribe(self)

    def request(self, n: int) -> None:
        self.outstanding += n

    def cancel(self) -> None:
        raise AssertionError

    def hold(self) -> Hold:
        return NO_HOLD

    def send(self, *messages: bytes, run: bool) -> None:
        self.outstanding -= len(messages)
        if run:
            self.producer.on_run(run_of(*messages))
            return
        for message in messages:
            self.producer.on_next(message)


class World:
    """A queue with its producers and consumers, to which a script is done."""

    def __init__(self, *, runs: bool, capacity: int, kinds: list[Kind], deaths: bool) -> None:
        self.now = 0.0
        self.dead = Queue("dead", MemoryStorage(1000))
        self.queue = Queue(
            "q",
            MemoryStorage(capacity),
            attempts=Attempts(max_deliveries=3, redelivery=RedeliveryDelay(2.0)),
            dead_letters=self.dead if deaths else None,
            clock=QueueClock(lambda: self.now),
        )
        self.runs = runs
        self.producers = [Link(self.queue) for _ in range(2)]
        self.consumers = [self.consumer(kind) for kind in kinds]
        self.sent = 0

    def consumer(self, kind: Kind) -> Single:
        consumer = Taking(kind) if self.runs and kind != "single" else Single(kind)
        self.queue.subscribe(consumer)
        return consumer

    def do(self, step: tuple[Any, ...], most: int) -> None:
        what, which, n = step
        consumer = self.consumers[which % len(self.consumers)]
        producer = self.producers[which % 2]
        if what in {"send", "send lasting"}:
            first, self.sent = self.sent, self.sent + min(n, most)
            lasting = {number: 3.0 for number in range(first, self.sent) if what == "send lasting" and number % 3}
            messages = [Message(number, ttl_s=lasting.get(number)) for number in range(first, self.sent)]
            producer.send(*map(encode_item, messages), run=self.runs)
        elif what == "request":
            consumer.subscription.request(3 * n)
        elif what == "accept":
            consumer.accept(n)
        elif what == "leave":
            consumer.subscription.cancel()
            self.consumers[which % len(self.consumers)] = self.consumer(consumer.kind)
        elif what in {"suspend", "resume"}:
            getattr(consumer.subscription, what)()
        elif what == "wait":
            self.now += n / 4
            self.queue.expire()
        elif consumer.held:
            hold = consumer.take(n % consumer.unsettled)
            if what == "release":
                hold.release()
            else:
                hold.fail(_ERRORS[what])

    def state(self) -> Any:  # noqa: ANN401 - compared
        numbers = replace(self.queue.statistics(), credit=0)
        return [consumer.got for consumer in self.consumers], numbers, self.dead.statistics().enqueued


_ERRORS = {
    "fail": ValueError("no"),
    "reject": DeliveryFailed("rejected"),
    "not here": DeliveryFailed("modified", undeliverable_here=True),
}
_KINDS: list[Kind] = ["keeps", "at once", "single"]
_STEPS = {"send": 6, "send lasting": 2, "request": 6, "accept": 4, "release": 2, "fail": 2, "reject": 1}
_STEPS |= {"resume": 2, "wait": 1}
_SELDOM = {"not here": 0.3, "leave": 0.5, "suspend": 0.5}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(60))
def test_runs_show_in_nothing_but_speed(seed: int) -> None:
    random = Random(seed)  # noqa: S311 - to come again, not to be secret
    capacity = random.choice([4000, 4000, 4000, 8, 3])
    kinds = random.choices(_KINDS[: 2 + (seed % 4 == 0)], k=random.randint(1, 4))
    deaths = random.random() < 0.5
    worlds = [World(runs=runs, capacity=capacity, kinds=kinds, deaths=deaths) for runs in (False, True)]
    for _ in range(150):
        (what,) = random.choices([*_STEPS, *_SELDOM], [*_STEPS.values(), *_SELDOM.values()])
        step = what, random.randrange(12), random.randint(1, 20)
        producers = [world.producers[step[1] % 2] for world in worlds]
        most = min(producer.outstanding for producer in producers)
        for world in worlds:
            world.do(step, most)
        single, taking = (world.state() for world in worlds)
        assert single == taking
        for world in worlds:
            now = world.queue.statistics()
            assert now.ready + now.unsettled + now.delayed + now.leaving + now.credit <= capacity


def taker(queue: Queue, request: int = 0, kind: Kind = "keeps") -> Taking:
    taking = Taking(kind)
    queue.subscribe(taking)
    if request:
        taking.subscription.request(request)
    return taking


def numbers(taking: Single) -> list[Any]:
    return [body for body, _ in taking.got]


def test_what_waits_comes_in_one_run() -> None:
    queue = Queue("q", MemoryStorage(100))
    link = ManualPublisher[bytes]()
    link.subscribe(queue.producer())
    for number in range(6):
        link.next(encode_item(number))
    taking = taker(queue, 4)
    assert (taking.runs, numbers(taking)) == ([4], [0, 1, 2, 3])
    assert (queue.statistics().unsettled, queue.statistics().ready) == (4, 2)
    taking.accept(4)
    assert (queue.statistics().accepted, queue.statistics().unsettled) == (4, 0)


def test_several_consumers_get_what_they_would_in_turns() -> None:
    queue = Queue("q", MemoryStorage(1024))
    first, second, third = taker(queue, 5), taker(queue, 2), taker(queue, 20)
    link = Link(queue)
    link.send(*map(encode_item, range(8)), run=True)
    assert [numbers(each) for each in (first, second, third)] == [[0, 3, 6], [1, 4], [2, 5, 7]]
    assert [each.runs for each in (first, second, third)] == [[2], [2], [2]], "a single message is no run"
    link.send(*map(encode_item, range(8, 10)), run=True)
    assert [numbers(each) for each in (first, third)] == [[0, 3, 6, 8], [2, 5, 7, 9]]


def test_messages_that_come_back_take_their_old_places() -> None:
    queue = Queue("q", MemoryStorage(1024))
    first, second = taker(queue, 4), taker(queue, 4)
    Link(queue).send(*map(encode_item, range(8)), run=True)
    for consumer, at in [(second, 3), (first, 0), (second, 0), (first, 2), (first, 0), (second, 1)]:
        consumer.take(at).release()
    assert numbers(taker(queue, 10)) == [0, 1, 2, 5, 6, 7]


def test_a_producer_hands_over_a_run_in_one_call() -> None:
    queue = Queue("q", MemoryStorage(1024))
    taking = taker(queue, 100)
    link = ManualPublisher[bytes]()
    producer: Any = queue.producer()
    link.subscribe(producer)
    assert link.outstanding == 8
    producer.on_run(run_of(*map(encode_item, range(6))))
    assert (taking.runs, numbers(taking)) == ([6], [0, 1, 2, 3, 4, 5])
    assert queue.statistics().enqueued == 6


def test_what_comes_before_a_message_that_cannot_be_had_is_stored() -> None:
    queue = Queue("q", MemoryStorage(1024))
    link = ManualPublisher[bytes]()
    producer: Any = queue.producer()
    link.subscribe(producer)

    def items() -> Any:  # noqa: ANN401 - an iterator
        yield encode_item(1)
        yield encode_item(2)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        producer.on_run(Run(NOTHING, 0, range(3), items(), waiting=range(3)))
    assert queue.statistics().ready == 2
    link.complete()
    producer.on_run(run_of(encode_item(3)))
    assert queue.statistics().ready == 2


def test_a_consumer_that_raises_in_a_run_loses_its_subscription_and_the_messages_come_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Broken(ProbeSubscriber[bytes]):
        def on_run(self, run: Run[bytes]) -> None:
            raise KeyError(run.size)

    queue = Queue("q", MemoryStorage(300))
    filled(queue, "a", "b")
    probe = Broken(5)
    queue.subscribe(probe)
    assert isinstance(probe.error, KeyError)
    assert "a subscriber raised in on_next" in caplog.text
    now = queue.statistics()
    assert (now.consumers, now.ready, now.released, now.modified) == (0, 2, 2, 0)
    after = ProbeSubscriber[bytes](5)
    queue.subscribe(after)
    assert bodies(after) == ["a", "b"]


def test_a_browser_sees_a_message_before_a_run_takes_it() -> None:
    queue = Queue("q", MemoryStorage(300))
    probe = ProbeSubscriber[bytes](10)
    queue.browse(probe)
    taking = taker(queue, 10)
    producer: Any = queue.producer()
    ManualPublisher[bytes]().subscribe(producer)
    producer.on_run(run_of(*encoded("a", "b")))
    assert bodies(probe) == ["a", "b"]
    assert numbers(taking) == [b"a", b"b"]


def test_a_hold_on_one_message_of_a_run_counts_once() -> None:
    queue = Queue("q", MemoryStorage(300))
    filled(queue, "a", "b")
    taking = taker(queue, 5)
    hold = taking.take(0)
    hold.done()
    hold.done()
    hold.release()
    assert (queue.statistics().accepted, queue.statistics().released, queue.statistics().unsettled) == (1, 0, 1)
